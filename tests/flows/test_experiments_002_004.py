"""What product_thesis and hicl ask of the frame: BM25 rescored, BEIR folders, texts once each."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.experiment import experiment
from flows.experiments import index
from flows.experiments.index import Reproduction, files_wanted
from flows.experiments.judging import overlaps_with, pools_of
from flows.experiments.learning import base_of, texts_of
from sentemb_core.config.experiments import (
    BEIR,
    LOSS,
    SMALL,
    TITLE,
    Arm,
    Base,
    Column,
    Experiment,
    Train,
)
from sentemb_core.config.methods import SimCSE
from sentemb_core.config.run import EncoderConfig
from sentemb_core.corpus.tokens import TokenCorpus
from sentemb_core.evaluation.paper_tables import PaperTable
from sentemb_core.store.objects import Store
from sentemb_core.training.state import read_steps
from tasks import paper_numbers
from tasks.artifact_files import artifact_path
from tasks.benchmark import largest_overlaps, pools_told
from tasks.claims import ArmResult, cells_of, value_of
from tasks.execution import without_prefect
from tasks.experiment_table import ExperimentTable, marks
from tasks.paper_numbers import AVERAGE, PaperNumbers
from tasks.validate import recall_at_5
from tests.flows.corpora import write_data_folder
from tests.flows.suites import write_beir

TINY = SMALL.model_copy(
    update={
        "steps": 2,
        "batch_size": 8,
        "seeds": (1,),
        "base": Base(
            encoder=EncoderConfig(name="transformer", dim=16, vocabulary=300, positions=64),
            times=0,
        ),
    }
)
STEPS = (Train(method=SimCSE()),)
ALPHAS = (0.0, 10.0, 1000.0)

WHOLE = Experiment(
    id="s999.t2",
    title="Words and vectors",
    arms=(
        Arm(label="BM25", system="BM25"),
        Arm(label="simcse", steps=STEPS),
        Arm(label="chosen", steps=STEPS, alpha="chosen"),
        *(Arm(label=f"{alpha:g}", steps=STEPS, alpha=alpha) for alpha in ALPHAS),
    ),
    columns=(
        Column(label="Web", judge=TITLE, measure="R@5", corpus="blog_usgov"),
        Column(label="Quora", judge=f"{BEIR}quora", measure="R@100"),
        Column(label="loss", judge=LOSS),
    ),
    small=TINY,
    paper=TINY,
    differs="Everything.",
)


REAL = dict(index.EXPERIMENTS)
"""Before the fixture has its own in their place."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tiny files under the names that the experiment wants."""
    folder = tmp_path_factory.mktemp("data")
    texts = write_data_folder(folder)
    pq.write_table(pa.table({"title1": texts[:20] * 3}), folder / "product_abt_buy.parquet")
    quora = folder / "beir" / "quora"
    quora.mkdir(parents=True)
    write_beir(quora)
    return folder


@pytest.fixture(scope="module", autouse=True)
def _home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One store for all tests: nothing is computed twice."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SENTEMB_HOME", str(tmp_path_factory.mktemp("home")))
        patch.setattr(index, "EXPERIMENTS", {WHOLE.id: WHOLE})
        yield


@pytest.fixture(scope="module")
def asked(data: Path) -> Reproduction:
    return Reproduction(experiment=WHOLE.id, data=str(data))


@pytest.fixture(scope="module")
def findings(asked: Reproduction) -> list[ArmResult]:
    with without_prefect(Store.default()):
        return list(experiment.fn(asked).results)


def test_words_and_vectors_are_judged_together_in_pools_of_titles_alone(findings: list[ArmResult]):
    assert {one.error for one in findings} == {""}
    numbers = {
        arm.label: [c for a, c in cells_of(findings) if a == arm.label] for arm in WHOLE.arms
    }
    both, pool = ["Web", "Quora"], ["Web"]
    assert numbers == {"BM25": both, "simcse": [*both, "loss"]} | dict.fromkeys(
        ("chosen", *(f"{alpha:g}" for alpha in ALPHAS)), pool
    )


def test_without_vectors_it_is_bm25_and_validation_chooses_no_worse_alpha(
    findings: list[ArmResult],
):
    validation = {
        one.arm: recall_at_5(one.result)
        for one in findings
        if one.column == "Web" and one.result is not None
    }
    assert validation["0"] == validation["BM25"]
    assert validation["chosen"] >= max(validation[f"{alpha:g}"] for alpha in ALPHAS)


def test_the_loss_is_of_the_last_tenth_of_the_steps(findings: list[ArmResult]):
    (one,) = cells_of(findings)["simcse", "loss"]
    assert one.log is not None
    losses = read_steps(artifact_path(one.log))["loss"]
    assert value_of(one, WHOLE.columns[-1]) == pytest.approx(losses[-1])


def test_a_beir_folder_is_wanted_file_by_file():
    folder = "beir/quora"
    assert {f"{folder}/corpus.jsonl", f"{folder}/queries.jsonl", f"{folder}/qrels/test.tsv"} <= set(
        files_wanted(WHOLE, WHOLE.small)
    )


def test_training_is_held_against_the_queries_of_beir_and_the_titles_of_pools(asked: Reproduction):
    with without_prefect(Store.default()):
        read = overlaps_with(asked)
        overlaps = largest_overlaps([one.overlap for one in read if one.overlap])
        pools = pools_told(pools_of(asked))
    assert {name: one.texts for name, one in overlaps.items()} == {"quora queries": 4}
    assert {name: one.n_candidates for name, one in pools.items()} == {"Web": 40}
    told = ExperimentTable(WHOLE, TINY, [], {}, overlaps=overlaps, pools=pools)
    assert told.json()["pools"]["Web"]["in_other_documents"] == 0


