"""Layers after the pooling, as Dense, LayerNorm and Normalize modules of sentence-transformers.

A Dense module is a Linear and the activation after it: ReLU, tanh or the identity. BERT's pooler is
a Dense with a tanh as well, but it is part of the pooling.
"""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Float
from safetensors.torch import load_file
from torch import Tensor, nn

from sentemb_core.encoder.folder_files import read_json
from sentemb_core.errors import BadDataError, MissingEncoderError, UsageError
from sentemb_core.types import Json

IDENTITY = "torch.nn.modules.linear.Identity"
TANH = "torch.nn.modules.activation.Tanh"
ACTIVATIONS: dict[str, type[nn.Module]] = {
    "torch.nn.modules.activation.ReLU": nn.ReLU,
    TANH: nn.Tanh,
}
POOLED = "sentence_embedding"
WEIGHT = {"Dense": "linear.weight", "LayerNorm": "norm.weight"}
"""The weight that every module of a kind has."""

EPS = 1e-5
"""Of a LayerNorm module, which does not state it: PyTorch's."""


class Normalize(nn.Module):
    """Vectors of length 1, for the layer behind it."""

    def forward(self, vectors: Float[Tensor, "batch dim"]) -> Float[Tensor, "batch dim"]:
        return F.normalize(vectors, dim=-1)


def linear(
    weight: Float[Tensor, "out width"], bias: Float[Tensor, " out"] | None = None
) -> nn.Linear:
    """Return the layer with these weights, without any random draw."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    layer.weight = nn.Parameter(weight.contiguous())  # the layout of the file
    if bias is not None:
        layer.bias = nn.Parameter(bias)
    return layer


def require_layers(layers: nn.Sequential, width: int) -> nn.Sequential:
    """Return the layers if modules can represent them, behind a vector of this width.

    Raises:
        UsageError: A layer of another type, an activation that does not follow a Linear, or a
            layer of another width than the vector before it.
    """
    before: nn.Module | None = None
    for layer in layers:
        activation = isinstance(layer, tuple(ACTIVATIONS.values()))
        known = isinstance(before, nn.Linear) if activation else _fits(layer, width)
        if not known:
            kinds = ", ".join(str(layer) for layer in layers)
            raise UsageError(
                "An encoder's layers must be Normalize, LayerNorm or Linear, a Linear followed by "
                "at most one ReLU or Tanh, each as wide as the vector before it, because other "
                f"libraries load these only. {layer} does not fit. Found {kinds}. Replace or "
                "remove it."
            )
        width = layer.out_features if isinstance(layer, nn.Linear) else width
        before = layer
    return layers


def _fits(layer: nn.Module, width: int) -> bool:
    """Whether a layer other than an activation is of a known type, for vectors of this width."""
    if isinstance(layer, nn.Linear):
        return layer.in_features == width
    if isinstance(layer, nn.LayerNorm) and layer.elementwise_affine and layer.eps == EPS:
        return layer.weight.shape == (width,)
    return isinstance(layer, Normalize)


def layer_parts(layers: nn.Sequential) -> Iterator[tuple[str, Json, dict[str, Tensor]]]:
    """Yield kind, settings and weights of the module of every layer but the activations."""
    names = {kind: name for name, kind in ACTIVATIONS.items()}
    for layer, after in zip_longest(layers, list(layers)[1:]):
        if isinstance(layer, nn.Linear):
            config: Json = {
                "in_features": layer.in_features,
                "out_features": layer.out_features,
                "bias": "bias" in layer.state_dict(),
                "activation_function": names.get(type(after), IDENTITY),
            }
            yield "Dense", config, layer.state_dict(prefix="linear.")
        elif isinstance(layer, nn.LayerNorm):
            shape: Json = {"dimension": layer.normalized_shape[0]}
            yield "LayerNorm", shape, layer.state_dict(prefix="norm.")
        elif isinstance(layer, Normalize):
            yield "Normalize", {}, {}


def is_layer(kind: str, folder: Path) -> bool:
    """Whether a module is a Normalize, a LayerNorm, or a Linear on the pooled vector.

    The activation of a Linear is a known one.
    """
    if kind != "Dense":
        return kind in ("LayerNorm", "Normalize")
    config = _config(folder)
    ends = {config.get(f"module_{end}_name") or POOLED for end in ("input", "output")}
    plain = ends == {POOLED} and not config.get("use_residual")
    return plain and config.get("activation_function") in (IDENTITY, *ACTIVATIONS)


def is_tanh(folder: Path) -> bool:
    """Whether a Dense module ends in a tanh."""
    return _config(folder).get("activation_function") == TANH


def read_layers(modules: Sequence[tuple[str, Path]]) -> nn.Sequential | None:
    """Return the layers of these modules (kind and folder) in float32; None without a module.

    Raises:
        MissingEncoderError: A module has no weights in safetensors.
    """
    layers: list[nn.Module] = []
    for kind, folder in modules:
        if kind == "Normalize":
            layers.append(Normalize())
            continue
        file = folder / "model.safetensors"
        stored = load_file(file) if file.is_file() else {}
        if WEIGHT[kind] not in stored:
            raise MissingEncoderError(
                f"The weights of a {kind} module are a safetensors file, and {folder} has none. "
                "Download or save the encoder again."
            )
        own = {name: tensor.to(torch.float32, copy=True) for name, tensor in stored.items()}
        if kind == "LayerNorm":
            layers.append(_layer_norm(own["norm.weight"], own["norm.bias"]))
            continue
        layers.append(linear(own["linear.weight"], own.get("linear.bias")))
        if activation := ACTIVATIONS.get(_config(folder)["activation_function"]):
            layers.append(activation())
    return nn.Sequential(*layers) if layers else None


def _layer_norm(weight: Float[Tensor, " dim"], bias: Float[Tensor, " dim"]) -> nn.LayerNorm:
    layer = nn.LayerNorm(len(weight), eps=EPS)
    layer.weight, layer.bias = nn.Parameter(weight), nn.Parameter(bias)
    return layer


def _config(folder: Path) -> Json:
    if config := read_json(folder / "config.json"):
        return config
    raise BadDataError(
        f"A Dense module states its widths and its activation in config.json; {folder} has no such "
        "file, or an empty one. Copy the encoder again."
    )
