"""What a test compares in a message: its values in their order, and not its words."""

import re


def pattern(values: str) -> str:
    """Return a regular expression for a text that has these words in this order."""
    return "(?s)" + ".*".join(rf"(?<!\w){re.escape(value)}(?!\w)" for value in values.split())
