"""A collection's queries and documents as vectors; their inner product is the score."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, Int64

from sentemb_core.config.suite import DocumentVector
from sentemb_core.corpus.sentences import syntok_sentences
from sentemb_core.encoder.batching import encode, pooled_vectors
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.evaluation.collections import Collection
from sentemb_core.evaluation.diagnostics import directions
from sentemb_core.evaluation.vectors import encode_texts, span_means
from sentemb_core.progress import log_progress
from sentemb_core.shards import mapped_vectors, save_vectors

log = logging.getLogger(__name__)


class CollectionVectors(NamedTuple):
    """One vector per query and per document, in the collection's order."""

    queries: Float32[np.ndarray, "queries dim"]
    documents: Float32[np.ndarray, "documents dim"]


def collection_vectors(
    encoder: Encoder, collection: Collection, form: DocumentVector = "text"
) -> CollectionVectors:
    """Return vectors of whole queries and of documents; for cosine of length 1, or zero.

    Every text (a query, a document or a sentence) is cut at `encoder.max_length` tokens. So the
    form `text` uses only the beginning of a long document. A larger `max_length` encodes more.

    Raises:
        BadEmbeddingError: a vector is not finite.
    """
    log.info("%s: texts truncated at %d tokens", collection.name, encoder.max_length)
    if form == "text":  # in one pass: titles as queries and as documents are the same texts
        texts = [
            *encoder.tokenise(collection.queries, "query"),
            *encoder.tokenise(collection.documents, "document"),
        ]
        update = log_progress(f"encode queries and documents of {collection.name}", len(texts))
        both = encode(encoder, texts, progress=update)
        return CollectionVectors(*np.split(both, [len(collection.queries)]))
    queries = encode_texts(encoder, collection.queries, f"queries of {collection.name}", "query")
    parts = document_sentences(collection)
    means = _means(encoder, parts, collection.name, unit=form == "unit_sentence_mean")
    return CollectionVectors(
        queries, directions(means) if encoder.similarity == "cosine" else means
    )


def write_vectors(vectors: CollectionVectors, folder: Path) -> None:
    """Write queries.arrow and documents.arrow."""
    for side, rows in vectors._asdict().items():
        save_vectors(folder / f"{side}.arrow", rows)


def read_vectors(folder: Path) -> CollectionVectors:
    """Map what `write_vectors` wrote into memory."""
    sides = (folder / f"{side}.arrow" for side in CollectionVectors._fields)
    return CollectionVectors(*map(mapped_vectors, sides))


def document_sentences(collection: Collection) -> list[list[str]]:
    """Return title and sentences of each document; the empty text for an empty document."""
    return [
        [*([title] if title else []), *syntok_sentences(text)] or [""]
        for title, text in zip(collection.titles, collection.texts, strict=True)
    ]


def _means(
    encoder: Encoder, documents: Sequence[Sequence[str]], name: str, *, unit: bool
) -> Float32[np.ndarray, "documents dim"]:
    sentences = [sentence for document in documents for sentence in document]
    bounds = np.cumsum([0, *map(len, documents)])

    def rows(wanted: Int64[np.ndarray, " n"]) -> Float32[np.ndarray, "n dim"]:
        texts = [sentences[k] for k in wanted.tolist()]
        update = log_progress(f"encode sentences of {name}", len(texts))
        pooled = pooled_vectors(encoder, encoder.tokenise(texts, "sentence"), progress=update)
        return directions(pooled) if unit else pooled

    return span_means(rows, bounds[:-1], bounds[1:])
