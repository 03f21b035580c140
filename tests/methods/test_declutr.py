"""DeCLUTR's spans: where they lie, how long they are, and which rows they become."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sentemb_core.config.methods import DeCLUTR
from sentemb_core.errors import RecipeError
from sentemb_core.methods.declutr import (
    anchor_spans,
    anchors_of,
    declutr,
    positive_spans,
    positives_of,
)
from tests import tiny
from tests.examples import at_least
from tests.methods.drawing import every_document, listed

PAPER = DeCLUTR()


def least_tokens(sampling: DeCLUTR) -> int:
    """Of a document whose anchors can be apart (declutr)."""
    return sampling.anchors * sampling.longest * 2


def test_a_document_needs_room_for_anchors_that_are_apart():
    method = declutr(DeCLUTR(anchors=2, shortest=2, longest=6, mlm=0.0), tiny.bert())
    corpus = tiny.corpus([1, 1, 1], special=False)
    corpus.sentences = [np.full(size, 5) for size in (23, 24, 25)]
    assert method.pairs(corpus, None).i.tolist() == [1, 2]


@st.composite
def samplings(draw):
    shortest = draw(st.integers(1, 6))
    return DeCLUTR.model_construct(
        anchors=draw(st.integers(1, 5)),
        positives=draw(st.integers(1, 3)),
        shortest=shortest,
        longest=shortest + draw(st.integers(0, 6)),
        strategy=draw(st.sampled_from(["any", "adjacent", "subsuming"])),
    )


@given(samplings(), st.integers(0, 30), st.integers(0, 999))
@at_least(150)
def test_spans_lie_in_the_document_and_positives_near_their_anchor(sampling, spare, seed):
    tokens, rng = least_tokens(sampling) + spare, np.random.default_rng(seed)
    anchors = anchors_of(tokens, sampling, rng)
    assert len(anchors) == sampling.anchors
    ordered = anchors[np.argsort(anchors[:, 0])]
    assert (ordered[1:, 0] - ordered[:-1, 1] >= sampling.longest).all()
    for start, stop in anchors.tolist():
        positives = positives_of((start, stop), tokens, sampling, rng)
        assert len(positives) == sampling.positives
        lengths = np.concatenate([[stop - start], positives[:, 1] - positives[:, 0]])
        assert (sampling.shortest <= lengths).all()
        assert (lengths <= sampling.longest).all()
        assert min(start, positives.min()) >= 0
        assert max(stop, positives.max()) <= tokens
        for a, b in positives.tolist():
            assert {
                "any": a <= stop and start <= b,
                "adjacent": a == stop or b == start,
                "subsuming": start <= a and b <= stop,
            }[sampling.strategy]


@pytest.mark.parametrize(
    ("anchor", "starts"),
    [((8, 12), range(5, 13)), ((1, 4), range(5)), ((16, 20), range(13, 18))],
    ids=["in the middle", "at the beginning", "at the end"],
)
def test_any_place_is_drawn_at_which_a_positive_touches_its_anchor(anchor, starts):
    sampling = DeCLUTR(anchors=1, positives=200, shortest=3, longest=3)
    drawn = positives_of(anchor, 20, sampling, np.random.default_rng(0))
    assert {*drawn[:, 0].tolist()} == {*starts}


@pytest.mark.parametrize(
    ("anchor", "where", "starts"),
    [
        ((8, 12), "adjacent", {5, 12}),
        ((1, 4), "adjacent", {4}),
        ((14, 17), "adjacent", {11, 17}),
        ((8, 12), "subsuming", {8, 9}),
    ],
)
def test_any_place_is_drawn_at_which_a_positive_lies_as_asked(anchor, where, starts):
    sampling = DeCLUTR(anchors=1, positives=60, shortest=3, longest=3, strategy=where)
    drawn = positives_of(anchor, 20, sampling, np.random.default_rng(0))
    assert {*drawn[:, 0].tolist()} == starts


@pytest.mark.parametrize(
    ("shortest", "starts"), [(3, {0, 3, 6, 9}), (2, {0, 1, 3, 4, 6, 7, 9, 10})]
)
def test_an_anchor_begins_at_any_place_at_which_it_lies_in_a_block(shortest, starts):
    sampling = DeCLUTR(anchors=1, positives=1, shortest=shortest, longest=3)
    rng = np.random.default_rng(0)
    drawn = [anchors_of(12, sampling, rng).tolist()[0] for _ in range(200)]
    assert {start for start, _ in drawn} == starts
    assert {stop - start for start, stop in drawn} == {shortest}


def test_anchors_are_352_tokens_long_and_positives_192_on_the_average():
    rng = np.random.default_rng(0)
    anchors, positives = [], []
    for _ in range(2000):
        found = anchors_of(5000, PAPER, rng)
        anchors.append(found)
        positives += [positives_of((a, b), 5000, PAPER, rng) for a, b in found.tolist()]
    length = [np.diff(np.concatenate(spans)).mean() for spans in (anchors, positives)]
    assert length == pytest.approx([352 - 0.5, 192 - 0.5], abs=4)  # a length is rounded down


@given(samplings(), st.booleans(), st.integers(0, 99))
@settings(max_examples=30)
def test_the_rows_of_a_view_are_its_spans_of_the_joined_document(sampling, special, seed):
    corpus = tiny.corpus([40, 50, 45], special=special)
    assume(min(len(text) for text in joined(corpus, special)) >= least_tokens(sampling))
    left, right = made(sampling, corpus, special, seed)
    for view in (left, right):
        for document, row in zip(view.document.tolist(), listed(view.tokens), strict=True):
            inner = row[1:-1] if special else row
            assert (row[0], row[-1]) == (2, 3) or not special
            assert contains(joined(corpus, special)[document], inner)
    assert left.group.tolist() == list(range(3 * sampling.anchors))
    assert right.owner.tolist() == np.repeat(left.group, sampling.positives).tolist()
    assert right.group.tolist() == right.owner.tolist()
    np.testing.assert_allclose(np.bincount(right.owner, right.weight), 1.0)


def made(sampling, corpus, special, seed):
    rng, draw = np.random.default_rng(seed), every_document(corpus)
    makers = (anchor_spans, positive_spans)
    return [make(sampling)(corpus, draw, rng) for make in makers]


def joined(corpus, special):
    inner = [row[1:-1] if special else row for row in corpus.sentences]
    bounds = zip(corpus.offsets, corpus.offsets[1:], strict=False)
    return [np.concatenate(inner[a:b]).tolist() for a, b in bounds]


def contains(text, part):
    return any(text[k : k + len(part)] == part for k in range(len(text) - len(part) + 1))


def test_positives_belong_to_the_anchors_of_their_own_step():
    """Both views draw the same spans, whatever the step's generator gave to other views."""
    corpus = tiny.corpus([60, 60])
    corpus.sentences = [np.array([2, 100 + k, 3]) for k in range(120)]
    sampling = DeCLUTR(anchors=2, positives=3, shortest=3, longest=10, strategy="subsuming")
    left, right = made(sampling, corpus, special=True, seed=3)
    for row, owner in zip(listed(right.tokens), right.owner.tolist(), strict=True):
        assert set(row) <= set(left.tokens[owner].tolist())
    for seed in (4, np.random.SeedSequence(3, spawn_key=(1,))):  # another run, another step
        again = made(sampling, corpus, special=True, seed=seed)
        assert listed(again[0].tokens) != listed(left.tokens)


def test_equal_spans_have_equal_texts_and_others_do_not():
    corpus = tiny.corpus([30, 30])
    corpus.sentences = [np.array([2, 5, 5, 3])] * 30 + [np.array([2, 6, 6, 3])] * 30
    sampling = DeCLUTR(anchors=2, positives=1, shortest=8, longest=8)
    left, right = made(sampling, corpus, special=True, seed=0)
    assert (left.text == right.text).all()
    assert len(set(left.text.tolist())) == 2


def test_lengths_that_contradict_are_refused():
    with pytest.raises(RecipeError, match=r"shortest 40, longest 32\b"):
        declutr(DeCLUTR(shortest=40, longest=32), tiny.bert())
