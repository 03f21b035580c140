"""Layers after the pooling, as Dense modules of sentence-transformers.

A Dense module is a Linear and the activation after it, which is ReLU or the identity here. BERT's
pooler is a Dense with a tanh, but it is part of the pooling.
"""

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise, zip_longest
from pathlib import Path

import torch
from jaxtyping import Float
from safetensors.torch import load_file
from torch import Tensor, nn

from sentemb_core.errors import MissingEncoderError, UsageError
from sentemb_core.types import Json

IDENTITY = "torch.nn.modules.linear.Identity"
RELU = "torch.nn.modules.activation.ReLU"
POOLED = "sentence_embedding"


def linear(
    weight: Float[Tensor, "out width"], bias: Float[Tensor, " out"] | None = None
) -> nn.Linear:
    """Return the layer with these weights, without any random draw."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    layer.weight = nn.Parameter(weight.contiguous())  # the layout of the file
    if bias is not None:
        layer.bias = nn.Parameter(bias)
    return layer


def require_dense(layers: nn.Sequential) -> nn.Sequential:
    """Return the layers if Dense modules can represent them.

    Raises:
        UsageError: A layer is neither a Linear nor the ReLU after a Linear.
    """
    kinds = [type(layer) for layer in layers]
    known = set(kinds) <= {nn.Linear, nn.ReLU}
    if not known or (nn.ReLU, nn.ReLU) in pairwise([nn.ReLU, *kinds]):
        raise UsageError(
            "An encoder's layers must be Linear, each followed by at most one ReLU, because other "
            f"libraries load these only. Found {', '.join(kind.__name__ for kind in kinds)}. "
            "Replace or remove the other layers."
        )
    return layers


def dense_parts(layers: nn.Sequential) -> Iterator[tuple[Json, dict[str, Tensor]]]:
    """Yield settings and weights of a Dense module for every Linear."""
    for layer, after in zip_longest(layers, list(layers)[1:]):
        if isinstance(layer, nn.Linear):
            config: Json = {
                "in_features": layer.in_features,
                "out_features": layer.out_features,
                "bias": "bias" in layer.state_dict(),
                "activation_function": RELU if isinstance(after, nn.ReLU) else IDENTITY,
            }
            yield config, layer.state_dict(prefix="linear.")


def is_layer(folder: Path) -> bool:
    """Whether a Dense module is a Linear on the pooled vector, with a ReLU or no activation."""
    config = _config(folder)
    ends = {config.get(f"module_{end}_name") or POOLED for end in ("input", "output")}
    plain = ends == {POOLED} and not config.get("use_residual")
    return plain and config.get("activation_function") in (IDENTITY, RELU)


def read_layers(folders: Sequence[Path]) -> nn.Sequential | None:
    """Return the layers of these Dense modules in float32; None without a module.

    Raises:
        MissingEncoderError: A module has no weights in safetensors.
    """
    layers: list[nn.Module] = []
    for folder in folders:
        file = folder / "model.safetensors"
        stored = load_file(file) if file.is_file() else {}
        if "linear.weight" not in stored:
            raise MissingEncoderError(
                f"The weights of a Dense module are a safetensors file, and {folder} has none. "
                "Download or save the encoder again."
            )
        own = {name: tensor.to(torch.float32, copy=True) for name, tensor in stored.items()}
        layers.append(linear(own["linear.weight"], own.get("linear.bias")))
        if _config(folder)["activation_function"] == RELU:
            layers.append(nn.ReLU())
    return nn.Sequential(*layers) if layers else None


def _config(folder: Path) -> Json:
    return json.loads((folder / "config.json").read_text(encoding="utf-8"))
