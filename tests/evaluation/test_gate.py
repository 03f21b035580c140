"""The gate: what is never promoted, for twenty seeds each, and what is."""

import functools
import re

import numpy as np
import pytest

from sentemb_core.config.run import GateConfig
from sentemb_core.errors import BadDataError
from sentemb_core.evaluation.diagnostics import shape_of
from sentemb_core.evaluation.gate import (
    RULES,
    GateDecision,
    Queries,
    gain_level,
    gate,
    other_width,
)
from sentemb_core.evaluation.ranking import Relevant, ranks_of_relevant
from tests.repository import ROOT

QUERIES, POOL, DIM = 700, 2_300, 48  # as in the demo's corpus
NOISE = 1.8
SEEDS = range(20)
NIGHTS = 365


class World:
    """Documents that are noisy copies of their counterparts: Recall@5 near .7."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.candidates = self.noise(POOL)
        self.champion = self.candidates + NOISE * self.noise(POOL)

    def noise(self, n: int) -> np.ndarray:
        return self.rng.standard_normal((n, DIM)).astype(np.float32)

    def ranks(self, documents: np.ndarray, candidates: np.ndarray | None = None) -> np.ndarray:
        own = Relevant(np.arange(QUERIES), np.arange(QUERIES), np.arange(QUERIES + 1))
        candidates = self.candidates if candidates is None else candidates
        return ranks_of_relevant(documents, candidates, own, np.arange(POOL)).rank


def changed(ranks: np.ndarray, rng: np.random.Generator, gain: float, churn: float) -> np.ndarray:
    """Other ranks: `churn` of the queries flip in and out of the first five, `gain` more in."""
    hits = ranks <= 5
    enter = rng.permutation(np.flatnonzero(~hits))[: round((churn + gain) * len(ranks) / 2)]
    leave = rng.permutation(np.flatnonzero(hits))[: round((churn - gain) * len(ranks) / 2)]
    other = ranks.copy()
    other[enter], other[leave] = 1, 999
    return other


def decision(candidate: np.ndarray, champion: np.ndarray, collapsed: bool = False) -> GateDecision:
    return gate(candidate, champion, champion, collapsed=collapsed, seed=0)


def test_collapsed_encoders_are_never_promoted():
    for seed in SEEDS:
        world = World(seed)
        vectors = 1 + 0.01 * world.noise(POOL)
        shape = shape_of(vectors, seed)
        assert shape.collapsed
        ranks = world.ranks(vectors, 1 + 0.01 * world.noise(POOL))
        champion = world.ranks(world.champion)
        assert not decision(ranks, champion, shape.collapsed).promote
        assert not decision(ranks, champion).promote  # also by the ranks alone
        perfect = decision(np.ones_like(ranks), champion, shape.collapsed)
        assert not perfect.promote
        assert "collapsed" in perfect.reason


def test_encoders_of_shuffled_pairs_are_never_promoted():
    for seed in SEEDS:
        world = World(seed)
        shuffled = world.rng.permutation(world.champion)
        assert not decision(world.ranks(shuffled), world.ranks(world.champion)).promote


@pytest.mark.parametrize("churn", [0.02, 0.1, 0.2])
def test_encoders_one_point_worse_are_never_promoted(churn: float):
    for seed in SEEDS:
        world = World(seed)
        champion = world.ranks(world.champion)
        worse = changed(champion, world.rng, gain=-0.01, churn=churn)
        refused = decision(worse, champion)
        assert refused.difference == pytest.approx(-0.01, abs=0.003)
        assert not refused.promote


def test_equal_encoders_are_never_promoted():
    for seed in SEEDS:
        world = World(seed)
        champion = world.ranks(world.champion)
        assert not decision(champion.copy(), champion).promote
        twin = world.candidates + NOISE * world.noise(POOL)  # as good, with other mistakes
        assert not decision(world.ranks(twin), champion).promote


def test_better_encoders_are_promoted_19_times_out_of_20():
    """Six points better in truth, while one query in eight changes."""
    promoted = []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        easy = rng.random(QUERIES)
        champion = np.where(easy < 0.70, 1, 50)
        flipped = rng.random(QUERIES) < 0.05
        candidate = np.where(flipped ^ (easy < (0.76 - 0.05) / 0.9), 1, 50)  # .76 in truth
        promoted.append(decision(candidate, champion).promote)
    assert np.mean(promoted) >= 0.95


@pytest.mark.parametrize(("gain", "power"), [(0.06, 0.97), (0.04, 0.61)])
def test_power_with_700_queries_is_as_documented(gain: float, power: float):
    rng = np.random.default_rng(0)
    shares = [(1 / 8 + gain) / 2, (1 / 8 - gain) / 2, 7 / 8]
    promoted = []
    for won, lost, level in rng.multinomial(QUERIES, shares, size=800):
        champion = np.repeat([50, 1, 1], [won, lost, level])
        candidate = np.repeat([1, 50, 1], [won, lost, level])
        promoted.append(decision(candidate, champion).promote)
    assert np.mean(promoted) == pytest.approx(power, abs=0.04)


def test_without_a_champion_the_start_encoder_is_the_baseline():
    start = np.where(np.arange(QUERIES) < 0.2 * QUERIES, 1, 50)
    better = np.where(np.arange(QUERIES) < 0.5 * QUERIES, 1, 50)
    first = gate(better, None, start, collapsed=False, seed=0)
    assert first.promote
    assert "start encoder" in first.reason
    assert not gate(start.copy(), None, start, collapsed=False, seed=0).promote
    assert not gate(better, None, start, collapsed=True, seed=0).promote
    assert not gate(better, better, start, collapsed=False, seed=0).promote


def test_significant_gain_below_the_margin_is_refused():
    champion = np.full(QUERIES, 50)
    candidate = champion.copy()
    candidate[: QUERIES // 10] = 1
    assert decision(candidate, champion).promote
    rules = GateConfig(margin=0.1)
    refused = gate(candidate, champion, champion, collapsed=False, seed=0, rules=rules)
    assert not refused.promote
    assert refused.low > 0


def test_reason_has_both_scores_and_the_difference():
    champion = np.array([1] * 50 + [9] * 50)
    reason = decision(np.array([1] * 90 + [9] * 10), champion).reason
    for value in ("0.01", "95 %", "100 queries", "R@5", "0.900", "0.500", "+0.400 (+0."):
        assert value in reason


@pytest.mark.parametrize(
    ("queries", "level", "asked"),
    [(99, 0.95, "99.9 %"), (100, 0.95, "95 %"), (99, 0.9999, "99.99 %"), (100, 0.97, "97 %")],
)
def test_fewer_than_a_hundred_queries_need_the_stricter_level(
    queries: int, level: float, asked: str
):
    """Seven more queries of a hundred: enough for 95 %, and not for 99.9 %."""
    champion = np.full(queries, 50)
    candidate = np.where(np.arange(queries) < 7, 1, 50)
    rules = GateConfig(level=level)
    found = gate(candidate, champion, champion, collapsed=False, seed=0, rules=rules)
    assert gain_level(queries, rules) == pytest.approx(float(asked.removesuffix(" %")) / 100)
    assert found.promote is (queries == 100)
    for value in (f"{queries} queries", f"{asked} confidence"):
        assert value in found.reason
    raised = level == 0.95 and queries == 99
    assert ("below 100" in found.reason and "instead of 95 %" in found.reason) is raised


def test_a_floor_keeps_the_level_of_the_settings():
    """Below BM25 with 95 %, not with 99.9 %: still refused."""
    start, words = np.full(60, 50), np.ones(60, np.int64)
    candidate = np.where(np.arange(60) < 55, 1, 50)
    assert gate(candidate, start, start, collapsed=False, seed=0).promote
    floors = {"BM25": words}
    refused = gate(candidate, start, start, collapsed=False, seed=0, floors=floors)
    assert not refused.promote
    assert "BM25" in refused.reason


@pytest.mark.parametrize(("queries", "promoted"), [(0, False), (1, False), (29, False), (30, True)])
def test_promotion_needs_thirty_queries(queries: int, promoted: bool):
    first, last = np.ones(queries, np.int64), np.full(queries, 100)
    few = gate(first, None, last, collapsed=False, seed=0)
    assert few.promote == promoted
    assert few.low == (float(queries >= 6) if queries else -1.0)
    assert few.high == 1.0
    if 0 < queries < 30:
        for value in (f"has {queries}", "needs 30", "validation.candidates", "docs/serving.md"):
            assert value in few.reason


@functools.cache
def replaces(won: int, lost: int, queries: int, level: float) -> bool:
    """Whether a candidate with this many better and worse queries is promoted."""
    if won - lost <= RULES.margin * queries:
        return False
    counts = (won, lost, queries - won - lost)
    candidate, champion = np.repeat([1, 50, 1], counts), np.repeat([50, 1, 1], counts)
    rules = GateConfig(level=level)
    return gate(candidate, champion, champion, collapsed=False, seed=0, rules=rules).promote


def in_a_year(queries: int, level: float, rng: np.random.Generator) -> bool:
    """Whether the gate ever promotes one of 365 encoders that are as good as the champion.

    Every encoder finds half of the open queries, which are one in four; so two encoders differ in
    one query of eight.
    """
    open_queries = rng.binomial(queries, 1 / 4)
    champion = rng.random(open_queries) < 0.5
    candidates = rng.random((NIGHTS, open_queries)) < 0.5
    won, lost = (candidates & ~champion).sum(1), (champion & ~candidates).sum(1)
    pairs = set(zip(won.tolist(), lost.tolist(), strict=True))
    return any(replaces(*pair, queries, level) for pair in pairs)


YEAR = re.findall(
    r"^\| (\d+) \| (\.\d+) \| ([\d<.]+) % \| (\d+) % \| (\d+) % \|$",
    (ROOT / "docs/retriever.md").read_text("utf-8"),
    re.MULTILINE,
)


def test_the_page_of_the_gate_has_rows_of_few_and_many_queries():
    assert {(99, 0.95), (100, 0.95), (700, 0.95), (700, 0.999)} <= {
        (int(queries), float(level)) for queries, level, *_ in YEAR
    }


@pytest.mark.parametrize(("queries", "level", "night", "same", "other"), YEAR)
def test_chance_of_a_wrong_promotion_in_a_year_is_as_documented(
    queries: str, level: str, night: str, same: str, other: str
):
    n, rng = int(queries), np.random.default_rng(0)
    draws = rng.multinomial(n, [1 / 16, 1 / 16, 7 / 8], size=20_000).tolist()
    promoted = np.mean([replaces(won, lost, n, float(level)) for won, lost, _ in draws])
    years = np.mean([in_a_year(n, float(level), rng) for _ in range(200)])
    found = (
        f"{100 * promoted:.2f}" if promoted else "<.01",
        f"{100 * years:.0f}",
        f"{100 * (1 - (1 - promoted) ** NIGHTS):.0f}",
    )
    assert found == (night, same, other)


def test_ranks_of_different_splits_are_refused():
    with pytest.raises(BadDataError, match="4 and 5"):
        decision(np.ones(4, np.int64), np.ones(5, np.int64))


def test_what_is_below_a_floor_is_not_promoted():
    """Better than the champion by far, and yet below word search."""
    start, words = np.full(QUERIES, 50), np.ones(QUERIES, np.int64)
    candidate = np.where(np.arange(QUERIES) < QUERIES // 2, 1, 50)
    assert gate(candidate, start, start, collapsed=False, seed=0).promote
    floors = {"BM25": words, "the start encoder": start}
    refused = gate(candidate, start, start, collapsed=False, seed=0, floors=floors)
    assert not refused.promote
    assert "BM25" in refused.reason
    assert "and the start encoder" not in refused.reason.partition(". ")[0]
    level = gate(words, start, start, collapsed=False, seed=0, floors=floors)
    assert level.promote, "level with a floor"


def test_what_is_below_a_floor_in_one_direction_is_not_promoted():
    """Titles find their documents far better, documents their titles worse than word search."""
    queries = Queries(np.tile(np.arange(QUERIES), 2), np.repeat([0, 1], QUERIES))
    forward, backward = np.full(QUERIES, 50), np.ones(QUERIES, np.int64)
    candidate, start = np.append(forward, backward), np.full(2 * QUERIES, 50)
    words = np.append(np.where(np.arange(QUERIES) < QUERIES // 10, 1, 50), forward)
    free, refused = (
        gate(candidate, start, start, collapsed=False, seed=0, queries=queries, floors=floors)
        for floors in ({}, {"BM25": words})
    )
    assert (free.promote, refused.promote) == (True, False)
    assert refused.difference == free.difference == pytest.approx(0.5)


def test_documents_of_one_counterpart_do_not_promote_an_equal_encoder():
    """Forty counterparts of ten documents each: an encoder finds all documents of one, or none."""
    units = np.repeat(np.arange(40), 10)
    promoted = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        champion, candidate = (np.where(rng.random(40) < 0.9, 1, 50)[units] for _ in range(2))
        queries = Queries(units, np.zeros(len(units), np.int64))
        found = gate(candidate, champion, champion, collapsed=False, seed=0, queries=queries)
        assert found.difference == pytest.approx(np.mean(candidate == 1) - np.mean(champion == 1))
        promoted.append(found.promote)
    assert np.mean(promoted) <= 0.02


def test_level_and_metric_are_settings():
    champion = np.full(100, 50)
    candidate = champion.copy()
    candidate[:4] = 1
    strict, loose = (
        gate(
            candidate, champion, champion, collapsed=False, seed=0,
            rules=GateConfig(level=level, margin=0.0),
        )
        for level in (0.999, 0.9)
    )  # fmt: skip
    assert (strict.promote, loose.promote) == (False, True)
    assert strict.low < loose.low
    assert "99.9 %" in strict.reason
    second = np.full(QUERIES, 2)  # found as often, but never first
    first = np.ones(QUERIES, np.int64)
    by_recall, by_rank = (
        gate(first, second, second, collapsed=False, seed=0, rules=GateConfig(metric=metric))
        for metric in ("recall_at_5", "mrr_at_10")
    )
    assert (by_recall.promote, by_rank.promote) == (False, True)
    assert by_rank.difference == pytest.approx(0.5)
    assert "MRR@10" in by_rank.reason


def test_another_width_is_no_comparison():
    decision = other_width(128, 384)
    assert not decision.promote
    assert (decision.low, decision.high) == (-1.0, 1.0)
    for value in ("128", "384", "gate.new_width"):
        assert value in decision.reason
