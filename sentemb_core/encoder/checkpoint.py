"""An encoder as a folder that `SentenceTransformer` and `AutoModel.from_pretrained` load.

The folder has safetensors and JSON only. Equal encoders give equal bytes, and no file contains a
path of this machine.
"""

import hashlib
import json
from collections.abc import Generator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from safetensors.torch import load_file, save
from tokenizers import Tokenizer, normalizers

from sentemb_core.encoder.backbones import (
    T5_FAMILY,
    StaticTable,
    is_causal,
    keep_table_once,
    refuse_generators,
    require_every_length,
    require_fit,
    token_vectors,
)
from sentemb_core.encoder.dense import read_layers
from sentemb_core.encoder.devices import compute_device
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.encoder.folder_files import (
    first_folder,
    is_static,
    read_json,
    tokenizer_paths,
    transformer_settings,
)
from sentemb_core.encoder.modules import (
    CREATOR,
    SENTENCE_LENGTH,
    Module,
    Settings,
    layer_modules,
    modules,
    require_same_weights,
    settings_of,
)
from sentemb_core.encoder.pooling import TWO_LAYERS
from sentemb_core.encoder.probe import note_bounded, require_bounded
from sentemb_core.encoder.safety import (
    reading,
    refuse_code,
    refuse_outside,
    refuse_pickles,
    require_tokenizer,
    require_weights,
)
from sentemb_core.errors import BadDataError
from sentemb_core.methods.parts.stored_head import carry_head
from sentemb_core.types import Json

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Parts = tuple["PreTrainedModel | StaticTable", Tokenizer, Json]
"""Backbone, tokenizer, and what AutoTokenizer needs besides tokenizer.json."""


