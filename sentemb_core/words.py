"""The words of a text, as BM25 and every measure of overlap count them."""

import re
from collections.abc import Iterator

_CHARACTER = "\u3040-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
_WORD = re.compile(rf"(?!\W)[{_CHARACTER}]|[^\W{_CHARACTER}]+")


def words(text: str) -> Iterator[str]:
    """Lowercased runs of letters, digits and underscores; each Han character or Hiragana is one.

    These two scripts leave no space between words, so Lucene's standard tokeniser (Unicode's
    annex 29) takes them by the character, and leaves Katakana together.
    """
    return (match.group() for match in _WORD.finditer(text.lower()))
