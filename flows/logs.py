"""The logs of a run: one line per error on the console, everything in a file."""

import copy
import logging
import signal
from collections.abc import Generator
from contextlib import contextmanager, suppress
from logging.handlers import WatchedFileHandler
from pathlib import Path

from sentemb_core import termination
from sentemb_core.console import debugging, log_to_stderr, remark, visible
from sentemb_core.errors import ServerLostError, StorageError
from sentemb_core.redaction import WithoutSecrets
from sentemb_core.store.disk import storage_error
from sentemb_core.store.locks import file_lock
from sentemb_core.termination import Terminated
from tasks.execution import SHARDS

LOG_BYTES = 4 << 20
"""Size from which the next run renames the log to LOG.1."""

SERVER_ERROR = 500
"""Least HTTP status of an error of Prefect's server."""

BUSY = 503
"""HTTP status of Prefect's server when its database is locked for too long."""

LINE = "%(asctime)s %(process)d %(levelname)-7s %(name)s - %(message)s"


@contextmanager
def logged(file: Path, *, by_prefect: bool = True) -> Generator[None, None, None]:
    """Append the logs of the block to a file (else E601); after an error, print the file's name.

    Prefect sets up the console, except where the block does without it: that saves two seconds.
    """
    if by_prefect:
        import prefect.main  # noqa: F401 (but not on a root that has a handler)

        leave_sigterm_to_us()
    else:
        log_to_stderr()
    appender = appending(file)
    appender.setFormatter(WithoutSecrets(logging.Formatter(LINE)))
    logger = logging.getLogger(None if by_prefect else "sentemb_core")
    logger.addHandler(appender)
    if by_prefect and not debugging():
        shorten_console()
    try:
        yield
    except Exception as error:
        if ended := interruption(error):
            raise ended from error
        remark(f"log {file}")
        raise
    finally:
        logger.removeHandler(appender)
        with suppress(OSError):  # a full disk; the block's own error reports it
            appender.close()


def leave_sigterm_to_us() -> None:
    """Let Prefect's engine install our handler of SIGTERM, if it is in use, instead of its own.

    Prefect's raises an error in whatever runs; inside a finaliser the error is lost (3 times in 8).
    """
    from prefect.utilities import engine

    if signal.getsignal(signal.SIGTERM) is termination.handler:
        engine._prefect_sigterm_handler = termination.handler


def appending(file: Path) -> WatchedFileHandler:
    """A handler for the log file, which follows when another run renames it."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        rotate(file)
        return WatchedFileHandler(file, encoding="utf-8")
    except StorageError:  # of the lock; it is an OSError too
        raise
    except OSError as error:
        raise storage_error("write", file, error) from error


def rotate(log: Path) -> None:
    """Rename a long log to LOG.1, once, even if several runs of a home begin together."""
    with file_lock(log.parent):
        if log.exists() and log.stat().st_size > LOG_BYTES:
            log.replace(f"{log}.1")


def interruption(error: BaseException | None) -> KeyboardInterrupt | None:
    """The interruption behind this error, if there is one: the server may have ended first."""
    from prefect.exceptions import TerminationSignal

    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return error
        if isinstance(error, TerminationSignal):
            return Terminated()
        error = error.__cause__ or error.__context__
    return None


def server_lost(error: Exception) -> str | None:
    """What became of Prefect's server, if this error comes from it; else None."""
    from httpx import HTTPStatusError, TransportError

    if isinstance(error, ServerLostError):
        return f"did not start ({error})"
    if isinstance(error, TransportError):
        return f"is gone ({type(error).__name__}: {error})"
    if isinstance(error, HTTPStatusError) and error.response.status_code == BUSY:
        return "was too busy several times"
    if isinstance(error, HTTPStatusError) and error.response.status_code >= SERVER_ERROR:
        return f"failed, as on a full disk (status {error.response.status_code})"
    return None


def shorten_console() -> None:
    """Remove tracebacks and repeated lines from Prefect's console."""
    from prefect.logging.handlers import PrefectConsoleHandler

    logging.raiseExceptions = False  # else tracebacks about a lost server follow the error
    for handler in logging.getLogger().handlers:
        if isinstance(handler, PrefectConsoleHandler) and not handler.filters:
            handler.addFilter(Once())
            handler.setFormatter(OneLine(handler.formatter or logging.Formatter()))


REPEATS = (
    "Finished in state Completed",  # the next line names the next stage
    "Finished in state Failed",
    "Finished in state Crashed",
    "Crash detected! Execution was aborted by an interrupt signal",
    "Crash detected! Execution was aborted by a termination signal",
    "Still processing items",  # at the exit, with a slow server
)
"""Beginnings of lines that repeat another line."""

CACHED = "Finished in state Cached"

LOGGED_AT = "_logged_at"
"""Attribute of an error: the time of its first log record, which every console prints."""


class Once(logging.Filter):
    """Log an error only where it happened: tasks, rounds and the flow each repeat it.

    The time is stored on the error. A reference here would keep a failed training in memory.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if message.startswith(REPEATS):
            return False
        if message.startswith(CACHED) and getattr(record, "flow_name", None) == SHARDS:
            return False  # the bar of the shards counts them
        error = record.exc_info[1] if record.exc_info else None
        return error is None or vars(error).setdefault(LOGGED_AT, record.created) == record.created


class OneLine(WithoutSecrets):
    """Format without the traceback and without control characters."""

    def format(self, record: logging.LogRecord) -> str:
        short = copy.copy(record)  # the next handler needs the traceback
        short.exc_info = short.exc_text = None
        return visible(super().format(short))
