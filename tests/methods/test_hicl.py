"""HiCL: slices of a text, their weights, and the terms over them."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sentemb_core.config.methods import HiCL
from sentemb_core.methods.hicl import hicl, segment_contrast, segment_counts, segments
from sentemb_core.methods.parts.info_nce import contrast
from sentemb_core.methods.parts.views import owners
from sentemb_core.methods.sncse import prompted
from tests import tiny
from tests.methods.batches import (
    GOLDEN,
    assert_same,
    batch,
    drawn,
    learner,
    seeds,
    slow_segments,
    tangled,
    view,
)
from tests.methods.drawing import framed, listed, seen, texts_of
from tests.methods.recipes import (
    PROMPT,
)
from tests.methods.steps import batch_of


def test_a_text_gives_as_many_segments_as_in_the_paper():
    """Golden: 1 + (|seq| - 1) // L of hicl, L = 32 over |seq| = 1, 31, 32, 33, 64, 65."""
    sizes = [1, 31, 32, 33, 64, 65]
    text = framed(range(100, 100 + size) for size in sizes)
    view = seen(segments(text, 32))
    assert np.bincount(view.owner).tolist() == [1, 1, 1, 2, 2, 3]


@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=6),
    st.integers(1, 20),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_segments_put_together_are_the_text(sizes, length, special, weighted, with_frame):
    ends = ([2], [3]) if special else ([], [])
    rows = [list(range(10, 10 + size)) for size in sizes]
    text = texts_of(*([*ends[0], *row, *ends[1]] for row in rows), special=special)
    beside = 2 * special * with_frame
    view = seen(segments(text, length, weighted=weighted, beside=beside))
    for k, row in enumerate(rows):
        mine = [listed(view.tokens)[place] for place in np.flatnonzero(view.owner == k)]
        assert all(part[:special] == ends[0] for part in mine)
        inner = [part[1:-1] if special else part for part in mine]
        assert [token for part in inner for token in part] == row
        assert all(len(part) == length for part in inner[:-1])
        counted = [len(part) for part in (mine if with_frame else inner)]
        shares = [count / sum(counted) if row else 1.0 for count in counted]
        expected = shares if weighted else [1 / len(inner)] * len(inner)
        np.testing.assert_allclose(view.weight[view.owner == k], expected)
    assert view.document.tolist() == view.group.tolist() == view.text.tolist()
    assert view.document.tolist() == view.owner.tolist()


def test_every_segment_carries_the_prompt():
    text = prompted(framed([range(10, 17)]), [7, 8], [9], 512)
    view = seen(segments(text, 3))
    assert listed(view.tokens) == [
        [2, 7, 8, 10, 11, 12, 9, 3],
        [2, 7, 8, 13, 14, 15, 9, 3],
        [2, 7, 8, 16, 9, 3],
    ]
    assert view.frame == (3, 2)


def test_segments_keep_the_group_and_the_text_of_their_source():
    """Not of their own: in batches of clusters, rows of one group are several texts."""
    rows = replace(seen(framed([range(10, 15), [20]])), group=np.array([7, 4]))
    view = seen(segments(lambda *_: rows, 2))
    assert view.owner.tolist() == [0, 0, 0, 1]
    assert view.group.tolist() == [7, 7, 7, 4]
    assert view.text.tolist() == rows.text[[0, 0, 0, 1]].tolist()


SENTENCE = np.array([2, 5, 6, 7, 3])
"""Three content tokens between two special ones."""


@pytest.mark.parametrize(
    ("longest", "counts"),
    [(24, [1, 1, 2, 4]), (10, [1, 1, 2, 2]), (8, [1, 1, 1, 1])],
)
def test_a_text_has_as_many_segments_as_hold_it(longest: int, counts: list[int]):
    """A segment of 8 holds two of these sentences; the last document is held out."""
    corpus = tiny.corpus([1, 2, 3, 9, 9], held_out=(4,))
    corpus.sentences = [SENTENCE] * len(corpus)
    found = segment_counts(HiCL(segment=8, longest=longest), tiny.bert(), corpus)
    assert found.tolist() == counts


OWNER = [0, 0, 0, 1, 2, 2, 3, 4, 4]


SLICED = view(
    [0, 0, 0, 1, 2, 2, 0, 3, 3], group=OWNER, text=[0, 0, 0, 1, 2, 2, 3, 2, 2], owner=OWNER
)  # sequence 3 comes from the document of sequence 0; 2 and 4 are one text of two documents


def segments_of(seed: int):
    """Five sequences sliced into 3, 1, 2, 1 and 2; a longer second view of the fourth."""
    longer = view(
        [0, 0, 0, 1, 2, 2, 0, 3, 3, 0],
        group=[*OWNER, 3],
        text=[0, 0, 0, 1, 2, 2, 3, 2, 2, 3],
        owner=[*OWNER, 3],
    )
    rows = batch(anchor=SLICED, positive=longer)
    return rows, drawn(rows, 5, seed=seed)


