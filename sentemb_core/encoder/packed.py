"""Texts of many lengths through a transformer as one row of tokens: no padding, one pass.

Matrix products, norms and dropout see all tokens of a batch at once; attention stays inside each
text, equal lengths together. Measured on CPUs alone (`benchmarks/training.py --peers`): to a GPU
attention length by length is many small calls, so it reads padded rows.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from sentemb_core.encoder.positions import first_position

if TYPE_CHECKING:
    from transformers.modeling_outputs import BaseModelOutputWithPooling

FAMILIES = frozenset({"bert", "camembert", "distilbert", "electra", "roberta", "xlm-roberta"})
"""Model types that know a token's place by its position alone and call the attention of
transformers' registry. Others (relative places, windows) read padded rows."""

ROUND = 128
"""Tokens are filled up to a multiple of it: oneDNN compiles a bfloat16 product anew for every
number of rows, and keeps 1,024 of them."""

NAME = "sentemb_packed"


@dataclass(frozen=True)
class Stretch:
    """Neighbouring texts of one length."""

    texts: int
    length: int


@dataclass(frozen=True)
class Packed:
    """The rows of a batch as one row.

    Attributes:
        ids: All tokens, texts by rising length; behind them the filling, which means nothing.
        places: Of every token in its text.
        stretches: Texts of one length each; the last is the filling, texts of one token.
        rows: Which row of the batch every text is.
    """

    ids: Int[Tensor, "1 tokens"]
    places: Int[Tensor, "1 tokens"]
    stretches: Sequence[Stretch]
    rows: Int[Tensor, " texts"]

    def split(self, all_tokens: Shaped[Tensor, "tokens ..."]) -> list[Tensor]:
        """Stretch by stretch, each [texts, time, ...]."""
        parts = all_tokens.split([stretch.texts * stretch.length for stretch in self.stretches])
        apart = zip(self.stretches, parts, strict=True)
        return [part.unflatten(0, (stretch.texts, stretch.length)) for stretch, part in apart]


def packs(backbone: nn.Module) -> bool:
    """Whether `read_packed` gives what padded rows would give."""
    configs = _configs(backbone)
    return bool(configs) and all(
        config.model_type in FAMILIES and config._attn_implementation == "sdpa"
        for config in configs
    )


def packed(ids: Int[Tensor, "rows time"], mask: Int[Tensor, "rows time"], pad_id: int) -> Packed:
    """Rows padded at the right, without their padding."""
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
    """What the backbone says of each stretch but the filling, in its own words.

    Args:
        backbone: One that `packs`.
        batch: What it reads.
        layers: Whether to return the states of all layers.
    """
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
    """Every text looks at its own tokens: an attention function as transformers registers them."""
    apart = (packed.split(states[0].transpose(0, 1)) for states in (query, key, value))
    mixed: list[Tensor] = []
    for stretch in zip(*apart, strict=True):
        q, k, v = (states.transpose(1, 2) for states in stretch)  # texts, heads, time, width
        seen = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, scale=scaling)
        mixed.append(seen.transpose(1, 2).flatten(0, 1))
    return torch.cat(mixed)[None], None


@contextmanager
def _attention_inside_texts(backbone: nn.Module) -> Generator[None]:
    """The backbone calls `attention`, while it lasts."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, attention)
    configs = _configs(backbone)
    for config in configs:
        config._attn_implementation = NAME
    try:
        yield
    finally:
        for config in configs:
            config._attn_implementation = "sdpa"


def _configs(backbone: nn.Module) -> list[Any]:
    """Every layer asks its own which attention to call; a copied layer has a copy of it."""
    found = (getattr(module, "config", None) for module in backbone.modules())
    return list({id(config): config for config in found if config is not None}.values())
