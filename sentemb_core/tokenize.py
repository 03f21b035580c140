"""Words of a text, for BM25 and for every measure of overlap."""

import re
import unicodedata
from collections.abc import Iterator
from functools import cache

_CHARACTER = "\u3040-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"

_JOINERS = "\u200c\u200d"

_UNSPACED = {*range(0x0E00, 0x0F00), *range(0x1000, 0x10A0), *range(0x1780, 0x1800)}
"""Thai, Lao, Burmese and Khmer: their vowel signs end a word, or whole phrases would be words."""


def words(text: str) -> Iterator[str]:
    """Lowercase runs of letters, digits and underscores; each Han or Hiragana character is a word.

    As in Lucene's standard tokeniser (Unicode annex 29): Han and Hiragana have no spaces between
    words, Katakana runs stay whole, and accents and vowel signs belong to their word.
    """
    return (match.group() for match in _word().finditer(text.lower()))


@cache
def _word() -> re.Pattern[str]:
    letter = rf"[^\W{_CHARACTER}]"
    signs = "".join(filter(_is_sign, map(chr, range(0x300, 0x1F000))))
    sign = rf"(?![\0-\u02ff])[{signs}{_JOINERS}]"  # fast exit: most words end before a space
    return re.compile(rf"(?!\W)[{_CHARACTER}]|{letter}+(?:(?:{sign})+{letter}*)*")


def _is_sign(character: str) -> bool:
    return (
        unicodedata.category(character) in ("Mn", "Mc")
        and ord(character) not in _UNSPACED
        and not re.match(f"[{_CHARACTER}]", character)
    )
