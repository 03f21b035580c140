"""How far a long pass is, on stderr: a bar on a terminal, a line now and then in a log."""

import logging
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

EVERY = 10.0
"""Seconds from line to line."""


@contextmanager
def progress(label: str, total: int) -> Generator[Callable[[int], None], None, None]:
    """A bar on a terminal, one line every ten seconds elsewhere. Yields `update(done)`."""
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

        columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(label, total=total)
            yield lambda done: bar.update(task, completed=done)
    else:
        yield lines_of_progress(label, total)


def lines_of_progress(label: str, total: int) -> Callable[[int], None]:
    """`update(done)` that logs at most every ten seconds, and says what is left to wait."""
    logger = logging.getLogger("sentemb_core")
    last = time.monotonic()
    begin: tuple[float, int] | None = None  # what goes on after an interruption begins in between

    def update(done: int) -> None:
        nonlocal last, begin
        now = time.monotonic()
        begin = begin or (now, done)
        if now - last >= EVERY:
            last = now
            left = time_left(now - begin[0], done - begin[1], total - done)
            share = 100 * done / max(total, 1)
            logger.info("%s: %d of %d (%.0f %%%s)", label, done, total, share, left)

    return update


def time_left(seconds: float, done: int, left: int) -> str:
    """`, about 3 min 20 s left` at the rate so far; nothing before there is one."""
    from sentemb_core.formats import duration

    return f", about {duration(left * seconds / done)} left" if done and left else ""
