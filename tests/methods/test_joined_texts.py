"""Texts made of several sentences: what stands before one, and whole documents."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentemb_core.config.methods import DeCLUTR
from sentemb_core.methods.cpc import preceding
from sentemb_core.methods.declutr import anchor_spans
from sentemb_core.methods.hicl import whole
from sentemb_core.methods.ict import context
from sentemb_core.methods.parts import pairs as sources
from sentemb_core.methods.parts.views import Draw, alone
from tests import tiny
from tests.methods.drawing import every_document, listed, numbered

documents = st.lists(st.integers(1, 6), min_size=1, max_size=5).filter(lambda c: max(c) > 1)


def queries(corpus):
    pairs = sources.with_past(corpus)
    return Draw(pairs.i, pairs.j, np.arange(len(pairs)))


def made(maker, corpus, draw):
    return maker(corpus, draw, np.random.default_rng(0))


def content(corpus, sentences, special):
    return [t for k in sentences for t in corpus.sentences[k][special : -1 if special else None]]


def content_of(tokens, special):
    """The tokens of a text between its two special tokens, if it has some."""
    if not special:
        return tokens.tolist()
    assert (tokens[0], tokens[-1]) == (2, 3)
    return tokens[1:-1].tolist()


@given(documents, st.integers(3, 40), st.booleans())
def test_what_precedes_a_query_ends_where_the_query_begins(counts, limit, special):
    corpus = tiny.corpus(counts, special=special)
    draw = queries(corpus)
    view = made(preceding(limit - 2 * special), corpus, draw)
    for k, tokens in zip(draw.second.tolist(), view.tokens, strict=True):
        past = content(corpus, range(corpus.offsets[corpus.document_of[k]], k), special)
        assert content_of(tokens, special) == past[-(limit - 2 * special) :]
        assert len(tokens) <= limit
    assert view.document.tolist() == corpus.document_of[draw.second].tolist()


@given(documents, st.integers(3, 40), st.booleans())
def test_a_whole_text_is_the_beginning_of_its_document(counts, limit, special):
    corpus = tiny.corpus(counts, special=special)
    view = made(whole(limit - 2 * special), corpus, every_document(corpus))
    for d, tokens in enumerate(view.tokens):
        text = content(corpus, range(corpus.offsets[d], corpus.offsets[d + 1]), special)
        assert content_of(tokens, special) == text[: limit - 2 * special]


def test_whole_texts_are_one_text_if_all_their_tokens_are():
    """Documents under one heading are rivals all the same; copies of a document are none."""
    corpus = tiny.corpus([2, 2, 2])
    one, other = corpus.sentences[:2], corpus.sentences[2:4]
    corpus.sentences = [*one, one[0], other[1], *one]
    view = made(whole(58), corpus, every_document(corpus))
    assert (view.text[:, None] == view.text).tolist() == [
        [True, False, True],
        [False, True, False],
        [True, False, True],
    ]


def test_a_sentence_alone_says_what_a_text_of_just_this_sentence_says():
    """Also one that is longer than what the encoder reads of a sentence."""
    corpus = replace(numbered([1, 1]), limit=3)
    draw = every_document(corpus)
    text = made(whole(58), corpus, draw)
    assert made(alone, corpus, draw).wording.tolist() == text.text.tolist()


@pytest.mark.parametrize(
    "maker",
    [
        whole(58),
        preceding(58),
        context(0.5, 58),
        anchor_spans(DeCLUTR(anchors=1, positives=1, shortest=6, longest=6)),
    ],
)
def test_a_text_of_several_sentences_is_joined_of_whole_ones(maker):
    """An encoder reads 3 tokens of a sentence; a longer text has all that its sentences have."""
    corpus = tiny.corpus([4, 6, 5])
    draw = Draw(*[corpus.offsets[1:] - 1] * 2, np.arange(3))
    read = made(maker, corpus, draw)
    cut = made(maker, replace(corpus, limit=3), draw)
    assert listed(cut.tokens) == listed(read.tokens)
    assert max(map(len, cut.tokens)) > 5
