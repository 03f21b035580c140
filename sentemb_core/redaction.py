"""Text as it may be written down: without secrets."""

import os
import re

SECRET_NAME = re.compile(r"(^|_)(PASSWORD|PASSWD|TOKEN|SECRET|CREDENTIALS?|KEY)(_|$)", re.I)
"""Environment variables whose values are never written down."""

SHORTEST_SECRET = 6
"""Shorter values ("1", "true") are switches, and would mangle ordinary text."""

USERINFO = re.compile(r"(?<=://)[^/\s@]+@")


def redacted(text: str) -> str:
    """The text without passwords in addresses and without values of secret-named variables."""
    for name, value in os.environ.items():
        if len(value) >= SHORTEST_SECRET and SECRET_NAME.search(name):
            text = text.replace(value, "***")
    return USERINFO.sub("***@", text)
