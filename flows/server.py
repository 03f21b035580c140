"""A run's own Prefect server, where no other is up: it ends with the process that started it.

The run holds the one writing end of a pipe, and the server reads: however the run ends, kill -9
included, the pipe is closed then. In a session of its own the server hears no signal of the run's
group, so a run that is interrupted can still say so. Its port is open from the start: a client
that is quicker than the server waits in the queue.

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
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

APP = "flows.prefect_app:prefect_app"

ENVIRONMENT = {
    "PREFECT_UI_ENABLED": "0",
    "PREFECT__SERVER_EPHEMERAL": "1",  # as of Prefect's own temporary server: fewer services
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
    with file_lock(log.with_suffix(".lock")):  # two that start at once both make the database
        url = os.environ[PREFECT_API_URL.name] = start_server(log)
        refresh_global_settings_context()  # Prefect's threads know no other
        import_module(MEANWHILE)
        wait_for(url, log)
    # nobody waits for heartbeats here, and their thread costs each flow a second at its end
    with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None, PREFECT_UI_URL: ""}):
        yield


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


def start_server(log: Path) -> str:
    """The API of a server that is about to come up."""
    from flows.prefect_app import ORIGINS, own_origins
    from tasks.doctor import STARTED_BY

    with socket.create_server(("127.0.0.1", 0)) as listening, log.open("ab") as output:
        port = listening.getsockname()[1]
        told = {STARTED_BY: str(os.getpid()), ORIGINS: own_origins(port)}
        _kept.append(
            subprocess.Popen(
                [sys.executable, "-P", __file__, str(listening.fileno())],
                env=os.environ | ENVIRONMENT | told,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=[listening.fileno()],
                start_new_session=True,
            )
        )
        return f"http://127.0.0.1:{port}/api"


def end_with_the_run() -> None:
    """Wait for the end of the pipe, then end this process."""
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os._exit(1)


if __name__ == "__main__":
    import uvicorn

    threading.Thread(target=end_with_the_run, daemon=True).start()
    uvicorn.run(APP, factory=True, fd=int(sys.argv[1]), log_level="error", lifespan="on")
