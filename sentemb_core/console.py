"""What both command lines share: results on stdout, words on stderr, errors as exit codes."""

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

from cyclopts import App, CycloptsError

from sentemb_core.errors import SentembError


def run(app: App, tokens: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 ok, 2 usage, 3 bad data, 4 gate, 5 resources."""
    try:
        answer = app(tokens, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        complain(str(error))
        return 2
    except SentembError as error:
        complain(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        complain("interrupted; `python -m flows resume` goes on from here")
        return 130
    except BrokenPipeError:  # the reader of a pipe had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return answer if isinstance(answer, int) else 0


def complain(message: str) -> None:
    from rich.console import Console

    Console(stderr=True, soft_wrap=True).print(
        f"[bold red]error[/] {plain(message)}", highlight=False
    )


def plain(text: str) -> str:
    """Text that rich shows as it is."""
    from rich.markup import escape

    return escape(text)


def emit(value: Any) -> None:
    """A result as one JSON document on stdout."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2, default=str) + "\n")


def write_line(text: str) -> None:
    """One line on stdout, for shells."""
    sys.stdout.write(text + "\n")


def show(*renderables: Any) -> None:
    """Tables and sentences on stdout, as wide as the terminal (at least 100 in a pipe)."""
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console = Console(width=max(console.width, 120))
    console.print(*renderables, highlight=False)


def log_to_stderr(level: int = logging.INFO) -> None:
    """Our own lines, plainly, on stderr; third parties stay quiet."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", datefmt="%H:%M:%S"))
    logger = logging.getLogger("sentemb_core")
    logger.setLevel(level)
    logger.handlers = [handler]
    logger.propagate = False


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


def lines_of_progress(label: str, total: int, every: float = 10.0) -> Callable[[int], None]:
    """`update(done)` that logs at most every so many seconds."""
    logger = logging.getLogger("sentemb_core")
    last = time.monotonic()

    def update(done: int) -> None:
        nonlocal last
        if time.monotonic() - last >= every:
            last = time.monotonic()
            logger.info("%s: %d of %d (%.0f %%)", label, done, total, 100 * done / max(total, 1))

    return update
