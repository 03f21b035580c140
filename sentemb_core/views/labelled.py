"""The two sides of a labelled pair, whose counterpart is the last sentence of its document.

A document of several labels has a copy for each. Rows bear the number of their original: what
people matched with one document is no negative of it.
"""

from dataclasses import replace

import numpy as np

from sentemb_core.pairs.documents import Documents
from sentemb_core.views.batch import Draw, View, ViewMaker
from sentemb_core.views.sentences import view_of


def counterpart(corpus: Documents, draw: Draw, _: np.random.Generator) -> View:
    """The last sentence of each document."""
    last = corpus.offsets[corpus.document_of[draw.first] + 1] - 1
    return _of_originals(corpus, view_of(corpus, last, draw.group))


def body(most: int) -> ViewMaker:
    """At most `most` sentences of each document, drawn anew at every step: their mean is unbiased.

    The rows of one document are parts of one sequence, all of the same weight. The pair source is
    `labelled_documents`: the first sentence stands for its document.
    """

    def view(corpus: Documents, draw: Draw, rng: np.random.Generator) -> View:
        document = corpus.document_of[draw.first]
        begins, ends = corpus.offsets[document], corpus.offsets[document + 1] - 1
        drawn = [
            np.sort(begin + rng.permutation(end - begin)[:most])
            for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
        ]
        sizes = np.array([len(rows) for rows in drawn])
        owner = np.repeat(np.arange(len(drawn)), sizes)
        sentences = view_of(corpus, np.concatenate(drawn), draw.group[owner])
        return replace(_of_originals(corpus, sentences), owner=owner, weight=1 / sizes[owner])

    return view


def _of_originals(corpus: Documents, view: View) -> View:
    return replace(view, document=corpus.original_of[view.document])
