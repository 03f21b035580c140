"""What becomes of a paper's claims: the differences, their intervals, and how many seeds agree."""

import shlex
from dataclasses import replace
from pathlib import Path
from statistics import mean

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.experiments.index import EXPERIMENTS
from sentemb_core.config.experiments import (
    CASE,
    LOSS,
    POINT,
    SECONDS,
    SMALL,
    TITLE,
    Arm,
    Base,
    Claim,
    Column,
    Experiment,
)
from sentemb_core.config.run import EncoderConfig
from sentemb_core.evaluation import bootstrap
from sentemb_core.evaluation.appendix_d import LAST, case_result
from sentemb_core.evaluation.overlap import Overlap
from sentemb_core.evaluation.paper_tables import PaperTable
from sentemb_core.evaluation.results import TaskResult
from sentemb_core.store.objects import Store
from sentemb_core.store.records import Record
from sentemb_core.types import ArtifactRef
from tasks.artifact_files import save_json
from tasks.benchmark import kept_result
from tasks.execution import without_prefect
from tasks.tables import printed as printed_numbers
from tasks.tables.claims import (
    DIGITS,
    ClaimResult,
    Contest,
    PairwiseResult,
    bounds,
    claim_interval,
    contests,
    fate_of,
    kept_contests,
)
from tasks.tables.findings import ArmResult, cells_of
from tasks.tables.findings_page import write_findings
from tasks.tables.findings_table import FindingsTable, evidence
from tasks.tables.printed import Printed

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


def findings(rates: dict[str, float], column: str = "CR") -> list[ArmResult]:
    return [
        ArmResult(arm=arm, column=column, seed=seed, result=kept(rate, 7 * seed), seconds=10 * rate)
        for arm, rate in rates.items()
        for seed in SEEDS
    ]


def fate(claim: Claim, rates: dict[str, float], **changes: object) -> ClaimResult:
    what = experiment(claim, **changes)
    return fate_of(claim, what, cells_of(findings(rates)))


ABOVE = Claim(text="a is best", better="a", than=("b", "c"))


def test_a_claim_all_of_whose_columns_have_no_files_is_not_run():
    optional = Column(label="STS13", judge="STS13", optional=True)
    claim = ABOVE.model_copy(update={"columns": ("STS13",)})
    what = experiment(claim, columns=(Column(label="CR", judge="CR"), optional))
    left = what.model_copy(update={"columns": what.columns[:1]})  # as a folder without it leaves
    found = fate_of(claim, left, cells_of(findings({"a": 0.6, "b": 0.4, "c": 0.3})))
    assert (found.fate, found.missing) == ("not run", ["b", "c"])


def test_a_claim_holds_where_every_rival_is_behind_in_every_seed():
    found = fate(ABOVE, {"a": 0.6, "b": 0.4, "c": 0.3})
    assert found.fate == "holds"
    assert [rival.than for rival in found.rivals] == ["b", "c"]
    for rival in found.rivals:
        assert 0 < rival.low < rival.difference < rival.high
        assert (rival.better_in, rival.seeds) == (3, 3)


def test_one_rival_that_is_ahead_is_enough_against_it():
    assert fate(ABOVE, {"a": 0.4, "b": 0.6, "c": 0.1}).fate == "does not hold"


def test_one_that_is_ahead_is_enough_though_another_was_not_run():
    found = fate(ABOVE, {"a": 0.4, "b": 0.6})
    assert (found.fate, found.missing) == ("does not hold", ["c"])


def test_equals_decide_nothing():
    found = fate(ABOVE, {"a": 0.5, "b": 0.5, "c": 0.1})
    assert found.fate == "not decided"
    assert (found.rivals[0].difference, found.rivals[0].better_in) == (0.0, 0)


def test_a_claim_about_an_arm_without_numbers_is_not_run():
    found = fate(ABOVE, {"a": 0.6, "b": 0.4})
    assert (found.fate, found.missing) == ("not run", ["c"])
    assert evidence(found).endswith("Not compared: c.")
    nothing = fate(ABOVE, {"b": 0.6, "c": 0.4})
    assert (nothing.fate, nothing.missing) == ("not run", ["b", "c"])
    assert "nothing to compare" in evidence(nothing)


def test_one_seed_decides_nothing_and_seeds_without_a_partner_are_no_error():
    claim = Claim(text="a above b", better="a", than=("b",))
    found = findings({"a": 0.6, "b": 0.4})
    one = fate_of(claim, experiment(claim), cells_of([f for f in found if f.seed == 1]))
    assert one.rivals[0].low > 0
    assert one.fate == "not decided"
    apart = [f for f in found if (f.arm, f.seed) in {("a", 1), ("b", 2)}]
    assert fate_of(claim, experiment(claim), cells_of(apart)).fate == "not run"


