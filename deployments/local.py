"""One machine's whole service: Prefect server, worker, schedules and, if asked, MLflow's pages."""

import os
import platform
import signal
import sys
import time
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from deployments.processes import Children, children
from deployments.production import DEPLOYMENTS, Deployment
from deployments.server import (
    LOOPBACK,
    POOL,
    crash_orphans,
    environment,
    free_port,
    set_up,
    wait_for,
)
from sentemb_core import console
from sentemb_core.errors import UsageError
from sentemb_core.store.locks import lock_if_free
from tasks.mlflow_client import mlflow_client, tracking_uri
from tasks.servers import serve_lock

MLFLOW_PORT = 5000

NOTES = {"server.url": "Prefect", "mlflow.url": "MLflow "}
"""Files of the home that hold the address of a service, while it is up."""


def serve(
    home: Path,
    *,
    port: int = 4200,
    seconds: float | None = None,
    mlflow: bool = False,
) -> int:
    """Serve until Ctrl-C, SIGTERM or the given time; then all that was started is gone.

    Args:
        home: Folder of store, databases and logs.
        port: Of Prefect's pages and API; 0: any free one.
        seconds: How long, counted from ready; none: until told to stop.
        mlflow: Serve MLflow's pages too.

    Raises:
        UsageError: the port is taken, the home is served already, or MLflow's server is elsewhere.
        SentembError: a process did not start, or ended.
    """
    if mlflow and tracking_uri(home).startswith("http"):
        raise UsageError(
            "MLFLOW_TRACKING_URI names a server, which shows its own pages: leave --mlflow out."
        )
    with alone(home), until_told(), children(home / "logs") as started:
        port = free_port(port)
        settings = environment(home, port)
        api = settings["PREFECT_API_URL"]
        command = [sys.executable, "-m", "flows.prefect_app", LOOPBACK, str(port)]
        started.start("prefect-server", command, settings)  # server.log is a run's own server's
        wait_for(api, started)
        paused = set_up(api, DEPLOYMENTS)
        crash_orphans(api)
        started.start("worker", prefect("worker", "start", "--pool", POOL), settings)
        addresses = {"server.url": api}
        if mlflow:
            addresses["mlflow.url"] = start_mlflow(started, home, settings)
        with noted(home, addresses):
            announce(addresses, started.logs, paused)
            watch(started, seconds)
    return 0


def prefect(*arguments: str | int) -> list[str]:
    """One of Prefect's commands, by this Python."""
    return [sys.executable, "-m", "prefect", *map(str, arguments)]


def start_mlflow(started: Children, home: Path, settings: Mapping[str, str]) -> str:
    """MLflow's pages over the database of this home, for browsers of this machine alone."""
    mlflow_client(home)  # makes the database, under its lock
    try:
        port = free_port(MLFLOW_PORT)
    except UsageError:
        port = free_port(0)
    url = f"http://{LOOPBACK}:{port}"
    command = [sys.executable, "-m", "mlflow", "server", "--host", LOOPBACK]
    command += ["--port", str(port), "--workers", "1"]
    command += ["--artifacts-destination", (home / "mlartifacts").as_uri()]
    own = {
        "MLFLOW_BACKEND_STORE_URI": tracking_uri(home),  # may hold a password: not for `ps`
        "MLFLOW_SERVER_ALLOWED_HOSTS": f"{LOOPBACK}:{port},localhost:{port}",  # 10.evil.com passes
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    }
    started.start("mlflow", command, {**settings, **own})
    wait_for(url, started)
    return url


def announce(addresses: Mapping[str, str], logs: Path, paused: Collection[Deployment]) -> None:
    """Where to look, what can be run, and which schedules are paused."""
    for note, url in addresses.items():
        console.write_line(f"{NOTES[note]}  {url.removesuffix('/api')}")
    for deployment in DEPLOYMENTS:
        when = f"at {deployment.cron} (cron, UTC)" if deployment.cron else "when asked"
        when += ", but paused" if deployment in paused else ""
        console.write_line(f"Runs     {deployment.load().name}/{deployment.name}, {when}")
    console.write_line(f"Logs     {logs}")
    console.write_line("Ready. Ctrl-C ends everything.")
    sys.stdout.flush()


def watch(started: Children, seconds: float | None) -> None:
    """Stay while all children do."""
    end = time.monotonic() + seconds if seconds is not None else float("inf")
    while time.monotonic() < end:
        started.require_alive()
        time.sleep(min(0.5, max(0.0, end - time.monotonic())))


@contextmanager
def alone(home: Path) -> Generator[None, None, None]:
    """One service a home: two workers would each take the other's runs for orphans.

    Addresses that a killed one left go.
    """
    note, lock = home / "server.url", serve_lock(home)
    with lock_if_free(lock) as free:
        if not free:
            url = note.read_text().strip() if note.exists() else "an address it did not tell yet"
            who = f" ({told})" if (told := lock.read_text().strip()) else ""
            raise UsageError(f"{home} is served already, at {url}: use that, or end it first{who}.")
        lock.write_text(f"process {os.getpid()} on {platform.node()}\n")
        for name in NOTES:
            (home / name).unlink(missing_ok=True)
        yield


@contextmanager
def until_told() -> Generator[None, None, None]:
    """The block ends at Ctrl-C and at SIGTERM, in good order."""

    def told(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, told)
    try:
        with suppress(KeyboardInterrupt):
            yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def noted(home: Path, addresses: Mapping[str, str]) -> Generator[None, None, None]:
    """Addresses as files in the home, for other processes of it."""
    for note, url in addresses.items():
        (home / note).write_text(f"{url}\n")
    try:
        yield
    finally:
        for note in addresses:
            (home / note).unlink(missing_ok=True)
