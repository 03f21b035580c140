"""What every test stands on: no network, no telemetry, a home of its own, one Prefect server."""

import logging
import os
import shutil
import tempfile

os.environ |= {
    "HF_HUB_OFFLINE": "1",
    "DO_NOT_TRACK": "1",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "OMP_WAIT_POLICY": "PASSIVE",
}

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cyclopts import App

IN_MEMORY = Path("/dev/shm")  # a disk that stalls a minute makes Prefect's and MLflow's SQLite fail
ROOM = shutil.disk_usage(IN_MEMORY).free if IN_MEMORY.is_dir() else 0
if "TMPDIR" not in os.environ and ROOM > 8 << 30:
    tempfile.tempdir = os.environ["TMPDIR"] = str(IN_MEMORY)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh folder as the home of the store."""
    folder = tmp_path / "home"
    monkeypatch.setenv("SENTEMB_HOME", str(folder))
    return folder


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Two threads cost more than they give on tiny encoders, and much more on a busy machine."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def answer(capsys: pytest.CaptureFixture[str]):
    """Exit code, stdout and stderr of a command line's verb, in this process.

    A verb sends the core's log to stderr; the next test has it as it was.
    """
    from sentemb_core import console

    ours = logging.getLogger("sentemb_core")
    handlers, propagate, level = ours.handlers, ours.propagate, ours.level

    def answered(app: "App", *arguments: str) -> tuple[int, str, str]:
        code = console.run(app, arguments)
        return code, *capsys.readouterr()

    yield answered
    ours.handlers, ours.propagate = handlers, propagate
    ours.setLevel(level)


@pytest.fixture(scope="session")
def prefect_server():
    """A Prefect server on loopback for the whole session, and its API as the current one."""
    from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings
    from prefect.testing.utilities import prefect_test_harness

    # the thread that sends heartbeats is joined at the end of a flow, which costs it a second
    with (
        prefect_test_harness(server_startup_timeout=120),
        temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}),
    ):
        yield