@seeds
@pytest.mark.parametrize("siblings", ["ignored", "negative", "positive"])
def test_the_local_term_equals_a_slow_loop(seed, siblings):
    rows, vectors = segments_of(seed)
    left, right = rows.views["anchor"], rows.views["positive"]
    for negatives, averaged in product(("second", "first"), (False, True)):

        def slow(v, negatives=negatives, averaged=averaged):
            views = v["anchor"], v["positive"], left, right
            return slow_segments(*views, (0.1, "cosine"), siblings, averaged, negatives=negatives)

        term = segment_contrast(
            *("anchor", "positive", 0.1),
            rivals={"second": None, "first": "anchor"}[negatives],
            siblings=siblings,
            averaged=averaged,
        )
        assert_same(term, slow, vectors, rows)


H = torch.tensor([[1, 0], [0, 1], [0.6, 0.8]], dtype=torch.float64)


OTHER = torch.tensor([[0.8, 0.6], [0.6, 0.8], [1, 0]], dtype=torch.float64)


SUMS = torch.tensor([[0.8, 0.2, 0], [0, 0, 1]], dtype=torch.float64)


TWO_TEXTS = view([0, 0, 1], group=[0, 0, 1], text=[0, 0, 1], owner=[0, 0, 1])


def values_of_hicl(**settings) -> dict[str, tuple[float, float]]:
    """Weight and value of each term that a recipe joins, on the golden example."""
    method = hicl(HiCL(**settings), tiny.bert())
    vectors = {"anchor": SUMS @ H, "positive": SUMS @ OTHER}
    vectors |= {"anchor segments": H, "positive segments": OTHER}
    rows = batch(
        **{"anchor": owners(TWO_TEXTS), "positive": owners(TWO_TEXTS)},
        **{"anchor segments": TWO_TEXTS, "positive segments": replace(TWO_TEXTS)},
    )
    return {
        name: (weight, term(vectors, rows, learner())[0].item())
        for name, (weight, term) in method.terms.items()
    }


def test_hicl_has_its_golden_values():
    found = values_of_hicl(alpha=0.05)
    total = sum(weight * value for weight, value in found.values())
    assert total == pytest.approx(GOLDEN["hicl_total"], abs=1e-9)
    assert found.pop("local") == pytest.approx((0.05, GOLDEN["hicl_local"]), abs=1e-9)
    assert list(found.values()) == [pytest.approx((0.95, GOLDEN["hicl_global"]), abs=1e-9)]
    _, harder = values_of_hicl(siblings="negative")["local"]
    assert harder == pytest.approx(GOLDEN["hicl_local_same_sequence_negative"], abs=1e-9)


def test_hicl_v2_has_its_golden_entailment():
    """Segments choose among the sums of their own view."""
    found = values_of_hicl(beta=0.1)
    assert found["entailment"] == pytest.approx((0.1, GOLDEN["hicl_entail"]), abs=1e-9)


@seeds
@pytest.mark.parametrize("siblings", ["ignored", "negative", "positive"])
def test_with_one_segment_a_text_the_local_term_is_plain_info_nce(seed, siblings):
    rows = tangled(seed)
    vectors = drawn(rows, 5)
    how = ("anchor", "positive", 0.05)
    plain, _ = contrast(*how)(vectors, rows, learner())
    term = segment_contrast(*how, siblings=siblings, averaged=True)
    torch.testing.assert_close(term(vectors, rows, learner())[0], plain, atol=1e-12, rtol=0)


def test_segments_need_not_stand_in_order():
    rows, vectors = segments_of(0)
    order = np.array([4, 0, 7, 3, 1, 6, 5, 8, 2])  # segments of one sequence keep theirs
    anchor = rows.views["anchor"]
    moved = replace(
        anchor,
        **{name: getattr(anchor, name)[order] for name in ("document", "group", "text", "owner")},
    )
    term = segment_contrast("anchor", "positive", 0.05)
    before, _ = term(vectors, rows, learner())
    shuffled = {**vectors, "anchor": vectors["anchor"][order]}
    after, _ = term(shuffled, batch(anchor=moved, positive=rows.views["positive"]), learner())
    torch.testing.assert_close(before, after, atol=1e-12, rtol=0)


def test_prompted_segments_hold_all_tokens_of_a_text():
    settings = {"segment": 18, "longest": 40, "base": {"name": "sncse", **PROMPT}}
    long = tiny.corpus([4] * 16)
    batch = batch_of("hicl", settings, documents=long)
    for name in ("anchor segments", "positive segments"):
        view = batch.views[name]
        assert max(map(len, view.tokens)) == tiny.bert().max_length
        for owner in range(12):
            mine = [view.tokens[row][3:-4] for row in np.flatnonzero(view.owner == owner)]
            document = int(view.document[view.owner == owner][0])
            sentences = long.sentences[long.offsets[document] : long.offsets[document + 1]]
            text = np.concatenate([sentence[1:-1] for sentence in sentences])
            assert np.concatenate(mine).tolist() == text[:38].tolist()
