"""An encoder as the module list of sentence-transformers, written and read.

The list states everything about an encoder except weights and tokenizer, so there is no other file.
Class names and keys are those of every release of sentence-transformers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict, cast

import torch
from jaxtyping import Float
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor

from sentemb_core.encoder.backbones import StaticTable
from sentemb_core.encoder.dense import POOLED, TANH, is_layer, is_tanh, layer_parts
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.encoder.folder_files import (
    first_folder,
    module_paths,
    read_json,
    transformer_settings,
)
from sentemb_core.encoder.pooling import TWO_LAYERS
from sentemb_core.encoder.prompts import Prompts, stated_prompts
from sentemb_core.errors import BadDataError, UsageError
from sentemb_core.types import Json, Pooling, Similarity

CREATOR = "sentemb"

SENTENCE_LENGTH = "sentence_length"
"""In config_sentence_transformers.json of a saved encoder: `max_length`, if it is not the length of
whole texts, which every library reads."""

LONGEST = 1 << 24
"""Tokens of a text, above any transformer's; a table of token vectors has no limit of its own."""

NO_LIMIT_STATED = 512
"""Tokens a sentence if a folder of another origin states no maximum: BERT's."""


class Settings(TypedDict):
    """What a folder states about an encoder besides weights and tokenizer."""

    pooling: Pooling
    similarity: Similarity
    max_length: int
    text_length: int
    prompts: Prompts


@dataclass(frozen=True)
class Module:
    """One entry of modules.json, with the settings and weights in its folder."""

    type: str
    config: Json = field(default_factory=dict[str, Any])
    weights: Mapping[str, Tensor] = field(default_factory=dict[str, Tensor])
    config_file: str = "config.json"


def modules(encoder: Encoder) -> list[Module]:
    """The modules that compute `encoder.vectors(encoder(ids))`, in order; the first is the root."""
    weights = encoder.backbone.state_dict()
    if isinstance(encoder.backbone, StaticTable):
        steps = [Module("StaticEmbedding", {}, weights)]
    else:
        length = {"max_seq_length": encoder.text_length, "do_lower_case": False}
        root = Module("Transformer", length, weights, config_file="sentence_bert_config.json")
        steps = [root, *_pooling_modules(encoder)]
    if encoder.layers is not None:
        steps += [Module(*parts) for parts in layer_parts(encoder.layers)]
    return [*steps, Module("Normalize")] if encoder.similarity == "cosine" else steps


def _pooling_modules(encoder: Encoder) -> list[Module]:
    dim, backbone = encoder.hidden_dim, cast(Any, encoder.backbone)
    mean, last = "mean" in encoder.pooling, encoder.pooling == "last"
    mode = {"pooling_mode_cls_token": not (mean or last), "pooling_mode_mean_tokens": mean}
    mode |= {"pooling_mode_lasttoken": True} if last else {}
    pooling = Module("Pooling", {"word_embedding_dimension": dim, **mode})
    if encoder.pooling == "cls":
        shape = {"in_features": dim, "out_features": dim, "bias": True}
        weights = backbone.pooler.dense.state_dict(prefix="linear.")
        return [pooling, Module("Dense", {**shape, "activation_function": TANH}, weights)]
    if encoder.pooling in TWO_LAYERS:
        layers = int(backbone.config.num_hidden_layers)
        shape = {"word_embedding_dimension": dim, "layer_start": 0, "num_hidden_layers": layers}
        weights = _layer_weights(encoder.pooling, layers + 1)
        return [Module("WeightedLayerPooling", shape, {"layer_weights": weights}), pooling]
    return [pooling]


def _layer_weights(pooling: str, layers: int) -> Float[Tensor, " layers"]:
    weights = torch.zeros(layers)
    weights[list(TWO_LAYERS[pooling])] = 1
    return weights


