"""Texts and the two sides of a validation pool as vectors, and an encoder's scores of the pool."""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float32, Int64

from sentemb_core.annotation.embeddings import Embeddings
from sentemb_core.corpus.tokens import TokenCorpus
from sentemb_core.corpus.validation_pool import ValidationPool
from sentemb_core.encoder.batching import encode, naming_documents
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.encoder.truncation import Cut, log_once
from sentemb_core.errors import BadDataError
from sentemb_core.evaluation.diagnostics import directions
from sentemb_core.evaluation.validation_scores import Scorers, vector_scorers
from sentemb_core.progress import log_progress
from sentemb_core.types import Role, Similarity

BLOCK = 65_536
"""Sentence vectors in memory at once, about."""

Rows = Callable[[Int64[np.ndarray, " n"]], Float32[np.ndarray, "n dim"]]
"""Sentence vectors by sentence index, read from stored embeddings or encoded on demand."""

Embed = Callable[[list[str]], Float32[np.ndarray, "n dim"]]
"""Vectors of texts that are not in the corpus."""


def encode_texts(
    encoder: Encoder, texts: Sequence[str], what: str, role: Role = "text"
) -> Float32[np.ndarray, "texts dim"]:
    """Return one vector per text; log the share of cut texts, and the progress of `what`.

    Raises:
        BadEmbeddingError: as `encode`.
    """
    update = log_progress(f"encode {what}", len(texts))
    cut = Cut()
    sequences = encoder.tokenise(texts, role, cut)
    log_once(cut.line(what))
    return encode(encoder, sequences, progress=update)


def encoder_scorers(
    encoder: Encoder,
    corpus: TokenCorpus,
    pool: ValidationPool,
    embeddings: Embeddings | None = None,
    *,
    similarity: Similarity | None = None,
) -> Scorers:
    """Return the encoder's scores of a validation pool, in both directions.

    Without stored `embeddings` of all sentences only the pool is encoded. The similarity is the
    encoder's own unless one is given.
    """

    def encoded(wanted: Int64[np.ndarray, " n"]) -> Float32[np.ndarray, "n dim"]:
        update = log_progress("encode sentences of the pool", len(wanted))
        with naming_documents(lambda row: corpus.place(int(wanted[row]))):
            return encode(encoder, corpus.tokens(wanted), progress=update)

    vectors = pool_vectors(
        corpus,
        pool,
        embeddings.rows if embeddings else encoded,
        lambda texts: encode_texts(encoder, texts, "counterparts", "query"),
        similarity or encoder.similarity,
    )
    return vector_scorers(*vectors)


def pool_vectors(
    corpus: TokenCorpus, pool: ValidationPool, rows: Rows, embed: Embed, similarity: Similarity
) -> tuple[Float32[np.ndarray, "documents dim"], Float32[np.ndarray, "candidates dim"]]:
    """Return vectors of a pool's documents and candidates; their inner product is the score.

    A document is the mean of its sentence vectors as the encoder returns them: of length 1 for
    cosine, which mutual leaves open (erratum E3). For cosine the mean is normalised again. A zero
    mean stays zero, so its score with everything is 0. Where halves look for each other, the first
    half is the query and the second the candidate; an odd sentence belongs to the first. `embed`
    gives the vectors of the counterparts' texts.
    """
    first, last = corpus.spans(pool.query_document)
    if pool.kind == "halves":
        start, end = corpus.spans(pool.candidate_document)
        documents = span_means(rows, first, _middle(first, last))
        candidates = span_means(rows, _middle(start, end), end)
    else:
        documents = span_means(rows, first, last)
        candidates = embed([text or "" for text in pool.candidate_text])
    if similarity == "dot":
        return documents, candidates
    return directions(documents), directions(candidates)


def span_means(
    rows: Rows, first: Int64[np.ndarray, " spans"], last: Int64[np.ndarray, " spans"]
) -> Float32[np.ndarray, "spans dim"]:
    """Return the mean of the sentence vectors first to last - 1 of each span, in blocks of spans.

    Raises:
        BadDataError: a span without sentences.
    """
    sizes = last - first
    if (sizes < 1).any():
        raise BadDataError(
            f"A document needs a sentence to have a vector; found {int((sizes < 1).sum())} of "
            f"{len(sizes)} without one. Leave them out of the pool."
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
