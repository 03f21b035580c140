"""An encoder as a folder that `SentenceTransformer` and `AutoModel.from_pretrained` load.

The folder has safetensors and JSON only. Equal encoders give equal bytes, and no file contains a
path of this machine.
"""

import hashlib
import json
from collections.abc import Generator
from contextlib import contextmanager
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
    require_fit,
)
from sentemb_core.encoder.dense import read_layers
from sentemb_core.encoder.devices import compute_device
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.encoder.modules import (
    CREATOR,
    SENTENCE_LENGTH,
    Module,
    Settings,
    layer_modules,
    modules,
    require_same_weights,
    settings_of,
    transformer_settings,
)
from sentemb_core.encoder.names import is_static
from sentemb_core.encoder.pooling import TWO_LAYERS
from sentemb_core.encoder.safety import (
    read_json,
    refuse_code,
    refuse_outside,
    refuse_pickles,
    require_weights,
    tokenizer_files,
)
from sentemb_core.errors import BadDataError, SentembError
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
    refuse_pickles(folder)
    parts = read_parts(folder)
    return assembled(parts, settings_of(folder), folder).to(compute_device())


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


def read_parts(folder: Path) -> Parts:
    """Return the backbone (in float32) and the tokenizer of a folder.

    Raises:
        MissingEncoderError: The folder has no encoder.
        UnsafeModelError: It names code of its own, or leads to files outside.
        UsageError: Its transformer generates text.
        BadDataError: Its files are damaged or incomplete.
    """
    refuse_outside(folder)
    refuse_code(folder)
    require_weights(folder)
    refuse_generators(folder)
    try:
        return _parts_of(folder)
    except SentembError:
        raise
    except Exception as error:  # every file format has errors of its own
        first = next(iter(str(error).splitlines()), type(error).__name__)
        raise BadDataError(
            f"The encoder in {folder} is damaged or incomplete: {first}. Copy or save it again."
        ) from error


def _parts_of(folder: Path) -> Parts:
    if is_static(folder):
        weights = load_file(folder / "model.safetensors")["embedding.weight"]
        table = StaticTable(weights.to(torch.float32, copy=True))
        return table, Tokenizer.from_file(str(folder / "tokenizer.json")), {}
    from transformers import AutoTokenizer

    with _quiet_transformers():
        unnamed = dict.fromkeys(tokenizer_files(folder))  # found by their usual names instead
        tokenizer: Any = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, **unnamed)
        backbone = _read_backbone(folder)
    backend = tokenizer.backend_tokenizer
    if transformer_settings(folder).get("do_lower_case"):
        # of sentence-transformers; as a part of the tokenizer it is saved
        after = [backend.normalizer] if backend.normalizer else []
        backend.normalizer = normalizers.Sequence([normalizers.Lowercase(), *after])
    return backbone, backend, tokenizer_settings(tokenizer)


def tokenizer_settings(tokenizer: Any) -> Json:
    """What AutoTokenizer needs to read tokenizer.json unchanged.

    `Encoder` passes no token types, so other libraries must not pass any: XLNet's are not all 0.
    """
    names = [name for name in tokenizer.model_input_names if name != "token_type_ids"]
    special: Json = dict(sorted(tokenizer.special_tokens_map.items()))
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",  # a model's class changes the pipeline
        "model_input_names": names,
        **{name: str(token) for name, token in special.items() if isinstance(token, str)},
    }


def _read_backbone(folder: Path) -> "PreTrainedModel":
    from transformers import AutoModel, AutoModelForTextEncoding

    config = read_json(folder / "config.json")
    half = config.get("model_type") in T5_FAMILY
    family: Any = AutoModelForTextEncoding if half else AutoModel
    with torch.random.fork_rng(devices=[]):  # missing weights are drawn at random, then refused
        backbone, report = cast(
            tuple[Any, dict[str, Any]],
            family.from_pretrained(
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
    if half:
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
