"""Arrow schemas of the tables between stages."""

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
"""One row per usable document, in the order of the source."""

QUARANTINE = pa.schema(
    [
        pa.field("where", pa.string(), nullable=False),
        pa.field("row", pa.int64(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("excerpt", pa.string(), nullable=False),
    ]
)
"""One row per refused row: file, row or line (from 0), reason code, first characters."""

DOCUMENT_INDEX = pa.schema(
    [
        pa.field("doc_id", pa.string(), nullable=False),
        pa.field("first_sentence", pa.int64(), nullable=False),
        pa.field("sentence_count", pa.int32(), nullable=False),
        pa.field("held_out", pa.bool_(), nullable=False),
    ]
)
"""One row per document of the token cache. Held-out documents are encoded, never trained on."""


def sentences(token_type: Any) -> Any:
    """Token cache: one row per sentence, by document and position (uint16 or uint32 ids).

    tokens: what the encoder reads; rest: tokens that were cut off.
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
    """One row per sentence, in the order of the token cache; float16 or float32."""
    return pa.schema([pa.field("embedding", pa.list_(storage, dim), nullable=False)])


def graph(degree: int) -> Any:
    """One row per sentence: its strongest neighbours in its document, by (-weight, index).

    `neighbour` is the index of a sentence, or -1 if the document has no more.
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
"""Edges of the pruned graph (mutual, Eq. 3), each once, i < j, sorted."""

CLUSTERS = pa.schema(
    [
        pa.field("sentence", pa.int64(), nullable=False),
        pa.field("cluster", pa.int32(), nullable=False),
    ]
)
"""Cluster of every sentence, numbered from 0 in its document by first sentence."""

PAIRS = pa.schema(
    [
        pa.field("i", pa.int64(), nullable=False),
        pa.field("j", pa.int64(), nullable=False),
    ]
)
"""Positive pairs (mutual, Eq. 4), each once, i < j."""
