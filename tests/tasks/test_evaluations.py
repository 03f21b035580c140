"""Scores of a finished benchmark in the report of the run that made the encoder."""

import json
from pathlib import Path

import pytest

from sentemb_core.encoder.card import CardFacts, model_card
from sentemb_core.encoder.checkpoint import load_encoder, save_encoder
from sentemb_core.methods.parts.masked_language import MaskFiller
from sentemb_core.methods.parts.stored_head import HeadShape, write_head
from sentemb_core.store.objects import Store
from sentemb_core.store.runs import recording
from sentemb_core.types import ArtifactRef, Json
from tasks import evaluations
from tasks.benchmark import kept_encoder
from tasks.evaluations import evaluation_of, is_table
from tasks.results import ResultRow
from tasks.sources import digest_of_encoder
from tests import tiny

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def encoder(tmp_path: Path) -> ArtifactRef:
    """As a run has it: started from a folder, and published."""
    save_encoder(tiny.bert(), tmp_path / "start", "")
    with Store.default().writing("model") as draft:
        save_encoder(
            load_encoder(tmp_path / "start"), draft.path, model_card(CardFacts(name="tiny"))
        )
        write_head(MaskFiller(tiny.bert()).state_dict(), HeadShape(2, 1), draft.path)
    return draft.ref


def row(system: str, value: float, task: str = "Cranfield") -> Json:
    return ResultRow(
        system=system, task=task, metric="nDCG@10", value=value, low=value - 0.01,
        high=value + 0.02, units=9, factors={"part": "scores", "group": "retrieval"},
    ).model_dump()  # fmt: skip


def benchmark_of(
    encoder: ArtifactRef, run: str, out: Path | None = None, value: float = 0.4, *, fails=False
) -> None:
    """A benchmark's record, and its table of this encoder between BM25 and another model."""
    folder = out or Store.default().root / "benchmarks" / run
    folder.mkdir(parents=True)
    table = {
        "run": run,
        "models": {
            "other": {"model": "a", "encoder": "0" * 64},
            "mine": {"model": "b", "encoder": encoder.digest, "max_length": 12},
        },
        "rows": [
            row("BM25", 0.3),
            row("other", 0.5),
            row("mine", value),
            row("mine", 0.7, task="STS12"),
        ],
    }
    (folder / "table.json").write_text(json.dumps(table))
    config = {"models": ["a", "b"], "vectors": "text", "out": str(out) if out else None}
    try:
        with recording(Store.default(), run, [], config):
            if fails:
                raise KeyError
    except KeyError:
        pass


def test_encoder_without_a_benchmark_has_no_evaluation(encoder):
    assert evaluation_of(encoder) is None
    benchmark_of(ArtifactRef(kind="model", digest="1" * 64, size=1), "benchmark-1")
    assert evaluation_of(encoder) is None


def test_own_scores_come_first(encoder):
    benchmark_of(encoder, "benchmark-1")
    found = evaluation_of(encoder)
    assert found is not None
    assert (found.systems, found.fixed) == (["this encoder", "BM25", "other"], ["BM25"])
    assert found.rows == [
        ["Cranfield", "nDCG@10", *(f"{x}0.0 ({x - 1}9.0 to {x}2.0)" for x in (4, 3, 5))],
        ["STS12", "nDCG@10", "70.0 (69.0 to 72.0)", "", ""],
    ]
    drawn = [(point.task, point.system, point.fixed, point.value) for point in found.points]
    assert drawn == [
        ("Cranfield (nDCG@10)", "this encoder", False, 0.4),
        ("STS12 (nDCG@10)", "this encoder", False, 0.7),
        ("Cranfield (nDCG@10)", "BM25", True, 0.3),
        ("Cranfield (nDCG@10)", "other", False, 0.5),
    ]
    assert Path(found.page) == Store.default().root / "benchmarks" / "benchmark-1" / "page.html"


