"""A collection's documents and queries as vectors whose inner product is their score."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float32, Int64

from sentemb_core.corpus.sentences import syntok_sentences
from sentemb_core.encoder.batching import pooled_vectors
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.evaluation.collections import Collection
from sentemb_core.evaluation.diagnostics import directions
from sentemb_core.evaluation.encoding import told_vectors
from sentemb_core.evaluation.vectors import span_means
from sentemb_core.progress import lines_of_progress
from sentemb_core.suite import DocumentVector


def query_vectors(encoder: Encoder, collection: Collection) -> Float32[np.ndarray, "queries dim"]:
    """Of whole queries, cut at `encoder.max_length` tokens."""
    return told_vectors(encoder, collection.queries, f"queries of {collection.name}")


def collection_vectors(
    encoder: Encoder, collection: Collection, form: DocumentVector
) -> Float32[np.ndarray, "documents dim"]:
    """Of the documents; for cosine of length 1, or zero.

    Every text that the encoder reads, a document or a sentence, is cut at `encoder.max_length`
    tokens: `text` sees no more of a long document than that.
    """
    if form == "text":
        return told_vectors(encoder, collection.documents, f"documents of {collection.name}")
    pairs = zip(collection.titles, collection.texts, strict=True)
    parts = [_parts(title, text) for title, text in pairs]
    means = _means(encoder, parts, collection.name, unit=form == "unit_sentence_mean")
    return directions(means) if encoder.similarity == "cosine" else means


def _parts(title: str, text: str) -> list[str]:
    """Title and sentences; of an empty document the empty text."""
    return [*([title] if title else []), *syntok_sentences(text)] or [""]


def _means(
    encoder: Encoder, documents: Sequence[Sequence[str]], name: str, *, unit: bool
) -> Float32[np.ndarray, "documents dim"]:
    sentences = [sentence for document in documents for sentence in document]
    bounds = np.cumsum([0, *map(len, documents)])

    def rows(wanted: Int64[np.ndarray, " n"]) -> Float32[np.ndarray, "n dim"]:
        texts = [sentences[k] for k in wanted.tolist()]
        update = lines_of_progress(f"encode sentences of {name}", len(texts))
        pooled = pooled_vectors(encoder, encoder.tokenise(texts), progress=update)
        return directions(pooled) if unit else pooled

    return span_means(rows, bounds[:-1], bounds[1:])
