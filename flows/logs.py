"""What a run says: one line an error on the console, all of it in a file."""

import copy
import logging
from collections.abc import Generator
from contextlib import contextmanager, suppress
from logging.handlers import WatchedFileHandler
from pathlib import Path

from sentemb_core.console import Terminated, debugging, remark, visible
from sentemb_core.errors import ServerLostError, StorageError
from sentemb_core.redaction import WithoutSecrets
from sentemb_core.store.disk import storage_error
from sentemb_core.store.locks import file_lock

LOG_BYTES = 4 << 20
"""Of a log that the next run puts aside, in the place of the one before."""

FAULT = 500
"""What Prefect's server answers for a fault of its own; greater numbers are of its kind."""

BUSY = 503
"""What it answers when its database is locked for too long."""

LINE = "%(asctime)s %(process)d %(levelname)-7s %(name)s - %(message)s"


@contextmanager
def logged(file: Path) -> Generator[None, None, None]:
    """Append all that the block logs to a file; an error that ends the block names it.

    Raises:
        ServerLostError: Prefect's server went away, fails itself, or is too busy to answer.
        StorageError: the file cannot be written.
    """
    import prefect.main  # noqa: F401 (sets up the console, but not on a root that has a handler)

    handler = appending(file)
    handler.setFormatter(WithoutSecrets(logging.Formatter(LINE)))
    logging.getLogger().addHandler(handler)
    if not debugging():
        shorten_console()
    try:
        yield
    except Exception as error:
        if ended := interruption(error):
            raise ended from error
        remark(f"log {file}")
        if lost := server_lost(error):
            raise lost from error
        raise
    finally:
        logging.getLogger().removeHandler(handler)
        with suppress(OSError):  # a full disk, which the block's own error tells
            handler.close()


def appending(file: Path) -> WatchedFileHandler:
    """What writes to the log, and follows when another run puts it aside."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        put_aside(file)
        return WatchedFileHandler(file, encoding="utf-8")
    except StorageError:  # of the lock, which is an OSError, too
        raise
    except OSError as error:
        raise storage_error("write", file, error) from error


def put_aside(log: Path) -> None:
    """A long log becomes LOG.1, once, though several runs of a home begin at the same time."""
    with file_lock(log.parent):
        if log.exists() and log.stat().st_size > LOG_BYTES:
            log.replace(f"{log}.1")


def interruption(error: BaseException | None) -> KeyboardInterrupt | None:
    """That the run was to end, if this error only came of it: the server may have ended first."""
    from prefect.exceptions import TerminationSignal

    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return error
        if isinstance(error, TerminationSignal):
            return Terminated()
        error = error.__cause__ or error.__context__
    return None


def server_lost(error: Exception) -> ServerLostError | None:
    """What a person reads in place of the error of Prefect's client, if it is one."""
    from httpx import HTTPStatusError, TransportError

    if isinstance(error, TransportError):
        found = f"it went away: {error}"
    elif isinstance(error, HTTPStatusError) and error.response.status_code == BUSY:
        found = "it was too busy, again and again, to answer"
    elif isinstance(error, HTTPStatusError) and error.response.status_code >= FAULT:
        found = f"it failed itself, as on a full disk (answer {error.response.status_code})"
    else:
        return None
    return ServerLostError(
        f"A run needs Prefect's server to its end, and {found}. What is finished is kept: `python "
        "-m flows resume` goes on, with a short-lived server if there is no other."
    )


def shorten_console() -> None:
    """Prefect's console without tracebacks and without what it says twice."""
    from prefect.logging.handlers import PrefectConsoleHandler

    logging.raiseExceptions = False  # else blocks on a server that is gone follow the error's line
    for handler in logging.getLogger().handlers:
        if isinstance(handler, PrefectConsoleHandler) and not handler.filters:
            handler.addFilter(Once())
            handler.setFormatter(OneLine(handler.formatter or logging.Formatter()))


REPEATS = (
    "Finished in state Completed",  # the next line tells what runs now; `Cached` is told
    "Finished in state Failed",
    "Finished in state Crashed",
    "Crash detected! Execution was aborted by an interrupt signal",
    "Crash detected! Execution was aborted by a termination signal",
    "Still processing items",  # at the exit, to a slow server: the last line is ours
)
"""How lines begin that tell what another line tells: who ends a run is told how to go on."""

TOLD = "_told_at"
"""Of an error: when its line was made, which every console then prints."""


class Once(logging.Filter):
    """Lets an error pass where it happened; tasks, rounds and flow each tell it again.

    The error itself bears when it was told: held here, it would hold a failed training's memory.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        if record.getMessage().startswith(REPEATS):
            return False
        error = record.exc_info[1] if record.exc_info else None
        return error is None or vars(error).setdefault(TOLD, record.created) == record.created


class OneLine(WithoutSecrets):
    """Without the traceback behind it, and without what a terminal would obey."""

    def format(self, record: logging.LogRecord) -> str:
        short = copy.copy(record)  # the next handler wants the traceback
        short.exc_info = short.exc_text = None
        return visible(super().format(short))
