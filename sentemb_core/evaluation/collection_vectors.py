"""A collection's queries and documents as vectors; their inner product is the score."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, Int64

from sentemb_core.config.suite import DocumentVector
from sentemb_core.corpus.sentences import syntok_sentences
from sentemb_core.encoder.batching import encode, pooled_vectors
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.encoder.truncation import Cut, log_once
from sentemb_core.evaluation.collections import Collection
from sentemb_core.evaluation.diagnostics import directions
from sentemb_core.evaluation.vectors import encode_texts, span_means
from sentemb_core.progress import log_progress
from sentemb_core.shards import mapped_vectors, save_vectors


class CollectionVectors(NamedTuple):
    """One vector per query and per document, in the collection's order."""

    queries: Float32[np.ndarray, "queries dim"]
    documents: Float32[np.ndarray, "documents dim"]


def collection_vectors(
    encoder: Encoder, collection: Collection, form: DocumentVector = "text"
) -> CollectionVectors:
    """Return vectors of whole queries and of documents; for cosine of length 1, or zero.

    A text is cut at `encoder.text_length` tokens and a sentence at `encoder.max_length`. So the
    form `text` uses only the beginning of a long document. The share of cut texts is logged.

    Raises:
        BadEmbeddingError: a vector is not finite.
    """
    if form == "text":  # in one pass: titles as queries and as documents are the same texts
        cut, name = Cut(), f"queries and documents of {collection.name}"
        texts = [
            *encoder.tokenise(collection.queries, "query", cut),
            *encoder.tokenise(collection.documents, "document", cut),
        ]
        log_once(cut.line(name))
        update = log_progress(f"encode {name}", len(texts))
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
    bounds, cut = np.cumsum([0, *map(len, documents)]), Cut()

    def rows(wanted: Int64[np.ndarray, " n"]) -> Float32[np.ndarray, "n dim"]:
        texts = [sentences[k] for k in wanted.tolist()]
        update = log_progress(f"encode sentences of {name}", len(texts))
        tokens = encoder.tokenise(texts, "sentence", cut)
        pooled = pooled_vectors(encoder, tokens, progress=update)
        return directions(pooled) if unit else pooled

    means = span_means(rows, bounds[:-1], bounds[1:])
    log_once(cut.line(f"sentences of {name}"))
    return means
