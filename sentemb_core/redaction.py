"""Remove secrets from text before it is written down."""

import logging
import os
import re

SECRET_NAME = re.compile(
    r"(PASSWORD|PASSWD|PWD|KEY|(?<![^_])(TOKEN|SECRET|CREDENTIALS?))(_|$)", re.IGNORECASE
)
"""Environment variables that hold secrets (PGPASSWORD, MLFLOW_APIKEY, ...)."""

FOLDERS = {"PWD", "OLDPWD"}
"""Variables of a shell that only look secret: its working folders."""

SHORTEST_SECRET = 6
"""Shorter values ("1", "true") are switches; replacing them would damage ordinary text."""

USERINFO = re.compile(r"(?<=://)([^/\s:]*:(?!\d{1,5}[/?#])\S*|[^/\s]+)@")
"""User and password of an address, up to its last @: a password may contain @ and a slash.

Without a password, or before a port, a slash ends it: a path follows.
"""


def redacted(text: str) -> str:
    """The text without passwords in addresses and without values of secret variables."""
    for value in sorted(secrets(), key=len, reverse=True):  # one may begin with another
        text = text.replace(value, "***")
    return USERINFO.sub("***@", text)


class WithoutSecrets(logging.Formatter):
    """The lines and tracebacks of another formatter, redacted."""

    def __init__(self, line: logging.Formatter) -> None:
        super().__init__()
        self._line = line

    def format(self, record: logging.LogRecord) -> str:
        return redacted(self._line.format(record))


def first_line(error: BaseException) -> str:
    """First line of an error's message, redacted; of a ValidationError the first fault."""
    from pydantic import ValidationError  # slow to import, and the console imports this module

    message = str(error)
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        message = f"{'.'.join(map(str, first['loc']))} {first['msg']}"
    return redacted(message.strip() or type(error).__name__).splitlines()[0][:300]


def secrets() -> set[str]:
    """Values of the secret variables of this process."""
    return {
        value
        for name, value in os.environ.items()
        if len(value) >= SHORTEST_SECRET and SECRET_NAME.search(name) and name not in FOLDERS
    }
