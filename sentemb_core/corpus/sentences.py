"""Sentence splitters: paragraphs first, then syntok or one fast regular expression; or words."""

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from unicodedata import category

from syntok import segmenter
from syntok.tokenizer import Tokenizer

from sentemb_core import types

Splitter = Callable[[str], list[str]]

_PARAGRAPH = re.compile(r"\n[^\S\n]*\n\s*")

MARKS = "。！？｡؟۔।॥։።፧။។"  # noqa: RUF001
"""End marks that syntok does not know and that need no space after them: Chinese and Japanese,
Arabic and Urdu, Hindi, Armenian, Ethiopic, Burmese, Khmer."""

INVISIBLE = re.compile(
    "[\xad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]"
)
"""Characters without a mark or a width inside a word, such as a soft hyphen."""

# Text up to such a mark, with further marks and closing quotes.
_MARKED = re.compile(rf"[^{MARKS}]*[{MARKS}][{MARKS}.!?]*[」』”）»]*|[^{MARKS}]+")  # noqa: RUF001

# A German date, `3. Mai`: of the months syntok knows only abbreviations such as `Jan` and `Okt`.
_MONTH = re.compile(
    r"\b\d\d?\.\s+(?=(?:Januar|Jänner|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|"
    r"November|Dezember)\b)"
)

# A sentence ends (1) after an end mark, with a closing quote or bracket, before white space and
# anything but a small letter, (2) at a blank line, (3) at one of `MARKS`. Every alternative
# begins with an end mark or a line break, so that the scan skips all other characters.
_END = re.compile(
    rf"""[.!?…\n{MARKS}](?:"""
    r"""(?<!\n)["'”’»)\]]?\s++(?![a-z])|"""  # noqa: RUF001
    r"""(?<=\n)[^\S\n]*+\n\s*|"""
    rf"""(?<=[{MARKS}])[{MARKS}.!?]*+[」』”）»]*+)"""  # noqa: RUF001
)


_TERMINALS = f"{''.join(sorted({*segmenter.State.terminals} - {'...'}))}…"
_ENDS = f"{_TERMINALS}{''.join(sorted(segmenter.State.opening_brackets))}"
_AN_END = re.compile(f"[{re.escape(_ENDS)}]")
"""Only at these characters can a sentence end within a paragraph, by syntok's rules."""

_OPENING = "".join(sorted(segmenter.State.opening_brackets))
_CLOSING = "".join(sorted(segmenter.State.closing_brackets))

# A word, an end mark, and a capital after a space or a line break; or what has a bracket.
_PLAIN_END = re.compile(
    r"(?<![^ \n])(?:([A-Z]?[a-z]{2,})[.!?][ \n]+(?=[A-Z])|"
    rf"[^ \n]*[{re.escape(_OPENING + _CLOSING)}][^ \n]*)"
)

_BRACKETED = re.compile(r"[^\s\u200b]*[A-Za-z0-9][^\s\u200b]*")
"""What syntok surely cuts at brackets; marks without a letter are one token."""

_NO_END = segmenter.State.abbreviations | {"no", "No"}
"""Words after which syntok looks at more than the next letter."""

DENSE, DENSE_LENGTH = 8, 1_000
"""A longer paragraph of which more than an eighth are such characters is no prose. Of 270,000 texts
of six open corpora three are: encoded files. syntok would take eight times as long for them."""


PART_WORDS = 8
"""Most words of a part of a text that has no sentences (docs/data.md)."""


def splitter(name: types.Splitter) -> Splitter:
    """Return the function text -> sentences of that name.

    syntok: 1 to 3 MB/s, 9 of short plain sentences; knows abbreviations. regex splits after `Dr.`.
    none: the text is one sentence. words: parts of a text that has no sentences. No sentence is
    empty; white space becomes one space.
    """
    return {
        "syntok": syntok_sentences, "regex": regex_sentences, "none": whole_text,
        "words": parts_of_words,
    }[name]  # fmt: skip