@pytest.mark.parametrize(("distinct", "texts"), [(False, 60), (True, 20)])
def test_a_distinct_arm_trains_on_every_text_once(asked: Reproduction, distinct: bool, texts: int):
    arm = Arm(label="a", distinct=distinct)
    with without_prefect(Store.default()):
        read = texts_of(asked, base_of(asked), "product_abt_buy", arm)
        assert len(TokenCorpus.open(artifact_path(read.sentences))) == texts


def test_what_the_paper_judged_on_one_set_stands_beside_our_average(
    findings: list[ArmResult], monkeypatch: pytest.MonkeyPatch
):
    printed = PaperTable("s999.t2", "A paper", "R@k", {"BM25": {"eProduct": 73.1}})
    monkeypatch.setattr(paper_numbers, "paper_table", {"s999.t2": printed}.get)
    words, vectors, *_ = ExperimentTable(WHOLE, TINY, findings, {}).table().lines()
    assert words[-1].endswith(" [73.1]")
    assert all("[" not in cell for cell in (*words[:-1], *vectors))


def test_columns_on_an_axis_are_the_points_of_their_arms_curves(findings: list[ArmResult]):
    column = WHOLE.columns[1].model_copy(update={"x": 100.0})
    told = ExperimentTable(
        WHOLE.model_copy(update={"columns": (column,), "axis": "k"}), TINY, findings, {}
    )
    assert [(mark.curve, mark.x) for mark in marks(told)] == [("BM25", 100.0), ("simcse", 100.0)]
    assert told.table().head() == ["", "Quora R@100"], "rows are arms, which lie nowhere on it"


@pytest.mark.parametrize(
    "id", ["product_thesis.e2a", "product_thesis.e2b", "product_thesis.rescore"]
)
def test_number_of_another_measure_is_not_beside_ours(id: str):
    """There eProduct's capped recall would be compared with a correlation or a plain recall."""
    what = REAL[id]
    paper = PaperNumbers(what)
    assert {paper.of_cell(arm, column) for arm in what.arms for column in what.columns} == {None}
    assert {paper.heading(column) for column in what.columns} == {"eProduct R_cap@10"}


@pytest.mark.parametrize(
    ("id", "column", "printed"),
    [
        ("product_thesis.bce_quora", "Quora, R@100", {"bce": 59.8, "simcse": 96.2}),
        ("product_thesis.bce_cqadupstack", AVERAGE, {"bce": 8.7, "simcse": 38.2}),
    ],
)
def test_the_papers_recall_stands_beside_ours_and_not_beside_another_measure(
    id: str, column: str, printed: dict[str, float]
):
    """Of the twelve forums the thesis has the mean."""
    what = REAL[id]
    paper = PaperNumbers(what)
    beside = {
        arm.label: {
            **{one.label: paper.of_cell(arm, one) for one in what.columns},
            AVERAGE: paper.of_average(arm) if what.averaged else None,
        }
        for arm in what.arms
    }
    found = {
        label: {name: value for name, value in row.items() if value is not None}
        for label, row in beside.items()
    }
    assert {label: row for label, row in found.items() if row} == {
        label: {column: value} for label, value in printed.items()
    }
    assert {one.measure for one in what.averaged} <= {"R@100"}


@pytest.mark.parametrize(
    ("id", "paper"),
    [
        ("product_thesis.e2a", {"10k": 156, "20k": 312, "50k": 781, "100k": 1_562, "1M": 15_625}),
        ("product_thesis.e2b", {"10k": 468, "20k": 936, "50k": 2_343, "100k": 4_686, "1M": 46_875}),
        ("product_thesis.e1", {"simcse": 1_562, "consert": 1_562}),
        ("product_thesis.rescore", {"simcse": 1_562, "BM25 + simcse": 1_562}),
        ("product_thesis.e4", {"simcse": 4_686, "clm_autoencoder": 4_686}),
        ("product_thesis.curve", {"30 steps": 30, "3,000 steps": 3_000, "15,625 steps": 15_625}),
    ],
)
def test_the_papers_preset_takes_the_steps_of_its_slides(
    id: str, paper: dict[str, int], monkeypatch: pytest.MonkeyPatch
):
    """Golden: epochs that drop a last short batch (erratum E26)."""
    monkeypatch.setattr(index, "EXPERIMENTS", REAL)
    asked = Reproduction(experiment=id, data="data", preset="paper")
    steps = {
        arm.label: asked.training_of(step, 1).steps
        for arm in asked.what.arms
        for step in arm.steps
        if isinstance(step, Train)
    }
    assert steps.items() >= paper.items()
    assert id[:-1] != "product_thesis.e2" or steps == paper


def test_numbers_of_one_measure_stand_in_their_cells():
    beside = {
        id: [
            paper.of_cell(arm, column)
            for paper in [PaperNumbers(REAL[id])]
            for arm in REAL[id].arms
            for column in REAL[id].columns
            if paper.in_place(arm, column) is not None
        ]
        for id in (
            "mutual.t1",
            "infocse.t2",
            "infocse.t7",
            "product_thesis.e3a",
            "product_thesis.e5",
            "product_thesis.bce",
            "hicl.time",
        )
    }
    assert all(values and None not in values for values in beside.values())
