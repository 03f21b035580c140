"""What may never be promoted, twenty seeds each, and what must be."""

import numpy as np
import pytest

from sentemb_core.errors import BadDataError
from sentemb_core.evaluation.diagnostics import shape_of
from sentemb_core.evaluation.gate import GateDecision, gate
from sentemb_core.evaluation.ranking import Relevant, ranks_of_relevant

QUERIES, POOL, DIM = 700, 2_300, 48  # as the demo's corpus has
NOISE = 1.8
SEEDS = range(20)


class World:
    """Documents that are noisy copies of their counterparts: Recall@5 near .7."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.candidates = self.noise(POOL)
        self.champion = self.candidates + NOISE * self.noise(POOL)

    def noise(self, n: int) -> np.ndarray:
        return self.rng.standard_normal((n, DIM)).astype(np.float32)

    def ranks(self, documents: np.ndarray, candidates: np.ndarray | None = None) -> np.ndarray:
        wanted = Relevant(np.arange(QUERIES), np.arange(QUERIES), np.arange(QUERIES + 1))
        candidates = self.candidates if candidates is None else candidates
        return ranks_of_relevant(documents, candidates, wanted, np.arange(POOL)).rank


def changed(ranks: np.ndarray, rng: np.random.Generator, gain: float, churn: float) -> np.ndarray:
    """Other ranks: `churn` of the queries flip in and out of the first five, `gain` more in."""
    hits = ranks <= 5
    enter = rng.permutation(np.flatnonzero(~hits))[: round((churn + gain) * len(ranks) / 2)]
    leave = rng.permutation(np.flatnonzero(hits))[: round((churn - gain) * len(ranks) / 2)]
    other = ranks.copy()
    other[enter], other[leave] = 1, 999
    return other


def verdict(candidate: np.ndarray, champion: np.ndarray, collapsed: bool = False) -> GateDecision:
    return gate(candidate, champion, champion, collapsed=collapsed, seed=0)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_collapsed_encoder_is_never_promoted(seed: int):
    world = World(seed)
    vectors = 1 + 0.01 * world.noise(POOL)
    shape = shape_of(vectors, seed)
    assert shape.collapsed
    ranks = world.ranks(vectors, 1 + 0.01 * world.noise(POOL))
    champion = world.ranks(world.champion)
    assert not verdict(ranks, champion, shape.collapsed).promote
    assert not verdict(ranks, champion).promote  # the ranks alone say so too
    perfect = np.ones_like(ranks)
    refused = verdict(perfect, champion, shape.collapsed)
    assert not refused.promote
    assert "collapsed" in refused.reason


@pytest.mark.parametrize("seed", SEEDS)
def test_an_encoder_trained_on_shuffled_pairs_is_never_promoted(seed: int):
    world = World(seed)
    shuffled = world.rng.permutation(world.champion)
    assert not verdict(world.ranks(shuffled), world.ranks(world.champion)).promote


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("churn", [0.02, 0.1, 0.2])
def test_an_encoder_one_point_worse_is_never_promoted(seed: int, churn: float):
    world = World(seed)
    champion = world.ranks(world.champion)
    worse = changed(champion, world.rng, gain=-0.01, churn=churn)
    assert verdict(worse, champion).difference == pytest.approx(-0.01, abs=0.003)
    assert not verdict(worse, champion).promote


@pytest.mark.parametrize("seed", SEEDS)
def test_an_equal_encoder_is_never_promoted(seed: int):
    world = World(seed)
    champion = world.ranks(world.champion)
    assert not verdict(champion.copy(), champion).promote
    twin = world.candidates + NOISE * world.noise(POOL)  # as good in truth, other mistakes
    assert not verdict(world.ranks(twin), champion).promote


def test_a_truly_better_encoder_is_promoted_19_times_out_of_20():
    """Six points better in truth, while one query in eight changes sides."""
    promoted = []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        easy = rng.random(QUERIES)
        champion = np.where(easy < 0.70, 1, 50)
        flipped = rng.random(QUERIES) < 0.05
        candidate = np.where(flipped ^ (easy < (0.76 - 0.05) / 0.9), 1, 50)  # .76 in truth
        promoted.append(verdict(candidate, champion).promote)
    assert np.mean(promoted) >= 0.95


@pytest.mark.parametrize(("gain", "passes"), [(0.06, 0.97), (0.04, 0.61)])
def test_what_700_queries_can_show_is_what_the_gate_says_of_them(gain: float, passes: float):
    rng = np.random.default_rng(0)
    shares = [(1 / 8 + gain) / 2, (1 / 8 - gain) / 2, 7 / 8]
    promoted = []
    for won, lost, level in rng.multinomial(QUERIES, shares, size=800):
        champion = np.repeat([50, 1, 1], [won, lost, level])
        candidate = np.repeat([1, 50, 1], [won, lost, level])
        promoted.append(verdict(candidate, champion).promote)
    assert np.mean(promoted) == pytest.approx(passes, abs=0.04)


def test_without_a_champion_the_start_encoder_is_to_be_beaten():
    start = np.where(np.arange(QUERIES) < 0.2 * QUERIES, 1, 50)
    better = np.where(np.arange(QUERIES) < 0.5 * QUERIES, 1, 50)
    first = gate(better, None, start, collapsed=False, seed=0)
    assert first.promote
    assert "the start encoder" in first.reason
    assert not gate(start.copy(), None, start, collapsed=False, seed=0).promote
    assert not gate(better, None, start, collapsed=True, seed=0).promote
    assert not gate(better, better, start, collapsed=False, seed=0).promote


def test_a_gain_below_the_margin_is_refused_however_sure(monkeypatch: pytest.MonkeyPatch):
    champion = np.full(QUERIES, 50)
    candidate = champion.copy()
    candidate[: QUERIES // 10] = 1
    assert gate(candidate, champion, champion, collapsed=False, seed=0).promote
    monkeypatch.setattr("sentemb_core.evaluation.gate.MARGIN", 0.1)
    refused = gate(candidate, champion, champion, collapsed=False, seed=0)
    assert not refused.promote
    assert refused.low > 0


def test_the_reason_tells_both_scores_the_difference_and_its_interval():
    champion = np.array([1] * 50 + [9] * 50)
    reason = verdict(np.array([1] * 90 + [9] * 10), champion).reason
    assert reason.startswith(
        "Promoted: better than the champion by more than 0.01 with 95 % confidence. "
        "On the gate split (100 queries) Recall@5 is 0.900 against 0.500 of the champion, "
        "a difference of +0.400 (+0."
    )


def test_fewer_than_fifty_queries_are_called_few():
    reasons = [verdict(np.ones(n, np.int64), np.ones(n, np.int64)).reason for n in (49, 50)]
    assert ["few" in reason for reason in reasons] == [True, False]
    assert "On the gate split (few: 49 queries)" in reasons[0]
    start = "Not promoted: it is not better than the champion by more than 0.01 with 95 % confiden"
    assert all(reason.startswith(start) for reason in reasons)


@pytest.mark.parametrize(("queries", "promoted"), [(1, False), (5, False), (6, True)])
def test_a_handful_of_queries_promotes_nobody_however_well_they_go(queries: int, promoted: bool):
    first, last = np.ones(queries, np.int64), np.full(queries, 100)
    verdict = gate(first, None, last, collapsed=False, seed=0)
    assert (verdict.promote, verdict.low) == (promoted, float(promoted))


def test_a_gate_that_may_ask_nobody_promotes_nobody():
    nobody = np.array([], np.int64)
    told = gate(nobody, None, nobody, collapsed=False, seed=0)
    assert (told.promote, told.low, told.high) == (False, -1.0, 1.0)
    assert "nobody to ask" in told.reason


def test_ranks_of_different_splits_are_refused():
    with pytest.raises(BadDataError):
        verdict(np.ones(4, np.int64), np.ones(5, np.int64))
