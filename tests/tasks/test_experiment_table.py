"""An experiment's table: means, averages, the paper's numbers, notes, files."""

import json
import shlex
from statistics import mean

import pytest

from flows.experiments.index import EXPERIMENTS
from flows.experiments.infocse import STS
from sentemb_core.config.experiments import CASE, SMALL, Arm, Base, Claim, Column, Experiment
from sentemb_core.config.run import EncoderConfig
from sentemb_core.evaluation.appendix_d import LAST, case_result
from sentemb_core.evaluation.contamination import Overlap
from sentemb_core.evaluation.paper_tables import PaperTable
from tasks import paper_numbers
from tasks.benchmark import kept_result
from tasks.claims import ArmResult
from tasks.experiment_table import ExperimentTable, training_budget, write_experiment
from tasks.paper_numbers import PaperNumbers
from tasks.results import ResultRow
from tests.tasks.made import SEEDS, of_arm, of_arms

pytestmark = pytest.mark.usefixtures("in_process")

CR, MR, DEV = (
    Column(label="CR", judge="CR"),
    Column(label="MR", judge="MR"),
    Column(label="dev", judge="SST2", averaged=False),
)


def experiment(*claims: Claim, columns: tuple[Column, ...] = (CR,), **more: object) -> Experiment:
    arms = tuple(Arm(label=label) for label in ("a", "b", "c"))
    what = {"id": "s999.t1", "title": "Three arms", "arms": arms, "paper": SMALL}
    return Experiment.model_validate(what | {"columns": columns, "claims": claims} | more)


def table(what: Experiment, found: list[ArmResult], **more: object) -> ExperimentTable:
    return ExperimentTable(what, SMALL, found, {}, **more)


def print_paper(monkeypatch: pytest.MonkeyPatch, *tables: PaperTable) -> None:
    monkeypatch.setattr(paper_numbers, "paper_table", {one.id: one for one in tables}.get)


def test_table_has_mean_spread_and_the_papers_number(monkeypatch: pytest.MonkeyPatch, tmp_path):
    print_paper(monkeypatch, PaperTable("s999.t1", "A paper", "accuracy", {"a": {"CR": "86.1"}}))
    claim = Claim(text="a is best", source="Table 1", better="a", than=("b", "c"))
    made = table(experiment(claim), of_arms({"a": 0.6, "b": 0.4}))
    a, b = made.table().lines()
    assert a[1].endswith(" [86.1]")
    assert "±" in b[1]
    assert "[" not in b[1]
    folder = write_experiment(made, tmp_path / "out")
    assert {"page.html", "table.json", "table.png"} == {file.name for file in folder.iterdir()}
    kept = json.loads((folder / "table.json").read_text("utf-8"))
    rows = [ResultRow.model_validate(row) for row in kept["rows"]]
    assert rows == made.rows()
    assert [row.seeds for row in rows if row.system == "a"][:3] == [(1,), (2,), (3,)]
    assert [row.factors.get("verdict") for row in rows][-1] == "not run"
    assert "a is best" in (folder / "page.html").read_text("utf-8")


def test_baseline_gives_a_difference_with_its_interval():
    arms = (Arm(label="a", baseline="b"), Arm(label="b"))
    column = CR.model_copy(update={"compared": True})
    made = table(experiment(columns=(column,), arms=arms), of_arms({"a": 0.6, "b": 0.4}))
    (row,) = made.differences
    assert (row.system, row.baseline, row.units, row.seeds) == ("a", "b", 500, SEEDS)
    assert row.low is not None
    assert row.value is not None
    assert 0 < row.low < row.value
    assert made.table().head() == ["", "CR", "CR minus b (95 %)"]


def differences(*found: list[ArmResult]) -> list[ResultRow]:
    """Of a, c and d from b, which has a baseline too but is none of its own."""
    arms = (*(Arm(label=label, baseline="b") for label in "acd"), Arm(label="b"))
    columns = (CR.model_copy(update={"compared": True}),)
    results = [one for part in found for one in part]
    return table(experiment(arms=arms, columns=columns), results).differences


def test_differences_are_paired_and_have_their_sign():
    better, worse, equal = differences(
        of_arm("b", 0.5), of_arm("a", 0.8), of_arm("c", 0.3), of_arm("d", 0.5)
    )
    assert 0 < better.low < better.value < better.high
    assert worse.low < worse.value < worse.high < 0
    assert (equal.low, equal.value, equal.high) == (0, 0, 0), "paired: it finds the very same"


def test_differences_between_trainings_widen_the_interval():
    alike, apart = differences(
        of_arm("b", *[0.3] * 3), of_arm("a", *[0.6] * 3), of_arm("c", 0.4, 0.6, 0.8)
    )
    assert alike.value == pytest.approx(apart.value, abs=0.02)
    assert apart.low < alike.low
    assert apart.high > alike.high


def test_no_difference_without_a_partner():
    failed = ArmResult(arm="a", column="CR", seed=1, error="E302 Training met a loss of nan.")
    other_seed = [one.model_copy(update={"seed": 2}) for one in of_arm("c", 0.6)]
    assert differences(of_arm("b", 0.5), [failed], other_seed) == []
    assert differences(of_arm("a", 0.6)) == []


