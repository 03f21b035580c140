"""BM25 in the place of an encoder: on a validation pool, and on pairs of sentences.

Apart from the modules that score encoders, so that a change of BM25 invalidates no cached training.
All rows leave out English stop words (`retrieval.bm25`).
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from sentemb_core.corpus.validation_pool import ValidationPool, pool_sentences
from sentemb_core.evaluation.sts import StsPairs
from sentemb_core.evaluation.validation_scores import Scorers
from sentemb_core.retrieval.bm25 import BM25, ENGLISH, LUCENE, Form, WordCounts


def bm25_scorers(
    documents: Sequence[str], candidates: Sequence[str], form: Form = LUCENE
) -> Scorers:
    """Return BM25 of whole texts, in both directions."""
    sides = WordCounts(candidates), WordCounts(documents)
    of_candidates, of_documents = (BM25(words, form, ENGLISH) for words in sides)
    return Scorers(of_candidates.score_rows(sides[1]), of_documents.score_rows(sides[0]))


def word_similarities(pairs: StsPairs) -> Float64[np.ndarray, " pairs"]:
    """Return BM25 of each pair: the mean over both directions.

    In a direction one sentence is the query, and the other sentences of the set are the index.
    """
    ways = (pairs.first, pairs.second), (pairs.second, pairs.first)
    return np.mean([_partner_scores(*way) for way in ways], axis=0)


def _partner_scores(queries: list[str], texts: list[str]) -> Float64[np.ndarray, " pairs"]:
    scores = BM25(texts, stop_words=ENGLISH).score_rows(queries)
    blocks = np.array_split(np.arange(len(queries)), 1 + len(queries) // 256)
    return np.concatenate([scores(rows)[np.arange(len(rows)), rows] for rows in blocks])


def pool_texts(documents: Path, pool: ValidationPool) -> tuple[list[str], list[str]]:
    """Return the texts of a pool's documents and of its candidates.

    For halves, the first half of the sentences is the query and the second half the candidate. An
    odd sentence belongs to the first half.
    """
    sentences = pool_sentences(documents, pool)
    queries = [sentences[row] for row in pool.query_document.tolist()]
    if pool.kind == "counterpart":
        return list(map(" ".join, queries)), [text or "" for text in pool.candidate_text]
    candidates = [sentences[row] for row in pool.candidate_document.tolist()]
    return (
        [" ".join(half[: (len(half) + 1) // 2]) for half in queries],
        [" ".join(half[(len(half) + 1) // 2 :]) for half in candidates],
    )