def test_the_seeds_that_both_arms_have_are_compared():
    what = experiment(ABOVE)
    found = findings({"a": 0.6, "b": 0.4, "c": 0.3})
    cells = cells_of([one for one in found if (one.arm, one.seed) != ("b", 2)])
    b, c = fate_of(ABOVE, what, cells).rivals
    assert (b.seeds, c.seeds) == (2, 3)


def test_seeds_that_disagree_decide_nothing_whatever_the_interval():
    ahead = PairwiseResult(
        than="b", difference=0.1, low=0.05, high=0.15, ceiling=0.15, seeds=3, better_in=2
    )
    behind = PairwiseResult(
        than="b", difference=-0.1, low=-0.15, high=-0.05, ceiling=-0.05, seeds=3, better_in=1
    )
    assert [one.fate for one in (ahead, behind)] == ["not decided"] * 2
    agreed = (ahead.model_copy(update={"better_in": 3}), behind.model_copy(update={"better_in": 0}))
    assert [one.fate for one in agreed] == ["holds", "does not hold"]


def test_trainings_that_differ_among_themselves_make_a_difference_less_sure():
    """By queries alone a above b is sure, and so it is where every training says the same."""
    claim = Claim(text="a above b", better="a", than=("b",))

    def found(*rates: float) -> PairwiseResult:
        cells = {
            ("a", "CR"): [
                kept_as("a", seed, rate) for seed, rate in zip(SEEDS, rates, strict=True)
            ],
            ("b", "CR"): [kept_as("b", seed, 0.5) for seed in SEEDS],
        }
        (rival,) = fate_of(claim, experiment(claim), cells).rivals
        return rival

    agreed, apart = found(0.7, 0.7, 0.7), found(0.9, 0.65, 0.55)
    assert agreed.difference == pytest.approx(apart.difference, abs=0.01)
    assert (agreed.better_in, apart.better_in) == (3, 3)
    assert apart.low < 0 < agreed.low
    assert (agreed.fate, apart.fate) == ("holds", "not decided")


def test_the_more_rivals_a_claim_has_the_surer_must_be_the_one_against_it():
    """Any of them may decide, and chance has as many chances."""
    told = {"low": -0.03, "high": -0.001}
    alone, among_seven = (bounds([-0.0150, -0.0155, -0.0160], told, of) for of in (1, 7))
    assert alone["high"] == alone["ceiling"] < 0
    assert among_seven["low"] == alone["low"]
    assert among_seven["high"] < 0 < among_seven["ceiling"]


def test_seeds_that_are_equal_are_not_against_a_claim():
    """Two that are level and one that is behind: mutual.appD."""
    claim = Claim(text="a above b", better="a", than=("b",))
    cells = {
        ("a", "CR"): [kept_as("a", seed, rate) for seed, rate in ((1, 0.5), (2, 0.5), (3, 0.2))],
        ("b", "CR"): [kept_as("b", seed, 0.5) for seed in SEEDS],
    }
    found = fate_of(claim, experiment(claim), cells)
    (rival,) = found.rivals
    assert (rival.better_in, rival.equal_in) == (0, 2)
    sure = rival.model_copy(update={"ceiling": -0.01})
    assert (found.fate, sure.fate) == ("not decided", "not decided")
    assert sure.model_copy(update={"equal_in": 0}).fate == "does not hold"
    assert evidence(found).endswith("above in 0 of 3 seeds, equal in 2.")


def kept_as(arm: str, seed: int, rate: float) -> ArmResult:
    return ArmResult(arm=arm, column="CR", seed=seed, result=kept(rate, 3))


def test_a_seed_that_one_column_lacks_is_left_out_of_all():
    columns = (Column(label="CR", judge="CR"), Column(label="MR", judge="MR"))
    told = [*findings({"a": 0.6, "b": 0.4}), *findings({"a": 0.6, "b": 0.4}, "MR")]
    cells = cells_of([one for one in told if (one.arm, one.column, one.seed) != ("b", "MR", 2)])
    claim = Claim(text="a above b", better="a", than=("b",))
    (rival,) = fate_of(claim, experiment(claim, columns=columns), cells).rivals
    assert rival.seeds == 2


