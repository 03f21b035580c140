"""The lexical part: BM25 on the first letters of words, and on letter n-grams.

The first six letters stand for a word's stem in any language that inflects at the end; letter
4-grams find compounds, misspellings and parts of names.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from jaxtyping import Float64, Int64

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


def lexical_scores(
    kind: Words, queries: Sequence[str] | WordCounts, texts: Sequence[str] | WordCounts
) -> ScoreRows:
    """Return the lexical score of every text for every query: the sum of standardised BM25s."""
    parts = [BM25(texts, terms=terms).score_rows(queries) for terms in TERMS[kind]]

    def scores(places: Int64[np.ndarray, " n"]) -> Float64[np.ndarray, "n texts"]:
        return summed([part(places) for part in parts])

    return scores


def summed(parts: Sequence[Scores]) -> Scores:
    """Return the sum of standardised scores; a single part as it is."""
    return fused([(1.0, part) for part in parts]) if len(parts) > 1 else parts[0]
