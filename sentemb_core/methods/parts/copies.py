"""Copies of an encoder: frozen, momentum, and independent."""

import copy
from typing import Any, Literal, cast

import torch
from torch import nn

from sentemb_core.encoder.encoder import Encoder
from sentemb_core.methods.parts.heads import draw_weights
from sentemb_core.methods.parts.transformer_layers import layers_of


class _Still(Encoder):
    """An encoder without gradients, always in eval mode."""

    def __init__(self, encoder: Encoder, instead: dict[int, nn.Parameter] | None = None) -> None:
        super().__init__(**_parts(encoder, instead))
        self.requires_grad_(requires_grad=False)

    def train(self, mode: bool = True) -> "_Still":
        return super().train(mode=False)


class FrozenCopy(_Still):
    """A frozen copy of the encoder as it is now.

    Parameters that never change in the original share its memory: those without gradients, and
    those of `shared`. They are not part of the state dict, since their owner saves them.

    Args:
        shared: Name prefixes of parameters that do not learn (`Method.frozen`).
        layers: Number of lowest layers to copy; None copies all.
    """

    def __init__(
        self, encoder: Encoder, *, shared: tuple[str, ...] = (), layers: int | None = None
    ) -> None:
        lent = {
            name: weight
            for name, weight in encoder.named_parameters()
            if not weight.requires_grad or (shared and name.startswith(shared))
        }
        super().__init__(
            encoder,
            {id(w): nn.Parameter(w.detach(), requires_grad=False) for w in lent.values()},
        )
        _cut(self, layers)
        present = dict(self.named_parameters())
        self.shared = tuple(name for name in lent if name in present)
        self.register_state_dict_post_hook(_without_shared)
        self.register_load_state_dict_pre_hook(_with_shared)


class MomentumCopy(_Still):
    """A copy whose weights are a moving average of the encoder's (MoCo; ESimCSE).

    Args:
        momentum: Share of the old weights that a step keeps; .995 in ESimCSE.
        init: `copy` starts with the encoder's weights; `random` is what the official log of
            ESimCSE shows.
    """

    def __init__(
        self, encoder: Encoder, momentum: float, init: Literal["copy", "random"] = "copy"
    ) -> None:
        super().__init__(encoder)
        self.momentum = momentum
        if init == "random":
            draw_weights(self)

    @torch.no_grad()
    def follow(self, encoder: Encoder) -> None:
        """Move every parameter and buffer one step towards the encoder's."""
        trailing = [*self.parameters(), *self.buffers()]
        leading = [*encoder.parameters(), *encoder.buffers()]
        for own, other in zip(trailing, leading, strict=True):
            if own.is_floating_point():
                own.lerp_(other, 1 - self.momentum)
            else:
                own.copy_(other)


def twin(encoder: Encoder, *, layers: int | None = None) -> Encoder:
    """Return an independent, trainable copy (CT), or its lowest `layers` layers."""
    other = Encoder(**_parts(encoder))
    _cut(other, layers)
    return other.requires_grad_(requires_grad=True)


def _parts(encoder: Encoder, instead: dict[int, nn.Parameter] | None = None) -> dict[str, Any]:
    """Return the parts of a copy; `instead` maps the `id` of a parameter to a replacement."""
    backbone = copy.deepcopy(encoder.backbone, dict[int, Any](instead or {}))
    return encoder.parts(backbone, copy.deepcopy(encoder.layers, dict[int, Any](instead or {})))


def _cut(encoder: Encoder, layers: int | None) -> None:
    """Remove all but the lowest `layers` layers."""
    if layers is not None:
        cast(Any, encoder.backbone).encoder.layer = layers_of(encoder)[:layers]


def _without_shared(copied: Any, state: dict[str, Any], prefix: str, *_: Any) -> None:
    for name in copied.shared:
        del state[prefix + name]


def _with_shared(copied: Any, state: dict[str, Any], prefix: str, *_: Any) -> None:
    for name in copied.shared:
        state[prefix + name] = copied.get_parameter(name)