def test_columns_of_one_judge_are_of_the_same_units():
    """Else the same queries, drawn twice, would pass for twice as many."""
    claim = Claim(text="a above b", better="a", than=("b",))
    one = Column(label="CR", judge="CR", corpus="blog_usgov")
    two = Column(label="again", judge="CR", corpus="news_reuters21578")
    told = findings({"a": 0.6, "b": 0.5})
    twice = [*told, *(finding.model_copy(update={"column": "again"}) for finding in told)]
    (alone,) = fate_of(claim, experiment(claim, columns=(one,)), cells_of(told)).rivals
    (both,) = fate_of(claim, experiment(claim, columns=(one, two)), cells_of(twice)).rivals
    assert both == alone


def ranked(rank: int, n: int = 40) -> ArtifactRef:
    """Scores of a pool whose test documents all find their titles at this rank."""
    with Store.default().writing("scores") as draft:
        table = pa.table({"split": ["test"] * n, "document": range(n), "rank": [rank] * n})
        pq.write_table(table, draft.path / "ranks.parquet")
    return draft.ref


def test_a_claim_about_titles_is_decided_at_the_depth_of_its_column():
    column = Column(label="Web", judge=TITLE, measure="R@10", corpus="blog_usgov")
    claim = Claim(text="a above b", better="a", than=("b",))
    told = [
        ArmResult(arm=arm, column="Web", seed=seed, result=ranked(rank))
        for arm, rank in (("a", 7), ("b", 12))
        for seed in SEEDS
    ]
    (rival,) = fate_of(claim, experiment(claim, columns=(column,)), cells_of(told)).rivals
    assert (rival.difference, rival.low, rival.high) == (1.0, 1.0, 1.0)


def test_titles_of_two_corpora_are_not_the_same_units():
    columns = [
        Column(label=corpus, judge=TITLE, measure="R@5", corpus=corpus)
        for corpus in ("blog_usgov", "news_reuters21578")
    ]
    found = ArmResult(arm="a", column="any", seed=1, result=ranked(3))
    pairs = {seed: [(column, found, found) for column in columns] for seed in SEEDS}
    assert [len(one.pairs) for one in contests(pairs)] == [3, 3]


def any_interval(contests: ArtifactRef) -> ArtifactRef:
    return save_json("interval", {"low": 0.0, "high": 0.0, "units": contests.size})


def test_the_widest_claim_of_all_papers_is_decided_under_ten_seeds():
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
    asked = {"contests": kept_contests([Contest(judge="CR", measure="accuracy", pairs=pairs)])}
    store = Store.default()
    decided = replace(claim_interval.stage, function=any_interval)
    decided.run(store, asked)
    assert isinstance(decided.look_up(store, decided.key(asked)), Record)


@pytest.mark.parametrize(("margin", "expected"), [(0.0, "not decided"), (0.01, "holds")])
def test_what_gains_nothing_may_fall_short_by_a_margin(margin: float, expected: str):
    claim = Claim(text="b gains nothing", better="a", than=("b",), margin=margin)
    found = fate(claim, {"a": 0.5, "b": 0.5})
    assert found.fate == expected
    assert (" above -0.010 in 3 of 3" in evidence(found)) == (expected == "holds")


def test_a_rival_beyond_the_margin_is_against_the_claim():
    claim = Claim(text="b gains nothing", better="a", than=("b",), margin=0.01)
    assert fate(claim, {"a": 0.4, "b": 0.7}).fate == "does not hold"


def test_the_evidence_is_the_rival_that_decides_and_not_the_closest():
    sure = PairwiseResult(
        than="b", difference=0.01, low=0.005, high=0.015, ceiling=0.015, seeds=3, better_in=3
    )
    unsure = PairwiseResult(
        than="c", difference=0.02, low=-0.1, high=0.1, ceiling=0.1, seeds=3, better_in=2
    )
    found = ClaimResult(text="x", better="a", columns=["CR"], rivals=[sure, unsure], missing=[])
    assert (found.fate, found.deciding) == ("not decided", unsure)
    assert "a less c (of 2 the one that decides): +0.020" in evidence(found)


def test_of_seconds_fewer_are_better_and_the_interval_is_their_range():
    columns = (Column(label="s", judge=SECONDS),)
    claim = Claim(text="a is faster", better="a", than=("b",), columns=("s",))
    what = experiment(claim, columns=columns)
    told = [
        ArmResult(arm=arm, column="s", seed=seed, seconds=seconds + seed)
        for arm, seconds in (("a", 1.0), ("b", 4.0))
        for seed in SEEDS
    ]
    found = fate_of(claim, what, cells_of(told))
    (rival,) = found.rivals
    assert (rival.difference, rival.low, rival.high, rival.fate) == (3.0, 3.0, 3.0, "holds")
    assert "b less a, s: +3.000" in evidence(found)


