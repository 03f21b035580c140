"""The short-lived Prefect server of a home's runs, where no other is up: it ends with the last one.

Several servers at once would lock each other out of the one database of a home, so a run goes to
the server of another that is under way. Who started it holds the one writing end of a pipe, which
the server reads, and every run shares a lock that the server waits for: however they end, kill -9
included, pipe and lock are free then. In a session of its own the server hears no signal of a run's
group, so a run that is interrupted can still say so. Its port is open from the start: a client that
is quicker than the server waits in the queue.

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
from importlib import import_module
from pathlib import Path

APP = "flows.prefect_app:prefect_app"

ENVIRONMENT = {
    "PREFECT_UI_ENABLED": "0",
    "PREFECT__SERVER_FINAL": "1",
}

PATIENCE = 300
"""Seconds for a start; 18 were seen for a new home, and a disk may stall for a minute."""

GRACE = 5.0
"""Seconds in which the server may close its database."""

MEANWHILE = "sentemb_core.encoder.checkpoint"
"""Loads torch and transformers, which every run needs in the end: seconds, as the start takes."""

_kept: list["subprocess.Popen[bytes]"] = []
"""Their pipes stay open as long as this process lives: Prefect sends its last lines at the exit."""

_held: list[int] = []
"""Locks that this process shares, for as long."""


@contextmanager
def served(log: Path) -> Generator[None, None, None]:
    """Flows of this block have a server; what one of their own says is appended to `log`.

    Raises:
        ServerLostError: it does not come up.
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
    with file_lock(log.with_suffix(".lock")):  # two that start at once would both start a server
        os.environ[PREFECT_API_URL.name] = joined_server(log) or own_server(log)
    refresh_global_settings_context()  # Prefect's threads know no other
    # nobody waits for heartbeats here, and their thread costs each flow a second at its end
    with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None, PREFECT_UI_URL: ""}):
        yield


def own_server(log: Path) -> str:
    """The API of a server that was started here, and is up."""
    url = start_server(log)
    import_module(MEANWHILE)
    wait_for(url, log)
    return url


def wait_for(url: str, log: Path) -> None:
    """Return when the server answers."""
    from sentemb_core.errors import ServerLostError

    try:
        with urllib.request.urlopen(f"{url}/health", timeout=PATIENCE):
            return
    except OSError as error:
        raise ServerLostError(
            f"A run starts a Prefect server of its own, and it did not come up: {error}. {log} has "
            "what it said; `python -m flows doctor` looks for what is wrong."
        ) from error


def address(log: Path) -> Path:
    """Where the API of a run's server is noted; the server holds this file as long as it lives."""
    return log.with_suffix(".url")


def joined_server(log: Path) -> str | None:
    """The API of another run's server, which from here on waits for the end of this process, too.

    Where the file system does not lock, every run has a server of its own.
    """
    from sentemb_core.store.locks import is_locked, shared_lock
    from tasks.servers import answers, users

    joined = shared_lock(users(log.parent))  # waits for a server that is just ending
    if joined is None:
        return None
    if is_locked(note := address(log)) and answers(url := note.read_text("utf-8")):
        _held.append(joined)
        return url
    os.close(joined)
    return None


def start_server(log: Path) -> str:
    """The API of a server that is about to come up, and has noted it for other runs."""
    from flows.prefect_app import ORIGINS, own_origins
    from sentemb_core.store.locks import held_note
    from tasks.servers import EPHEMERAL, STARTED_BY

    with socket.create_server(("127.0.0.1", 0)) as listening, log.open("ab") as output:
        port = listening.getsockname()[1]
        url = f"http://127.0.0.1:{port}/api"
        marks = {EPHEMERAL: "1", STARTED_BY: str(os.getpid()), ORIGINS: own_origins(port)}
        note = held_note(address(log), url)
        try:
            _kept.append(
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
            os.close(note)  # the server's own is another, and the lock lasts as long as that
        return url


def main(socket: int, logs: Path) -> None:
    """Serve until the last run has ended; what that takes is imported before anybody is served."""
    import uvicorn

    from sentemb_core.store.locks import file_lock
    from tasks.servers import users

    alone = partial(file_lock, users(logs))
    threading.Thread(target=end_with_the_runs, args=[alone], daemon=True).start()
    uvicorn.run(APP, factory=True, fd=socket, log_level="error", lifespan="on")


def end_with_the_runs(alone: Callable[[], AbstractContextManager[object]]) -> None:
    """Wait for the end of the pipe and of all who joined, then end this process."""
    sys.stdin.read()
    with alone():  # to the end of this process: who joins now waits for it
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE)
        os._exit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
