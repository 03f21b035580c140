"""An encoder on a benchmark: its vectors of the pool, stored or made now."""

from sentemb_core.annotation.embeddings import Embeddings
from sentemb_core.corpus.benchmark import Benchmark
from sentemb_core.corpus.tokens import TokenCorpus
from sentemb_core.encoder.batching import embed_texts, encode
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.evaluation.retrieval import Scorers, vector_scorers
from sentemb_core.evaluation.vectors import Rows, benchmark_vectors


def encoder_scorers(
    encoder: Encoder,
    corpus: TokenCorpus,
    benchmark: Benchmark,
    embeddings: Embeddings | None = None,
) -> Scorers:
    """How the encoder scores the pool; without stored embeddings only the pool is encoded."""
    rows: Rows = (
        embeddings.rows if embeddings else lambda wanted: encode(encoder, corpus.tokens(wanted))
    )
    vectors = benchmark_vectors(
        corpus,
        benchmark,
        rows,
        lambda texts: embed_texts(encoder, texts),
        encoder.similarity,
    )
    return vector_scorers(*vectors)
