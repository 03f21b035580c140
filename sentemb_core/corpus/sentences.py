"""Running text to sentences: paragraphs first, then syntok or one fast regular expression."""

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Literal

from syntok import segmenter
from syntok.tokenizer import Tokenizer

Splitter = Callable[[str], list[str]]

_PARAGRAPH = re.compile(r"\n[^\S\n]*\n\s*")

# End marks that syntok does not know and that need no space behind them: Chinese and Japanese,
# Arabic and Urdu, Hindi, Armenian, Ethiopic, Burmese, Khmer.
_MARKS = "。！？｡؟۔।॥։።፧။។"  # noqa: RUF001

# Text up to such a mark, any others that follow, and what closes behind them.
_MARKED = re.compile(rf"[^{_MARKS}]*[{_MARKS}][{_MARKS}.!?]*[」』”）»]*|[^{_MARKS}]+")  # noqa: RUF001

# A day of the month in German, up to a month's name, of which syntok knows `Jan` or `Okt` alone.
_MONTH = re.compile(
    r"\b\d\d?\.\s+(?=(?:Januar|Jänner|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|"
    r"November|Dezember)\b)"
)

# A sentence ends after an end mark, perhaps inside a closing quote or bracket, before white space
# and anything but a small letter; at a blank line; at one of `_MARKS`. Every alternative begins
# with an end mark or a line break, which lets the scan skip all other characters.
_END = re.compile(
    rf"""[.!?…\n{_MARKS}](?:"""
    r"""(?<!\n)["'”’»)\]]?\s++(?![a-z])|"""  # noqa: RUF001
    r"""(?<=\n)[^\S\n]*+\n\s*|"""
    rf"""(?<=[{_MARKS}])[{_MARKS}.!?]*+[」』”）»]*+)"""  # noqa: RUF001
)


def splitter(name: Literal["syntok", "regex", "none"]) -> Splitter:
    """The function text -> sentences of that name.

    syntok: about 1.5 MB/s, knows abbreviations. regex: 30 times faster, splits after `Dr.`.
    none: the text is one sentence. White space inside a sentence is one space; none is empty.
    """
    return {"syntok": syntok_sentences, "regex": regex_sentences, "none": whole_text}[name]


def whole_text(text: str) -> list[str]:
    """The text as one sentence; none if it is white space alone."""
    return [" ".join(words)] if (words := text.split()) else []


def regex_sentences(text: str) -> list[str]:
    """Sentences between matches of `_END`, which belong to the sentence they end."""
    cuts = pairwise([0, *(match.end() for match in _END.finditer(text)), len(text)])
    return [" ".join(words) for start, stop in cuts if (words := text[start:stop].split())]


def syntok_sentences(text: str) -> list[str]:
    """Sentences of each paragraph, as syntok segments its tokens; `_MARKS` end one, too."""
    return [
        sentence
        for paragraph in _PARAGRAPH.split(text)
        for part in _MARKED.findall(paragraph)
        for sentence in _segments(part)
    ]


def _segments(paragraph: str) -> Iterator[str]:
    """Cuts at the first token of each sentence, so that no character between tokens is lost."""
    tokens = Tokenizer(replace_not_contraction=False).tokenize(paragraph)
    months = {match.end() for match in _MONTH.finditer(paragraph)}
    starts = [sentence[0].offset for sentence in segmenter.segment(tokens)]
    starts = [start for start in starts if start not in months]
    for start, stop in zip([0, *starts[1:]], [*starts[1:], len(paragraph)], strict=True):
        if sentence := " ".join(paragraph[start:stop].split()):
            yield sentence


def same_text(text: str) -> str:
    """Key under which two texts count as equal: letter case and white space do not matter."""
    return " ".join(text.split()).casefold()
