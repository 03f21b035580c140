"""An encoder on a benchmark: its vectors of the pool, stored or made now."""

import numpy as np
from jaxtyping import Float32, Int64

from sentemb_core.annotation.embeddings import Embeddings
from sentemb_core.corpus.tokens import TokenCorpus
from sentemb_core.corpus.validation_pool import ValidationPool
from sentemb_core.encoder.batching import encode, naming_documents
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.evaluation.encoding import told_vectors
from sentemb_core.evaluation.retrieval import Scorers, vector_scorers
from sentemb_core.evaluation.vectors import benchmark_vectors
from sentemb_core.progress import lines_of_progress
from sentemb_core.types import Precision, Similarity


def encoder_scorers(
    encoder: Encoder,
    corpus: TokenCorpus,
    benchmark: ValidationPool,
    embeddings: Embeddings | None = None,
    *,
    dtype: Precision = "float32",
    similarity: Similarity | None = None,
) -> Scorers:
    """How the encoder scores the pool; without stored embeddings only the pool is encoded.

    By its own similarity, unless another is asked for.
    """

    def encoded(wanted: Int64[np.ndarray, " n"]) -> Float32[np.ndarray, "n dim"]:
        update = lines_of_progress("encode sentences of the pool", len(wanted))
        with naming_documents(lambda row: corpus.place(int(wanted[row]))):
            return encode(encoder, corpus.tokens(wanted), dtype=dtype, progress=update)

    vectors = benchmark_vectors(
        corpus,
        benchmark,
        embeddings.rows if embeddings else encoded,
        lambda texts: told_vectors(encoder, texts, "counterparts"),
        similarity or encoder.similarity,
    )
    return vector_scorers(*vectors)
