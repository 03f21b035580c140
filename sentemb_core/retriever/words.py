"""The lexical part: BM25 on the first letters of words, and on letter n-grams.

The first six letters stand for a word's stem in any language that inflects at the end; letter
4-grams find compounds, misspellings and parts of names.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

from sentemb_core.evaluation.ranking import ScoreRows
from sentemb_core.retrieval.bm25 import BM25, ENGLISH, WordCounts
from sentemb_core.retriever.fusion import Scores, fused
from sentemb_core.retriever.spec import Words
from sentemb_core.tokenize import words

STEM = 6
"""Letters of a word that are kept: level with Porter's stems, without a language."""

LETTERS = 4
"""Letters of an n-gram."""


def stems(text: str) -> Iterator[str]:
    """The first letters of each word; English stop words are left out."""
    return (word[:STEM] for word in words(text) if word not in ENGLISH)


def letter_grams(text: str) -> Iterator[str]:
    """The n-grams of each word with its borders; English stop words are left out."""
    for word in words(text):
        if word in ENGLISH:
            continue
        framed = f" {word} "
        yield from (framed[k : k + LETTERS] for k in range(max(1, len(framed) - LETTERS + 1)))


def plain_words(text: str) -> Iterator[str]:
    """The words; English stop words are left out."""
    return (word for word in words(text) if word not in ENGLISH)


TERMS: dict[Words, tuple[Callable[[str], Iterator[str]], ...]] = {
    "bm25": (plain_words,),
    "stems_and_letters": (stems, letter_grams),
}


class Texts:
    """Texts that look for others by their words.

    Words are counted once, and each two sides are compared once: the stages of a run compare many
    retrievers on the same texts.
    """

    def __init__(self, items: Sequence[str]) -> None:
        self.items = items
        self._scores: dict[tuple[Words, Texts], ScoreRows] = {}

    @cached_property
    def words(self) -> WordCounts:
        return WordCounts(self.items)

    def lexical_scores(self, kind: Words, candidates: "Texts") -> ScoreRows:
        """Return the score of every candidate for every text: the sum of standardised BM25s."""
        if (kind, candidates) not in self._scores:
            parts = [
                BM25(candidates.words, terms=terms).score_rows(self.words) for terms in TERMS[kind]
            ]
            self._scores[kind, candidates] = lambda places: summed([part(places) for part in parts])
        return self._scores[kind, candidates]


def summed(parts: Sequence[Scores]) -> Scores:
    """Return the sum of standardised scores; a single part as it is."""
    return fused([(1.0, part) for part in parts]) if len(parts) > 1 else parts[0]
