import pytest
from pydantic import BaseModel, ValidationError

from sentemb_core.redaction import first_line


class Point(BaseModel):
    x: int
    y: int


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError("no room\nin /tmp"), "no room"),
        (OSError("no answer of redis://:word@h"), "no answer of redis://***@h"),
        (KeyboardInterrupt(""), "KeyboardInterrupt"),
        (KeyboardInterrupt(" \n "), "KeyboardInterrupt"),
    ],
)
def test_the_first_line_of_an_error_has_no_secret(error: BaseException, line: str):
    assert first_line(error) == line


def test_of_many_faults_the_first_is_named_with_its_field():
    with pytest.raises(ValidationError) as raised:
        Point.model_validate({"x": "east", "y": "north"})
    assert first_line(raised.value).startswith("x ")
