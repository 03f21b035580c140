"""One part of a table: what it makes, or why not, so that the others go on."""

import logging
from collections.abc import Callable
from typing import TypeVar

from sentemb_core.errors import SentembError
from tasks.walking import each_undecided

R = TypeVar("R")

log = logging.getLogger("sentemb_core.run")


def attempted(label: str, make: Callable[[], R]) -> tuple[R | None, str]:
    """What was made, else its error; neither where a plan does not know yet."""
    with each_undecided():
        try:
            return make(), ""
        except SentembError as refused:
            return None, str(refused)
        except Exception as failure:
            log.exception("%s failed", label)
            return None, f"{SentembError.code} {type(failure).__name__}: {failure}"
    return None, ""
