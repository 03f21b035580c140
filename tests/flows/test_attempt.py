"""A part of a table that fails leaves the others be; what would meet every part ends the table."""

from pathlib import Path

import pytest
from httpx import ConnectError, Request, Response
from prefect.exceptions import PrefectHTTPStatusError

from flows.isolate_errors import attempted
from sentemb_core.errors import EmptyPairsError, StorageError
from sentemb_core.store.objects import Store
from tasks.execution import dry_run

REQUEST = Request("GET", "http://127.0.0.1:9/api")


def failing(error: Exception):
    def make() -> None:
        raise error

    return make


def test_a_part_gives_what_it_makes_or_why_not():
    assert attempted("x", lambda: 3) == (3, "")
    assert attempted("x", failing(EmptyPairsError("no pair"))) == (None, "E102 no pair")
    assert attempted("x", failing(KeyError("k"))) == (None, "E000 KeyError: 'k'")


@pytest.mark.parametrize(
    "error",
    [
        StorageError("full"),
        ConnectError("gone"),
        PrefectHTTPStatusError("busy", request=REQUEST, response=Response(503)),
    ],
)
def test_what_every_later_part_would_meet_ends_the_table(error: Exception):
    with pytest.raises(type(error)):
        attempted("x", failing(error))


@pytest.mark.parametrize("error", [EmptyPairsError("no pair"), KeyError("k")])
def test_a_plan_tells_of_every_part_that_would_not_be_made(error: Exception, tmp_path: Path):
    with dry_run(Store(tmp_path)) as plan:
        _, why = attempted("x", failing(error))
    assert [(one.verdict, one.why, one.part) for one in plan.statuses] == [("REFUSED", why, "x")]
