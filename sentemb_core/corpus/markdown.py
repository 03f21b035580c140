"""The words of Markdown files."""

import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_FRONT_MATTER = re.compile(r"\A---\n(?=[\"']?[\w-]+[\"']?\s*:).*?\n---\n", re.DOTALL)
_BREAK = re.compile(r"<br\b[^<>]*>", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*>")
_COMMENT = "<!--", "-->"


def plain_text(markdown: str) -> str:
    """The words of a Markdown text, blank lines between headings, paragraphs, items and cells.

    Code blocks, pictures, comments and front matter are left out; links and HTML keep their words.
    """
    text = _FRONT_MATTER.sub("", markdown.replace("\r\n", "\n").replace("\r", "\n"))
    return "\n\n".join(filter(None, map(_words, _parser().parse(text))))


def _words(block: "Token") -> str:
    if block.type == "inline":
        return "".join(map(_inline, block.children or ())).strip()
    if block.type == "html_block":
        begins, ends = _COMMENT
        html = block.content.lstrip()
        return _TAG.sub(" ", html.partition(ends)[2] if html.startswith(begins) else html).strip()
    return ""


def _inline(token: "Token") -> str:
    if token.type in ("softbreak", "hardbreak"):
        return "\n"
    if token.type == "html_inline":
        return "\n" if _BREAK.fullmatch(token.content) else ""
    return token.content if token.type in ("text", "code_inline") else ""


@cache
def _parser() -> "MarkdownIt":
    """Indented lines are words, not code; a NUL stays one, so that its row can be refused."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"]).disable("code")
    parser.core.ruler.disable("normalize")
    return parser
