"""Which pairs each source yields, on corpora drawn at random."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sentemb_core.errors import RecipeError
from sentemb_core.pairs import sources
from sentemb_core.pairs.table import Annotation
from tests import tiny


@st.composite
def corpora(draw):
    counts = draw(st.lists(st.integers(1, 6), min_size=1, max_size=6))
    held = draw(st.sets(st.integers(0, len(counts) - 1)))
    return tiny.corpus(counts, held_out=tuple(held))


def listed(table):
    return sorted(zip(table.i.tolist(), table.j.tolist(), strict=True))


@given(corpora(), st.integers(1, 4))
@settings(deadline=None, max_examples=60)
def test_neighbours_are_all_sentences_within_the_window_of_a_document(corpus, window):
    document, held = corpus.document_of, corpus.held_out
    expected = [
        (i, j)
        for i in range(len(corpus))
        for j in range(i + 1, len(corpus))
        if j - i <= window and document[i] == document[j] and not held[document[i]]
    ]
    assert listed(sources.neighbours(window)(corpus, None)) == expected


@given(corpora())
@settings(deadline=None, max_examples=30)
def test_identity_pairs_every_trainable_sentence_with_itself(corpus):
    expected = [(k, k) for k, d in enumerate(corpus.document_of) if not corpus.held_out[d]]
    assert listed(sources.identity(corpus)) == expected


@given(corpora())
@settings(deadline=None, max_examples=30)
def test_a_cloze_query_has_a_rest_of_its_document(corpus):
    sizes = np.diff(corpus.offsets)
    expected = [
        (k, k) for k, d in enumerate(corpus.document_of) if not corpus.held_out[d] and sizes[d] >= 2
    ]
    assert listed(sources.cloze_queries(corpus)) == expected


def test_held_out_documents_yield_nothing_from_an_annotation():
    corpus = tiny.corpus([3, 3], held_out=(0,))
    labels = np.zeros(6, dtype=np.int32)
    annotation = Annotation(np.array([0, 1, 3]), np.array([1, 2, 5]), labels)
    assert listed(sources.cluster_pairs(corpus, annotation)) == [(3, 5)]


def test_cluster_pairs_without_an_annotation_are_refused():
    with pytest.raises(RecipeError, match=r"E303 .*no annotation was given: run annotate first"):
        sources.cluster_pairs(tiny.corpus([2, 2]), None)
