"""Child processes that never outlive their parent, however it ends.

All descendants carry a mark in their environment. A guard process waits at a pipe for the parent's
end, kill -9 included, and then ends every process with the mark. Marks are found through /proc
(Linux); elsewhere only the direct children are ended.
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

from flows.logs import rotate
from sentemb_core.errors import SentembError
from sentemb_core.termination import cleaning_up

MARK = "SENTEMB_SERVE"

PORTS = Path("/proc/net/tcp")
"""The sockets, one per line (proc_pid_net(5)): address, state, inode."""

LISTENS = "0A"
"""The state of a listening socket."""

GRACE = 10.0
"""Seconds between SIGTERM and SIGKILL."""


class Children:
    """The processes of one parent; their output is appended to files."""

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self.mark = uuid.uuid4().hex
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, command: list[str], environment: Mapping[str, str]) -> None:
        """Start a process in its own session: Ctrl-C reaches only the parent."""
        self.logs.mkdir(parents=True, exist_ok=True)
        log = self.logs / f"{name}.log"
        rotate(log)
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
        """Raise an error with the last lines of its log if a process has ended."""
        for name, process in self.processes.items():
            if process.poll() is not None:
                path = self.logs / f"{name}.log"
                lines = path.read_text(errors="replace").strip().splitlines()[-5:]
                raise SentembError(
                    f"The {name} ended with exit status {process.returncode}; see {path}. "
                    "Its last lines:\n" + "\n".join(lines)
                )

    def listens(self, port: int) -> bool:
        """Whether a descendant listens at a port; always true without /proc."""
        if not PORTS.exists():
            return True
        return bool(listening(port) & {held for pid in marked(self.mark) for held in sockets(pid)})

    def stop(self) -> None:
        """End grandchildren (flow runs) first, then the children in reverse order."""
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
    """Children that end with the block, or with this process."""
    started = Children(logs)
    guard = subprocess.Popen(
        [sys.executable, "-m", "deployments.processes", started.mark],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield started
    finally:
        cleaning_up(seconds=4 * GRACE)
        started.stop()
        guard.communicate()


def marked(mark: str) -> list[int]:
    """The ids of processes with this mark in their environment."""
    wanted = f"{MARK}={mark}".encode()
    pids: list[int] = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # ended, or of another user
            if wanted in path.read_bytes().split(b"\0"):
                pids.append(int(path.parent.name))
    return pids


def listening(port: int) -> set[str]:
    """The inodes of sockets that listen at an IPv4 port."""
    rows = [line.split() for line in PORTS.read_text().splitlines()[1:]]
    return {
        row[9] for row in rows if row[3] == LISTENS and int(row[1].rpartition(":")[2], 16) == port
    }


def sockets(pid: int) -> Iterator[str]:
    """The inodes of a process's open sockets."""
    with suppress(OSError):  # it has ended
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):  # closed since it was listed
                kind, _, inode = str(descriptor.readlink()).partition(":")
                if kind == "socket":
                    yield inode.strip("[]")


def end(processes: Iterable[int]) -> None:
    """Send SIGTERM, wait, then send SIGKILL to the processes that still run."""
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
    """Whether a process exists and is no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


if __name__ == "__main__":  # the guard
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # a signal to all processes reaches the parent too
    sys.stdin.read()  # returns when the parent's end of the pipe is closed
    end(marked(sys.argv[1]))
