"""Arrow schemas of the tables between stages."""

from collections.abc import Collection, Mapping
from typing import Any

import pyarrow as pa


def _table(types: Mapping[str, Any], nullable: Collection[str] = ()) -> Any:
    """Schema with a type for each column; only the columns in `nullable` may hold nulls."""
    return pa.schema([pa.field(name, kind, name in nullable) for name, kind in types.items()])


DOCUMENTS = _table(
    {
        "doc_id": pa.string(),
        "sentences": pa.list_(pa.string()),
        "counterpart": pa.string(),
        "source_row": pa.int64(),
    },
    nullable=("counterpart",),
)
"""One row per usable document, in the order of the source."""

QUARANTINE = _table(
    {"where": pa.string(), "row": pa.int64(), "reason": pa.string(), "excerpt": pa.string()}
)
"""One row per refused row: file, row or line (from 0), reason code, first characters."""

DOCUMENT_INDEX = _table(
    {
        "doc_id": pa.string(),
        "first_sentence": pa.int64(),
        "sentence_count": pa.int32(),
        "held_out": pa.bool_(),
    }
)
"""One row per document of the token cache. Held-out documents are encoded, never trained on."""


def sentences(token_type: Any) -> Any:
    """Token cache: one row per sentence, by document and position (uint16 or uint32 ids).

    tokens: what the encoder reads; rest: tokens that were cut off.
    """
    return _table(
        {
            "sentence": pa.int64(),
            "document": pa.int64(),
            "text": pa.string(),
            "text_hash": pa.int64(),
            "tokens": pa.list_(token_type),
            "rest": pa.list_(token_type),
        }
    )


def embeddings(dim: int, storage: Any) -> Any:
    """One row per sentence, in the order of the token cache; float16 or float32."""
    return _table({"embedding": pa.list_(storage, dim)})


def graph(degree: int) -> Any:
    """One row per sentence: its strongest neighbours in its document, by (-weight, index).

    `neighbour` is the index of a sentence, or -1 if the document has no more.
    """
    return _table(
        {
            "neighbour": pa.list_(pa.int64(), degree),
            "weight": pa.list_(pa.float32(), degree),
        }
    )


EDGES = _table({"i": pa.int64(), "j": pa.int64(), "weight": pa.float32()})
"""Edges of the pruned graph (mutual, Eq. 3), each once, i < j, sorted."""

CLUSTERS = _table({"sentence": pa.int64(), "cluster": pa.int32()})
"""Cluster of every sentence, numbered from 0 in its document by first sentence."""

PAIRS = _table({"i": pa.int64(), "j": pa.int64()})
"""Positive pairs (mutual, Eq. 4), each once, i < j."""
