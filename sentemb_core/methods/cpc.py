"""CPC as in mutual (van den Oord et al. 2018): a sentence and the text before it."""

from dataclasses import replace

import numpy as np

from sentemb_core.config.methods import CONPONO, CPC
from sentemb_core.documents import Documents
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.methods.conpono import conpono
from sentemb_core.methods.ict import context_tokens
from sentemb_core.methods.parts.method import Method
from sentemb_core.methods.parts.pairs import with_past
from sentemb_core.methods.parts.views import (
    Draw,
    View,
    ViewMaker,
    alone,
    content_lengths,
    enough,
    joined_texts,
    text_hashes,
    view_of,
)


def cpc(settings: CPC, encoder: Encoder) -> Method:
    """Positive: the text before the sentence, cut to its nearest tokens; the loss of CONPONO."""
    how = CONPONO(temperature=settings.temperature, bilinear=settings.bilinear)
    past = preceding(context_tokens(settings.context_tokens, encoder) - 2 * encoder.framed)
    views = {"anchor": alone, "positive": past}
    return replace(conpono(how, encoder), name="cpc", pairs=with_past, views=views)


def preceding(most: int) -> ViewMaker:
    """Return a view that joins the sentences before the drawn one: the nearest `most` tokens.

    The pair source is `with_past`, since the first sentence of a document has no predecessor.
    """

    def view(corpus: Documents, draw: Draw, _: np.random.Generator) -> View:
        begins = corpus.offsets[corpus.document_of[draw.second]].tolist()
        before = [
            np.arange(stop - enough(content_lengths(corpus, begin, stop)[::-1], most), stop)
            for begin, stop in zip(begins, draw.second.tolist(), strict=True)
        ]
        tokens = joined_texts(corpus, before, [slice(-most, None)] * len(before))
        seen = view_of(corpus, draw.second, draw.group, tokens)
        return replace(seen, wording=text_hashes(tokens))

    return view
