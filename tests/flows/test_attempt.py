"""A part of a table that fails leaves the others be; what would meet every part ends the table."""

import pytest
from httpx import ConnectError, Request, Response
from prefect.exceptions import PrefectHTTPStatusError

from flows.attempt import attempted
from sentemb_core.errors import EmptyPairsError, StorageError

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
