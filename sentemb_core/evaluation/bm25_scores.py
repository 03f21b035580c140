"""BM25 in the place of an encoder: on a benchmark's pool, and on pairs of sentences.

Apart from what scores encoders: a change of BM25 is none of a training that is validated.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64

from sentemb_core.evaluation.retrieval import Scorers
from sentemb_core.evaluation.sts import StsPairs
from sentemb_core.retrieval.bm25 import BM25, ENGLISH, LUCENE, Form


def bm25_scorers(
    documents: Sequence[str], candidates: Sequence[str], form: Form = LUCENE
) -> Scorers:
    """BM25 of whole texts: documents over an index of the candidates, and the reverse.

    Without English stop words: see `retrieval.bm25`.
    """
    of_candidates, of_documents = (BM25(texts, form, ENGLISH) for texts in (candidates, documents))
    return Scorers(of_candidates.score_rows(documents), of_documents.score_rows(candidates))


def word_similarities(pairs: StsPairs) -> Float64[np.ndarray, " pairs"]:
    """BM25 of each pair, either sentence asking the set's other ones for its partner, the mean.

    Without English stop words, as in every BM25 row.
    """
    ways = (pairs.first, pairs.second), (pairs.second, pairs.first)
    return np.mean([_partner_scores(*way) for way in ways], axis=0)


def _partner_scores(queries: list[str], texts: list[str]) -> Float64[np.ndarray, " pairs"]:
    scores = BM25(texts, stop_words=ENGLISH).score_rows(queries)
    blocks = np.array_split(np.arange(len(queries)), 1 + len(queries) // 256)
    return np.concatenate([scores(rows)[np.arange(len(rows)), rows] for rows in blocks])
