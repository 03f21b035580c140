"""Whether a Condenser stage learnt language: masked tokens of texts that it never saw."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from sentemb_core.documents import Documents
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.errors import BadDataError
from sentemb_core.formats import counted
from sentemb_core.methods.parts.masked_language import MaskFiller, load_head
from sentemb_core.methods.parts.masking import masked
from sentemb_core.methods.parts.stored_head import HeadShape
from sentemb_core.methods.parts.tokenizer_tools import masking
from sentemb_core.methods.parts.transformer_layers import token_table
from sentemb_core.methods.parts.views import IGNORED, Draw, first
from sentemb_core.types import Value

RATE = 0.15
"""Share of tokens that are chosen: BERT's."""

SEED = 0
"""Of the choice: every encoder tells the same tokens."""


class MaskedLanguage(Value):
    """Mean -log p of a masked token, in nats, by who tells it.

    late: the encoder's last layer. condensed: the Condenser's head, from early states and the
    sentence vector. unigram: the shares of the tokens that can be masked, in the corpus that they
    learnt from, which a network that learnt anything at all beats.
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
    """Losses on the same masks, sentence by sentence.

    Args:
        encoder: Of a Condenser stage.
        head: State dict of the `MaskFiller` that the stage left.
        shape: Of that head.
        corpus: Sentences that the stage did not read.
        counts: How often what it read has each token.

    Raises:
        BadDataError: No token was chosen.
        RecipeError: The head does not fit the encoder.
    """
    table = token_table(encoder)
    filler = MaskFiller(encoder, shape.layers).to(table.device).eval()
    load_head(filler, head, random_head=False)
    everything = np.arange(len(corpus.document_of))
    noise = masking(encoder, RATE)
    hide = masked(first, noise)
    hidden = hide(corpus, Draw(everything, everything, everything), np.random.default_rng(SEED))
    targets = hidden.targets or []
    chosen = np.concatenate([row[row != IGNORED] for row in targets])
    if not len(chosen):
        raise BadDataError(
            f"A masked loss needs masked tokens; {counted(len(everything), 'sentence')} at rate "
            f"{RATE} gave none: take more sentences."
        )
    late = condensed = 0.0
    for ids, wanted in zip(hidden.tokens, targets, strict=True):
        row, goal = (torch.from_numpy(one)[None].to(table.device) for one in (ids, wanted))
        reading = encoder.read(row, layers=True)
        late += float(filler.language.loss(reading.layers[-1], goal, table))
        early = reading.layers[shape.below]
        condensed += float(filler.loss(reading.pooled, early, torch.ones_like(row), goal, table))
    return MaskedLanguage(
        late=late / len(chosen),
        condensed=condensed / len(chosen),
        unigram=unigram_loss(without(counts, noise.special), chosen),
        tokens=len(chosen),
    )


def without(
    counts: Int64[np.ndarray, " vocabulary"], special: Sequence[int]
) -> Int64[np.ndarray, " vocabulary"]:
    """Counts in which these ids, which are never asked for, do not occur."""
    told = counts.copy()
    told[list(special)] = 0
    return told


def unigram_loss(
    counts: Int64[np.ndarray, " vocabulary"], tokens: Int64[np.ndarray, " n"]
) -> float:
    """Mean -log of the tokens' shares, each counted once more (Laplace)."""
    shares = (counts + 1) / (counts.sum() + len(counts))
    return float(-np.log(shares[tokens]).mean())
