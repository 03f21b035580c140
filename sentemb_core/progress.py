"""How far a long pass is, on stderr: a bar on a terminal, a line now and then in a log."""

import logging
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

EVERY = 10.0
"""Seconds from line to line."""


@runtime_checkable
class Update(Protocol):
    """Called with the number of things done so far, and with what else there is to tell."""

    def __call__(self, done: int, told: str = "") -> None: ...


@contextmanager
def progress(label: str, total: int) -> Generator[Update, None, None]:
    """A bar on a terminal, one line every ten seconds elsewhere. Yields its `Update`."""
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

        columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(label, total=total)

            def update(done: int, told: str = "") -> None:
                shown = f"{label}, {told}" if told else label
                bar.update(task, completed=done, description=shown)

            yield update
    else:
        yield lines_of_progress(label, total)


def lines_of_progress(label: str, total: int) -> Update:
    """Logs at most every ten seconds, and says what is left to wait."""
    logger = logging.getLogger("sentemb_core")
    last = time.monotonic()
    begin: tuple[float, int] | None = None  # what goes on after an interruption begins in between

    def update(done: int, told: str = "") -> None:
        nonlocal last, begin
        now = time.monotonic()
        begin = begin or (now, done)
        if now - last >= EVERY:
            last = now
            left = time_left(now - begin[0], done - begin[1], total - done)
            share = 100 * done / max(total, 1)
            also = f", {told}" if told else ""
            logger.info("%s: %d of %d (%.0f %%%s%s)", label, done, total, share, also, left)

    return update


def time_left(seconds: float, done: int, left: int) -> str:
    """`, about 3 min 20 s left` at the rate so far; nothing before there is one."""
    from sentemb_core.formats import duration

    return f", about {duration(left * seconds / done)} left" if done and left else ""
