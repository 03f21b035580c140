"""What `encode` writes: vectors in a Parquet file whose schema says which encoder gave them.

An index is served for months, and an encoder of another revision finds in it what is not there,
without an error. So the file carries `encoder.revision.encoder_digest`, and a checksum of every
page, which Parquet leaves out unless it is asked.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from sentemb_core.errors import OtherEncoderError, UnreadableSourceError
from sentemb_core.types import Similarity

By = Literal["document", "sentence"]

ENCODER, SIMILARITY = b"sentemb.encoder", b"sentemb.similarity"
"""Keys of the schema's metadata: who wrote it, and whether its vectors have length 1 (cosine)."""

CELLS = {
    "doc_id": pa.string(),
    "counterpart": pa.string(),
    "position": pa.int32(),
    "sentence": pa.string(),
}
"""What may stand beside a vector."""


def index_schema(
    by: By, dim: int, encoder: str, similarity: Similarity, *, counterparts: bool
) -> Any:
    """Columns of an index: doc_id, (counterpart,) (position, sentence,) embedding.

    Args:
        by: A row a document, or a row a sentence.
        dim: Width of a vector.
        encoder: `encoder_digest` of who writes it.
        similarity: cosine: vectors have length 1.
        counterparts: Whether documents have titles, or whatever else stands for them.
    """
    left_out = {"counterpart"} if not counterparts else set[str]()
    left_out |= {"position", "sentence"} if by == "document" else set()
    cells = [pa.field(name, kind) for name, kind in CELLS.items() if name not in left_out]
    said = {ENCODER: encoder.encode(), SIMILARITY: similarity.encode()}
    return pa.schema([*cells, pa.field("embedding", pa.list_(pa.float32(), dim))], said)


def index_writer(path: Path, schema: Any) -> pq.ParquetWriter:
    """Vectors as they are: neither packing nor a dictionary makes them smaller, both cost time."""
    texts = [name for name in schema.names if name != "embedding"]
    options: Any = {
        "compression": dict.fromkeys(texts, "zstd") | {"embedding.list.element": "none"},
        "use_dictionary": texts,
    }
    return pq.ParquetWriter(path, schema, write_page_checksum=True, **options)


def is_index(source: str) -> bool:
    """Whether a file has the columns of an index and no other."""
    try:
        names = set(pq.read_schema(source).names)
    except (OSError, pa.ArrowException):
        return False
    return {"doc_id", "embedding"} <= names <= {*CELLS, "embedding"}


def require_writer(index: Path, digest: str) -> None:
    """See that an index is of the encoder that shall search it.

    Args:
        index: A file with the columns of one.
        digest: `encoder_digest` of that encoder.

    Raises:
        OtherEncoderError: E202, another one wrote it, or it does not say which.
    """
    said: dict[bytes, bytes] = pq.read_schema(index).metadata or {}
    found = said.get(ENCODER, b"").decode()
    if not found:
        raise OtherEncoderError(
            f"An index says which encoder wrote it, and {index} does not: another program made it, "
            "or an earlier version. `encode` the documents anew."
        )
    if found != digest:
        raise OtherEncoderError(
            f"An index is searched with the encoder that wrote it: {index} was written by "
            f"{found[:12]}, and the one given is {digest[:12]} (SHA-256 of weights, vocabulary, "
            "pooling, similarity and tokens read). Search it with its own encoder (whether a "
            "registered version is that, `python -m flows canary` tells), or `encode` the "
            "documents anew with this one."
        )


def row_groups(index: Path) -> Iterator[Any]:
    """Tables of an index, of whole documents each; memory holds one.

    Raises:
        UnreadableSourceError: E103, bytes have changed or are missing since it was written.
    """
    try:
        with pq.ParquetFile(index, memory_map=True, page_checksum_verification=True) as file:
            for k in range(file.num_row_groups):
                yield file.read_row_group(k)
    except (OSError, pa.ArrowException) as error:
        raise UnreadableSourceError(
            f"{index} cannot be read to its end: {str(error).splitlines()[0].rstrip('.')}. The "
            "file is damaged: copy it again, or encode the documents anew."
        ) from error