@pytest.mark.parametrize(("depth", "beside"), [("R@5", 0.1), ("R@20", 0.3), ("R@10", None)])
def test_recall_is_compared_at_the_same_depth(
    monkeypatch: pytest.MonkeyPatch, depth: str, beside: float | None
):
    print_paper(
        monkeypatch,
        PaperTable(
            "s999.t1",
            "P",
            "R@k",
            {"a": {"News R@5": "0.5", "Browsing R@5": "0.1", "Browsing R@20": "0.3"}},
        ),
    )
    columns = (
        Column(label="News", judge="title", measure="R@5"),
        Column(label="Browsing", judge="title", measure=depth, corpus="blog_usgov"),
    )
    what = experiment(columns=columns)
    paper = PaperNumbers(what)
    assert paper.of_cell(what.arms[0], columns[0]) == 0.5
    assert paper.of_cell(what.arms[0], columns[1]) == beside
    assert paper.of_average(what.arms[0]) is None, "the paper printed none"
    assert any("P (R@k)" in note for note in table(what, []).notes())


def test_average_is_of_arms_that_have_all_columns():
    half = [*of_arms({"a": 0.6, "b": 0.4}), *of_arms({"a": 0.2}, "MR")]
    made = table(experiment(columns=(CR, MR)), half)
    assert made.table().head() == ["", "CR", "MR", "average"]
    a, b = made.table().lines()
    assert a[-1] != ""
    assert b[-1] == ""


def test_development_set_is_no_part_of_the_average():
    rates = {"dev": 0.9, "CR": 0.6, "MR": 0.2}
    found = [one for name, rate in rates.items() for one in of_arms({"a": rate}, name)]
    made = table(experiment(columns=(DEV, CR, MR)), found)
    (arm, *_) = made.what.arms
    pairs = zip(made.by_seed(arm, CR).values(), made.by_seed(arm, MR).values(), strict=True)
    assert list(made.means(arm).values()) == pytest.approx([mean(pair) for pair in pairs])
    assert any(note.endswith(" CR, MR.") for note in made.notes())
    assert table(experiment(columns=(DEV, CR)), found).table().head() == ["", "dev", "CR"]


@pytest.mark.parametrize(
    ("measures", "averaged"),
    [(("R@5", "R@5"), 2), (("R@5", "R@20"), 2), (("R@5", "nDCG@10"), 0)],
)
def test_average_is_of_one_measure(measures: tuple[str, str], averaged: int):
    columns = tuple(
        column.model_copy(update={"measure": measure})
        for column, measure in zip((CR, MR), measures, strict=True)
    )
    what = experiment(columns=columns)
    assert len(what.averaged) == averaged
    depths = [note for note in table(what, []).notes() if note.endswith(" CR R@5, MR R@20.")]
    assert len(depths) == (measures == ("R@5", "R@20"))


def test_notes_hold_budget_sample_and_precision():
    asked = SMALL.model_copy(update={"steps": 5, "seeds": (7,), "dtype": "float32"})
    note = ExperimentTable(experiment(), asked, [], {"max_documents": 150}).notes()[0]
    for part in ("5 steps of 64", "300 of 64", "150 documents", "float32", "seed 7"):
        assert part in note
    usual = table(experiment(), []).notes()[0]
    assert "300 steps of 64" in usual
    assert "seeds 42, 43, 44" in usual
    assert "float32" not in usual
    static = asked.model_copy(update={"base": Base(encoder=EncoderConfig(name="static"))})
    assert "float32" not in ExperimentTable(experiment(), static, [], {}).notes()[0]


def test_notes_hold_differences_missing_files_and_contamination():
    made = table(
        experiment(differs="Everything."),
        [],
        left_out={"STS13": ["sts_sts13.parquet"]},
        overlaps={
            "IMDB": Overlap(texts=9, exact=0.0, runs=0.059),
            "CR": Overlap(texts=9, exact=0.2, runs=None),
        },
    )
    text = " ".join(made.notes())
    for part in (
        "Everything.",
        "STS13 (sts_sts13.parquet)",
        "IMDB 5.9 %",
        "CR 20.0 %, all others below 0.1 %",
    ):
        assert part in text
    asked = SMALL.model_copy(update={"differs": "Two layers."})
    notes = ExperimentTable(experiment(differs="Everything."), asked, [], {}).notes()
    assert any("Two layers. Everything." in note for note in notes)


def test_average_over_fewer_sets_is_not_compared(monkeypatch: pytest.MonkeyPatch):
    paper = PaperTable("s999.t1", "A paper", "accuracy", {"a": {"average": "84.9"}})
    print_paper(monkeypatch, paper)
    both = [*of_arms({"a": 0.6}), *of_arms({"a": 0.2}, "MR")]
    what = experiment(columns=(CR, MR))
    whole = table(what, both).table().lines()
    part = table(what, both, left_out={"SUBJ": ["transfer_subj.parquet"]}).table().lines()
    assert whole[0][-1].endswith(" [84.9]")
    assert "[" not in part[0][-1]


