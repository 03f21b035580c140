"""Texts of several lengths as one tensor: padded rows, or one row of tokens without padding.

In a packed row, matrix products, norms and dropout see all tokens of a batch at once. Attention
stays inside each text, equal lengths together. Packing is used on CPUs only
(`benchmarks/training.py --peers`): on a GPU, attention length by length is many small calls.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from sentemb_core.documents import Tokens
from sentemb_core.encoder.backbones import first_position

if TYPE_CHECKING:
    from transformers.modeling_outputs import BaseModelOutputWithPooling


FAMILIES = frozenset({"bert", "camembert", "distilbert", "electra", "roberta", "xlm-roberta"})
"""Model types with absolute positions that call the attention of transformers' registry. Others
(relative positions, windows) read padded rows."""

ROUND = 128
"""A packed row is filled up to a multiple of this many tokens: oneDNN compiles a bfloat16 product
for every number of rows, and keeps 1,024 of them."""

ATTENTION_NAME = "sentemb_packed"


def padded(
    sequences: Sequence[Tokens], pad_id: int
) -> tuple[Int[Tensor, "rows time"], Int[Tensor, "rows time"] | None]:
    """Ids and mask, padded at the right; the mask is None where all lengths are equal."""
    lengths = np.fromiter(map(len, sequences), np.int64, len(sequences))
    mask = np.arange(lengths.max()) < lengths[:, None]
    ids = np.full(mask.shape, pad_id, dtype=np.int64)
    ids[mask] = np.concatenate(sequences)
    if mask.all():
        return torch.from_numpy(ids), None
    return torch.from_numpy(ids), torch.from_numpy(mask.astype(np.int64))


@dataclass(frozen=True)
class Stretch:
    """Neighbouring texts of one length."""

    texts: int
    length: int


@dataclass(frozen=True)
class Packed:
    """The rows of a batch as one row: texts by rising length, followed by the filling."""

    ids: Int[Tensor, "1 tokens"]
    places: Int[Tensor, "1 tokens"]
    """Position of every token in its text."""
    stretches: Sequence[Stretch]
    """The last is the filling, as texts of one token."""
    rows: Int[Tensor, " texts"]
    """Row of the batch of every text."""

    def split(self, all_tokens: Shaped[Tensor, "tokens ..."]) -> list[Tensor]:
        """Tokens of each stretch, [texts, time, ...]."""
        parts = all_tokens.split([stretch.texts * stretch.length for stretch in self.stretches])
        apart = zip(self.stretches, parts, strict=True)
        return [part.unflatten(0, (stretch.texts, stretch.length)) for stretch, part in apart]


def packs(backbone: nn.Module) -> bool:
    """Whether `read_packed` equals padded rows for this backbone."""
    configs = _configs(backbone)
    return bool(configs) and all(
        config.model_type in FAMILIES and config._attn_implementation == "sdpa"
        for config in configs
    )


def packed(ids: Int[Tensor, "rows time"], mask: Int[Tensor, "rows time"], pad_id: int) -> Packed:
    """Return rows that are padded at the right as one row without their padding."""
    lengths = mask.sum(1)
    rows = lengths.argsort(stable=True)
    real = mask[rows].bool()
    places = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
    known, counts = torch.unique_consecutive(lengths[rows], return_counts=True)
    filling = Stretch(ROUND - int(real.sum()) % ROUND, 1)
    return Packed(
        ids=F.pad(ids[rows][real], (0, filling.texts), value=pad_id)[None],
        places=F.pad(places[real], (0, filling.texts))[None],
        stretches=[*map(Stretch, counts.tolist(), known.tolist()), filling],
        rows=rows,
    )


def read_packed(
    backbone: nn.Module, batch: Packed, *, layers: bool
) -> "list[BaseModelOutputWithPooling]":
    """Return the output for each stretch but the filling, of a backbone for which `packs` holds."""
    from transformers.modeling_outputs import BaseModelOutputWithPooling

    with _attention_inside_texts(backbone):
        states = backbone(
            input_ids=batch.ids,
            position_ids=batch.places + first_position(backbone),
            output_hidden_states=layers,
            packed=batch,
        )
    hidden = states.hidden_states if layers else (states.last_hidden_state,)
    stretches = list(zip(*(batch.split(each[0]) for each in hidden), strict=True))
    pooler: Any = getattr(backbone, "pooler", None)
    return [
        BaseModelOutputWithPooling(
            last_hidden_state=stretch[-1],
            pooler_output=pooler(stretch[-1]) if pooler else None,
            hidden_states=stretch,
        )
        for stretch in stretches[:-1]
    ]


def attention(
    module: nn.Module,
    query: Float[Tensor, "1 heads tokens width"],
    key: Float[Tensor, "1 heads tokens width"],
    value: Float[Tensor, "1 heads tokens width"],
    mask: None,
    *,
    packed: Packed,
    dropout: float = 0.0,
    scaling: float | None = None,
    **_: Any,
) -> tuple[Float[Tensor, "1 tokens heads width"], None]:
    """Attention inside each text, as a function that transformers can register."""
    apart = (packed.split(states[0].transpose(0, 1)) for states in (query, key, value))
    mixed: list[Tensor] = []
    for stretch in zip(*apart, strict=True):
        q, k, v = (states.transpose(1, 2) for states in stretch)  # texts, heads, time, width
        context = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, scale=scaling)
        mixed.append(context.transpose(1, 2).flatten(0, 1))
    return torch.cat(mixed)[None], None


@contextmanager
def _attention_inside_texts(backbone: nn.Module) -> Generator[None]:
    """Let the backbone call `attention` inside this context."""
    from transformers import AttentionInterface

    AttentionInterface.register(ATTENTION_NAME, attention)
    configs = _configs(backbone)
    for config in configs:
        config._attn_implementation = ATTENTION_NAME
    try:
        yield
    finally:
        for config in configs:
            config._attn_implementation = "sdpa"


def _configs(backbone: nn.Module) -> list[Any]:
    """The configs of all modules: each layer reads its own, and a copied layer has a copy."""
    configs = (getattr(module, "config", None) for module in backbone.modules())
    return list({id(config): config for config in configs if config is not None}.values())
