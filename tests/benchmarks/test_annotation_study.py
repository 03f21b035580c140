"""The study: what picks the pairs of each round, and whom a document is drawn with."""

import os
from typing import cast
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sentemb_core.corpus.tokens import TokenCorpus
from sentemb_core.pairs.table import PairTable
from tests import tiny

with mock.patch.dict(os.environ):  # a study sets its own threads for the process
    from benchmarks.annotation_study import Budget, compared, hits, parts_of, share, way_of
    from benchmarks.annotation_summary import differences, summary
    from benchmarks.annotation_variants import ASKED, PAPER, SCHEDULES, VARIANTS, Seen

Cell = dict[str, list[int]]


def test_a_schedule_keeps_its_last_way():
    found = parts_of("neighbours, then cluster pairs", 3)
    assert found == ["neighbours only", PAPER, PAPER]
    assert parts_of(PAPER, 2) == [PAPER, PAPER]
    assert parts_of(None, 2) == []
    assert len(parts_of("cluster pairs, annotated every 100 steps", 2)) == 8


def test_a_row_may_train_for_longer():
    assert way_of("neighbours only, 1.1 times the steps") == ("neighbours only", 1.1)
    assert way_of("cluster pairs, temperature .1") == ("cluster pairs, temperature .1", 1.0)


def test_every_way_of_a_schedule_is_known():
    assert {way for schedule in SCHEDULES.values() for way in schedule} <= set(VARIANTS)


def seen_of_topics() -> Seen:
    """Sixty documents of eight sentences, each of one of three topics of twelve."""
    rng = np.random.default_rng(0)
    topics = np.concatenate([rng.choice(rng.choice(12, 3, replace=False), 8) for _ in range(60)])
    near = np.eye(12)[topics] + 0.2 * rng.normal(size=(len(topics), 12))
    vectors = (near / np.linalg.norm(near, axis=1, keepdims=True)).astype(np.float32)
    return Seen(cast(TokenCorpus, tiny.corpus([8] * 60)), vectors, 200, rng)


@pytest.mark.parametrize("variant", [*VARIANTS, *ASKED])
def test_a_variant_pairs_two_sentences_of_one_document_but_where_it_says_so(variant: str):
    seen = seen_of_topics()
    pairs = (VARIANTS | ASKED)[variant](seen)
    document = seen.corpus.document_of
    assert len(pairs) > 0
    assert (pairs.i != pairs.j).all()
    across = (document[pairs.i] != document[pairs.j]).mean()
    assert across == (0.25 if variant == "positives of other documents" else 0)


def test_a_mixture_is_all_of_the_first_where_the_other_has_no_pairs():
    seen = seen_of_topics()
    one, none = seen.neighbours, PairTable(*np.empty((2, 0), np.int64))
    mixed = seen.mixed(one, none, 0.5)
    assert len(mixed) == seen.count
    assert (mixed.j - mixed.i == 1).all()


def test_a_budget_changes_a_static_encoders_steps_alone():
    short, long = (Budget(rounds=1, long=chosen) for chosen in (False, True))
    steps = [budget.settings("static")["training"]["steps"] for budget in (short, long)]
    assert steps == [400, 1_200]
    assert short.settings("minilm") == long.settings("minilm")
    assert [str(short), str(Budget(rounds=2, long=True))] == ["", "-2-rounds-long"]


def test_a_budget_may_have_an_initialiser_of_its_own():
    later = Budget(rounds=2, long=False, initialiser=1_600)
    assert later.settings("transformer")["initialiser"]["steps"] == 1_600
    assert (str(later), later.start) == ("-2-rounds-after-1600", "-after-1600")


def cell(there: np.ndarray, back: np.ndarray) -> Cell:
    """Ranks of both directions, as the study keeps them."""
    return {"there": there.tolist(), "back": back.tolist()}


def width(one: Cell, other: Cell, counterpart: np.ndarray) -> float:
    """Of the interval of their difference in hits among five."""
    told, _ = compared(*(hits([side], 5, counterpart) for side in (one, other)))
    low, high = told.strip("*").rstrip(")").partition("(")[2].split(" to ")
    return float(high) - float(low)


def test_the_two_directions_of_a_pair_are_no_two_queries():
    """Both find each other or neither does: the interval is that of one direction alone."""
    one, other = np.random.default_rng(0).integers(1, 11, (2, 40))
    found = width(cell(one, one), cell(other, other), np.arange(40))
    deviation = ((one <= 5) - 1.0 * (other <= 5)).std() / 40**0.5
    assert found == pytest.approx(2 * 1.96 * deviation, rel=0.1)


def test_the_documents_of_one_counterpart_are_drawn_together():
    sides = np.random.default_rng(1).integers(1, 11, (2, 10))
    together = width(*(cell(np.repeat(one, 4), one) for one in sides), np.repeat(np.arange(10), 4))
    once = width(*(cell(one, one) for one in sides), np.arange(10))
    assert together == pytest.approx(once)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=30), st.integers(0, 2**32 - 1))
def test_their_mean_is_that_of_the_two_directions_recalls(drawn: list[int], seed: int):
    counterpart = np.unique(drawn, return_inverse=True)[1]
    rng = np.random.default_rng(seed)
    found = cell(rng.integers(1, 11, len(drawn)), rng.integers(1, 11, counterpart.max() + 1))
    expected = np.mean([share(found[way], 5) for way in ("there", "back")])
    assert hits([found], 5, counterpart).mean() == pytest.approx(expected)


def test_tables_stand_side_by_side():
    """By hand: a way that is better once, worse once, and one that a corpus lacks."""
    rule = "| positives | there | back | both |\n| --- | --- | --- | --- |\n"
    blog = "| edges | .1 | .2 | **+0.010 (+0.001 to +0.019)** |\n| paper | .1 | .1 |  |"
    arxiv = "| edges | .1 | .2 | **-0.010 (-0.019 to -0.001)** |\n| neighbours only | .1 | .1 |  |"
    found = {("static", "blog_usgov"): rule + blog, ("minilm", "sci_arxiv_cs"): rule + arxiv}
    made = summary({place: differences(table) for place, table in found.items()})
    assert made.splitlines()[0] == "| positives | better | worse | static, blog | MiniLM, arXiv |"
    assert made.splitlines()[2:] == [
        "| neighbours only | 0 | 0 |  | baseline |",
        "| edges | 1 | 1 | **+0.010** | **-0.010** |",
        "| paper | 0 | 0 | baseline |  |",
    ]