@pytest.mark.parametrize(("measure", "fated"), [("other", "not decided"), ("accuracy", "holds")])
def test_a_measure_without_single_values_decides_nothing(measure: str, fated: str):
    columns = (Column(label="CR", judge="CR", measure=measure),)
    claim = Claim(text="a is best", better="a", than=("b",), margin=POINT)
    found = fate(claim, {"a": 0.6, "b": 0.4}, columns=columns)
    (rival,) = found.rivals
    assert found.fate == fated
    if measure == "other":
        assert rival.over_seeds
        assert (rival.low, rival.high) == (0.0, 0.0), "every result has .5 of it"
        undecided = "without each query's own value nothing can be decided."
        assert evidence(found).endswith(f"(+0.000 to +0.000 over the seeds); {undecided}")


def test_one_seed_decides_nothing_and_says_so():
    claim = Claim(text="a is best", better="a", than=("b",))
    told = [one for one in findings({"a": 0.9, "b": 0.1}) if one.seed == SEEDS[0]]
    found = fate_of(claim, experiment(claim), cells_of(told))
    assert found.fate == "not decided"
    assert evidence(found).endswith("; one seed decides nothing.")


@pytest.mark.parametrize(("units", "expected"), [(5, "not decided"), (6, "holds")])
@pytest.mark.parametrize("margin", [0.0, 0.01])
def test_fewer_than_six_units_decide_nothing(units: int, expected: str, margin: float):
    column = Column(label="Web", judge=TITLE, measure="R@10", corpus="blog_usgov")
    claim = Claim(text="a above b", better="a", than=("b",), margin=margin)
    told = [
        ArmResult(arm=arm, column="Web", seed=seed, result=ranked(rank, units))
        for arm, rank in (("a", 7), ("b", 12))
        for seed in SEEDS
    ]
    found = fate_of(claim, experiment(claim, columns=(column,)), cells_of(told))
    assert found.fate == expected
    undecided = "; of 5 queries, pairs or examples nothing can be decided."
    assert evidence(found).endswith(undecided) == (expected == "not decided")


def test_a_claim_names_arms_and_columns_that_are_there():
    for wrong in (
        Claim(text="x", better="z", than=("a",)),
        Claim(text="x", better="a", than=("b",), columns=("z",)),
    ):
        with pytest.raises(ValueError, match=r"no arm or column \['z'\]"):
            experiment(wrong)


def test_the_table_has_the_papers_number_beside_ours(monkeypatch: pytest.MonkeyPatch, tmp_path):
    printed = PaperTable("s999.t1", "A paper, Table 1", "accuracy", {"a": {"CR": 86.1}})
    monkeypatch.setattr(printed_numbers, "paper_table", lambda id: printed)
    told = FindingsTable(experiment(ABOVE), SMALL, findings({"a": 0.6, "b": 0.4}), {})
    a, b, c = told.lines()
    assert a[1].endswith(" [86.1]")
    assert "±" in b[1]
    assert "[" not in b[1]
    assert c[1] == ""
    text = told.markdown()
    assert "| a | 0." in text
    assert "**not run**: a is best." in text
    assert "A paper, Table 1 (accuracy)" in text
    assert {"page.html", "table.json", "table.png"} == {
        file.name for file in write_findings(told, tmp_path / "out").iterdir()
    }


RECALLS = {
    "s999.t1": PaperTable("s999.t1", "P", "R@5", {"a": {"News": 0.5, "Browsing": 0.1}}),
    "s999.t1.r20": PaperTable("s999.t1.r20", "P20", "R@20", {"a": {"Browsing": 0.3}}),
}


@pytest.mark.parametrize(
    ("depth", "beside", "part"),
    [
        ("R@5", 0.1, ""),
        ("R@20", 0.3, "Browsing R@20: P20 (R@20)."),
        ("R@10", None, "Browsing R@5: a 0.1."),
    ],
)
def test_a_recall_stands_beside_one_of_the_same_depth_and_another_depth_is_named_below(
    monkeypatch: pytest.MonkeyPatch, depth: str, beside: float | None, part: str
):
    monkeypatch.setattr(printed_numbers, "paper_table", RECALLS.get)
    columns = (
        Column(label="News", judge="title", measure="R@5"),
        Column(label="Browsing", judge="title", measure=depth, corpus="blog_usgov"),
    )
    what = experiment(columns=columns)
    printed = Printed(what)
    assert printed.beside(what.arms[0], columns[0]) == 0.5
    assert printed.beside(what.arms[0], columns[1]) == beside
    assert printed.beside_average(what.arms[0]) is None, "the paper printed none"
    assert f"In brackets: P (R@5). {part}".strip() in FindingsTable(what, SMALL, [], {}).notes()