def test_clusters_of_titles_are_listed_once_for_equal_seeds():
    columns = (Column(label="pairs", judge=CASE),)
    found = [
        ArmResult(arm="a", column="pairs", seed=seed, result=kept_result(case_result(labels)))
        for seed, labels in {1: LAST, 2: LAST, 3: (0, 0, 1, 1, 1, 1, 3, 3)}.items()
    ]
    assert table(experiment(columns=columns), found).notes()[-2:] == [
        "a: 1 2 | 3 4 | 5 6 | 7 8 (1, 2).",
        "a: 1 2 | 3 4 5 6 | 7 8 (3).",
    ]


def test_error_stands_in_its_cells_and_once_below():
    failed = [
        ArmResult(arm=arm, column="CR", seed=1, error="E302 Training met a loss of nan.\nmore")
        for arm in ("b", "c")
    ]
    made = table(experiment(), failed)
    (note,) = [note for note in made.notes() if "E302" in note]
    assert note.startswith("b in CR, seed 1; c in CR, seed 1: E302 ")
    assert "more" not in note
    rows = made.json()["rows"]
    assert [row["note"][:4] for row in rows if row["system"] in "bc"] == ["E302", "E302"]
    assert made.table().lines() == [["b", "E302"], ["c", "E302"]]


def test_command_is_one_that_a_shell_reads():
    asked = {"experiment": "infocse.t7", "encoder": "my models/mini (x) & lm", "seeds": [1, 7]}
    made = ExperimentTable(experiment(), SMALL, [], asked)
    assert shlex.split(made.command)[5:] == ["--encoder", asked["encoder"], "--seeds", "1", "7"]
    assert made.title.endswith(f", from {asked['encoder']}")
    far = ExperimentTable(experiment(), SMALL, [], {"encoder": "/long" * 40})
    assert far.title.endswith(f", from …{('/long' * 40)[-39:]}")


@pytest.mark.parametrize(
    ("id", "arm", "whole", "average"),
    [
        ("infocse.t2", "simcse", True, 76.25),  # as printed; the mean of its seven sets is 76.249
        ("infocse.t2", "word vectors", True, 61.32),
        ("infocse.t2", "simcse", False, None),
        ("infocse.t3", "simcse", True, None),  # of other sets than ours
        ("infocse.t10", "simcse", True, 85.81),
        ("infocse.t12", "diffcse", True, 78.27),  # as printed (erratum E17)
        ("product_thesis.bce", "simcse", True, None),  # of more sets than our five
        ("mutual.t1", "ict", True, None),
        ("product_thesis.e3a", "simcse", True, None),
    ],
)
def test_papers_average_is_compared_over_the_same_sets(
    id: str, arm: str, whole: bool, average: float | None
):
    what = EXPERIMENTS[id]
    (row,) = [one for one in what.arms if one.label == arm]
    assert PaperNumbers(what, whole=whole).of_average(row) == average


def test_development_set_is_averaged_as_in_the_paper():
    what = EXPERIMENTS["infocse.t12"]
    assert what.averaged == list(STS)
    columns = {claim.columns for claim in what.claims}
    assert columns == {("STS-B dev",), tuple(column.label for column in STS)}


@pytest.mark.parametrize(
    ("id", "bm25"), [("mutual.t1", True), ("product_thesis.rescore", True), ("mutual.appD", False)]
)
def test_table_with_bm25_names_its_parameters(id: str, bm25: bool):
    what = EXPERIMENTS[id]
    notes = [note for note in table(what, []).notes() if "BM25: k1 1.2, b 0.75, k3 8;" in note]
    assert len(notes) == bm25
    assert all("179 English stop words" in note for note in notes)


def test_arms_that_rescore_bm25_name_its_parameters():
    what = EXPERIMENTS["product_thesis.rescore"]
    arms = tuple(arm for arm in what.arms if arm.alpha is not None)
    notes = table(what.model_copy(update={"arms": arms}), []).notes()
    assert any("BM25: k1 1.2" in note for note in notes)


def test_json_has_the_averages_and_all_numbers_of_the_paper():
    columns = tuple(Column(label=name, judge=name) for name in ("STS12", "SICK-R"))
    what = experiment(columns=columns).model_copy(update={"id": "infocse.t2"})
    both = [*of_arms({"a": 0.6}, "STS12"), *of_arms({"a": 0.2}, "SICK-R")]
    kept = table(what, both).json()
    averages = [row["system"] for row in kept["rows"] if row["metric"] == "average"]
    assert averages == ["a"] * 3
    (paper,) = kept["paper"]
    assert paper["rows"]["simcse (BERT-large)"]["average"] == "78.41"


@pytest.mark.parametrize(
    ("id", "budget"),
    [
        ("product_thesis.e2a", "156 to 1,562 steps of 64"),
        ("product_thesis.batch", "38 to 600 steps of 32 to 512"),
        ("declutr.f2b", "300 steps of 16"),
        ("hicl.time", "30 steps of 16"),
    ],
)
def test_training_budget_is_what_the_arms_take(id: str, budget: str):
    assert training_budget(EXPERIMENTS[id], EXPERIMENTS[id].small) == budget
