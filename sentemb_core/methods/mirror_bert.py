"""Mirror-BERT (Liu et al. 2021): a sentence and itself with one masked span."""

import logging
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from sentemb_core.config.methods import MirrorBERT
from sentemb_core.documents import Documents, Tokens
from sentemb_core.encoder.encoder import Encoder, Reading
from sentemb_core.encoder.pooling import mean_pool
from sentemb_core.errors import RecipeError
from sentemb_core.methods.parts.info_nce import all_pairs
from sentemb_core.methods.parts.method import ForwardPass, Learner, Method, plainly
from sentemb_core.methods.parts.pairs import identity
from sentemb_core.methods.parts.tokenizer_tools import (
    mask_id,
    require_frame,
    spelt,
    vocabulary,
)
from sentemb_core.methods.parts.views import Draw, View, ViewMaker, first
from sentemb_core.methods.simcse import require_dropout

log = logging.getLogger(__name__)


def mirror_bert(settings: MirrorBERT, encoder: Encoder) -> Method:
    """NT-Xent over both views, with dropout or with dropped heads."""
    if settings.drophead:
        projections_of(encoder)  # a plan refuses what no forward could silence
    else:
        require_dropout(encoder, "mirror_bert")
    if settings.pooling == "mean_with_pads" and encoder.pooling != "mean":
        log.warning(
            "mirror_bert trains means over padding (method.pooling=mean_with_pads), but the "
            "encoder is validated and saved with pooling %s; set encoder.pooling=mean, or leave "
            "method.pooling out",
            encoder.pooling,
        )
    require_frame(encoder)
    hidden = span_masked(first, spelt(vocabulary(encoder)), mask_id(encoder), settings.span)
    term = all_pairs("anchor", "positive", settings.temperature)
    forward = read_by(settings)
    return Method(
        name="mirror_bert",
        pairs=identity,
        views={"anchor": first, "positive": hidden},
        forward_passes={"anchor": forward, "positive": forward},
        terms={"contrast": (1.0, term)},
        dropout=not settings.drophead,
    )


def read_by(settings: MirrorBERT) -> ForwardPass:
    """Return the forward pass: with dropped heads or not, with a mean over padding or not."""
    forward = drophead(settings.drophead) if settings.drophead else plainly
    return mean_with_pads(forward) if settings.pooling == "mean_with_pads" else forward


SHORTEST = 30
"""Minimum characters of a text; the official code masks nothing in shorter texts."""


def span_masked(text: ViewMaker, pieces: Sequence[str], mask_id: int, span: int = 5) -> ViewMaker:
    """Return a view with one mask in place of the tokens that a random span of characters touches.

    Deviation: the paper's span cuts words and leaves their stumps; here a touched token is replaced
    as a whole. The official code hides the first occurrence of the span's characters; here it is
    the drawn occurrence.

    `pieces` has every token id as it appears in a text (see `spelt`). A span of 0 hides nothing.
    """
    lengths = np.fromiter(map(len, pieces), np.int64, len(pieces))
    spaces = np.fromiter((piece.startswith(" ") for piece in pieces), np.int64, len(pieces))

    def ends(content: Tokens) -> Int64[np.ndarray, " pieces"]:
        """Return the number of characters up to the end of each piece."""
        return np.cumsum(lengths[content]) - spaces[content[:1]].sum()

    def view(corpus: Documents, draw: Draw, rng: np.random.Generator) -> View:
        seen = text(corpus, draw, rng)
        left, right = seen.frame
        chances = rng.random(len(seen)).tolist()
        tokens = [
            _hidden(row, left, ends(row[left : len(row) - right]), mask_id, span, chance)
            for row, chance in zip(seen.tokens, chances, strict=True)
        ]
        return replace(seen, tokens=tokens)

    return view


def _hidden(
    row: Tokens,
    begin: int,
    ends: Int64[np.ndarray, " pieces"],
    mask_id: int,
    span: int,
    chance: float,
) -> Tokens:
    """Return the row, with content from `begin` on, with the touched pieces replaced."""
    total = int(ends[-1]) if len(ends) else 0
    if span == 0 or total < SHORTEST or total <= span:
        return row
    start = int(chance * (total - span))
    first, last = np.searchsorted(ends, [start, start + span - 1], side="right").tolist()
    return np.concatenate([row[: begin + first], [mask_id], row[begin + last + 1 :]])


_PROJECTION = re.compile(r"\.(attention\.(output\.dense|attn\.o|out_lin|dense)|attn\.Wo)$")
"""Projections after attention of BERT, RoBERTa, MPNet, DistilBERT, ALBERT and ModernBERT."""


def drophead(rate: float) -> ForwardPass:
    """Return a forward pass that drops every head of every layer with probability `rate`, per row.

    As in the official code, the other heads of a row are scaled by heads / remaining. A row without
    remaining heads is 0 (there: NaN). It does not depend on train mode. The paper's rate is .2.
    """

    def forward(learner: Learner, ids: Tensor, mask: Tensor | None, layers: bool) -> Reading:
        with _silenced(learner.encoder, rate):
            return learner.encoder.read(ids, mask, layers=layers)

    return forward


@contextmanager
def _silenced(encoder: Encoder, rate: float) -> Generator[None]:
    """Hooks before every projection, as a context."""
    projections = projections_of(encoder)
    heads = int(cast(Any, encoder.backbone).config.num_attention_heads)

    def hook(_: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        return (without_heads(inputs[0], heads, rate), *inputs[1:])

    hooks = [projection.register_forward_pre_hook(hook) for projection in projections]
    try:
        yield
    finally:
        for registered in hooks:
            registered.remove()


def projections_of(encoder: Encoder) -> list[nn.Module]:
    """Return the projections after attention, layer by layer.

    Raises:
        RecipeError: the layers of the encoder are of an unknown kind.
    """
    layers = cast(nn.Module, encoder.backbone)
    found = [module for name, module in layers.named_modules() if _PROJECTION.search(name)]
    if not found:
        raise RecipeError(
            "Drophead needs a transformer with known attention layers; found "
            f"{type(encoder.backbone).__name__}. Use dropout or span masking"
        )
    return found


def without_heads(
    context: Float[Tensor, "rows time width"], heads: int, rate: float
) -> Float[Tensor, "rows time width"]:
    """Return the attention output with random heads set to 0 and the others scaled."""
    kept = (torch.rand(len(context), 1, heads, 1, device=context.device) >= rate).to(context.dtype)
    grown = kept * heads / kept.sum(2, keepdim=True).clamp(min=1)
    return (context.unflatten(2, (heads, -1)) * grown).flatten(2)


def mean_with_pads(read: ForwardPass = plainly) -> ForwardPass:
    """Return a forward pass with rows padded to `max_length` and a mean over all positions.

    Attention ignores padding, but the states of padding count. So a vector does not depend on the
    other rows of its batch, only on its own length.
    """

    def forward(learner: Learner, ids: Tensor, mask: Tensor | None, layers: bool) -> Reading:
        encoder, behind = learner.encoder, learner.encoder.max_length - ids.shape[1]
        real = torch.ones_like(ids) if mask is None else mask
        padded = F.pad(ids, (0, behind), value=encoder.pad_id)
        seen = read(learner, padded, F.pad(real, (0, behind)), True)
        return Reading(encoder.finished(mean_pool(seen.layers[-1])), seen.layers if layers else ())

    return forward
