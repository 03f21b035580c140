"""CPC as in mutual (van den Oord et al. 2018): a sentence and the text before it."""

from dataclasses import replace

import numpy as np

from sentemb_core.config.methods import CPC
from sentemb_core.documents import Documents
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.methods.ict import context_tokens
from sentemb_core.methods.parts.heads import bilinear
from sentemb_core.methods.parts.info_nce import contrast
from sentemb_core.methods.parts.method import Method
from sentemb_core.methods.parts.pairs import with_past
from sentemb_core.methods.parts.views import (
    Draw,
    View,
    ViewMaker,
    alone,
    enough,
    joined,
    sentences_of,
    text_hashes,
    view_of,
)


def cpc(settings: CPC, encoder: Encoder) -> Method:
    """Positive: the text before the sentence, cut to its nearest tokens (mutual)."""
    past = preceding(
        context_tokens(settings.context_tokens, encoder), special_tokens=encoder.framed
    )
    term = contrast(
        "anchor",
        "positive",
        settings.temperature,
        encoder.similarity,
        bilinear=settings.bilinear,
    )
    return Method(
        name="cpc",
        pairs=with_past,
        views={"anchor": alone, "positive": past},
        terms={"contrast": (1.0, term)},
        networks=(lambda encoder: {"bilinear": bilinear(encoder.dim)})
        if settings.bilinear
        else None,
    )


def preceding(max_tokens: int, *, special_tokens: bool) -> ViewMaker:
    """Return a view that joins the sentences before the drawn one, cut to the nearest tokens.

    The pair source is `with_past`, since the first sentence of a document has no predecessor.

    Args:
        max_tokens: Limit of the joined text, special tokens included.
        special_tokens: Whether sentences start and end with one; the text keeps one at each end.
    """
    around = 2 * special_tokens
    budget = max_tokens - around

    def view(corpus: Documents, draw: Draw, _: np.random.Generator) -> View:
        lengths = corpus.uncut_lengths
        begins = corpus.offsets[corpus.document_of[draw.second]].tolist()
        before = [
            np.arange(stop - enough(lengths[begin:stop][::-1] - around, budget), stop)
            for begin, stop in zip(begins, draw.second.tolist(), strict=True)
        ]
        tokens = [
            joined(sentences, slice(-budget, None), special_tokens=special_tokens)
            for sentences in sentences_of(corpus, before)
        ]
        seen = view_of(corpus, draw.second, draw.group, tokens)
        return replace(seen, wording=text_hashes(tokens))

    return view
