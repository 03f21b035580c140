"""What Prefect's pages show of a run: tables, progress bars, notes and links.

The pages are optional. Outside a Prefect run nothing is written. A server that does not answer
costs a few seconds now and then, and never raises: the log has the same information.
"""

import contextvars
import logging
import re
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any
from uuid import UUID

from sentemb_core import progress as terminal

log = logging.getLogger(__name__)

PATIENCE = 5.0
"""Seconds for one call; Prefect's own client repeats calls to a dead server for minutes."""

PACE = 2.0
"""Seconds between two updates of a progress bar: each is a request."""

SILENCE = 30.0
"""Seconds before a server that did not answer is called again; doubled after each failure."""


@dataclass
class Silence:
    """Until when the server is not called, and how many seconds the next pause takes."""

    until: float = 0.0
    next: float = SILENCE


_silence = Silence()


def rounds_table(key: str, rows: Sequence[Mapping[str, Any]], description: str) -> None:
    """Write a table again, under the same key, with every round."""
    table = [dict(row) for row in rows]
    _call(lambda api: api.create_table_artifact(table, artifact_key(key), description))


def markdown(key: str, text: str, description: str) -> None:
    """Write a note, such as the result of a run."""
    _call(lambda api: api.create_markdown_artifact(text, artifact_key(key), description))


def link(key: str, url: str, text: str) -> None:
    """Write a link to another page, such as the run in MLflow."""
    _call(lambda api: api.create_link_artifact(url, text, artifact_key(key)))


@contextmanager
def progress(label: str, total: int) -> Generator[terminal.Update, None, None]:
    """Yield a function that shows progress on the terminal, in the log and on Prefect's page."""
    bar = _call(lambda api: api.create_progress_artifact(0.0, artifact_key(label), label))
    last = time.monotonic()

    def show_on_page(done: int) -> None:
        if isinstance(bar, UUID):
            share = 100.0 * min(1.0, done / max(1, total))
            _call(lambda api: api.update_progress_artifact(bar, share))

    with terminal.progress(label, total) as show:

        def update(done: int, note: str = "") -> None:
            nonlocal last
            show(done, note)
            if time.monotonic() - last >= PACE:
                last = time.monotonic()
                show_on_page(done)

        yield update
        show_on_page(total)


def artifact_key(name: str) -> str:
    """A name in the form of Prefect's keys: lower-case letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "artifact"


def _call(call: Callable[[ModuleType], Any]) -> Any:
    """The result of a call of `prefect.artifacts`; None outside a run, or if no server answers.

    A thread with the run's context makes the call, so that a slow one can be left behind.
    """
    if not _in_a_run() or time.monotonic() < _silence.until:
        return None
    from prefect import artifacts

    results: list[Any] = []
    context = contextvars.copy_context()

    def result_or_error() -> Any:
        try:
            return call(artifacts)
        except Exception as error:
            return error

    thread = threading.Thread(
        target=lambda: results.append(context.run(result_or_error)), name="artifact", daemon=True
    )
    thread.start()
    thread.join(PATIENCE)
    result = results[0] if results else TimeoutError(f"no answer in {PATIENCE:g} s")
    if isinstance(result, Exception):
        _silence.until = time.monotonic() + _silence.next
        log.warning("Prefect's pages get no updates for %g s: %s", _silence.next, result)
        _silence.next *= 2
        return None
    _silence.next = SILENCE
    return result


def _in_a_run() -> bool:
    if "prefect.context" not in sys.modules:  # its import takes a second
        return False
    from prefect.context import FlowRunContext, TaskRunContext

    return bool(FlowRunContext.get() or TaskRunContext.get())