def save_encoder(
    encoder: Encoder, folder: Path, card: str, *, head_from: Path | None = None
) -> None:
    """Write the encoder into `folder`, with `card` as its README.md (`card.model_card`).

    A Condenser head in `head_from`, the folder that the encoder was read from, is copied as well.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "README.md").write_text(card, encoding="utf-8")
    encoder.tokenizer.save(str(folder / "tokenizer.json"))
    if not isinstance(encoder.backbone, StaticTable):
        length = {"model_max_length": encoder.text_length}
        _write_json(folder / "tokenizer_config.json", encoder.tokenizer_config | length)
        _write_json(folder / "config.json", _backbone_config(encoder.backbone, encoder.pooling))
    entries: list[Json] = []
    for index, module in enumerate(modules(encoder)):
        path = f"{index}_{module.type}" if index else ""
        _write_module(module, folder / path)
        kind = f"sentence_transformers.models.{module.type}"
        entries.append({"idx": index, "name": str(index), "path": path, "type": kind})
    _write_json(folder / "modules.json", entries)
    stated: Json = {"creator": CREATOR, "similarity_fn_name": encoder.similarity}
    stated |= encoder.prompts.stated()
    if encoder.max_length != encoder.text_length:
        stated[SENTENCE_LENGTH] = encoder.max_length
    _write_json(folder / "config_sentence_transformers.json", stated)
    note_bounded(folder)
    if head_from:
        carry_head(head_from, folder)


def load_encoder(folder: Path) -> Encoder:
    """Return the encoder of a folder of `save_encoder` or sentence-transformers.

    It is on `compute_device()`, where its vectors and its training are computed.

    Raises:
        MissingEncoderError: The folder has no encoder.
        UnsafeModelError: It has pickled weights, names code of its own, or leads to files outside.
        UsageError: It has modules that an `Encoder` does not have, or its transformer generates
            text, or does not support the stated pooling or length.
        BadDataError: Its weights are incomplete.
    """
    with reading(folder):
        refuse_pickles(folder)
        parts = read_parts(folder)
        return assembled(parts, settings_of(folder), folder).to(compute_device())


@lru_cache(maxsize=1)
def loaded_encoder(folder: Path) -> Encoder:
    """Return `load_encoder` of a folder that does not change, to read with and not to change.

    The last one is kept: the shards of a stage, and several stages in turn, read with one encoder.
    """
    return load_encoder(folder)


def forget_encoder() -> None:
    """Free what `loaded_encoder` keeps, before a training needs the memory."""
    loaded_encoder.cache_clear()


def assembled(parts: Parts, settings: Settings, folder: Path | None = None) -> Encoder:
    """Return the encoder of these parts, with the layers and the pooling weights of `folder`.

    Raises:
        MissingEncoderError: A Dense module of the folder has no weights in safetensors.
        UsageError: The parts do not fit together, or not to the modules of the folder.
    """
    backbone, tokenizer, tokenizer_config = parts
    require_fit(backbone, settings["pooling"], settings["text_length"])
    encoder = Encoder(
        backbone,
        tokenizer,
        tokenizer_config=tokenizer_config,
        layers=read_layers(layer_modules(folder)) if folder else None,
        **settings,
    )
    if folder:
        require_same_weights(encoder, folder)
    return encoder


def read_parts(folder: Path, *, packaged: bool = False) -> Parts:
    """Return the backbone (in float32) and the tokenizer of a folder.

    Args:
        folder: It is tried in a child process first, once (`probe.require_bounded`).
        packaged: It is part of an installed package, and needs no trial.

    Raises:
        MissingEncoderError: The folder has no encoder, or no tokenizer.
        UnsafeModelError: It names code of its own, or leads to files outside.
        UsageError: Its transformer generates text, or its weights are of a kind that is not read.
        BadDataError: Its files are damaged or incomplete, ask for too much, or belong to different
            encoders.
    """
    with reading(folder):
        require_encoder(folder)
        if not packaged:
            require_bounded(folder)
        root = first_folder(folder)
        if is_static(folder):
            table = StaticTable(token_vectors(load_file(root / "model.safetensors")))
            parts: Parts = table, Tokenizer.from_file(str(root / "tokenizer.json")), {}
        else:
            with _quiet_transformers():
                tokenizer = read_tokenizer(root)
                backbone = _read_backbone(root)
                require_every_length(folder, backbone)
            parts = backbone, tokenizer.backend_tokenizer, tokenizer_settings(tokenizer)
        require_rows(folder, *parts[:2])
        return parts


def require_encoder(folder: Path) -> None:
    """Check by its settings and file names that a folder has an encoder that can be read.

    Raises:
        MissingEncoderError, UnsafeModelError, UsageError, BadDataError: as `read_parts`.
    """
    refuse_outside(folder)
    refuse_code(folder)
    require_weights(folder)
    require_tokenizer(folder)
    refuse_generators(folder)


def read_tokenizer(root: Path) -> Any:
    """Return the tokenizer of transformers from the files in the folder of a transformer."""
    from transformers import AutoTokenizer

    unnamed = dict.fromkeys(tokenizer_paths(root))  # found by their usual names instead
    tokenizer: Any = AutoTokenizer.from_pretrained(root, trust_remote_code=False, **unnamed)
    backend = tokenizer.backend_tokenizer
    if transformer_settings(root).get("do_lower_case"):
        # of sentence-transformers; as a part of the tokenizer it is saved
        after = [backend.normalizer] if backend.normalizer else []
        backend.normalizer = normalizers.Sequence([normalizers.Lowercase(), *after])
    return tokenizer


def require_rows(folder: Path, backbone: "PreTrainedModel | StaticTable", tokenizer: Any) -> None:
    """Refuse a tokenizer whose largest id has no row in the table of token vectors.

    Raises:
        BadDataError: With the id and the number of rows.
    """
    table: Any = (
        backbone.embedding if isinstance(backbone, StaticTable) else backbone.get_input_embeddings()
    )
    framed = tokenizer.encode("a").ids  # its post-processor has ids of its own
    largest = max([*tokenizer.get_vocab().values(), *framed], default=0)
    if largest >= table.weight.shape[0]:
        raise BadDataError(
            "Each id of a tokenizer has a row in the table of token vectors; the tokenizer in "
            f"{folder} has id {largest:,}, and the table {table.weight.shape[0]:,} rows. Take the "
            "tokenizer that the weights were trained with, or remove the tokens that were added "
            "without `resize_token_embeddings`."
        )


def tokenizer_settings(tokenizer: Any) -> Json:
    """What AutoTokenizer needs to read tokenizer.json unchanged.

    `Encoder` passes no token types, so other libraries must not pass any: XLNet's are not all 0.
    """
    names = [name for name in tokenizer.model_input_names if name != "token_type_ids"]
    special: Json = dict(sorted(tokenizer.special_tokens_map.items()))
    if tokenizer.pad_token is None:  # rows are masked where they are padded, with any token
        others = (special.get(f"{name}_token") for name in ("eos", "sep", "unk", "cls", "bos"))
        special["pad_token"] = next(filter(None, others), None)
        if special["pad_token"] is None:
            raise BadDataError(
                "A tokenizer has a token that pads the shorter texts of a batch; this one has no "
                "special token. Set its pad_token, and save it again."
            )
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",  # a model's class changes the pipeline
        "model_input_names": names,
        **{name: str(token) for name, token in special.items() if isinstance(token, str)},
    }


def family(config: Json) -> Any:
    """Return the class of transformers that reads the backbone of a config.json."""
    from transformers import AutoModel, AutoModelForTextEncoding

    return AutoModelForTextEncoding if config.get("model_type") in T5_FAMILY else AutoModel


def _read_backbone(folder: Path) -> "PreTrainedModel":
    config = read_json(folder / "config.json")
    with torch.random.fork_rng(devices=[]):  # missing weights are drawn at random, then refused
        backbone, report = cast(
            tuple[Any, dict[str, Any]],
            family(config).from_pretrained(
                folder,
                dtype=torch.float32,
                use_safetensors=True,
                trust_remote_code=False,
                output_loading_info=True,
            ),
        )
    missing = sorted(report["missing_keys"])
    if missing and all(name.startswith("pooler.") for name in missing):
        backbone.pooler = None  # many encoders are published without a pooler
    elif missing:
        raise BadDataError(
            f"An encoder needs all its weights: {folder} lacks {len(missing)}, first "
            f"{missing[:3]}. Download or save it again."
        )
    if config.get("model_type") in T5_FAMILY:
        keep_table_once(backbone)
    if is_causal(config):
        backbone.config.use_cache = False  # keys and values are for generating text
    for weights in backbone.parameters():
        # copied from the mapped file, whose alignment changes the last bit of some products
        weights.data = weights.data.clone()
    return backbone


def _backbone_config(backbone: "PreTrainedModel", pooling: str) -> Json:
    config: Json = json.loads(backbone.config.to_json_string())
    config.pop("_name_or_path", None)  # a path of the machine that trained it
    config["architectures"] = [type(backbone).__name__]
    config["dtype"] = str(backbone.dtype).removeprefix("torch.")
    # sentence-transformers returns hidden states only if the config requests them
    config["output_hidden_states"] = pooling in TWO_LAYERS
    return config


def _write_module(module: Module, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    if module.config:
        _write_json(folder / module.config_file, module.config)
    if module.weights:
        tensors = {
            name: tensor.detach().cpu().contiguous() for name, tensor in module.weights.items()
        }
        (folder / "model.safetensors").write_bytes(save(tensors, metadata={"format": "pt"}))


def _write_json(path: Path, content: Json | list[Json]) -> None:
    text = json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


@contextmanager
def _quiet_transformers() -> Generator[None]:
    """Disable progress bars and load reports; missing weights are raised as an error instead."""
    from transformers.utils import logging

    bars, verbosity = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def weights_digest(encoder: Encoder) -> str:
    """SHA-256 of all weights."""
    weights = {name: tensor.cpu().contiguous() for name, tensor in encoder.state_dict().items()}
    return hashlib.sha256(save(weights)).hexdigest()


def encoder_digest(encoder: Encoder) -> str:
    """SHA-256 of everything its vectors depend on: weights, vocabulary, length and settings.

    The whole tokenizer is not part of it: its description changes with the library's version.
    """
    settings = [encoder.max_length, encoder.pooling, encoder.similarity]
    settings += [encoder.prompts.stated()] if encoder.prompts else []
    settings += [encoder.text_length] if encoder.text_length != encoder.max_length else []
    content = weights_digest(encoder), encoder.tokenizer.get_vocab(), settings
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
