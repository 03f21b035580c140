"""A run that is killed in a training, and `resume`: one record, one report, one MLflow run."""

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, LogFilter
from prefect.client.schemas.sorting import FlowRunSort
from prefect.settings import PREFECT_API_URL

from deployments.server import free_port
from flows.infocse_idc import self_train
from sentemb_core.config.run import InfoCSEIDC
from sentemb_core.store.maintenance import fsck
from sentemb_core.store.objects import Store
from sentemb_core.store.runs import last_runs
from sentemb_core.types import ArtifactRef
from tasks.artifacts import RunResult
from tasks.delivery import sync
from tasks.report import Outcome
from tasks.servers import answers, experiment_id, mlflow_client
from tests.flows.corpora import in_process, tiny_run
from tests.repository import ROOT
from tests.waiting import soon


def flows(home: Path, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
    """`python -m flows ...` on the test's server, if no other is named."""
    settings = {"SENTEMB_HOME": str(home), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "flows", *arguments],
        cwd=ROOT,
        env=os.environ | {"PREFECT_API_URL": PREFECT_API_URL.value()} | settings | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def assert_second_training(process: "subprocess.Popen[str]") -> None:
    """Waits for it; a run that ends before has its log shown."""
    log = []
    for line in process.stderr:
        log.append(line)
        if sum("train_encoder runs" in text for text in log) == 2:
            return
    raise AssertionError("the run ended by itself:\n" + "".join(log[-40:]))


def killed(home: Path, *arguments: str) -> None:
    """A run that dies by SIGKILL in its second training, past the first checkpoint."""
    with flows(home, *arguments) as process:
        assert_second_training(process)
        known = checkpoints(home)
        assert soon(lambda: checkpoints(home) - known, pause=0.01)
        process.send_signal(signal.SIGKILL)


def checkpoints(home: Path) -> set[Path]:
    return set(home.glob("work/train_encoder-*/*.json"))


@contextmanager
def server(folder: Path) -> Iterator[tuple[str, int]]:
    """A Prefect server of this test alone: its API, and its process group."""
    port = free_port(0)
    url = f"http://127.0.0.1:{port}/api"
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1"]
    with subprocess.Popen(
        [*command, "--port", str(port)],
        env=os.environ | {"PREFECT_HOME": str(folder), "PREFECT_API_URL": url},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            assert soon(lambda: answers(url))
            yield url, process.pid
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def run_of_one_round(source: Path, folder: Path) -> tuple[InfoCSEIDC, Path]:
    """One whose second training takes long enough to be disturbed, and the file of its settings."""
    rounds = {"max_rounds": 1, "patience": 1}
    config = tiny_run(source, name="killed", rounds=rounds, control=False, register_model=False)
    training = config.training.model_copy(update={"steps": 500, "checkpoint_every": 10})
    config, file = config.model_copy(update={"training": training}), folder / "config.json"
    file.write_text(config.model_dump_json())
    return config, file


def encoders(training: RunResult) -> list[ArtifactRef]:
    return [row.encoder for row in training.rows]


def logged(name: str) -> list[str]:
    """Lines in the log of the latest flow run of this name, as Prefect's pages show them."""
    with get_client(sync_client=True) as client:
        (latest,) = client.read_flow_runs(
            flow_run_filter=FlowRunFilter(name={"any_": [name]}),
            sort=FlowRunSort.START_TIME_DESC,
            limit=1,
        )
        wanted = LogFilter(flow_run_id={"any_": [str(latest.id)]})
        return [line.message for line in client.read_logs(wanted)]


def in_mlflow(home: Path) -> list:
    """All runs but that of the registration: parents first. `sync` delivers late events."""
    assert sync(home) == 0
    found = mlflow_client(home).search_runs([experiment_id(home)])
    kept = [run for run in found if not run.info.run_name.startswith("register")]
    return sorted(kept, key=lambda run: "mlflow.parentRunId" in run.data.tags)


def repeated_points(home: Path, run: Any) -> list[tuple[str, int]]:
    """Names and steps of which MLflow has more than one point."""
    histories = {
        name: mlflow_client(home).get_metric_history(run.info.run_id, name)
        for name in run.data.metrics
    }
    counts = Counter((name, point.step) for name in histories for point in histories[name])
    return [point for point, count in counts.items() if count > 1]


@pytest.mark.server
@pytest.mark.slow
def test_a_killed_run_resumes_and_ends_in_the_same_encoders(
    prefect_server, corpus_file, home, tmp_path, monkeypatch
):
    config, file = run_of_one_round(corpus_file, tmp_path)
    killed(home, "run", "--config", str(file))
    (first,) = last_runs(Store.default())
    assert first.state == "killed"
    with flows(home, "resume", "--json") as process:
        output, log = process.communicate()
    assert process.returncode == 0, log[-2000:]
    outcome = Outcome.model_validate_json(output)
    (last,) = last_runs(Store.default())
    assert (last.id, last.state, last.started) == (first.id, "completed", first.started)
    assert last.stages[: len(first.stages)] == first.stages, "nothing finished was done twice"
    assert len({used.key for used in last.stages}) == len(last.stages)
    assert {timing.hit for timing in outcome.timings} == {False}, "all of it is this run's work"
    best = outcome.training.rows[outcome.training.best].label
    verdict = re.compile(rf"{best}\b.* R@5 .*test split", re.IGNORECASE)
    shown = soon(lambda: [line for line in logged("killed") if verdict.search(line)])
    assert shown, "Prefect's pages show the whole log"
    assert [report.parent.name for report in home.glob("reports/*/report.html")] == [first.id]
    parent, *children = in_mlflow(home)
    assert (parent.info.status, parent.data.tags["run"]) == ("FINISHED", first.id)
    assert {child.info.run_name for child in children} == {"start", "after-conpono", "round-1"}
    assert [point for child in children for point in repeated_points(home, child)] == []

    monkeypatch.setenv("SENTEMB_HOME", str(tmp_path / "undisturbed"))
    assert encoders(outcome.training) == encoders(in_process(self_train, config))


@pytest.mark.server
@pytest.mark.slow
def test_a_killed_server_ends_no_run(corpus_file, home, tmp_path, monkeypatch):
    config, file = run_of_one_round(corpus_file, tmp_path)
    with (
        server(tmp_path / "server") as (url, group),
        flows(home, "run", "--config", str(file), "--json", PREFECT_API_URL=url) as process,
    ):
        assert_second_training(process)
        os.killpg(group, signal.SIGKILL)
        output, log = process.communicate()
    assert process.returncode == 0, log[-2000:]
    outcome = Outcome.model_validate_json(output)
    (run,) = last_runs(Store.default())
    assert (run.state, fsck(Store.default()).healthy) == ("completed", True)
    assert len({used.key for used in run.stages}) == len(run.stages), "nothing was done twice"
    monkeypatch.setenv("SENTEMB_HOME", str(tmp_path / "undisturbed"))
    assert encoders(outcome.training) == encoders(in_process(self_train, config))
