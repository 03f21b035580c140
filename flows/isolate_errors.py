"""One part of a table: what it makes, or why not, so that the others go on."""

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

OF_NO_PART = (StorageError, ServerLostError, TransportError, PrefectHTTPStatusError)
"""A full disk, a server that is gone or too busy: every later part would meet them too."""


def attempted(label: str, make: Callable[[], R]) -> tuple[R | None, str]:
    """What was made, else its error; neither where a plan does not know yet.

    Raises:
        StorageError: the disk refuses. The run failed then, and `resume` goes on with it.
        ServerLostError, TransportError, PrefectHTTPStatusError: Prefect's server went away, or
            refuses; likewise.
    """
    with skip_unknown_results():
        try:
            return make(), ""
        except OF_NO_PART:
            raise
        except SentembError as refused:
            error = str(refused)
        except Exception as failure:
            log.exception("%s failed", label)
            error = f"{SentembError.code} {type(failure).__name__}: {failure}"
        if isinstance(plan := current_executor(), DryRun):
            plan.statuses.append(Status("", "REFUSED", error, label))
        return None, error
    return None, ""