def layer_modules(folder: Path) -> list[tuple[str, Path]]:
    """Kind and folder of the modules that are `Encoder.layers`.

    BERT's pooler is not one, and a Normalize at the end is the similarity.
    """
    pooler = _pooler(folder)
    layers = [
        (kind, path)
        for kind, path in module_paths(folder)
        if path != pooler and is_layer(kind, path)
    ]
    while _ends_normalised(layers):
        layers.pop()
    return layers


def _ends_normalised(modules: list[tuple[str, Path]]) -> bool:
    return bool(modules) and modules[-1][0] == "Normalize"


def _pooler(folder: Path) -> Path | None:
    """The Dense module with the weights of the transformer's own pooler, if there is one."""
    match module_paths(folder):
        case [("Transformer", root), ("Pooling", pooling), ("Dense", dense), *_] if _pooling_mode(
            pooling
        ) == "cls" and is_tanh(dense):
            file = dense / "model.safetensors"
            weight = load_file(file).get("linear.weight") if file.is_file() else None
            own = _stored(root / "model.safetensors", "pooler.dense.weight")
            same = weight is not None and own is not None and torch.equal(own.to(weight), weight)
            return dense if same else None
        case _:
            return None


def _stored(file: Path, ending: str) -> Tensor | None:
    """The tensor whose name ends so, in a file of safetensors."""
    if not file.is_file():
        return None
    with safe_open(file, framework="pt") as tensors:
        name = next((name for name in tensors.keys() if name.endswith(ending)), None)  # noqa: SIM118
        return tensors.get_tensor(name) if name else None


def settings_of(folder: Path) -> Settings:
    """Return pooling, similarity and maximum length as the module list and its files state them.

    Raises:
        UsageError: The folder has modules or settings that an `Encoder` does not have.
    """
    stated = read_json(folder / "config_sentence_transformers.json")
    if setting := _unsupported(stated) or _unsupported_modules(folder):
        raise UsageError(
            "An encoder here keeps all dimensions and all tokens, and compares by cosine or inner "
            f"product; {folder} asks for {setting}. Remove that setting from a "
            "copy of the folder to use the encoder without it."
        )
    normalised = _ends_normalised(module_paths(folder))  # inner products of these are cosines
    dot = stated.get("similarity_fn_name") in ("dot", "dot_product") and not normalised
    longest = length_of(folder)
    return Settings(
        pooling=_pooling_of(folder),
        similarity="dot" if dot else "cosine",
        max_length=_as_length(stated.get(SENTENCE_LENGTH) or longest, folder),
        text_length=longest,
        prompts=stated_prompts(folder),
    )


def length_of(folder: Path) -> int:
    """Largest number of tokens of a text, special tokens included, as the folder states it.

    Raises:
        BadDataError: It is no positive number.
    """
    root = first_folder(folder)
    longest = transformer_settings(root).get("max_seq_length")
    if not longest:
        longest = (
            read_json(root / "tokenizer_config.json").get("model_max_length")
            or _truncation(read_json(root / "tokenizer.json"))
            or NO_LIMIT_STATED
        )
        longest = int(longest) if longest < 1_000_000 else NO_LIMIT_STATED
        positions = read_json(root / "config.json").get("max_position_embeddings") or -1
        longest = min(longest, positions) if positions > 0 else longest  # XLNet's are -1: no limit
    return _as_length(longest, root)


def _as_length(tokens: int, folder: Path) -> int:
    if not 0 < tokens <= LONGEST:
        raise BadDataError(
            f"An encoder reads 1 to {LONGEST:,} tokens of a text; the settings in {folder} state "
            f"{tokens}. Correct its maximum length in a copy of the folder."
        )
    return tokens


def _truncation(tokenizer: Json) -> int | None:
    stated = tokenizer.get("truncation")
    length = stated.get("max_length") if isinstance(stated, dict) else None
    return length if isinstance(length, int) else None


def _unsupported(stated: Mapping[str, Any]) -> str:
    """A setting of sentence-transformers that an `Encoder` does not have, or an empty text."""
    if stated.get("truncate_dim"):
        return f"the first {stated['truncate_dim']} dimensions"
    similarity = stated.get("similarity_fn_name")
    return f"{similarity} distances" if similarity in ("euclidean", "manhattan") else ""


