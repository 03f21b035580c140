"""The words of Markdown files."""

import re

_MARKDOWN: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\A---\n.*?\n---\n", re.DOTALL), ""),  # front matter
    (re.compile(r"^(```|~~~).*?^\1.*?$", re.DOTALL | re.MULTILINE), ""),  # code
    (re.compile(r"<!--.*?-->", re.DOTALL), ""),
    (re.compile(r"!\[[^\]]*\]\([^)]*\)"), ""),  # images
    (re.compile(r"\[([^\]]+)\](?:\([^)]*\)|\[[^\]]*\])"), r"\1"),  # links keep their words
    (re.compile(r"^[ \t]*#{1,6}[ \t]+(.*?)[ \t#]*$", re.MULTILINE), r"\n\1\n"),  # headings
    (re.compile(r"^[ \t]*(?:[-*+]|\d+[.)])[ \t]+", re.MULTILINE), "\n"),  # a list item stands alone
    (re.compile(r"^[ \t]*>[ \t]?", re.MULTILINE), ""),  # quotes
    (re.compile(r"(\*\*|__|`)(.+?)\1"), r"\2"),
)


def plain_text(markdown: str) -> str:
    """The words of a Markdown text: marks off, headings and list items as paragraphs."""
    text = markdown.replace("\r\n", "\n")
    for pattern, replacement in _MARKDOWN:
        text = pattern.sub(replacement, text)
    return text