def test_last_finished_benchmark_with_a_readable_table_is_used(encoder, tmp_path, caplog):
    benchmark_of(encoder, "benchmark-1")
    benchmark_of(encoder, "benchmark-2", tmp_path / "elsewhere", value=0.45)
    benchmark_of(encoder, "benchmark-3", value=0.46, fails=True)
    for number, broken in enumerate(("{", "[]", '{"models": {"mine": {}}}', '{"models": 1}')):
        benchmark_of(encoder, f"benchmark-{4 + number}")
        folder = Store.default().root / "benchmarks" / f"benchmark-{4 + number}"
        (folder / "table.json").write_text(broken)
    found = evaluation_of(encoder)
    assert found is not None
    assert (found.run, found.rows[0][2]) == ("benchmark-2", "45.0 (44.0 to 47.0)")
    passed_over = [f"benchmark-{number}" for number in (7, 6, 5, 4)]
    assert [Path(record.args[0]).parent.name for record in caplog.records] == passed_over


def test_benchmark_without_its_table_is_skipped_with_a_warning(encoder, caplog):
    benchmark_of(encoder, "benchmark-1")
    table = Store.default().root / "benchmarks" / "benchmark-1" / "table.json"
    table.unlink()
    assert evaluation_of(encoder) is None
    assert [record.args[0] for record in caplog.records] == [table]


def test_overwritten_table_is_not_used_for_the_earlier_run(encoder, tmp_path):
    benchmark_of(encoder, "benchmark-1", tmp_path / "out")
    table = tmp_path / "out" / "table.json"
    assert is_table(table)
    table.write_text(json.dumps(json.loads(table.read_text()) | {"run": "benchmark-2"}))
    assert evaluation_of(encoder) is None


@pytest.mark.parametrize(
    ("model", "accepted"),
    [
        ({"model": "BM25"}, True),
        ({"model": "a", "encoder": "0" * 64, "max_length": 12}, True),
        ({"accuracy": 0.9}, False),
        ({"model": "a", "encoder": 7}, False),
        ({"model": ["a"]}, False),
    ],
)
def test_a_table_of_another_program_is_no_table_of_a_benchmark(
    tmp_path: Path, model: Json, accepted: bool
):
    file = tmp_path / "table.json"
    file.write_text(json.dumps({"run": "a", "models": {"one": model}, "rows": [row("one", 0.3)]}))
    assert is_table(file) is accepted


def test_a_score_without_a_known_group_has_no_point(encoder):
    """Another program may have written the table; the report of a finished run needs no point."""
    benchmark_of(encoder, "benchmark-1")
    file = Store.default().root / "benchmarks" / "benchmark-1" / "table.json"
    table = json.loads(file.read_text())
    for number, group in enumerate(({}, {"group": "unknown"})):
        table["rows"][number]["factors"] = {"part": "scores"} | group
    file.write_text(json.dumps(table))
    found = evaluation_of(encoder)
    assert found is not None
    assert found.rows[0][0] == "Cranfield"
    assert [(point.system, point.value) for point in found.points] == [
        ("this encoder", 0.4),
        ("this encoder", 0.7),
    ]


@pytest.mark.parametrize("fault", [LookupError, ValueError])
def test_own_fault_is_not_an_unreadable_table(encoder, monkeypatch, fault):
    """It would take the chapter out of every report, and nobody would know."""

    def broken(*_):
        raise fault

    benchmark_of(encoder, "benchmark-1")
    monkeypatch.setattr(evaluations, "points_of", broken)
    with pytest.raises(fault):
        evaluation_of(encoder)


def test_encoder_of_the_store_is_the_same_artifact_in_a_benchmark(encoder):
    """With its card and its head: by its digest its scores are found again."""
    folder = str(Store.default().path(encoder))
    found = {"folder": folder, "digest": digest_of_encoder(folder)}
    assert kept_encoder.stage.run(Store.default(), found) == encoder
