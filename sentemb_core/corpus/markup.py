"""Texts without their markup: Markdown files, and HTML in any text."""

import html
import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from sentemb_core.corpus.sentences import is_dense

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_FRONT_MATTER = re.compile(r"\A---\n(?=[\"']?[\w-]+[\"']?\s*:).*?\n---\n", re.DOTALL)
_KEY = re.compile(r"^[\"']?([\w-]+)[\"']?[ \t]*:[ \t]+(\S.*?)[ \t]*$", re.MULTILINE)
_BREAK = re.compile(r"<br\b[^<>]*>", re.IGNORECASE)
_ANY_TAG = re.compile(r"<[^<>]*>")
_COMMENT = "<!--", "-->"

_BLOCKS = re.findall(
    r"\w+",
    "address article aside blockquote body br caption center dd details div dl dt fieldset "
    "figcaption figure footer form frame h1 h2 h3 h4 h5 h6 head header hr html legend li main menu "
    "nav ol option p pre section select summary table tbody td textarea tfoot th thead title tr ul",
)
_INLINE = re.findall(
    r"\w+",
    "a abbr acronym audio b big button canvas cite code data del dfn em embed font i iframe img "
    "input ins kbd label link map mark meta meter noscript object param picture progress q s samp "
    "script small source span strike strong style sub sup svg template time tt u var video",
)
_UNREAD = ("script", "style", "template")

_TAG = re.compile(
    rf"<(?P<end>/?)(?P<name>{'|'.join(_BLOCKS + _INLINE)})\b"
    r"(?:[^<>\"']|\"[^\"]{0,1000}\"|'[^']{0,1000}'|[\"'])*+>|(?P<comment><!--)|<!doctype\b[^<>]*>",
    re.IGNORECASE,
)
"""A tag of HTML, or the begin of a comment; `x < y` and `<stdio.h>` are text."""

_ESCAPE = re.compile(r"&(?:lt|gt|amp|quot|apos|nbsp|#\d{1,7}|#x[\da-f]{1,6});", re.IGNORECASE)


_MARKS, DENSE = "[]*_~`|\n", 6
"""A longer file of which more than a sixth are such marks is no text: none of 2,998 files of
documentation is, and 7 have more than an eighth. The parser would take 20 times as long for it."""


def has_html(text: str) -> bool:
    """Return whether a text has tags of HTML, or escapes such as `&amp;` and `&lt;b&gt;`."""
    return bool(("<" in text and _TAG.search(text)) or ("&" in text and _ESCAPE.search(text)))


def without_html(text: str) -> str:
    """Return the text of HTML, with blank lines around blocks and with escapes replaced.

    Scripts, styles and comments are left out. Escaped HTML (`&lt;p&gt;`) loses its tags as well.
    """
    if not has_html(text):
        return text
    words = html.unescape(_without_tags(text))
    return words if _TAG.search(text) else _without_tags(words)


def _without_tags(text: str) -> str:
    pieces: list[str] = []
    never: set[str] = set()  # ends that do not follow
    at = 0
    while tag := _TAG.search(text, at):
        pieces.append(text[at : tag.start()])
        at = tag.end()
        name = (tag["name"] or "").lower()
        if name in _BLOCKS:
            pieces.append("\n" if name == "br" else "\n\n")
        closing = "-->" if tag["comment"] else f"</{name}" if name in _UNREAD else ""
        if closing and not tag["end"] and closing not in never:
            found = re.compile(closing, re.IGNORECASE).search(text, at)
            if found:
                at = found.end() if tag["comment"] else found.start()
            else:  # a part that never ends is read
                never.add(closing)
    return "".join(pieces) + text[at:]


def front_matter(markdown: str) -> dict[str, str]:
    """Return the keys and texts of lines `key: text` in the front matter of Markdown."""
    block = _FRONT_MATTER.match(markdown.replace("\r\n", "\n"))
    lines = _KEY.findall(block[0]) if block else []
    return {key: text.strip("\"'") for key, text in lines}


def heading(markdown: str) -> str | None:
    """Return the words of the first heading of Markdown."""
    text = _without_front_matter(markdown)
    blocks = iter([] if is_dense(text, _MARKS, DENSE) else _blocks(text))
    opening = next((block for block in blocks if block.type == "heading_open"), None)
    return _words(next(blocks)) or None if opening else None


def plain_text(markdown: str) -> str:
    """Return the text of Markdown, with blank lines between headings, paragraphs, items and cells.

    Code blocks, images, comments and front matter are left out; links and HTML keep their words.
    A text that is mostly marks stays as it is.
    """
    text = _without_front_matter(markdown)
    return (
        text
        if is_dense(text, _MARKS, DENSE)
        else "\n\n".join(filter(None, map(_words, _blocks(text))))
    )


@lru_cache(maxsize=1)  # for the heading and the text of one file
def _blocks(text: str) -> "list[Token]":
    return _parser().parse(text)


def _without_front_matter(markdown: str) -> str:
    return _FRONT_MATTER.sub("", markdown.replace("\r\n", "\n").replace("\r", "\n"))


def _words(block: "Token") -> str:
    if block.type == "inline":
        return "".join(map(_inline, block.children or ())).strip()
    if block.type == "html_block":
        begins, ends = _COMMENT
        html = block.content.lstrip()
        return _ANY_TAG.sub(
            " ", html.partition(ends)[2] if html.startswith(begins) else html
        ).strip()
    return ""


def _inline(token: "Token") -> str:
    if token.type in ("softbreak", "hardbreak"):
        return "\n"
    if token.type == "html_inline":
        return "\n" if _BREAK.fullmatch(token.content) else ""
    return token.content if token.type in ("text", "code_inline") else ""


@cache
def _parser() -> "MarkdownIt":
    """Return a parser that reads indented lines as text and keeps NUL, so its row is refused."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"]).disable("code")
    parser.core.ruler.disable("normalize")
    return parser
