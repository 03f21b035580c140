"""Text as it may be written down: without secrets."""

import logging
import os
import re

SECRET_NAME = re.compile(
    r"(PASSWORD|PASSWD|PWD|KEY|(?<![^_])(TOKEN|SECRET|CREDENTIALS?))(_|$)", re.IGNORECASE
)
"""Environment variables whose values are never written down (PGPASSWORD, MLFLOW_APIKEY, ...)."""

FOLDERS = {"PWD", "OLDPWD"}
"""A shell's working folders, whose names alone look secret."""

SHORTEST_SECRET = 6
"""Shorter values ("1", "true") are switches, and would mangle ordinary text."""

USERINFO = re.compile(r"(?<=://)([^/\s:]*:(?!\d{1,5}[/?#])\S*|[^/\s]+)@")
"""The user part of an address, to its last @: a password may have one, and a slash, too.

Where no password begins, or a port does, a slash ends it: what comes after is a path.
"""


def redacted(text: str) -> str:
    """The text without passwords in addresses and without values of secret-named variables."""
    for value in sorted(secrets(), key=len, reverse=True):  # one may begin another
        text = text.replace(value, "***")
    return USERINFO.sub("***@", text)


class WithoutSecrets(logging.Formatter):
    """Another formatter's lines and tracebacks, redacted: an address in an error has a password."""

    def __init__(self, line: logging.Formatter) -> None:
        super().__init__()
        self._line = line

    def format(self, record: logging.LogRecord) -> str:
        return redacted(self._line.format(record))


def first_line(error: BaseException) -> str:
    """What an error says, in one line that may be written down: the first of many faults alone."""
    from pydantic import ValidationError  # the console, which redacts as well, starts without it

    told = str(error)
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        told = f"{'.'.join(map(str, first['loc']))} {first['msg']}"
    return redacted(told.strip() or type(error).__name__).splitlines()[0][:300]


def secrets() -> set[str]:
    """Values of this process's secret-named variables."""
    return {
        value
        for name, value in os.environ.items()
        if len(value) >= SHORTEST_SECRET and SECRET_NAME.search(name) and name not in FOLDERS
    }
