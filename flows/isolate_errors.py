"""Keep the error of one part of a table to that part, so that the other parts still run."""

import logging
from collections.abc import Callable
from typing import TypeVar

from httpx import TransportError
from prefect.exceptions import PrefectHTTPStatusError

from sentemb_core.errors import SentembError, ServerLostError, StorageError
from sentemb_core.store.status import Status
from tasks.execution import DryRun, current_executor, skip_unknown_results

R = TypeVar("R")

log = logging.getLogger("sentemb_core.run")

OF_EVERY_PART = (StorageError, ServerLostError, TransportError, PrefectHTTPStatusError)
"""A full disk, or a lost or overloaded server: every later part would fail, too."""


def isolate_errors(label: str, compute: Callable[[], R]) -> tuple[R | None, str]:
    """Return the result, or its error; neither if a dry run cannot know yet.

    Raises:
        StorageError: the disk refuses. The run fails, and `resume` continues it.
        ServerLostError, TransportError, PrefectHTTPStatusError: Prefect's server is lost, or
            refuses; likewise.
    """
    with skip_unknown_results():
        try:
            return compute(), ""
        except OF_EVERY_PART:
            raise
        except SentembError as refusal:
            error = str(refusal)
        except Exception as failure:
            log.exception("%s failed", label)
            error = f"{SentembError.code} {type(failure).__name__}: {failure}"
        if isinstance(plan := current_executor(), DryRun):
            plan.statuses.append(Status("", "REFUSED", error, label))
        return None, error
    return None, ""