def _unsupported_modules(folder: Path) -> str:
    """A setting of a module that an `Encoder` does not have, or an empty text."""
    for kind, path in module_paths(folder):
        config = read_json(path / "config.json") if kind in ("Pooling", "Normalize") else {}
        if config.get("include_prompt") is False:
            return f"a pooling without the prompt's tokens ({path.name})"
        if config.get("module_input_name", POOLED) != POOLED:
            return f"{config['module_input_name']} that are normalised ({path.name})"
    return ""


def written_by_us(folder: Path) -> bool:
    """Whether `save_encoder` wrote this folder."""
    stated = read_json(folder / "config_sentence_transformers.json")
    return stated.get("creator") == CREATOR


def require_same_weights(encoder: Encoder, folder: Path) -> None:
    """Refuse a folder whose modules do not compute what `encoder` computes.

    Raises:
        UsageError: The modules have another order or other weights.
    """
    listed = module_paths(folder)[1:]
    for module, (kind, path) in zip(modules(encoder)[1:], listed, strict=False):
        if kind != module.type or not _same_weights(module.weights, path / "model.safetensors"):
            raise UsageError(
                f"The pooling {encoder.pooling!r} has no weights of its own, but the {kind} module "
                f"of {folder} has, or is in another place. Set another pooling, or start from the "
                "transformer without modules: a folder without modules.json."
            )


def _same_weights(weights: Mapping[str, Tensor], file: Path) -> bool:
    stored = load_file(file) if file.is_file() else {}
    return all(
        name in stored and torch.equal(stored[name].to(ours), ours)
        for name, ours in weights.items()
    )


def _pooling_of(folder: Path) -> Pooling:
    listed = module_paths(folder)
    paths = dict(listed)
    mode = _pooling_mode(paths["Pooling"]) if "Pooling" in paths else "mean"
    layers = layer_modules(folder)
    names = [kind for kind, path in listed if (kind, path) not in layers]
    match [name for name in names if name != "Normalize"], mode:
        case (["StaticEmbedding"], _) | (["Transformer", "Pooling"], "mean"):
            return "mean"
        case ["Transformer", "Pooling"], "cls":
            return "cls_before_pooler"
        case ["Transformer", "Pooling"], "lasttoken":
            return "last"
        case ["Transformer", "Pooling", "Dense"], "cls" if _pooler(folder):
            return "cls"
        case ["Transformer", "WeightedLayerPooling", "Pooling"], "mean":
            return _averaged(paths["WeightedLayerPooling"])
        case others, _:
            raise UsageError(
                "An encoder is a transformer with mean, cls, last-token or two-layer pooling, or a "
                "static table, followed by LayerNorm and Dense modules with ReLU, Tanh or no "
                "activation; "
                f"{folder / 'modules.json'} has {', '.join(others)} with pooling {mode!r}. "
                "Start from the transformer without modules: a folder without modules.json."
            )


def _averaged(folder: Path) -> Pooling:
    """The pooling of these layer weights; for unknown weights, one that is refused afterwards."""
    file = folder / "model.safetensors"
    weights = load_file(file)["layer_weights"] if file.is_file() else torch.empty(0)
    if len(weights) > 1:
        for pooling in TWO_LAYERS:
            if torch.equal(weights, _layer_weights(pooling, len(weights))):
                return cast(Pooling, pooling)
    return "first_last_mean"


def _pooling_mode(folder: Path) -> str:
    """`mean`, `cls`, `lasttoken`, or the other modes that a Pooling module's settings state."""
    config = read_json(folder / "config.json")
    flags = {
        "pooling_mode_mean_tokens": "mean",
        "pooling_mode_cls_token": "cls",
        "pooling_mode_lasttoken": "lasttoken",
    }
    modes = [mode for flag, mode in flags.items() if config.get(flag)]
    others = [key for key, on in config.items() if "pooling_mode_" in key and on is True]
    if len(others) == len(modes) == 1:
        return modes[0]
    return str(config.get("pooling_mode", others))
