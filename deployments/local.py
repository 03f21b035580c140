"""The service of one machine: Prefect server, worker, schedules, and MLflow's pages on request."""

import os
import platform
import sys
import time
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from deployments.mlflow_app import DATABASE, FILES, ORIGINS
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
from flows.prefect_app import own_origins
from sentemb_core import console
from sentemb_core.errors import UsageError
from sentemb_core.store.locks import lock_if_free
from sentemb_core.termination import check
from tasks.servers import mlflow_client, serve_lock, tracking_uri

MLFLOW_PORT = 5000

NOTES = {"server.url": "Prefect", "mlflow.url": "MLflow "}
"""Files of the home with the address of a running service."""


def serve(home: Path, *, port: int, seconds: float | None, mlflow: bool) -> int:
    """Serve until Ctrl-C, SIGTERM or the given time; then end all processes.

    Args:
        home: Folder of store, databases and logs.
        port: Of Prefect's pages and API; 0 for any free one.
        seconds: How long to serve once ready; None: until a signal.
        mlflow: Also serve MLflow's pages.

    Raises:
        UsageError: the port is in use, the home is served already, or MLflow's server is remote.
        SentembError: a process did not start, or has ended.
    """
    if mlflow and tracking_uri(home).startswith("http"):
        raise UsageError("MLFLOW_TRACKING_URI is a server with its own pages: leave out --mlflow.")
    with exclusive(home), suppress(KeyboardInterrupt), children(home / "logs") as started:
        port = free_port(port)
        settings = environment(home, port)
        api = settings["PREFECT_API_URL"]
        command = [sys.executable, "-m", "flows.prefect_app", LOOPBACK, str(port)]
        started.start("prefect-server", command, settings)
        wait_for(api, started)
        paused = set_up(api, DEPLOYMENTS)
        crash_orphans(api, home)
        worker = [sys.executable, "-m", "prefect", "worker", "start", "--pool", POOL]
        started.start("worker", worker, settings)
        addresses = {"server.url": api}
        if mlflow:
            addresses["mlflow.url"] = start_mlflow(started, home, settings)
        with noted(home, addresses):
            announce(addresses, started.logs, paused)
            watch(started, seconds)
    return 0


def start_mlflow(started: Children, home: Path, settings: Mapping[str, str]) -> str:
    """Serve MLflow's pages of this home on loopback; return their address."""
    mlflow_client(home)  # creates the database under its lock
    try:
        port = free_port(MLFLOW_PORT)
    except UsageError:
        port = free_port(0)
    url = f"http://{LOOPBACK}:{port}"
    command = [sys.executable, "-m", "deployments.mlflow_app", LOOPBACK, str(port)]
    own = {
        DATABASE: tracking_uri(home),  # it may hold a password: not for `ps`
        FILES: (home / "mlartifacts").as_uri(),
        ORIGINS: own_origins(port),
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    }
    started.start("mlflow", command, {**settings, **own})
    wait_for(url, started)
    return url


def announce(addresses: Mapping[str, str], logs: Path, paused: Collection[Deployment]) -> None:
    """Print the addresses, the deployments and which schedules are paused."""
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
    """Wait for the given time, or until a child ends."""
    end = time.monotonic() + seconds if seconds is not None else float("inf")
    while time.monotonic() < end:
        started.require_alive()
        check()
        time.sleep(min(0.5, max(0.0, end - time.monotonic())))


@contextmanager
def exclusive(home: Path) -> Generator[None, None, None]:
    """Allow one service per home: two workers would set each other's runs to Crashed.

    Addresses that a killed service left are removed.
    """
    note, lock = home / "server.url", serve_lock(home)
    with lock_if_free(lock) as free:
        if not free:
            url = note.read_text().strip() if note.exists() else "an address not known yet"
            owner = lock.read_text().strip() or "an unknown process"
            raise UsageError(f"{home} is served already, at {url}: use it, or end {owner} first.")
        lock.write_text(f"process {os.getpid()} on {platform.node()}\n")
        for name in NOTES:
            (home / name).unlink(missing_ok=True)
        yield


@contextmanager
def noted(home: Path, addresses: Mapping[str, str]) -> Generator[None, None, None]:
    """Write the addresses to files of the home, for other processes."""
    for note, url in addresses.items():
        (home / note).write_text(f"{url}\n")
    try:
        yield
    finally:
        for note in addresses:
            (home / note).unlink(missing_ok=True)
