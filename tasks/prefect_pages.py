"""What a person watches on Prefect's pages while a run goes on: tables, progress, notes, links.

Pages are an extra. Outside a Prefect run nothing is written, and a server that does not answer
costs a few seconds now and then and never an exception: the run is then watched in its log.
"""

import contextvars
import logging
import re
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

log = logging.getLogger(__name__)

PATIENCE = 5.0
"""Seconds for one call; Prefect's own client repeats calls to a dead server for minutes."""

PACE = 2.0
"""Seconds between two updates of a progress bar: each is a request."""

SILENCE = 30.0
"""Seconds until a server that did not answer is asked again, then twice as many, and so on."""


@dataclass
class Silence:
    """Since when a server is not asked, and how long it will be left alone the next time."""

    until: float = 0.0
    next: float = SILENCE


_silence = Silence()


def rounds_table(key: str, rows: Sequence[Mapping[str, Any]], told: str) -> None:
    """A table that is written again, under the same key, with every round; `told` says of what."""
    from prefect.artifacts import create_table_artifact

    table = [dict(row) for row in rows]
    _shown(lambda: create_table_artifact(table, artifact_key(key), description=told))


def markdown(key: str, text: str, told: str) -> None:
    """A note, such as the verdict of a run; `told` says what it is."""
    from prefect.artifacts import create_markdown_artifact

    _shown(lambda: create_markdown_artifact(text, artifact_key(key), description=told))


def link(key: str, url: str, text: str) -> None:
    """The way to another page, such as the run in MLflow."""
    from prefect.artifacts import create_link_artifact

    _shown(lambda: create_link_artifact(url, text, key=artifact_key(key)))


@contextmanager
def progress(name: str, total: int) -> Generator[Callable[[int], None], None, None]:
    """A bar from 0 to 100 %: call what is yielded with the number of things done so far."""
    from prefect.artifacts import create_progress_artifact, update_progress_artifact

    bar = _shown(lambda: create_progress_artifact(0.0, artifact_key(name), name))
    last = time.monotonic()

    def update(done: int) -> None:
        if isinstance(bar, UUID):
            share = 100.0 * min(1.0, done / max(1, total))
            _shown(lambda: update_progress_artifact(bar, share))

    def paced(done: int) -> None:
        nonlocal last
        if time.monotonic() - last >= PACE:
            last = time.monotonic()
            update(done)

    yield paced
    update(total)


def artifact_key(name: str) -> str:
    """A name as Prefect wants it: lower-case letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "artifact"


def _shown(call: Callable[[], Any]) -> Any:
    """The result of a call to Prefect's API; none outside a run, or if no server answers.

    The call is made by a thread with the context of the run, so that it can be left behind.
    """
    if not _in_a_run() or time.monotonic() < _silence.until:
        return None
    results: list[Any] = []
    context = contextvars.copy_context()
    thread = threading.Thread(
        target=lambda: results.append(context.run(_outcome, call)), name="artifact", daemon=True
    )
    thread.start()
    thread.join(PATIENCE)
    found = results[0] if results else TimeoutError(f"no answer in {PATIENCE:g} s")
    if isinstance(found, Exception):
        _silence.until = time.monotonic() + _silence.next
        log.warning("Prefect's pages are not told for %g s: %s", _silence.next, found)
        _silence.next *= 2
        return None
    _silence.next = SILENCE
    return found


def _outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:
        return error


def _in_a_run() -> bool:
    from prefect.context import FlowRunContext, TaskRunContext

    return bool(FlowRunContext.get() or TaskRunContext.get())
