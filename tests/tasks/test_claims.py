"""The verdict on a paper's claim: differences, their intervals, and how many seeds agree."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.experiments.index import EXPERIMENTS
from sentemb_core.config.experiments import (
    LOSS,
    SECONDS,
    SMALL,
    TITLE,
    Arm,
    Claim,
    Column,
    Experiment,
)
from sentemb_core.evaluation import bootstrap
from sentemb_core.evaluation.task_result import TaskResult
from sentemb_core.store.objects import Store
from sentemb_core.store.records import Record
from sentemb_core.types import ArtifactRef
from tasks.artifacts import save_json
from tasks.benchmark import kept_result
from tasks.claims import (
    CLAIMS,
    ArmResult,
    ClaimResult,
    Contest,
    PairwiseResult,
    bounds,
    cells_of,
    claim_interval,
    claim_result,
    contests,
    save_contests,
)
from tasks.execution import without_prefect
from tasks.results import cell

pytestmark = pytest.mark.usefixtures("home", "here")

SEEDS = (1, 2, 3)


@pytest.fixture(autouse=True)
def _few_resamples(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bootstrap, "RESAMPLES", 500)


@pytest.fixture
def here(home: Path):
    """Stages run without a server."""
    with without_prefect(Store.default()):
        yield


def kept(rate: float, seed: int, n: int = 500) -> ArtifactRef:
    """A kept result of a share of hits."""
    hits = (np.random.default_rng(seed).random((n, 1)) < rate).astype(np.float64)
    measures = {"accuracy": float(hits.mean()), "other": 0.5}
    return kept_result(TaskResult("CR", "accuracy", measures, hits))


def experiment(*claims: Claim, columns: tuple[Column, ...] = ()) -> Experiment:
    return Experiment(
        id="s999.t1",
        title="Three arms",
        arms=tuple(Arm(label=label) for label in ("a", "b", "c")),
        columns=columns or (Column(label="CR", judge="CR"),),
        claims=claims,
        paper=SMALL,
        differs="Everything.",
    )


def arm_results(rates: dict[str, float], column: str = "CR") -> list[ArmResult]:
    return [
        ArmResult(arm=arm, column=column, seed=seed, result=kept(rate, 7 * seed), seconds=10 * rate)
        for arm, rate in rates.items()
        for seed in SEEDS
    ]


def verdict_of(claim: Claim, rates: dict[str, float], **changes: object) -> ClaimResult:
    what = experiment(claim, **changes)
    return claim_result(claim, what, cells_of(arm_results(rates)))


ABOVE = Claim(text="a is best", better="a", than=("b", "c"))


def test_claim_without_columns_is_not_run():
    optional = Column(label="STS13", judge="STS13", optional=True)
    claim = ABOVE.model_copy(update={"columns": ("STS13",)})
    what = experiment(claim, columns=(Column(label="CR", judge="CR"), optional))
    left = what.model_copy(update={"columns": what.columns[:1]})  # as a folder without it leaves
    found = claim_result(claim, left, cells_of(arm_results({"a": 0.6, "b": 0.4, "c": 0.3})))
    assert (found.verdict, found.missing) == ("not run", ["b", "c"])


def test_claim_holds_if_every_rival_is_behind_in_every_seed():
    found = verdict_of(ABOVE, {"a": 0.6, "b": 0.4, "c": 0.3})
    assert found.verdict == "holds"
    assert [rival.than for rival in found.rivals] == ["b", "c"]
    for rival in found.rivals:
        assert 0 < rival.low < rival.difference < rival.high
        assert (rival.better_in, rival.seeds) == (3, 3)


def test_one_rival_ahead_refutes_a_claim():
    assert verdict_of(ABOVE, {"a": 0.4, "b": 0.6, "c": 0.1}).verdict == "does not hold"


def test_one_rival_ahead_refutes_though_another_was_not_run():
    found = verdict_of(ABOVE, {"a": 0.4, "b": 0.6})
    assert (found.verdict, found.missing) == ("does not hold", ["c"])


def test_equal_arms_decide_nothing():
    found = verdict_of(ABOVE, {"a": 0.5, "b": 0.5, "c": 0.1})
    assert found.verdict == "not decided"
    assert (found.rivals[0].difference, found.rivals[0].better_in) == (0.0, 0)


def test_claim_about_an_arm_without_numbers_is_not_run():
    found = verdict_of(ABOVE, {"a": 0.6, "b": 0.4})
    assert (found.verdict, found.missing) == ("not run", ["c"])
    assert "c" in found.row("t").note
    nothing = verdict_of(ABOVE, {"b": 0.6, "c": 0.4})
    assert (nothing.verdict, nothing.missing) == ("not run", ["b", "c"])
    assert nothing.row("t").value is None


def test_one_seed_decides_nothing():
    claim = Claim(text="a above b", better="a", than=("b",))
    found = arm_results({"a": 0.6, "b": 0.4})
    one = claim_result(claim, experiment(claim), cells_of([f for f in found if f.seed == 1]))
    assert one.rivals[0].low > 0
    assert one.verdict == "not decided"
    assert "one seed" in one.row("t").note
    apart = [f for f in found if (f.arm, f.seed) in {("a", 1), ("b", 2)}]
    assert claim_result(claim, experiment(claim), cells_of(apart)).verdict == "not run"


def test_common_seeds_are_compared():
    what = experiment(ABOVE)
    found = arm_results({"a": 0.6, "b": 0.4, "c": 0.3})
    cells = cells_of([one for one in found if (one.arm, one.seed) != ("b", 2)])
    b, c = claim_result(ABOVE, what, cells).rivals
    assert (b.seeds, c.seeds) == (2, 3)


def test_seeds_that_disagree_decide_nothing():
    ahead = PairwiseResult(
        than="b", difference=0.1, low=0.05, high=0.15, ceiling=0.15, seeds=3, better_in=2
    )
    behind = PairwiseResult(
        than="b", difference=-0.1, low=-0.15, high=-0.05, ceiling=-0.05, seeds=3, better_in=1
    )
    assert [one.verdict for one in (ahead, behind)] == ["not decided"] * 2
    agreed = (ahead.model_copy(update={"better_in": 3}), behind.model_copy(update={"better_in": 0}))
    assert [one.verdict for one in agreed] == ["holds", "does not hold"]


def test_variance_over_trainings_widens_the_interval():
    """Over queries alone a is above b for sure, and also where all trainings agree."""
    claim = Claim(text="a above b", better="a", than=("b",))

    def found(*rates: float) -> PairwiseResult:
        cells = {
            ("a", "CR"): [
                kept_as("a", seed, rate) for seed, rate in zip(SEEDS, rates, strict=True)
            ],
            ("b", "CR"): [kept_as("b", seed, 0.5) for seed in SEEDS],
        }
        (rival,) = claim_result(claim, experiment(claim), cells).rivals
        return rival

    agreed, apart = found(0.7, 0.7, 0.7), found(0.9, 0.65, 0.55)
    assert agreed.difference == pytest.approx(apart.difference, abs=0.01)
    assert (agreed.better_in, apart.better_in) == (3, 3)
    assert apart.low < 0 < agreed.low
    assert (agreed.verdict, apart.verdict) == ("holds", "not decided")


def test_bonferroni_widens_the_ceiling_with_the_rivals():
    """Any of them may decide, and chance has as many chances."""
    results = {"low": -0.03, "high": -0.001}
    alone, among_seven = (bounds([-0.0150, -0.0155, -0.0160], results, of) for of in (1, 7))
    assert alone["high"] == alone["ceiling"] < 0
    assert among_seven["low"] == alone["low"]
    assert among_seven["high"] < 0 < among_seven["ceiling"]


def test_equal_seeds_do_not_refute_a_claim():
    """Two that are level and one that is behind: mutual.appD."""
    claim = Claim(text="a above b", better="a", than=("b",))
    cells = {
        ("a", "CR"): [kept_as("a", seed, rate) for seed, rate in ((1, 0.5), (2, 0.5), (3, 0.2))],
        ("b", "CR"): [kept_as("b", seed, 0.5) for seed in SEEDS],
    }
    found = claim_result(claim, experiment(claim), cells)
    (rival,) = found.rivals
    assert (rival.better_in, rival.equal_in) == (0, 2)
    sure = rival.model_copy(update={"ceiling": -0.01})
    assert (found.verdict, sure.verdict) == ("not decided", "not decided")
    assert sure.model_copy(update={"equal_in": 0}).verdict == "does not hold"
    factors = found.row("t").factors
    assert (factors["seeds above"], factors["seeds equal"]) == ("0 of 3", "2")


def kept_as(arm: str, seed: int, rate: float) -> ArmResult:
    return ArmResult(arm=arm, column="CR", seed=seed, result=kept(rate, 3))


def test_seed_that_one_column_lacks_is_left_out():
    columns = (Column(label="CR", judge="CR"), Column(label="MR", judge="MR"))
    results = [*arm_results({"a": 0.6, "b": 0.4}), *arm_results({"a": 0.6, "b": 0.4}, "MR")]
    cells = cells_of([one for one in results if (one.arm, one.column, one.seed) != ("b", "MR", 2)])
    claim = Claim(text="a above b", better="a", than=("b",))
    (rival,) = claim_result(claim, experiment(claim, columns=columns), cells).rivals
    assert rival.seeds == 2


def test_columns_of_one_judge_share_their_units():
    """Else the same queries, drawn twice, would pass for twice as many."""
    claim = Claim(text="a above b", better="a", than=("b",))
    one = Column(label="CR", judge="CR", corpus="blog_usgov")
    two = Column(label="again", judge="CR", corpus="news_reuters21578")
    results = arm_results({"a": 0.6, "b": 0.5})
    twice = [*results, *(finding.model_copy(update={"column": "again"}) for finding in results)]
    (alone,) = claim_result(claim, experiment(claim, columns=(one,)), cells_of(results)).rivals
    (both,) = claim_result(claim, experiment(claim, columns=(one, two)), cells_of(twice)).rivals
    assert both == alone


def ranked(rank: int, n: int = 40) -> ArtifactRef:
    """Scores of a pool whose test documents all find their titles at this rank."""
    with Store.default().writing("scores") as draft:
        table = pa.table({"split": ["test"] * n, "document": range(n), "rank": [rank] * n})
        pq.write_table(table, draft.path / "ranks.parquet")
    return draft.ref


def test_claim_about_titles_uses_the_depth_of_its_column():
    column = Column(label="Web", judge=TITLE, measure="R@10", corpus="blog_usgov")
    claim = Claim(text="a above b", better="a", than=("b",))
    results = [
        ArmResult(arm=arm, column="Web", seed=seed, result=ranked(rank))
        for arm, rank in (("a", 7), ("b", 12))
        for seed in SEEDS
    ]
    (rival,) = claim_result(claim, experiment(claim, columns=(column,)), cells_of(results)).rivals
    assert (rival.difference, rival.low, rival.high) == (1.0, 1.0, 1.0)


def test_pools_of_two_corpora_have_their_own_units():
    columns = [
        Column(label=corpus, judge=TITLE, measure="R@5", corpus=corpus)
        for corpus in ("blog_usgov", "news_reuters21578")
    ]
    found = ArmResult(arm="a", column="any", seed=1, result=ranked(3))
    pairs = {seed: [(column, found, found) for column in columns] for seed in SEEDS}
    assert [len(one.pairs) for one in contests(pairs)] == [3, 3]


def any_interval(contests: ArtifactRef) -> ArtifactRef:
    return save_json("interval", {"low": 0.0, "high": 0.0, "units": contests.size})


def test_widest_claim_fits_a_record_under_ten_seeds():
    """Its results stand in an artifact: in a record they would fill more than it may hold."""
    columns = max(
        ([column for column in one.columns if column.label in (claim.columns or {column.label})]
        for one in EXPERIMENTS.values()
        for claim in one.claims),
        key=len,
    )  # fmt: skip
    assert len(columns) == 21
    results = [
        ArtifactRef(kind="result", digest=f"{number:064x}", size=10**6)
        for number in range(2 * 10 * len(columns))
    ]
    pairs = list(zip(results[::2], results[1::2], strict=True))
    asked = {"contests": save_contests([Contest(judge="CR", measure="accuracy", pairs=pairs)])}
    store = Store.default()
    decided = replace(claim_interval.stage, function=any_interval)
    decided.run(store, asked)
    assert isinstance(decided.look_up(store, decided.key(asked)), Record)


@pytest.mark.parametrize(("margin", "expected"), [(0.0, "not decided"), (0.01, "holds")])
def test_margin_lets_an_arm_fall_short(margin: float, expected: str):
    claim = Claim(text="b gains nothing", better="a", than=("b",), margin=margin)
    found = verdict_of(claim, {"a": 0.5, "b": 0.5})
    assert found.verdict == expected
    factors = found.row("t").factors
    assert factors.get("margin") == ("-0.010" if margin else None)
    assert factors["seeds above"] == ("3 of 3" if margin else "0 of 3")


def test_rival_beyond_the_margin_refutes():
    claim = Claim(text="b gains nothing", better="a", than=("b",), margin=0.01)
    assert verdict_of(claim, {"a": 0.4, "b": 0.7}).verdict == "does not hold"


def test_row_shows_the_deciding_rival():
    sure = PairwiseResult(
        than="b", difference=0.01, low=0.005, high=0.015, ceiling=0.015, seeds=3, better_in=3
    )
    unsure = PairwiseResult(
        than="c", difference=0.02, low=-0.1, high=0.1, ceiling=0.1, seeds=3, better_in=2
    )
    found = ClaimResult(text="x", better="a", columns=["CR"], rivals=[sure, unsure], missing=[])
    assert (found.verdict, found.deciding) == ("not decided", unsure)
    row = found.row("mutual.t1")
    assert (row.system, row.baseline, row.value, row.task) == ("a", "c", 0.02, "mutual.t1")
    assert (row.factors["verdict"], row.factors["seeds above"]) == ("not decided", "2 of 3")
    assert row.factors["rivals"] == "2"


def test_fewer_seconds_are_better():
    columns = (Column(label="s", judge=SECONDS),)
    claim = Claim(text="a is faster", better="a", than=("b",), columns=("s",))
    what = experiment(claim, columns=columns)
    results = [
        ArmResult(arm=arm, column="s", seed=seed, seconds=seconds + seed)
        for arm, seconds in (("a", 1.0), ("b", 4.0))
        for seed in SEEDS
    ]
    found = claim_result(claim, what, cells_of(results))
    (rival,) = found.rivals
    assert (rival.difference, rival.low, rival.high, rival.verdict) == (3.0, 3.0, 3.0, "holds")
    row = found.row("t")
    assert (row.system, row.baseline, row.value, row.units) == ("b", "a", 3.0, None)


@pytest.mark.parametrize(("measure", "verdict"), [("other", "not decided"), ("accuracy", "holds")])
def test_measure_without_single_values_decides_nothing(measure: str, verdict: str):
    columns = (Column(label="CR", judge="CR", measure=measure),)
    claim = Claim(text="a is best", better="a", than=("b",), margin=0.01)
    found = verdict_of(claim, {"a": 0.6, "b": 0.4}, columns=columns)
    (rival,) = found.rivals
    assert found.verdict == verdict
    if measure == "other":
        assert rival.units is None
        assert (rival.low, rival.high) == (0.0, 0.0), "every result has .5 of it"
        assert found.row("t").factors["interval"] == "range over the seeds"
        assert found.row("t").note


@pytest.mark.parametrize(("units", "expected"), [(5, "not decided"), (6, "holds")])
@pytest.mark.parametrize("margin", [0.0, 0.01])
def test_fewer_than_six_units_decide_nothing(units: int, expected: str, margin: float):
    column = Column(label="Web", judge=TITLE, measure="R@10", corpus="blog_usgov")
    claim = Claim(text="a above b", better="a", than=("b",), margin=margin)
    results = [
        ArmResult(arm=arm, column="Web", seed=seed, result=ranked(rank, units))
        for arm, rank in (("a", 7), ("b", 12))
        for seed in SEEDS
    ]
    found = claim_result(claim, experiment(claim, columns=(column,)), cells_of(results))
    assert found.verdict == expected
    assert ("5" in found.row("t").note) == (expected == "not decided")
    assert found.row("t").units == units


def test_difference_of_losses_keeps_five_decimals():
    columns = (Column(label="loss", judge=LOSS),)
    loss = PairwiseResult(
        than="b", difference=2e-5, low=1e-5, high=3e-5, ceiling=3e-5, seeds=3, better_in=3,
        reversed=True, metric="difference of losses",
    )  # fmt: skip
    claim = ClaimResult(
        text="It falls", better="a", columns=[columns[0].label], rivals=[loss], missing=[]
    )
    assert cell(claim.row("t"), CLAIMS) == "+0.00002 (+0.00001 to +0.00003)"


def test_claim_names_known_arms_and_columns():
    for wrong in (
        Claim(text="x", better="z", than=("a",)),
        Claim(text="x", better="a", than=("b",), columns=("z",)),
    ):
        with pytest.raises(ValueError, match=r"\['z'\]"):
            experiment(wrong)
