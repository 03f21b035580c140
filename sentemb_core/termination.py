"""SIGTERM as a request, which is noted at once and never lost.

Python runs a signal's handler between any two instructions. An exception from there is lost inside
a finaliser or an import callback ("Exception ignored in"), and the program goes on. So a thread
notes the signal, and the main thread ends

- at the next boundary of a stage, a step or a batch (`check`),
- else by a `Terminated` that the thread raises in it after a second, and again every second until
  something begins to clean up (`cleaning_up`),
- else by exit status 143 without any clean-up: at the deadline, or by a later second SIGTERM.
  Every file of a home is written so that a kill at any moment loses no finished stage.
"""

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import NoReturn

STATUS = 143
"""Exit status of a process that SIGTERM ended: 128 + 15."""

PAUSE = 1.0
"""Seconds before the first exception and between two; also after which a second SIGTERM counts:
`timeout` sends SIGTERM to the process and then to its group, in the same moment."""

LAST_LINES = 30.0
"""Seconds for Prefect's last lines after the result of a program."""

GRACE = 10.0
"""Seconds from the first SIGTERM to the exit without clean-up."""


class Terminated(KeyboardInterrupt):
    """SIGTERM, which `timeout` and schedulers send to end a process."""


@dataclass
class Request:
    """The SIGTERM of this process: when it came, and how far its end is."""

    asked: float | None = None
    deadline: float = 0.0
    cleaning_up: bool = False
    raises: bool = False
    """The next call of the handler comes from the thread, and raises."""


_request: Request | None = None
_last_lines = LAST_LINES


def check() -> None:
    """Raise `Terminated` if SIGTERM was sent. Called at boundaries, where nothing is half done."""
    if _request is None or _request.asked is None or _request.cleaning_up:
        return
    if threading.current_thread() is threading.main_thread():
        _request.cleaning_up = True
        raise Terminated


def cleaning_up(seconds: float = 0.0) -> None:
    """Note that a block ends and cleans up: SIGTERM raises nothing in it, up to the deadline.

    Args:
        seconds: The deadline is at least so far from now.
    """
    if _request and _request.asked is not None:
        _request.cleaning_up = True
        _request.deadline = max(_request.deadline, time.monotonic() + seconds)


def handler(*_: object) -> None:
    """Handle SIGTERM in the main thread: raise only what the thread of `terminable` asks for."""
    if _request and _request.raises:
        _request.raises = False
        raise Terminated


@contextmanager
def terminable() -> Generator[None, None, None]:
    """SIGTERM ends this block by `Terminated`, or the process. Only in the main thread."""
    global _request
    before, _request = _request, Request()
    wake, written = os.pipe()
    os.set_blocking(written, False)
    earlier_handler = signal.signal(signal.SIGTERM, handler)
    earlier_wake = signal.set_wakeup_fd(written, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=[wake, _request], name="SIGTERM", daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(earlier_wake)
        signal.signal(signal.SIGTERM, earlier_handler)
        os.close(written)  # ends the thread
        _request = before


def send_no_more() -> None:
    """Let `exit_with` wait for no thread: the server of their lines is gone."""
    global _last_lines
    _last_lines = 0.0


def exit_with(status: int) -> NoReturn:
    """Exit a program whose results are out: threads may send the rest for a limited time.

    Prefect's threads would call a server that is gone for minutes.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # a closed pipe
            stream.flush()
    timer = threading.Timer(GRACE / 2 if status == STATUS else _last_lines, os._exit, [status])
    timer.daemon = True
    timer.start()
    raise SystemExit(status)


def _watch(wake: int, request: Request) -> None:
    """Read the numbers of signals until the pipe is closed, and end the main thread on SIGTERM."""
    sent = 0  # signals of this thread itself, which come back through the pipe
    while True:
        readable, _, _ = select.select([wake], [], [], None if request.asked is None else PAUSE)
        numbers = os.read(wake, 4096) if readable else b""
        if readable and not numbers:
            os.close(wake)
            return
        asked = numbers.count(signal.SIGTERM) > sent
        sent = max(0, sent - numbers.count(signal.SIGTERM))
        now = time.monotonic()
        if asked and request.asked is None:
            request.asked, request.deadline = now, now + GRACE
        elif request.asked is None:
            continue
        elif (asked and now - request.asked > PAUSE) or now > request.deadline:
            _exit()
        elif not readable and not request.cleaning_up:
            request.raises = True
            sent += 1
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)


def _exit() -> NoReturn:
    with suppress(OSError, ValueError):
        sys.stderr.write("error interrupted\n")
        sys.stderr.flush()
    os._exit(STATUS)
