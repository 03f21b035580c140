"""A whole document as one text."""

from dataclasses import replace

import numpy as np

from sentemb_core.pairs.documents import Documents
from sentemb_core.views.batch import Draw, View, ViewMaker
from sentemb_core.views.joining import enough, extents, joined, sentences_of, text_hashes
from sentemb_core.views.sentences import view_of


def whole(max_tokens: int, *, special_tokens: bool) -> ViewMaker:
    """The document of each drawn sentence from its beginning (the sequences of HiCL, hicl).

    The pair source is `whole_documents`: the first sentence stands for its document.

    Args:
        max_tokens: Limit of the whole text, special tokens included (hicl: 512).
        special_tokens: Every sentence begins and ends with one: the text keeps one of each.
    """
    around = 2 * special_tokens
    budget = max_tokens - around

    def view(corpus: Documents, draw: Draw, _: np.random.Generator) -> View:
        rows = [
            begin + np.arange(enough(corpus.uncut_lengths[begin:end] - around, budget))
            for begin, end in extents(corpus, corpus.document_of[draw.first])
        ]
        tokens = [
            joined(sentences, slice(budget), special_tokens=special_tokens)
            for sentences in sentences_of(corpus, rows)
        ]
        seen = view_of(corpus, draw.first, draw.group, tokens)
        return replace(seen, text=text_hashes(tokens))  # not the first sentence's

    return view
