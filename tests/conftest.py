"""Fixtures of all tests: no network, no telemetry, a fresh home, one Prefect server."""

import logging
import os
import shutil
import tempfile
import threading

os.environ |= {
    "HF_HUB_OFFLINE": "1",
    "DO_NOT_TRACK": "1",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_API_REQUEST_TIMEOUT": "300",  # machines stall; a repeated request writes twice
    "PREFECT_SERVER_DATABASE_TIMEOUT": "300",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "GOMP_SPINCOUNT": "3000",
}

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.waiting import LONG

if TYPE_CHECKING:
    from cyclopts import App

IN_MEMORY = Path("/dev/shm")  # a disk that stalls a minute makes Prefect's and MLflow's SQLite fail
ROOM = shutil.disk_usage(IN_MEMORY).free if IN_MEMORY.is_dir() else 0
if "TMPDIR" not in os.environ and ROOM > 8 << 30:
    tempfile.tempdir = os.environ["TMPDIR"] = str(IN_MEMORY)

settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("soak", settings.get_profile("default"), max_examples=10_000)
settings.load_profile("default")


@pytest.fixture(scope="session", autouse=True)
def _patient() -> Iterator[None]:
    """Wait for a stalled machine: it is not a dead server."""
    from tasks import delivery
    from tasks import prefect_pages as artifacts

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(artifacts, "PATIENCE", LONG)
        patched.setattr(delivery, "PATIENCE", LONG)
        yield


@pytest.fixture(scope="session", autouse=True)
def _known_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Take all model folders as tried; a child process each would take minutes."""
    from sentemb_core.encoder import checkpoint, probe

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(checkpoint, "require_bounded", lambda _: None)
        notes = tmp_path_factory.mktemp("bounded")
        patched.setattr(probe, "_cache", lambda: notes)
        yield


@pytest.fixture
def caplog(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Drop the records of threads of earlier tests, such as a server's client."""
    others = set(threading.enumerate()) - {threading.current_thread()}

    def is_ours(_: logging.LogRecord) -> bool:
        return threading.current_thread() not in others

    caplog.handler.addFilter(is_ours)
    yield caplog
    caplog.handler.removeFilter(is_ours)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a fresh folder as the home of the store."""
    folder = tmp_path / "home"
    monkeypatch.setenv("SENTEMB_HOME", str(folder))
    return folder


@pytest.fixture(scope="session")
def larger_sets() -> Path:
    """Return the folder of data that is not shipped; without it the test is skipped."""
    if "SENTEMB_DATA" not in os.environ:
        pytest.skip("SENTEMB_DATA is not set: it names the folder of the larger sets")
    return Path(os.environ["SENTEMB_DATA"])


@pytest.fixture(autouse=True)
def _one_seed_and_thread() -> Iterator[None]:
    """Set one seed and one thread: two threads slow tiny encoders down, most on a busy machine."""
    import torch

    torch.manual_seed(0)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def _log_as_it_was() -> Iterator[None]:
    """Restore the core's log, which a command sends to stderr."""
    ours = logging.getLogger("sentemb_core")
    handlers, propagate, level = ours.handlers, ours.propagate, ours.level
    yield
    ours.handlers, ours.propagate = handlers, propagate
    ours.setLevel(level)


@pytest.fixture
def answer(capsys: pytest.CaptureFixture[str]):
    """Run a command in this process; return exit code, stdout and stderr."""
    from sentemb_core import console

    def answered(app: "App", *arguments: str) -> tuple[int, str, str]:
        code = console.run(app, arguments)
        return code, *capsys.readouterr()

    return answered


@pytest.fixture(scope="session")
def prefect_server():
    """Run a Prefect server on loopback for the whole session."""
    from httpx import TimeoutException
    from prefect.events.worker import EventsWorker
    from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings
    from prefect.testing.utilities import prefect_test_harness

    EventsWorker.drain_all()  # one that an earlier run left would send task runs to its server
    with ExitStack() as stack:
        try:
            stack.enter_context(prefect_test_harness(server_startup_timeout=int(LONG)))
        except TimeoutException:  # its first question waits five seconds for an answer
            stack.enter_context(prefect_test_harness(server_startup_timeout=int(LONG)))
        # the thread that sends heartbeats is joined at the end of a flow, which costs it a second
        stack.enter_context(temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}))
        yield
