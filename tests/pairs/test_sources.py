"""Which pairs each source yields, on corpora drawn at random."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
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


@given(corpora())
@settings(deadline=None, max_examples=30)
def test_a_sentence_with_a_past_is_not_the_first_of_its_document(corpus):
    firsts = set(corpus.offsets[:-1].tolist())
    trainable = ~corpus.held_out[corpus.document_of]
    expected = [(k, k) for k in range(len(corpus)) if trainable[k] and k not in firsts]
    assert listed(sources.with_past(corpus)) == expected


@given(corpora())
@settings(deadline=None, max_examples=30)
def test_a_whole_document_is_named_once_by_its_first_sentence(corpus):
    firsts = corpus.offsets[:-1][~corpus.held_out].tolist()
    assert listed(sources.whole_documents(corpus)) == [(k, k) for k in firsts]


@given(corpora(), st.integers(1, 30), st.booleans())
@settings(deadline=None, max_examples=60)
def test_a_long_document_has_as_many_content_tokens_as_asked_for(corpus, least, special):
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
    source = sources.long_documents(least, special_tokens=special)
    if len(expected) >= 2:
        assert listed(source(corpus, None)) == expected
    else:
        with pytest.raises(EmptyPairsError, match=rf"{least} tokens.* found {len(expected)} of"):
            source(corpus, None)


def test_documents_too_short_for_spans_are_refused_with_the_longest_there_is():
    corpus = tiny.corpus([2, 2])
    corpus.sentences = [np.array([2, 5, 6, 3])] * 4
    with pytest.raises(EmptyPairsError, match=r"2048 tokens.* found 0 of 2.* 4 tokens"):
        sources.long_documents(2048, special_tokens=True)(corpus, None)


def test_few_documents_long_enough_for_spans_are_told_the_setting_and_not_the_splitter():
    corpus = tiny.corpus([1] * 220 + [2] * 3)
    source = sources.long_documents(11, special_tokens=False)
    corpus.sentences = [np.full(6, 5)] * len(corpus)
    with pytest.raises(EmptyPairsError, match=r"2%.* found 3 of 223.* 12 tokens"):
        source(corpus, None)


def test_documents_too_short_for_spans_are_counted_once(caplog: pytest.LogCaptureFixture):
    corpus = tiny.corpus([1, 2, 2, 1, 1])
    corpus.sentences = [np.full(6, 5)] * len(corpus)
    sources.long_documents(11, special_tokens=False)(corpus, None)
    assert [record.args for record in caplog.records] == [(3, 5, 11)]
    caplog.clear()
    sources.long_documents(6, special_tokens=False)(corpus, None)
    assert not caplog.records


def test_held_out_documents_yield_nothing_from_an_annotation():
    corpus = tiny.corpus([3, 3], held_out=(0,))
    labels = np.zeros(6, dtype=np.int32)
    annotation = Annotation(np.array([0, 1, 3]), np.array([1, 2, 5]), labels)
    assert listed(sources.cluster_pairs(corpus, annotation)) == [(3, 5)]


def test_cluster_pairs_without_an_annotation_are_refused():
    with pytest.raises(RecipeError):
        sources.cluster_pairs(tiny.corpus([2, 2]), None)


def test_a_corpus_is_refused_where_its_training_would_be():
    """One number in two files: as an import it would make every corpus be read anew."""
    assert PAIRS_SHARE == LEAST_SHARE
