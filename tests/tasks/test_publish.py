"""The card of a published encoder, and the end of a run whose registry fails."""

from pathlib import Path

import pytest

from flows.cli.records import stored_outcome
from sentemb_core.config.run import CorpusConfig, InfoCSEIDC, RunConfig
from sentemb_core.corpus.validation_pool import Kind, PoolReport
from sentemb_core.errors import OutOfMemoryError, RegistryDownError, SentembError, UnsafeModelError
from sentemb_core.store.objects import Store
from sentemb_core.store.runs import read_run, recording
from tasks import publish
from tasks.publish import baseline_scores, gated_or_reported, judged_split, method_text
from tasks.report import Outcome
from tests.tasks.made import ROWS, outcome, ref, row, training


def test_card_has_bm25_and_the_encoders_own_control():
    controls = (row("control", "control 1"), row("control", "control 2"))
    rounds = [*ROWS, row("round", "round 2")]
    assert baseline_scores(training(rounds, 2, controls=controls)) == {
        "BM25": ref("bm25"),
        "control: the same number of steps on plain neighbours": ref("control_1"),
    }
    no_round_chosen, no_control = training(rounds, 1, controls=controls), training(rounds, 2)
    assert list(baseline_scores(no_round_chosen)) == list(baseline_scores(no_control)) == ["BM25"]


def test_card_names_the_method_once_and_every_training():
    assert method_text("infocse_idc", []) is None
    assert method_text("simcse", ["after simcse"]) == "simcse"
    assert method_text("infocse_idc", ["after ict", "round 1"]) == "infocse_idc: ict, then round 1"


@pytest.mark.parametrize(
    ("kind", "column", "sides"),
    [
        ("counterpart", "title", ("document", "title")),
        ("counterpart", None, ("document", "counterpart")),
        ("halves", "title", ("first half", "second half")),
    ],
)
def test_card_has_sides_and_size_of_the_test_split(
    kind: Kind, column: str | None, sides: tuple[str, str], tmp_path: Path
):
    counts = {"validation": 7, "gate": 8, "test": 9}
    report = PoolReport(kind=kind, n_candidates=24, n_queries=counts, merged=0)
    (tmp_path / "pool.json").write_text(report.model_dump_json())
    split = judged_split(tmp_path, column)
    assert (split.query, split.candidate) == sides
    assert (split.queries, split.candidates) == (9, 24)


@pytest.mark.parametrize("error", [RegistryDownError, UnsafeModelError, OutOfMemoryError])
def test_a_run_is_reported_and_has_its_outcome_even_if_the_registry_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: type[SentembError]
):
    notes: list[str] = []

    def fail(*_: object) -> None:
        raise error("The champion cannot be opened.")

    def written(_: Outcome, __: RunConfig, note: str) -> Path:
        notes.append(note)
        return tmp_path / "report.html"

    monkeypatch.setenv("SENTEMB_HOME", str(tmp_path))
    monkeypatch.setattr(publish, "register_and_gate", fail)
    monkeypatch.setattr(publish, "write_report_of", written)
    found = outcome("night-1")
    config = InfoCSEIDC(corpus=CorpusConfig(source="d.jsonl"))
    with pytest.raises(error), recording(Store.default(), "night-1", [], {}) as record:
        gated_or_reported(found, config, record)
    (note,) = notes
    assert "flows resume night-1" in note
    run = read_run(Store.default(), "night-1")
    assert run.state == "failed"
    assert stored_outcome(run) == found
