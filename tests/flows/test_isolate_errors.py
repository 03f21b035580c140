"""A part of a table that fails keeps its error; an error of every part ends the table."""

from pathlib import Path

import pytest
from httpx import ConnectError, Request, Response
from prefect.exceptions import PrefectHTTPStatusError

from flows.isolate_errors import isolate_errors
from sentemb_core.errors import EmptyPairsError, StorageError
from sentemb_core.store.objects import Store
from tasks.execution import dry_run

REQUEST = Request("GET", "http://127.0.0.1:9/api")


def failing(error: Exception):
    def compute() -> None:
        raise error

    return compute


def test_a_part_returns_its_result_or_its_error():
    assert isolate_errors("x", lambda: 3) == (3, "")
    assert isolate_errors("x", failing(EmptyPairsError("no pair"))) == (None, "E102 no pair")
    assert isolate_errors("x", failing(KeyError("k"))) == (None, "E000 KeyError: 'k'")


@pytest.mark.parametrize(
    "error",
    [
        StorageError("full"),
        ConnectError("gone"),
        PrefectHTTPStatusError("busy", request=REQUEST, response=Response(503)),
    ],
)
def test_an_error_of_every_part_is_raised(error: Exception):
    with pytest.raises(type(error)):
        isolate_errors("x", failing(error))


@pytest.mark.parametrize(
    ("cause", "code"), [(EmptyPairsError("no pair"), "E102"), (KeyError("k"), "E000")]
)
def test_a_dry_run_reports_a_refused_part(cause: Exception, code: str, tmp_path: Path):
    with dry_run(Store(tmp_path)) as plan:
        _, error = isolate_errors("x", failing(cause))
    assert error.startswith(code)
    assert [(one.verdict, one.why, one.part) for one in plan.statuses] == [("REFUSED", error, "x")]
