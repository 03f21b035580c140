"""The words of a text, as BM25 and every measure of overlap count them."""

import re
import unicodedata
from collections.abc import Iterator
from functools import cache

_CHARACTER = "\u3040-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"

_JOINERS = "\u200c\u200d"

_UNSPACED = {*range(0x0E00, 0x0F00), *range(0x1000, 0x10A0), *range(0x1780, 0x1800)}
"""Thai and Lao, Burmese, Khmer: whole phrases would be words, were they not cut at their signs."""


def words(text: str) -> Iterator[str]:
    """Lowercased runs of letters, digits and underscores; each Han character or Hiragana is one.

    These two scripts leave no space between words, so Lucene's standard tokeniser (Unicode's
    annex 29) takes them by the character, and leaves Katakana together. As there, accents and
    vowel signs, which are no letters to Python, stay within their word.
    """
    return (match.group() for match in _word().finditer(text.lower()))


@cache
def _word() -> re.Pattern[str]:
    letter = rf"[^\W{_CHARACTER}]"
    signs = "".join(filter(_is_sign, map(chr, range(0x300, 0x1F000))))
    sign = rf"(?![\0-\u02ff])[{signs}{_JOINERS}]"  # most words end before a space: told at once
    return re.compile(rf"(?!\W)[{_CHARACTER}]|{letter}+(?:(?:{sign})+{letter}*)*")


def _is_sign(character: str) -> bool:
    return (
        unicodedata.category(character) in ("Mn", "Mc")
        and ord(character) not in _UNSPACED
        and not re.match(f"[{_CHARACTER}]", character)
    )
