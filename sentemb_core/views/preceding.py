"""The view of contrastive predictive coding: what stands before a sentence."""

from dataclasses import replace

import numpy as np

from sentemb_core.pairs.documents import Documents
from sentemb_core.views.batch import Draw, View, ViewMaker
from sentemb_core.views.joining import enough, joined, sentences_of, text_hashes
from sentemb_core.views.sentences import view_of


def preceding(max_tokens: int, *, special_tokens: bool) -> ViewMaker:
    """One text: the sentences before the drawn one, of which the nearest tokens stay.

    The pair source is `with_past`: the first sentence of a document has nothing before it.

    Args:
        max_tokens: Limit of the whole text, special tokens included.
        special_tokens: Every sentence begins and ends with one: the text keeps one of each.
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
