"""The short-lived Prefect server of a home's runs: it ends with the last of them.

Two servers would lock each other out of the home's database, so a run joins the server of another
run. The server ends when two things are free: a pipe that the starting run holds, and a lock that
all joined runs share. Both are freed by any end of a run, kill -9 included. The server has a
session of its own, so a signal to a run's group does not reach it, and an interrupted run can still
report. Its port is open from the start; early clients wait in the queue.

Run as a program, this file is that server.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

APP = "flows.prefect_app:prefect_app"

ENVIRONMENT = {
    "PREFECT_UI_ENABLED": "0",
    "PREFECT__SERVER_FINAL": "1",
    "PREFECT_SERVER_DATABASE_CONNECTION_TIMEOUT": "60",  # 5 s: "database is locked" under load
    "PREFECT_SERVER_DATABASE_TIMEOUT": "60",
}

PATIENCE = 300
"""Seconds for a start: 18 in a new home, and a disk may stall for a minute."""

GRACE = 5.0
"""Seconds for the server to close its database."""

_servers: list["subprocess.Popen[bytes]"] = []
"""Their pipes stay open as long as this process: Prefect sends its last lines at the exit."""

_joined: list[int] = []
"""The shared locks of this process, held as long."""


@contextmanager
def served(log: Path, meanwhile: Callable[[], object]) -> Generator[None, None, None]:
    """Flows of this block have a server (else E602); a server of their own logs to `log`.

    It takes seconds to start: `meanwhile` is called before the wait for it.
    A server that is busy is waited for (`ENVIRONMENT`); one that has ended refuses at once.
    """
    from prefect.context import refresh_global_settings_context
    from prefect.settings import (
        PREFECT_API_URL,
        PREFECT_FLOWS_HEARTBEAT_FREQUENCY,
        PREFECT_UI_URL,
        temporary_settings,
    )

    from sentemb_core.store.locks import file_lock

    if PREFECT_API_URL.value():
        yield
        return
    with file_lock(log.with_suffix(".lock")):  # two runs that begin together start one server
        os.environ[PREFECT_API_URL.name] = joined_server(log) or own_server(log, meanwhile)
    refresh_global_settings_context()  # for Prefect's threads
    # heartbeats are not read here, and their thread costs each flow a second at its end
    with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None, PREFECT_UI_URL: ""}):
        yield


def own_server(log: Path, meanwhile: Callable[[], object]) -> str:
    """Start a server, wait for it, and return its API."""
    url = start_server(log)
    meanwhile()
    wait_for(url, log)
    return url


def wait_for(url: str, log: Path) -> None:
    """Wait until the server answers."""
    from sentemb_core.errors import ServerLostError

    try:
        with urllib.request.urlopen(f"{url}/health", timeout=PATIENCE):
            return
    except OSError as error:
        raise ServerLostError(
            f"The Prefect server of this run did not start: {error}. Its log is {log}; "
            "`python -m flows doctor` checks the home."
        ) from error


def address(log: Path) -> Path:
    """The file with the API of a run's server, which locks it while it lives."""
    return log.with_suffix(".url")


def joined_server(log: Path) -> str | None:
    """Join the server of another run, which then also waits for this process; return its API.

    None without one. If the file system has no locks, every run starts its own server.
    """
    from sentemb_core.store.locks import is_locked, shared_lock
    from tasks.servers import answers, users

    joined = shared_lock(users(log.parent))  # waits for a server that is just ending
    if joined is None:
        return None
    if is_locked(note := address(log)) and answers(url := note.read_text("utf-8")):
        _joined.append(joined)
        return url
    os.close(joined)
    return None


def start_server(log: Path) -> str:
    """Start a server that other runs can find; return its API before it answers."""
    from flows.prefect_app import ORIGINS, own_origins
    from sentemb_core.store.locks import held_note
    from tasks.servers import EPHEMERAL, STARTED_BY

    with socket.create_server(("127.0.0.1", 0)) as listening, log.open("ab") as output:
        port = listening.getsockname()[1]
        url = f"http://127.0.0.1:{port}/api"
        marks = {EPHEMERAL: "1", STARTED_BY: str(os.getpid()), ORIGINS: own_origins(port)}
        note = held_note(address(log), url)
        try:
            _servers.append(
                subprocess.Popen(
                    [sys.executable, "-P", __file__, str(listening.fileno()), str(log.parent)],
                    env=os.environ | ENVIRONMENT | marks,
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    pass_fds=[listening.fileno(), note],
                    start_new_session=True,
                )
            )
        finally:
            os.close(note)  # the server has a copy of the descriptor, and with it the lock
        return url


def main(socket: int, logs: Path) -> None:
    """Serve until the last run has ended; all imports for that come first."""
    import uvicorn

    from sentemb_core.store.locks import file_lock
    from tasks.servers import users

    exclusive = partial(file_lock, users(logs))
    threading.Thread(target=end_with_the_runs, args=[exclusive], daemon=True).start()
    uvicorn.run(APP, factory=True, fd=socket, log_level="error", lifespan="on")


def end_with_the_runs(exclusive: Callable[[], AbstractContextManager[object]]) -> None:
    """Wait for the end of the pipe and of all joined runs, then end this process."""
    sys.stdin.read()
    with exclusive():  # held to the end of this process: a run that joins now waits
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE)
        os._exit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
