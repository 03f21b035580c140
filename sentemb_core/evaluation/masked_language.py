"""Masked-language loss of a Condenser stage on held-out texts."""

from collections.abc import Mapping

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from sentemb_core.documents import Documents
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.errors import BadDataError
from sentemb_core.formats import counted
from sentemb_core.methods.parts.masked_language import MaskFiller, load_head, masked, masking
from sentemb_core.methods.parts.stored_head import HeadShape
from sentemb_core.methods.parts.transformer_layers import token_table
from sentemb_core.methods.parts.views import IGNORED, Draw, first
from sentemb_core.types import Value

RATE = 0.15
"""Share of masked tokens, as in BERT."""

SEED = 0
"""Seed of the masks: all encoders predict the same tokens."""


class MaskedLanguage(Value):
    """Mean -log p of a masked token, in nats, by three predictors.

    late: the encoder's last layer.
    condensed: the Condenser's head, from early states and the sentence vector.
    unigram: token frequencies in the training corpus; every trained network should be better.
    """

    late: float
    condensed: float
    unigram: float
    tokens: int


@torch.no_grad()
def masked_language(
    encoder: Encoder,
    head: Mapping[str, Tensor],
    shape: HeadShape,
    corpus: Documents,
    counts: Int64[np.ndarray, " vocabulary"],
) -> MaskedLanguage:
    """Return the losses of all predictors on the same masks of held-out sentences.

    `head` is the state dict of the Condenser stage's `MaskFiller`, `counts` the frequency of each
    token in the training corpus.

    Raises:
        BadDataError: no token was masked.
        RecipeError: the head does not fit the encoder.
    """
    table = token_table(encoder)
    filler = MaskFiller(encoder, shape.layers).to(table.device).eval()
    load_head(filler, head)
    everything = np.arange(len(corpus.document_of))
    noise = masking(encoder, RATE)
    hide = masked(first, noise)
    hidden = hide(corpus, Draw(everything, everything, everything), np.random.default_rng(SEED))
    targets = hidden.targets or []
    chosen = np.concatenate([row[row != IGNORED] for row in targets])
    if not len(chosen):
        raise BadDataError(
            f"A masked loss needs masked tokens; {counted(len(everything), 'sentence')} at rate "
            f"{RATE} gave none. Take more sentences."
        )
    plain = counts.copy()
    plain[list(noise.special)] = 0  # special tokens are never masked
    late = condensed = 0.0
    for ids, wanted in zip(hidden.tokens, targets, strict=True):
        row, goal = (torch.from_numpy(array)[None].to(table.device) for array in (ids, wanted))
        reading = encoder.read(row, layers=True)
        late += float(filler.language.loss(reading.layers[-1], goal, table))
        early = reading.layers[shape.below]
        condensed += float(filler.loss(reading.pooled, early, torch.ones_like(row), goal, table))
    return MaskedLanguage(
        late=late / len(chosen),
        condensed=condensed / len(chosen),
        unigram=unigram_loss(plain, chosen),
        tokens=len(chosen),
    )


def unigram_loss(
    counts: Int64[np.ndarray, " vocabulary"], tokens: Int64[np.ndarray, " n"]
) -> float:
    """Return the mean -log of the tokens' shares, with add-one smoothing."""
    shares = (counts + 1) / (counts.sum() + len(counts))
    return float(-np.log(shares[tokens]).mean())
