"""Progress of a long loop on stderr: a bar on a terminal, a line every ten seconds in a log."""

import logging
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from sentemb_core.termination import check

if TYPE_CHECKING:
    from rich.console import Console

EVERY = 10.0
"""Seconds between two lines."""


@runtime_checkable
class Update(Protocol):
    """Called with the number of finished items, and a note such as the loss."""

    def __call__(self, done: int, note: str = "") -> None: ...


@contextmanager
def progress(label: str, total: int) -> Generator[Update, None, None]:
    """Yield an `Update` that shows progress on the terminal or in the log.

    Its calls are boundaries: SIGTERM ends a loop there (`termination.check`).
    """
    if sys.stderr.isatty():
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

        columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=_console(), transient=True) as bar:
            task = bar.add_task(label, total=total)

            def update(done: int, note: str = "") -> None:
                check()
                bar.update(task, completed=done, description=f"{label}, {note}" if note else label)

            yield update
    else:
        yield log_progress(label, total)


@cache
def _console() -> "Console":
    """The console of all bars: a bar inside another one is drawn below it."""
    from rich.console import Console

    return Console(stderr=True)


def log_progress(label: str, total: int) -> Update:
    """Return an `Update` that logs at most every ten seconds, with the time left."""
    logger = logging.getLogger("sentemb_core")
    last = time.monotonic()
    begin: tuple[float, int] | None = None  # a resumed loop begins with some items done

    def update(done: int, note: str = "") -> None:
        nonlocal last, begin
        check()
        now = time.monotonic()
        begin = begin or (now, done)
        if now - last >= EVERY:
            last = now
            left = time_left(now - begin[0], done - begin[1], total - done)
            share = 100 * done / max(total, 1)
            note = f", {note}" if note else ""
            count = f"{done:,} of {total:,}"
            logger.info("%s: %s (%.0f %%%s%s)", label, count, share, note, left)

    return update


def time_left(seconds: float, done: int, left: int) -> str:
    """`, about 3 min 20 s left`; empty before the first item."""
    from sentemb_core.formats import duration

    return f", about {duration(left * seconds / done)} left" if done and left else ""
