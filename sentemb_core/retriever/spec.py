"""What a retriever consists of: its parts and their weights, as a value.

A score is `semantic`, `lexical`, or a fusion of both:

    semantic(q, d) = cosine(q, d) + best_sentence * max over d's sentences of cosine(q, sentence)
    score(q, d)    = share * z(semantic) + (1 - share) * z(lexical)

where z standardises a query's scores over its candidates. With `tokens`, the first candidates are
ranked again by late interaction (`retriever.tokens`). Weights are fixed: weights tuned on
pseudo-queries lose as much as they gain (docs/results/retriever.md).
"""

from itertools import compress
from typing import Literal

from pydantic import Field, model_validator

from sentemb_core.types import Value

Words = Literal["bm25", "stems_and_letters"]
"""bm25: whole words. stems_and_letters: the first six letters of words, and letter 4-grams."""

Unit = Literal["sentences", "text", "both"]
"""A document's vector: the mean of its sentence vectors, the vector of its whole text, or the mean
of these two."""

SHARE_FOR_DOCUMENTS, SHARE_FOR_TEXTS = 0.5, 0.6
"""Share of vectors beside words, for texts that look for documents, and for the reverse."""

SHARES_WITHOUT_ENCODER = (0.3, 0.4)
"""The same where the only vectors are those of the corpus table."""

RERANKED = 100
"""First candidates of the fusion, and of the vectors alone, that late interaction ranks again."""

TOKEN_SHARES = (0.3, 0.3, 0.4)
"""Shares of vectors, tokens and words among the candidates that are ranked again."""


class Vectors(Value):
    """One encoder of a retriever: its folder inside the retriever's, and its weight."""

    folder: str
    """Empty: the root."""
    weight: float = Field(default=1.0, gt=0)


class RetrieverSpec(Value):
    """Parts and weights of a retriever; at least one encoder, or words."""

    vectors: tuple[Vectors, ...] = ()
    """Vectors are concatenated, each of length sqrt(weight); their inner product is the cosine."""
    unit: Unit = "sentences"
    best_sentence: float = Field(default=0.0, ge=0)
    """Weight of the document's sentence nearest to the query."""
    words: Words | None = None
    shares: tuple[float, float] = (SHARE_FOR_DOCUMENTS, SHARE_FOR_TEXTS)
    """Share of the semantic score: texts look for documents; documents look for texts."""
    tokens: bool = False
    """Whether late interaction ranks the first candidates again."""

    @model_validator(mode="after")
    def _has_a_part(self) -> "RetrieverSpec":
        if not self.vectors and not self.words:
            raise ValueError("a retriever has an encoder, words, or both")
        if not self.vectors and (self.tokens or self.best_sentence):
            raise ValueError("best_sentence and tokens need an encoder")
        return self

    @property
    def vectors_alone(self) -> "RetrieverSpec | None":
        """The retriever with one vector for each document and nothing else; None without any."""
        if not self.vectors:
            return None
        return self.model_copy(update={"best_sentence": 0.0, "words": None, "tokens": False})

    @property
    def used(self) -> tuple[bool, bool, bool, bool]:
        """Whether it has vectors, best sentences, words and tokens."""
        return bool(self.vectors), bool(self.best_sentence), bool(self.words), self.tokens

    @property
    def names(self) -> tuple[str, ...]:
        """The parts in words."""
        encoders = len(self.vectors)
        vectors = "vectors" if encoders == 1 else f"vectors of {encoders} encoders"
        words = "words" if self.words == "bm25" else "stems and letters of words"
        return tuple(compress((vectors, "best sentence", words, "tokens"), self.used))

    @property
    def parts(self) -> int:
        """Number of parts that an index stores."""
        return len(self.vectors) + sum(self.used[1:])

    def described(self) -> list[str]:
        """Return a line for each part."""
        encoders = [
            f"vectors of the encoder in {each.folder or 'this folder'}, weight {each.weight:g}"
            for each in self.vectors
        ]
        others = (
            f"the nearest sentence of each document, weight {self.best_sentence:g}",
            f"words ({(self.words or '').replace('_', ' ')}), by BM25",
            f"tokens of the first {RERANKED} candidates, by late interaction",
        )
        return [*encoders, *compress(others, self.used[1:])]
