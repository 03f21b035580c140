"""Document vectors out of sentence vectors, and the vectors of a benchmark's two sides."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float32, Int64

from sentemb_core.corpus.tokens import TokenCorpus
from sentemb_core.corpus.validation_pool import ValidationPool
from sentemb_core.errors import BadDataError
from sentemb_core.evaluation.diagnostics import directions
from sentemb_core.types import Similarity

BLOCK = 65_536
"""Sentence vectors held at once, about."""

Rows = Callable[[Int64[np.ndarray, " n"]], Float32[np.ndarray, "n dim"]]
"""Sentence vectors by sentence index: of stored embeddings, or encoded when asked for."""

Embed = Callable[[list[str]], Float32[np.ndarray, "n dim"]]
"""Vectors of texts that are not in the corpus."""


def benchmark_vectors(
    corpus: TokenCorpus, benchmark: ValidationPool, rows: Rows, embed: Embed, similarity: Similarity
) -> tuple[Float32[np.ndarray, "documents dim"], Float32[np.ndarray, "candidates dim"]]:
    """A benchmark's documents and candidates as vectors whose inner product is their score.

    A document is the mean of its sentence vectors as the encoder gives them: for cosine of length
    1, which mutual leaves open (erratum E3). For cosine that mean is then normalised, unless it
    is zero: then its score with anything is 0. Where the halves of documents look for
    each other, the first half, the longer one of an odd number, is the query and the second the
    candidate.

    Args:
        corpus: Where each document's sentences are.
        benchmark: Of the same corpus.
        rows: Sentence vectors by index.
        embed: Vectors of the counterparts' texts.
        similarity: The encoder's.
    """
    first, last = corpus.spans(benchmark.query_document)
    if benchmark.kind == "halves":
        start, end = corpus.spans(benchmark.candidate_document)
        documents = span_means(rows, first, _middle(first, last))
        candidates = span_means(rows, _middle(start, end), end)
    else:
        documents = span_means(rows, first, last)
        candidates = embed([text or "" for text in benchmark.candidate_text])
    if similarity == "dot":
        return documents, candidates
    return directions(documents), directions(candidates)


def span_means(
    rows: Rows, first: Int64[np.ndarray, " spans"], last: Int64[np.ndarray, " spans"]
) -> Float32[np.ndarray, "spans dim"]:
    """Mean of the sentence vectors first to last - 1 of each span, in blocks of spans.

    Raises:
        BadDataError: a span without sentences.
    """
    sizes = last - first
    if (sizes < 1).any():
        raise BadDataError(
            f"A document needs a sentence to have a vector; {int((sizes < 1).sum())} of "
            f"{len(sizes)} have none: leave them out of the benchmark."
        )
    blocks = np.array_split(np.arange(len(sizes)), 1 + int(sizes.sum()) // BLOCK)
    return np.concatenate([_block_means(rows, first[b], sizes[b]) for b in blocks if len(b)])


def _block_means(
    rows: Rows, first: Int64[np.ndarray, " spans"], sizes: Int64[np.ndarray, " spans"]
) -> Float32[np.ndarray, "spans dim"]:
    starts = np.cumsum(sizes) - sizes
    sentences = np.arange(sizes.sum()) + np.repeat(first - starts, sizes)
    sums = np.add.reduceat(rows(sentences), starts, axis=0, dtype=np.float64)
    return (sums / sizes[:, None]).astype(np.float32)


def _middle(
    first: Int64[np.ndarray, " n"], last: Int64[np.ndarray, " n"]
) -> Int64[np.ndarray, " n"]:
    return (first + last + 1) // 2
