"""An encoder as the module list of sentence-transformers, and such a list read back.

The list says everything an encoder is beside weights and tokenizer, so there is no file of our
own. Its class names and keys are those that every release of sentence-transformers understands.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict, cast

import torch
from safetensors.torch import load_file
from torch import Tensor

from sentemb_core.encoder.encoder import Encoder
from sentemb_core.encoder.pooling import Pooling
from sentemb_core.encoder.static import StaticTable
from sentemb_core.errors import UsageError
from sentemb_core.types import Json, Similarity

CREATOR = "sentemb"

NO_LIMIT_STATED = 512
"""Tokens a sentence where a folder of another origin names no maximum: BERT's."""


class Settings(TypedDict):
    """What a folder says of an encoder beside its weights and its tokenizer."""

    pooling: Pooling
    similarity: Similarity
    max_length: int


@dataclass(frozen=True)
class Module:
    """One entry of modules.json, with the settings and weights in its folder."""

    type: str
    config: Json = field(default_factory=dict[str, Any])
    weights: Mapping[str, Tensor] = field(default_factory=dict[str, Tensor])
    config_file: str = "config.json"


def modules(encoder: Encoder) -> list[Module]:
    """What turns a text into `encoder.vectors(encoder(ids))`, in order; the first is the root."""
    weights = encoder.backbone.state_dict()
    if isinstance(encoder.backbone, StaticTable):
        steps = [Module("StaticEmbedding", {}, weights)]
    else:
        length = {"max_seq_length": encoder.max_length, "do_lower_case": False}
        root = Module("Transformer", length, weights, config_file="sentence_bert_config.json")
        steps = [root, *_pooling_modules(encoder)]
    return [*steps, Module("Normalize")] if encoder.similarity == "cosine" else steps


def _pooling_modules(encoder: Encoder) -> list[Module]:
    dim, backbone = encoder.dim, cast(Any, encoder.backbone)
    mean = "mean" in encoder.pooling
    pooling = Module(
        "Pooling",
        {
            "word_embedding_dimension": dim,
            "pooling_mode_cls_token": not mean,
            "pooling_mode_mean_tokens": mean,
        },
    )
    if encoder.pooling == "cls":
        tanh = "torch.nn.modules.activation.Tanh"
        shape = {"in_features": dim, "out_features": dim, "bias": True}
        weights = backbone.pooler.dense.state_dict(prefix="linear.")
        return [pooling, Module("Dense", {**shape, "activation_function": tanh}, weights)]
    if encoder.pooling == "first_last_mean":
        layers = int(backbone.config.num_hidden_layers)
        shape = {"word_embedding_dimension": dim, "layer_start": 0, "num_hidden_layers": layers}
        both_ends = torch.zeros(layers + 1)
        both_ends[[0, -1]] = 1
        return [Module("WeightedLayerPooling", shape, {"layer_weights": both_ends}), pooling]
    return [pooling]


def module_paths(folder: Path) -> dict[str, Path]:
    """Class name -> folder of every module listed in modules.json; empty without that file."""
    entries = read_json(folder / "modules.json", default=[])
    return {entry["type"].rsplit(".")[-1]: folder / entry["path"] for entry in entries}


def settings_of(folder: Path) -> Settings:
    """Pooling, similarity and maximum length, as the module list and its files say them.

    Raises:
        UsageError: The folder has modules that an `Encoder` has not.
    """
    stated = read_json(folder / "config_sentence_transformers.json")
    dot = stated.get("similarity_fn_name") in ("dot", "dot_product")
    return Settings(
        pooling=_pooling_of(folder),
        similarity="dot" if dot else "cosine",
        max_length=_max_length_of(folder),
    )


def written_by_us(folder: Path) -> bool:
    """Whether `save_encoder` wrote this folder."""
    stated = read_json(folder / "config_sentence_transformers.json")
    return stated.get("creator") == CREATOR


def require_same_weights(encoder: Encoder, folder: Path) -> None:
    """That the pooling modules in `folder` do no more than `encoder` does.

    Raises:
        UsageError: A Dense is not BERT's own pooler, or layers are weighed in another way.
    """
    paths = module_paths(folder)
    for module in modules(encoder)[1:]:
        file = paths.get(module.type, folder) / "model.safetensors"
        if module.weights and not _same_weights(module.weights, file):
            raise UsageError(
                f"The pooling {encoder.pooling!r} has no weights of its own, and the "
                f"{module.type} module of {folder} does. Name another pooling, or start from its "
                "bare transformer: a folder without modules.json."
            )


def _same_weights(weights: Mapping[str, Tensor], file: Path) -> bool:
    found = load_file(file) if file.is_file() else {}
    return all(name in found and torch.equal(found[name], ours) for name, ours in weights.items())


def _pooling_of(folder: Path) -> Pooling:
    paths = module_paths(folder)
    mode = _pooling_mode(paths["Pooling"]) if "Pooling" in paths else "mean"
    match [name for name in paths if name != "Normalize"], mode:
        case (["StaticEmbedding"], _) | (["Transformer", "Pooling"], "mean"):
            return "mean"
        case ["Transformer", "Pooling"], "cls":
            return "cls_before_pooler"
        case ["Transformer", "Pooling", "Dense"], "cls":
            return "cls"
        case ["Transformer", "WeightedLayerPooling", "Pooling"], "mean":
            return "first_last_mean"
        case names, _:
            raise UsageError(
                "An encoder is a transformer with mean, cls or first-last pooling, or a static "
                f"table; {folder / 'modules.json'} has {', '.join(names)} with pooling {mode!r}. "
                "Start from its bare transformer instead: a folder without modules.json."
            )


def _pooling_mode(folder: Path) -> str:
    """`mean`, `cls`, or whatever else the settings of a Pooling module say."""
    config = read_json(folder / "config.json")
    flags = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
    told = [mode for flag, mode in flags.items() if config.get(flag)]
    others = [key for key, on in config.items() if "pooling_mode_" in key and on is True]
    if len(others) == len(told) == 1:
        return told[0]
    return str(config.get("pooling_mode", others))


def _max_length_of(folder: Path) -> int:
    cut = read_json(folder / "tokenizer.json").get("truncation") or {}
    stated = (
        read_json(folder / "sentence_bert_config.json").get("max_seq_length")
        or read_json(folder / "tokenizer_config.json").get("model_max_length")
        or cut.get("max_length")
        or NO_LIMIT_STATED
    )
    return int(stated) if stated < 1_000_000 else NO_LIMIT_STATED


def read_json(path: Path, default: Any = None) -> Any:
    """The content of a JSON file; `default`, or nothing ({}), where there is none."""
    if not path.is_file():
        return {} if default is None else default
    return json.loads(path.read_text(encoding="utf-8"))