def test_the_average_is_of_arms_that_have_all_columns():
    columns = (Column(label="CR", judge="CR"), Column(label="MR", judge="MR"))
    half = [*findings({"a": 0.6, "b": 0.4}), *findings({"a": 0.2}, "MR")]
    told = FindingsTable(experiment(columns=columns), SMALL, half, {})
    assert told.header == ["", "CR", "MR", "average"]
    a, b, _ = told.lines()
    assert a[-1] != ""
    assert b[-1] == ""


CR, MR, DEV = (
    Column(label="CR", judge="CR"),
    Column(label="MR", judge="MR"),
    Column(label="dev", judge="SST2", averaged=False),
)


def test_a_set_that_chooses_is_no_part_of_the_average():
    rates = {"dev": 0.9, "CR": 0.6, "MR": 0.2}
    found = [one for name, rate in rates.items() for one in findings({"a": rate}, name)]
    told = FindingsTable(experiment(columns=(DEV, CR, MR)), SMALL, found, {})
    (arm, *_) = told.what.arms
    pairs = zip(told.values(arm, CR), told.values(arm, MR), strict=True)
    assert told.means(arm) == pytest.approx([mean(pair) for pair in pairs])
    assert "The average is of CR, MR." in told.notes()
    assert FindingsTable(experiment(columns=(DEV, CR)), SMALL, [], {}).header == ["", "dev", "CR"]


@pytest.mark.parametrize(
    ("measures", "averaged"),
    [(("R@5", "R@5"), []), (("R@5", "R@20"), ["CR R@5, MR R@20"]), (("R@5", "nDCG@10"), None)],
)
def test_an_average_is_of_one_measure_and_told_where_that_has_several_depths(
    measures: tuple[str, str], averaged: list[str] | None
):
    columns = tuple(
        column.model_copy(update={"measure": measure})
        for column, measure in zip((CR, MR), measures, strict=True)
    )
    told = FindingsTable(experiment(columns=columns), SMALL, [], {})
    assert (told.header[-1] == "average") == (averaged is not None)
    notes = [note for note in told.notes() if note.startswith("The average is of ")]
    assert notes == [f"The average is of {one}." for one in averaged or []]


def test_what_it_cost_is_what_was_asked_for():
    what = experiment()
    asked = SMALL.model_copy(update={"steps": 5, "seeds": (7,)})
    told = FindingsTable(what, asked, [], {"max_documents": 150})
    assert told.notes()[0] == (
        "5 steps of 64 a training (the paper: 300 of 64); a sample of 150 documents of each "
        "corpus; seed 7."
    )
    assert FindingsTable(what, SMALL, [], {}).notes()[0] == (
        "300 steps of 64 a training; mean ± standard deviation over seeds 42, 43, 44."
    )


def test_a_table_says_that_its_transformers_were_trained_in_float32():
    """Most tables are of bfloat16; one column of numbers and the next shall be comparable."""

    def told(**changes: object) -> str:
        return FindingsTable(experiment(), SMALL.model_copy(update=changes), [], {}).notes()[0]

    words = Base(encoder=EncoderConfig(name="static"))
    assert "300 steps of 64 a training; in float32; mean" in told(dtype="float32")
    assert "float32" not in told(dtype="bfloat16") + told(dtype="float32", base=words)


def test_what_differs_is_of_the_budget_and_of_any():
    what = experiment()
    asked = SMALL.model_copy(update={"differs": "Two layers."})
    assert "What differs: Two layers. Everything." in FindingsTable(what, asked, [], {}).notes()


def test_columns_that_could_be_there_are_told_with_their_files():
    told = FindingsTable(experiment(), SMALL, [], {}, {"STS13": ["sts_sts13.parquet"]})
    assert told.notes()[-1] == (
        "Left out, for their files are not there: STS13 (sts_sts13.parquet)."
    )


