"""Which pairs each source yields, on corpora drawn at random."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentemb_core.corpus.documents import PAIRS_SHARE
from sentemb_core.errors import EmptyPairsError, RecipeError
from sentemb_core.methods.parts import pairs as sources
from sentemb_core.methods.parts.pairs import LEAST_SHARE, Annotation
from tests import tiny


@st.composite
def corpora(draw):
    counts = draw(st.lists(st.integers(1, 6), min_size=1, max_size=6))
    held = draw(st.sets(st.integers(0, len(counts) - 1)))
    return tiny.corpus(counts, held_out=tuple(held))


def listed(table):
    return sorted(zip(table.i.tolist(), table.j.tolist(), strict=True))


@given(corpora(), st.integers(1, 4))
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
def test_sentences_and_documents_are_paired_with_themselves(corpus):
    """All sentences; those with a rest of the document; those with a past; the first ones."""
    sizes, firsts = np.diff(corpus.offsets), set(corpus.offsets[:-1].tolist())
    trainable = [(k, d) for k, d in enumerate(corpus.document_of) if not corpus.held_out[d]]
    for source, expected in (
        (sources.identity, [k for k, _ in trainable]),
        (sources.cloze_queries, [k for k, d in trainable if sizes[d] >= 2]),
        (sources.with_past, [k for k, _ in trainable if k not in firsts]),
        (sources.whole_documents, [k for k, _ in trainable if k in firsts]),
    ):
        assert listed(source(corpus)) == [(k, k) for k in expected]


@given(corpora(), st.integers(1, 30), st.booleans())
def test_a_long_document_has_as_many_content_tokens_as_asked_for(corpus, least, special):
    corpus.special_tokens = special
    bounds = corpus.offsets.tolist()
    tokens = [
        sum(len(corpus.sentences[k]) - 2 * special for k in range(a, b))
        for a, b in itertools.pairwise(bounds)
    ]
    expected = [
        (bounds[d], bounds[d])
        for d, held in enumerate(corpus.held_out)
        if not held and tokens[d] >= least
    ]
    source = sources.long_documents(least)
    if len(expected) >= 2:
        assert listed(source(corpus, None)) == expected
    else:
        with pytest.raises(EmptyPairsError, match=rf"{least} tokens.* found {len(expected)} of"):
            source(corpus, None)


def test_too_small_a_share_of_long_documents_is_refused():
    corpus = tiny.corpus([1] * 220 + [2] * 3, special=False)
    source = sources.long_documents(11)
    corpus.sentences = [np.full(6, 5)] * len(corpus)
    with pytest.raises(
        EmptyPairsError, match=r"2%.* found 3 of 223.* 12 tokens.* training\.method\.longest"
    ):
        source(corpus, None)


def test_documents_too_short_for_spans_give_one_warning(caplog: pytest.LogCaptureFixture):
    corpus = tiny.corpus([1, 2, 2, 1, 1], special=False)
    corpus.sentences = [np.full(6, 5)] * len(corpus)
    sources.long_documents(11)(corpus, None)
    assert [record.args for record in caplog.records] == [(3, 5, 11)]
    caplog.clear()
    sources.long_documents(6)(corpus, None)
    assert not caplog.records


def test_held_out_documents_yield_nothing_from_an_annotation():
    corpus = tiny.corpus([3, 3], held_out=(0,))
    labels = np.zeros(6, dtype=np.int32)
    annotation = Annotation(np.array([0, 1, 3]), np.array([1, 2, 5]), labels)
    assert listed(sources.cluster_pairs(corpus, annotation)) == [(3, 5)]


def test_cluster_pairs_without_an_annotation_are_refused():
    with pytest.raises(RecipeError, match="infocse_idc"):
        sources.cluster_pairs(tiny.corpus([2, 2]), None)


def test_corpus_and_training_need_the_same_share_of_pairs():
    assert PAIRS_SHARE == LEAST_SHARE
