"""What a run reports of every encoder while it goes on."""

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


def test_no_traceback_of_prefect_shows_a_password():
    logger, out = logging.getLogger("prefect.flow_runs.test"), io.StringIO()
    handler = PrefectConsoleHandler(stream=out)
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger.addHandler(handler)
    logger.disabled = False  # as Prefect's settings of logs leave a logger that they do not name
    logger.setLevel(logging.ERROR)
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


def test_the_share_of_kept_pairs_is_reported_for_annotated_encoders_alone(config, caplog):
    tracker, store = Tracker(), Store.default()
    caplog.set_level(logging.INFO, "sentemb_core.annotation.pairs")
    with recording(store, "r", [], {}) as record, without_prefect():
        self_train(config, monitor := RunMonitor(config, record, tracker))
    rows = {row["encoder"]: row for row in monitor.table}
    assert list(rows) == ["start", "after conpono", "round 1", "control 1: neighbours only"]
    metrics = tracker.metrics["round 1"]
    assert rows["round 1"]["pairs kept"] == f"{metrics['annotation/kept_share']:.3f}"
    recall = metrics["validation/document_to_counterpart/recall_at_20"]
    assert rows["round 1"]["R@20"] == f"{recall:.3f}"
    assert [label for label, row in rows.items() if row["pairs kept"]] == ["round 1"]
    dropped = metrics["annotation/dropped_share"]
    assert dropped > 0
    logged = [line.args for line in caplog.records if line.name == "sentemb_core.annotation.pairs"]
    assert (pytest.approx(100 * dropped), 1) in [args[:2] for args in logged]
