"""The verdict on a paper's claim: differences, their intervals, and how many seeds agree."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.experiments.index import EXPERIMENTS
from sentemb_core.config.experiments import (
    SECONDS,
    SMALL,
    TITLE,
    Arm,
    Claim,
    Column,
    Experiment,
)
from sentemb_core.store.objects import Store
from sentemb_core.store.records import Record
from sentemb_core.types import ArtifactRef
from tasks.artifacts import save_json
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
from tasks.results import cell
from tests.tasks.made import SEEDS, of_arm, of_arms

pytestmark = pytest.mark.usefixtures("in_process")


ABOVE = Claim(text="a is best", source="Table 1", better="a", than=("b", "c"))
ABOVE_B = Claim(text="a above b", source="Table 1", better="a", than=("b",))


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


def above_b(results: list[ArmResult], *columns: Column, claim: Claim = ABOVE_B) -> ClaimResult:
    return claim_result(claim, experiment(claim, columns=columns), cells_of(results))


def rival_b(results: list[ArmResult], *columns: Column) -> PairwiseResult:
    (rival,) = above_b(results, *columns).rivals
    return rival


def test_claim_without_columns_is_not_run():
    optional = Column(label="STS13", judge="STS13", optional=True)
    claim = ABOVE.model_copy(update={"columns": ("STS13",)})
    what = experiment(claim, columns=(Column(label="CR", judge="CR"), optional))
    left = what.model_copy(update={"columns": what.columns[:1]})  # as a folder without it leaves
    found = claim_result(claim, left, cells_of(of_arms({"a": 0.6, "b": 0.4, "c": 0.3})))
    assert (found.verdict, found.missing) == ("not run", ["b", "c"])


@pytest.mark.parametrize(
    ("rates", "verdict", "missing"),
    [
        ({"a": 0.6, "b": 0.4, "c": 0.3}, "holds", []),
        ({"a": 0.4, "b": 0.6, "c": 0.1}, "does not hold", []),
        ({"a": 0.4, "b": 0.6}, "does not hold", ["c"]),
        ({"a": 0.5, "b": 0.5, "c": 0.1}, "not decided", []),
        ({"a": 0.6, "b": 0.4}, "not run", ["c"]),
        ({"b": 0.6, "c": 0.4}, "not run", ["b", "c"]),
    ],
)
def test_one_rival_ahead_refutes_and_a_missing_one_leaves_the_claim_open(
    rates: dict[str, float], verdict: str, missing: list[str]
):
    found = above_b(of_arms(rates), claim=ABOVE)
    assert (found.verdict, found.missing) == (verdict, missing)
    row = found.row("t")
    assert all(arm in row.note for arm in missing)
    assert (row.value is None) == (found.rivals == [])
    if verdict == "holds":
        assert [rival.than for rival in found.rivals] == ["b", "c"]
        for rival in found.rivals:
            assert 0 < rival.low < rival.difference < rival.high
            assert (rival.better_in, rival.seeds) == (3, 3)
    if verdict == "not decided":
        assert (found.rivals[0].difference, found.rivals[0].better_in) == (0.0, 0)


def test_one_seed_decides_nothing():
    found = of_arms({"a": 0.6, "b": 0.4})
    one = above_b([f for f in found if f.seed == 1])
    assert one.rivals[0].low > 0
    assert one.verdict == "not decided"
    assert "one seed" in one.row("t").note
    apart = [f for f in found if (f.arm, f.seed) in {("a", 1), ("b", 2)}]
    assert above_b(apart).verdict == "not run"


def test_common_seeds_are_compared():
    what = experiment(ABOVE)
    found = of_arms({"a": 0.6, "b": 0.4, "c": 0.3})
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

    def found(*rates: float) -> PairwiseResult:
        return rival_b([*of_arm("a", *rates), *of_arm("b", 0.5, 0.5, 0.5)])

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
    found = above_b([*of_arm("a", 0.5, 0.5, 0.2), *of_arm("b", 0.5, 0.5, 0.5)])
    (rival,) = found.rivals
    assert (rival.better_in, rival.equal_in) == (0, 2)
    sure = rival.model_copy(update={"ceiling": -0.01})
    assert (found.verdict, sure.verdict) == ("not decided", "not decided")
    assert sure.model_copy(update={"equal_in": 0}).verdict == "does not hold"
    factors = found.row("t").factors
    assert (factors["seeds above"], factors["seeds equal"]) == ("0 of 3", "2")


def test_seed_that_one_column_lacks_is_left_out():
    columns = (Column(label="CR", judge="CR"), Column(label="MR", judge="MR"))
    results = [*of_arms({"a": 0.6, "b": 0.4}), *of_arms({"a": 0.6, "b": 0.4}, "MR")]
    results = [one for one in results if (one.arm, one.column, one.seed) != ("b", "MR", 2)]
    assert rival_b(results, *columns).seeds == 2


def test_columns_of_one_judge_share_their_units():
    """Else the same queries, drawn twice, would pass for twice as many."""
    one = Column(label="CR", judge="CR", corpus="blog_usgov")
    two = Column(label="again", judge="CR", corpus="news_reuters21578")
    results = of_arms({"a": 0.6, "b": 0.5})
    twice = [*results, *(finding.model_copy(update={"column": "again"}) for finding in results)]
    assert rival_b(results, one) == rival_b(twice, one, two)


def ranked(rank: int, n: int = 40) -> ArtifactRef:
    """Scores of a pool whose test documents all find their titles at this rank."""
    with Store.default().writing("scores") as draft:
        columns = {"document": range(n), "counterpart": range(n), "rank": [rank] * n}
        table = pa.table({"split": ["test"] * n, **columns})
        pq.write_table(table, draft.path / "ranks.parquet")
    return draft.ref


TEN = Column(label="Web", judge=TITLE, measure="R@10", corpus="blog_usgov")


def of_ranks(n: int = 40) -> list[ArmResult]:
    """Two arms whose documents all find their titles at rank 7 and 12."""
    return [
        ArmResult(arm=arm, column="Web", seed=seed, result=ranked(rank, n))
        for arm, rank in (("a", 7), ("b", 12))
        for seed in SEEDS
    ]


def test_claim_about_titles_uses_the_depth_of_its_column():
    rival = rival_b(of_ranks(), TEN)
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
        (claim.columns or one.judged for one in EXPERIMENTS.values() for claim in one.claims),
        key=len,
    )
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
    claim = ABOVE_B.model_copy(update={"margin": margin})
    found = above_b(of_arms({"a": 0.5, "b": 0.5}), claim=claim)
    assert found.verdict == expected
    factors = found.row("t").factors
    assert factors.get("margin") == ("-0.010" if margin else None)
    assert factors["seeds above"] == ("3 of 3" if margin else "0 of 3")


def test_rival_beyond_the_margin_refutes():
    claim = ABOVE_B.model_copy(update={"margin": 0.01})
    assert above_b(of_arms({"a": 0.4, "b": 0.7}), claim=claim).verdict == "does not hold"


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
    claim = ABOVE_B.model_copy(update={"columns": ("s",)})
    results = [
        ArmResult(arm=arm, column="s", seed=seed, seconds=seconds + seed)
        for arm, seconds in (("a", 1.0), ("b", 4.0))
        for seed in SEEDS
    ]
    found = above_b(results, Column(label="s", judge=SECONDS), claim=claim)
    (rival,) = found.rivals
    assert (rival.difference, rival.low, rival.high, rival.verdict) == (3.0, 3.0, 3.0, "holds")
    row = found.row("t")
    assert (row.system, row.baseline, row.value, row.units) == ("b", "a", 3.0, None)


@pytest.mark.parametrize(("measure", "verdict"), [("other", "not decided"), ("accuracy", "holds")])
def test_measure_without_single_values_decides_nothing(measure: str, verdict: str):
    column = Column(label="CR", judge="CR", measure=measure)
    claim = ABOVE_B.model_copy(update={"margin": 0.01})
    found = above_b(of_arms({"a": 0.6, "b": 0.4}), column, claim=claim)
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
    claim = ABOVE_B.model_copy(update={"margin": margin})
    found = above_b(of_ranks(units), TEN, claim=claim)
    assert found.verdict == expected
    assert ("5" in found.row("t").note) == (expected == "not decided")
    assert found.row("t").units == units


def test_difference_of_losses_keeps_five_decimals():
    loss = PairwiseResult(
        than="b", difference=2e-5, low=1e-5, high=3e-5, ceiling=3e-5, seeds=3, better_in=3,
        reversed=True, metric="difference of losses",
    )  # fmt: skip
    found = ClaimResult(text="It falls", better="a", columns=["loss"], rivals=[loss], missing=[])
    assert cell(found.row("t"), CLAIMS) == "+0.00002 (+0.00001 to +0.00003)"


def test_claim_names_known_arms_and_columns():
    for wrong in (
        Claim(text="x", source="Table 1", better="z", than=("a",)),
        Claim(text="x", source="Table 1", better="a", than=("b",), columns=("z",)),
    ):
        with pytest.raises(ValueError, match=r"\['z'\]"):
            experiment(wrong)