def parts_of_words(text: str) -> list[str]:
    """Return parts of at most `PART_WORDS` words and of equal length, at least two of two words."""
    words = text.split()
    count = min(len(words), max(2, -(-len(words) // PART_WORDS)))
    cuts = [len(words) * part // count for part in range(count + 1)] if words else []
    return [" ".join(words[start:stop]) for start, stop in pairwise(cuts)]


def whole_text(text: str) -> list[str]:
    """Return the text as one sentence; an empty list for white space."""
    return [" ".join(words)] if (words := text.split()) else []


def regex_sentences(text: str) -> list[str]:
    """Return the sentences between matches of `_END`; a match belongs to the sentence it ends."""
    cuts = pairwise([0, *(match.end() for match in _END.finditer(text)), len(text)])
    return [" ".join(words) for start, stop in cuts if (words := text[start:stop].split())]


def syntok_sentences(text: str) -> list[str]:
    """Return the sentences of each paragraph by syntok; `MARKS` end a sentence as well."""
    return [
        sentence
        for paragraph in _PARAGRAPH.split(text)
        for part in _MARKED.findall(paragraph)
        for sentence in _segments(part)
    ]


def _segments(paragraph: str) -> Iterator[str]:
    """Yield the sentences of a paragraph; most are found without syntok.

    syntok ends a sentence at `_PLAIN_END` whatever stands before, unless a bracket is open, and
    starts afresh. So it may split what stands between two such ends alone.
    """
    if _is_whole(paragraph):
        yield from whole_text(paragraph)
        return
    if is_dense(paragraph, _ENDS, DENSE):
        yield from regex_sentences(paragraph)
        return
    start = depth = 0
    for end in _PLAIN_END.finditer(paragraph):
        if end[1] is None:
            if not _BRACKETED.fullmatch(end[0]):
                break
            for mark in end[0]:
                depth = max(0, depth + (mark in _OPENING) - (mark in _CLOSING))
        elif not depth and end[1] not in _NO_END:
            yield from _parts(paragraph[start : end.end()])
            start = end.end()
    yield from _parts(paragraph[start:])


def _is_whole(text: str) -> bool:
    """Return whether no sentence can end before the end of a text."""
    first = _AN_END.search(text)
    return not first or (first[0] in _TERMINALS and not text[first.end() :].strip())


def _parts(text: str) -> Iterator[str]:
    """Yield syntok's sentences, cut at their first tokens: no character between tokens is lost."""
    if _is_whole(text):
        yield from whole_text(text)
        return
    tokens = Tokenizer(replace_not_contraction=False).tokenize(text)
    months = {match.end() for match in _MONTH.finditer(text)}
    starts = [sentence[0].offset for sentence in segmenter.segment(tokens)]
    starts = [start for start in starts if start not in months]
    for start, stop in pairwise([0, *starts[1:], len(text)]):
        yield from whole_text(text[start:stop])


def is_dense(text: str, marks: str, least: int) -> bool:
    """Return whether a long text has one of these marks in fewer than `least` characters."""
    return len(text) > DENSE_LENGTH and least * sum(map(text.count, marks)) > len(text)


def is_blank(text: str) -> bool:
    """Return whether no character of a text is visible: white space, controls, joiners, fillers."""
    return not ((text[:1].isascii() and text[:1].isalnum()) or any(map(_is_visible, text)))


def _is_visible(character: str) -> bool:
    return category(character) not in _UNSEEN and character not in _FILLERS


_UNSEEN = ("Cc", "Cf", "Mn", "Me", "Zs", "Zl", "Zp")
_FILLERS = "\u115f\u1160\u2800\u3164\uffa0"  # of Hangul and Braille: letters without a mark


def same_text(text: str) -> str:
    """Return a key that is equal for texts that differ in letter case and white space only."""
    return " ".join(text.split()).casefold()
