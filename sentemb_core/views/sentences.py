"""Views that are the drawn sentences themselves."""

import numpy as np
from jaxtyping import Int64

from sentemb_core.pairs.documents import Documents, Tokens
from sentemb_core.views.batch import Draw, View


def first(corpus: Documents, draw: Draw, _: np.random.Generator) -> View:
    """The first sentence of every row."""
    return view_of(corpus, draw.first, draw.group)


def second(corpus: Documents, draw: Draw, _: np.random.Generator) -> View:
    """The second sentence of every row."""
    return view_of(corpus, draw.second, draw.group)


def view_of(
    corpus: Documents,
    sentences: Int64[np.ndarray, " rows"],
    group: Int64[np.ndarray, " rows"],
    tokens: list[Tokens] | None = None,
) -> View:
    """A view made from these sentences; `tokens` replaces their own."""
    return View(
        tokens=corpus.tokens(sentences) if tokens is None else tokens,
        document=corpus.document_of[sentences],
        group=group,
        text=corpus.text_hashes[sentences],
    )
