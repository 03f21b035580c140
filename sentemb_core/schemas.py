"""The tables that stages hand to each other (columns, types, canonical order)."""

from typing import Any

import pyarrow as pa

DOCUMENTS = pa.schema(
    [
        pa.field("doc_id", pa.string(), nullable=False),
        pa.field("sentences", pa.list_(pa.string()), nullable=False),
        pa.field("counterpart", pa.string()),
        pa.field("source_row", pa.int64(), nullable=False),
    ]
)
"""One row a usable document, in source order."""

QUARANTINE = pa.schema(
    [
        pa.field("where", pa.string(), nullable=False),
        pa.field("row", pa.int64(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("excerpt", pa.string(), nullable=False),
    ]
)
"""One row a refused row: file, row or line counted from 0, reason code, first characters."""

DOCUMENT_INDEX = pa.schema(
    [
        pa.field("doc_id", pa.string(), nullable=False),
        pa.field("first_sentence", pa.int64(), nullable=False),
        pa.field("sentence_count", pa.int32(), nullable=False),
        pa.field("held_out", pa.bool_(), nullable=False),
    ]
)
"""One row a document of the token cache. A held-out document is encoded but never trained on."""


def sentences(token_type: Any) -> Any:
    """Token cache: one row a sentence, ordered by document and position (uint16 or uint32 ids).

    tokens: what an encoder reads of it; rest: what was cut off.
    """
    return pa.schema(
        [
            pa.field("sentence", pa.int64(), nullable=False),
            pa.field("document", pa.int64(), nullable=False),
            pa.field("text", pa.string(), nullable=False),
            pa.field("text_hash", pa.int64(), nullable=False),
            pa.field("tokens", pa.list_(token_type), nullable=False),
            pa.field("rest", pa.list_(token_type), nullable=False),
        ]
    )


def embeddings(dim: int, storage: Any) -> Any:
    """One row a sentence, canonical order; float16 or float32."""
    return pa.schema([pa.field("embedding", pa.list_(storage, dim), nullable=False)])


def graph(degree: int) -> Any:
    """Per sentence its strongest neighbours in its document, by (weight down, index up).

    `neighbour` is a sentence index in canonical order, -1 where the document has no more.
    """
    return pa.schema(
        [
            pa.field("neighbour", pa.list_(pa.int64(), degree), nullable=False),
            pa.field("weight", pa.list_(pa.float32(), degree), nullable=False),
        ]
    )


EDGES = pa.schema(
    [
        pa.field("i", pa.int64(), nullable=False),
        pa.field("j", pa.int64(), nullable=False),
        pa.field("weight", pa.float32(), nullable=False),
    ]
)
"""Kept edges of Eq. 3 (mutual), i < j, each once, sorted."""

CLUSTERS = pa.schema(
    [
        pa.field("sentence", pa.int64(), nullable=False),
        pa.field("cluster", pa.int32(), nullable=False),
    ]
)
"""Cluster label of every sentence, counted from 0 within its document by first appearance."""

PAIRS = pa.schema(
    [
        pa.field("i", pa.int64(), nullable=False),
        pa.field("j", pa.int64(), nullable=False),
    ]
)
"""Positive pairs of Eq. 4 (mutual), each unordered pair once, i < j."""
