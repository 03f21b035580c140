"""Child processes that never outlive the one that started them, however it ends.

All children, and all that these start in turn, carry a mark in their environment. A guard process
waits at a pipe for the parent's end, a kill -9 included, and then ends whatever carries the mark.
Finding marks needs /proc (Linux); elsewhere the direct children alone are ended.
"""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from flows.logs import put_aside
from sentemb_core.errors import SentembError

MARK = "SENTEMB_SERVE"

PORTS = Path("/proc/net/tcp")
"""Which sockets there are, a line each (proc_pid_net(5)): address, state, inode."""

LISTENS = "0A"
"""The state of a socket that waits for calls."""

GRACE = 10.0
"""Seconds between the polite signal and the other one."""


class Children:
    """The processes of one parent; their output is appended to files."""

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self.mark = uuid.uuid4().hex
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, command: list[str], environment: Mapping[str, str]) -> None:
        """Start a process in a session of its own: Ctrl-C reaches the parent alone."""
        self.logs.mkdir(parents=True, exist_ok=True)
        log = self.logs / f"{name}.log"
        put_aside(log)
        with log.open("ab") as output:
            self.processes[name] = subprocess.Popen(
                command,
                env={**environment, MARK: self.mark},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def require_alive(self) -> None:
        """Raise if a process has ended.

        Raises:
            SentembError: with the last lines that it wrote.
        """
        for name, process in self.processes.items():
            if process.poll() is not None:
                path = self.logs / f"{name}.log"
                said = path.read_text(errors="replace").strip().splitlines()[-5:]
                raise SentembError(
                    f"The {name} ended with exit status {process.returncode}; see {path}. "
                    "Its last lines:\n" + "\n".join(said)
                )

    def listens(self, port: int) -> bool:
        """Whether they, or what they started, hold a port open; without /proc nobody can say no."""
        if not PORTS.exists():
            return True
        return bool(listening(port) & {held for pid in marked(self.mark) for held in sockets(pid)})

    def stop(self) -> None:
        """End grandchildren (flow runs) first, then the children, the last one first."""
        own = {process.pid for process in self.processes.values()}
        end([pid for pid in marked(self.mark) if pid not in own])
        for process in reversed(self.processes.values()):
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(GRACE)
            process.kill()
            process.wait()
        end(marked(self.mark))


@contextmanager
def children(logs: Path) -> Generator[Children, None, None]:
    """Children that end with the block, or with this process if it does not reach the end."""
    made = Children(logs)
    guard = subprocess.Popen(
        [sys.executable, "-m", "deployments.guard", made.mark],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield made
    finally:
        made.stop()
        guard.communicate()


def marked(mark: str) -> list[int]:
    """Processes with this mark in their environment."""
    wanted = f"{MARK}={mark}".encode()
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # gone, or somebody else's
            if wanted in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


def listening(port: int) -> set[str]:
    """Inodes of the sockets that listen at a port of IPv4."""
    rows = [line.split() for line in PORTS.read_text().splitlines()[1:]]
    return {
        row[9] for row in rows if row[3] == LISTENS and int(row[1].rpartition(":")[2], 16) == port
    }


def sockets(pid: int) -> Iterator[str]:
    """Inodes of the sockets that a process has open."""
    with suppress(OSError):  # it is gone
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):  # closed since it was listed
                kind, _, inode = str(descriptor.readlink()).partition(":")
                if kind == "socket":
                    yield inode.strip("[]")


def end(processes: Iterable[int]) -> None:
    """Ask processes to end, wait, then end those that are still there."""
    going = list(processes)
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in going:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        deadline = time.monotonic() + GRACE
        while going and time.monotonic() < deadline:
            going = [pid for pid in going if is_running(pid)]
            time.sleep(0.05)


def is_running(pid: int) -> bool:
    """Whether a process is there and more than an entry that waits for its parent."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
