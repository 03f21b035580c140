"""What an error says, as it may be written down.

Run: pytest tests/test_redaction.py
"""

import pytest
from pydantic import BaseModel, ValidationError

from sentemb_core.redaction import first_line


class Point(BaseModel):
    x: int
    y: int


def test_of_an_error_the_first_line_is_told():
    assert first_line(OSError("no room\nin /tmp")) == "no room"


def test_of_many_faults_the_first_is_told_and_where_it_is():
    with pytest.raises(ValidationError) as raised:
        Point.model_validate({"x": "east", "y": "north"})
    assert first_line(raised.value).startswith("x Input should be a valid integer")


def test_an_address_in_an_error_keeps_its_password():
    assert first_line(OSError("no answer of redis://:word@h")) == "no answer of redis://***@h"


@pytest.mark.parametrize("message", ["", "\n", " \n "])
def test_an_error_without_a_word_is_told_by_its_kind(message):
    assert first_line(KeyboardInterrupt(message)) == "KeyboardInterrupt"
