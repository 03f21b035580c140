import os

import pytest
from pydantic import BaseModel, ValidationError

from sentemb_core.redaction import first_line, redacted


class Point(BaseModel):
    x: int
    y: int


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError("no room\nin /tmp"), "no room"),
        (OSError("no answer of redis://:word@h"), "no answer of redis://***@h"),
        (KeyboardInterrupt(""), "KeyboardInterrupt"),
        (KeyboardInterrupt("\n"), "KeyboardInterrupt"),
        (KeyboardInterrupt(" \n "), "KeyboardInterrupt"),
    ],
)
def test_the_first_line_of_an_error_has_no_secret(error: BaseException, line: str):
    assert first_line(error) == line


def test_of_many_faults_the_first_is_named_with_its_field():
    with pytest.raises(ValidationError) as raised:
        Point.model_validate({"x": "east", "y": "north"})
    assert first_line(raised.value).startswith("x ")


@pytest.mark.parametrize(
    ("address", "hidden"),
    [
        ("postgresql://mlflow:pa/ss@db/m", "postgresql://***@db/m"),
        ("mysql://mlflow:p@ssw0rd!x@db", "mysql://***@db"),
        ("mysql://me@x.org:p@ss/w@db/m, or me@x.org", "mysql://***@db/m, or me@x.org"),
        ("redis://:word@h:6379/0", "redis://***@h:6379/0"),
        ("git+ssh://git@h/x@v1", "git+ssh://***@h/x@v1"),
        *(
            (text, text)
            for text in (
                "me@example.org",
                "models:/NAME@champion",
                "/home/a@b/c.jsonl and sqlite:////home/a@b/mlflow.db",
                "http://127.0.0.1:4200/runs/a@b",
                "https://example.org/@me/x:y and s3://bucket/a@b",
            )
        ),
    ],
)
def test_only_the_user_part_of_an_address_is_hidden(address: str, hidden: str):
    assert redacted(address) == hidden


def test_values_of_secret_variables_are_hidden_and_switches_are_not(monkeypatch):
    for name in ("PGPASSWORD", "MLFLOW_APIKEY", "MYSQL_PWD", "ANY_TOKEN", "aws_secret"):
        monkeypatch.setenv(name, f"value-of-{name}")
    monkeypatch.setenv("OTHER_TOKEN", "value-of")  # the longest value goes first
    monkeypatch.setenv("SOME_TOKEN", "true")
    for name in ("PWD", "OLDPWD", "KEYBOARD"):
        monkeypatch.setenv(name, f"/left/{name}")
    text = redacted(" ".join(value for value in os.environ.values() if "value-of" in value))
    assert set(text.split()) == {"***"}
    assert redacted("true /left/PWD /left/OLDPWD /left/KEYBOARD").count("left") == 3
    assert redacted("true") == "true"
