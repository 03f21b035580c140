"""Corpora, texts and draws for makers of views."""

import numpy as np
from hypothesis import strategies as st

from sentemb_core.methods.parts.views import Draw, View
from tests import tiny

content_rows = st.lists(
    st.lists(st.integers(4, 78), min_size=0, max_size=40, unique=True), min_size=1, max_size=5
)


def every_sentence(corpus):
    everyone = np.arange(len(corpus))
    return Draw(everyone, everyone, everyone)


def every_document(corpus):
    firsts = corpus.offsets[:-1]
    return Draw(firsts, firsts, np.arange(len(firsts)))


def numbered(counts):
    """A corpus whose sentence k is the word k three times, so that texts can be read."""
    corpus = tiny.corpus(counts)
    corpus.sentences = [np.array([2, 10 + k, 10 + k, 10 + k, 3]) for k in range(len(corpus))]
    return corpus


def words(tokens):
    """Sentences of a text of a numbered corpus, without special tokens."""
    return list(dict.fromkeys((tokens[1:-1] - 10).tolist()))


def texts_of(*rows, special=False):
    """A view maker of fixed rows, independent of the draw, with or without special tokens."""
    tokens = [np.array(row, dtype=np.int64) for row in rows]
    labels = np.arange(len(rows))

    def view(*_):
        return View(tokens, labels, labels, labels, (int(special), int(special)))

    return view


def seen(maker, corpus=None, seed=0):
    """What a maker makes of every sentence of a corpus (or of nothing, for `texts_of`)."""
    corpus = corpus or tiny.corpus([1])
    return maker(corpus, every_sentence(corpus), np.random.default_rng(seed))


def listed(rows):
    return [row.tolist() for row in rows]


def framed(rows):
    """A maker of these rows between special tokens."""
    return texts_of(*([2, *row, 3] for row in rows), special=True)
