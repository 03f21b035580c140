"""The title of a document in its own text: as a sentence, as a heading, behind a label."""

import re
import unicodedata
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from sentemb_core.corpus.markup import without_html
from sentemb_core.corpus.sentences import INVISIBLE, MARKS, same_text

LABEL_WORDS = 3
"""Most words of a label or a number before a title: `Title:`, `Chapter 2.1`."""

LONG_TITLE = 3
"""Words of a title from which on a text that has them has the title: a short one is a topic."""

_MARKS = (
    r"!-/:-@\[-`{-~\xa1-\xac\xae-\xbf\u2010-\u2027\u2030-\u205e\u3001-\u303f"
    rf"\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65{MARKS}"
)
_WORD = re.compile(rf"[^\s{_MARKS}]+")
_AFTER_LABEL = re.compile(rf"[:\uff1a\])>]|[{_MARKS}]\s")
_AFTER_TITLE = re.compile(
    rf"[ \t\"'\u201d\u2019)\xbb]*"
    rf"(?:[{MARKS}\uff1a]+|[.!?:\u2026|\-\u2013\u2014=~*_#\]]+(?=\s|<|$)|(?=\n|<|$))"
)
_REST_OF_HEADING = re.compile(
    rf"(?:[ \t]*</\w+>)*[ \t]*(?:\n(?:\s*[{_MARKS}]{{3,}}[ \t]*(?=\n|$))?|(?=<)|$)"
)
"""Closing tags, the end of the line, and a line of marks below it, as in `Title\\n=====`."""


class _Word(NamedTuple):
    text: str
    start: int
    end: int


def _words(text: str) -> Iterator[_Word]:
    """Yield the words of a text in a form to compare, each with its place."""
    for match in _WORD.finditer(text):
        if word := _comparable(match[0]):
            yield _Word(word, *match.span())


def _comparable(text: str) -> str:
    """Return a text that equals others of the same letters: their case and composition differ."""
    if not text.isascii():
        text = INVISIBLE.sub("", unicodedata.normalize("NFKC", text))
    return text.casefold()


class Title:
    """A title, to be found in the text of its own document."""

    def __init__(self, text: str) -> None:
        plain = without_html(text)
        self.words = [word.text for word in _words(plain)]
        self._longest = max(self.words, key=len, default="")
        self._plain = same_text(plain)

    def is_sentence(self, sentence: str) -> bool:
        """Return whether a sentence is this title, apart from case, marks, HTML, and a label."""
        if self._longest not in _comparable(sentence):  # of most sentences
            return False
        text = without_html(sentence)
        if not self.words:  # a title of marks
            return same_text(text) == self._plain
        end = self._end(text)
        return end is not None and next(_words(text[end:]), None) is None

    def text_below(self, text: str) -> str | None:
        """Return the text behind this title at its beginning; None if it begins otherwise.

        The title ends with its line or, if it has several words, at a mark in it.
        """
        end = self._end(text)
        after = None if end is None else _AFTER_TITLE.match(text, end)
        if after is None:
            return None
        heading = _REST_OF_HEADING.match(text, after.end())
        if heading is None and (len(self.words) == 1 or after.end() == end):
            return None
        below = text[heading.end() if heading else after.end() :]
        return below if below.strip() else None

    def is_within(self, text: str) -> bool:
        """Return whether a text of single spaces has this title, if that has several words."""
        return len(self.words) >= LONG_TITLE and self._plain in text.casefold()

    def _end(self, text: str) -> int | None:
        """Return where this title ends that begins a text, or follows its label; else None."""
        begin = list(islice(_words(text), LABEL_WORDS + len(self.words)))
        for label in range(min(LABEL_WORDS, len(begin) - len(self.words)) + 1):
            words = begin[label : label + len(self.words)]
            if [word.text for word in words] == self.words and words:
                before = begin[:label]
                gap = text[before[-1].end : words[0].start] if before else ":"
                if _AFTER_LABEL.search(gap) or all(word.text.isdecimal() for word in before):
                    return words[-1].end
        return None
