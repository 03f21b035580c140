"""What is said of every encoder of a run while the run goes on."""

import io
import logging
from pathlib import Path

import pytest
from prefect.logging.handlers import PrefectConsoleHandler

from flows.infocse_idc import self_train
from sentemb_core.config.run import InfoCSEIDC
from sentemb_core.store.objects import Store
from sentemb_core.store.runs import recording
from tasks.execution import without_prefect
from tasks.run_monitor import RunMonitor, redact_prefect_logs
from tests.flows.corpora import tiny_run, write_corpus

pytestmark = pytest.mark.usefixtures("home")


def test_no_traceback_that_prefect_prints_or_sends_has_a_password():
    """Its engine logs an error with all that it came of."""
    logger, out = logging.getLogger("prefect.flow_runs.test"), io.StringIO()
    handler = PrefectConsoleHandler(stream=out)
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger.addHandler(handler)
    try:
        redact_prefect_logs()
        redact_prefect_logs()
        try:
            raise ConnectionError("http://me:word@tracker:5000 refused")
        except ConnectionError:
            logger.exception("the run failed")
    finally:
        logger.removeHandler(handler)
    assert "http://***@tracker:5000 refused" in out.getvalue()
    assert "me:word" not in out.getvalue()


class Tracker:
    """In MLflow's place: the metrics of every child."""

    def __init__(self) -> None:
        self.metrics: dict[str, dict[str, float]] = {}

    def child(self, label: str) -> "Child":
        return Child(self.metrics.setdefault(label, {}))


class Child:
    def __init__(self, metrics: dict[str, float]) -> None:
        self.metrics = metrics

    def log_metrics(self, values: dict[str, float], step: int) -> None:
        self.metrics |= values

    def set_tags(self, tags: dict[str, str]) -> None:
        pass


@pytest.fixture
def config(tmp_path: Path) -> InfoCSEIDC:
    """One round, whose clusters are large and whose partners are few."""
    return tiny_run(
        write_corpus(tmp_path / "documents.jsonl"),
        annotation={"top_k": 2, "max_partners": 1},
        rounds={"max_rounds": 1, "patience": 1},
    )


SAID = "on the validation split: encoder "


def test_a_round_says_what_share_of_pairs_it_kept_and_others_have_none_to_tell(config, caplog):
    tracker, store = Tracker(), Store.default()
    caplog.set_level(logging.INFO, "sentemb_core")
    with recording(store, "r", [], {}) as record, without_prefect(store):
        self_train(config, RunMonitor(config, record, tracker))
    said = {
        line.removeprefix(SAID).partition(",")[0]: line
        for line in caplog.messages
        if line.startswith(SAID)
    }
    found = tracker.metrics["round 1"]
    assert list(said) == ["start", "after conpono", "round 1", "control 1: neighbours only"]
    kept, recall = found["annotation/kept_share"], "document_to_counterpart/recall_at_20"
    assert f", pairs kept {kept:.3f}, seconds" in said["round 1"]
    assert f", R@20 {found[f'validation/{recall}']:.3f}, " in said["round 1"]
    assert [label for label, line in said.items() if "pairs kept" in line] == ["round 1"]
    dropped = found["annotation/dropped_share"]
    assert dropped > 0
    assert f"max_partners 1 dropped {100 * dropped:.1f} % of" in caplog.text