def test_what_training_read_of_the_judges_is_told_by_name_from_a_thousandth_on():
    seen = Overlap(texts=9, exact=0.0, runs=0.059)
    unseen = Overlap(texts=9, exact=0.2, runs=None)
    told = FindingsTable(experiment(), SMALL, [], {}, overlaps={"IMDB": seen, "CR": unseen})
    assert told.notes()[-2].endswith("that training read: IMDB 5.9 %.")
    assert told.notes()[-1].endswith("as a whole: CR 20.0 %, all others below 0.1 %.")
    alone = FindingsTable(experiment(), SMALL, [], {}, overlaps={"CR": unseen})
    assert alone.notes()[-1] == "Judges' texts that training read as a whole: CR 20.0 %."


def test_the_papers_average_of_more_sets_stands_in_the_notes(monkeypatch: pytest.MonkeyPatch):
    printed = PaperTable("s999.t1", "A paper", "accuracy", {"a": {"average": 84.9}})
    monkeypatch.setattr(printed_numbers, "paper_table", lambda id: printed)
    columns = (Column(label="CR", judge="CR"), Column(label="MR", judge="MR"))
    both = [*findings({"a": 0.6}), *findings({"a": 0.2}, "MR")]
    whole, part = (
        FindingsTable(experiment(columns=columns), SMALL, both, {}, left_out)
        for left_out in ({}, {"SUBJ": ["transfer_subj.parquet"]})
    )
    assert whole.lines()[0][-1].endswith(" [84.9]")
    assert "[" not in part.lines()[0][-1]
    assert any("On average: a 84.9." in note for note in part.notes())


def test_titles_are_told_by_their_groups_and_equal_seeds_once():
    columns = (Column(label="pairs", judge=CASE),)
    found = [
        ArmResult(arm="a", column="pairs", seed=seed, result=kept_result(case_result(labels)))
        for seed, labels in {1: LAST, 2: LAST, 3: (0, 0, 1, 1, 1, 1, 3, 3)}.items()
    ]
    told = FindingsTable(experiment(columns=columns), SMALL, found, {})
    assert told.notes()[-2:] == [
        "a: 1 2 | 3 4 | 5 6 | 7 8 (1, 2).",
        "a: 1 2 | 3 4 5 6 | 7 8 (3).",
    ]


def test_json_has_the_averages_and_all_that_the_paper_printed():
    columns = tuple(Column(label=name, judge=name) for name in ("STS12", "SICK-R"))
    what = experiment(columns=columns).model_copy(update={"id": "infocse.t2"})
    both = [*findings({"a": 0.6}, "STS12"), *findings({"a": 0.2}, "SICK-R")]
    told = FindingsTable(what, SMALL, both, {}).json()
    assert [len(one["values"]) for one in told["averages"]] == [3, 0, 0]
    (paper,) = told["paper"]
    assert paper["rows"]["simcse (BERT-large)"] == {"average": 78.41}


def test_an_error_is_told_below_the_table_with_all_its_cells():
    failed = [
        ArmResult(arm=arm, column="CR", seed=1, error="E302 Training met a loss of nan.\nmore")
        for arm in ("b", "c")
    ]
    told = FindingsTable(experiment(), SMALL, failed, {})
    assert "b in CR, seed 1; c in CR, seed 1: E302 Training met a loss of nan." in told.notes()
    assert told.json()["errors"][0]["error"].startswith("E302")
    assert [line[1] for line in told.lines()] == ["", "E302", "E302"]


def test_the_command_of_a_table_is_one_that_a_shell_reads():
    asked = {"experiment": "infocse.t7", "encoder": "my models/mini (x) & lm", "seeds": [1, 7]}
    told = FindingsTable(experiment(), SMALL, [], asked)
    assert shlex.split(told.command)[5:] == ["--encoder", asked["encoder"], "--seeds", "1", "7"]
    assert told.title.endswith(f", from {asked['encoder']}")
    far = FindingsTable(experiment(), SMALL, [], {"encoder": "/long" * 40})
    assert far.title.endswith(f", from …{('/long' * 40)[-39:]}")


def test_a_difference_of_losses_is_told_to_the_digits_that_tell_them_apart():
    loss = PairwiseResult(
        than="b",
        difference=2e-5,
        low=1e-5,
        high=3e-5,
        ceiling=3e-5,
        seeds=3,
        better_in=3,
        reversed=True,
        digits=DIGITS[LOSS],
    )
    claim = ClaimResult(text="It falls", better="a", columns=["loss"], rivals=[loss], missing=[])
    assert "b less a, loss: +0.00002 (+0.00001 to +0.00003 over the seeds)" in evidence(claim)
