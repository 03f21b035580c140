"""The index that `encode` writes: vectors in a Parquet file that names their encoder.

With another encoder, or with damaged bytes, a search returns wrong documents without an error. So
the file holds the digest of the encoder, and a checksum of every page.
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
"""Keys of the schema's metadata: digest of the encoder; cosine: vectors have length 1."""

CELLS = {
    "doc_id": pa.string(),
    "counterpart": pa.string(),
    "position": pa.int32(),
    "sentence": pa.string(),
}
"""Columns beside the vector."""


def index_schema(
    by: By, dim: int, encoder: str, similarity: Similarity, *, counterparts: bool
) -> Any:
    """Schema of an index: doc_id, counterpart, position, sentence, embedding.

    Args:
        by: One row per document, or per sentence (only then position and sentence).
        dim: Dimensions of a vector.
        encoder: Digest of the encoder.
        similarity: cosine: vectors have length 1.
        counterparts: Whether to have the column counterpart.
    """
    left_out = {"counterpart"} if not counterparts else set[str]()
    left_out |= {"position", "sentence"} if by == "document" else set()
    cells = [pa.field(name, kind) for name, kind in CELLS.items() if name not in left_out]
    metadata = {ENCODER: encoder.encode(), SIMILARITY: similarity.encode()}
    return pa.schema([*cells, pa.field("embedding", pa.list_(pa.float32(), dim))], metadata)


def index_writer(path: Path, schema: Any) -> pq.ParquetWriter:
    """A writer that compresses only texts: compression does not make vectors smaller."""
    texts = [name for name in schema.names if name != "embedding"]
    options: Any = {
        "compression": dict.fromkeys(texts, "zstd") | {"embedding.list.element": "none"},
        "use_dictionary": texts,
    }
    return pq.ParquetWriter(path, schema, write_page_checksum=True, **options)


def is_index(source: str) -> bool:
    """Whether a file has the columns of an index, and no other column."""
    try:
        if not Path(source).is_file():  # to open a FIFO waits for ever
            return False
        names = set(pq.read_schema(source).names)
    except (OSError, pa.ArrowException, UnicodeDecodeError):
        return False
    return {"doc_id", "embedding"} <= names <= {*CELLS, "embedding"}


def require_writer(index: Path, digest: str) -> None:
    """Check that an index was written by the encoder of this digest.

    Raises:
        OtherEncoderError: another encoder wrote it, or it names no encoder.
    """
    metadata: dict[bytes, bytes] = pq.read_schema(index).metadata or {}
    writer = metadata.get(ENCODER, b"").decode(errors="replace")
    if not writer:
        raise OtherEncoderError(
            f"{index} does not name the encoder of its vectors: another program wrote it. `encode` "
            "the documents again."
        )
    if writer != digest:
        raise OtherEncoderError(
            f"An index is searched with the encoder that wrote it. {index} was written by "
            f"{writer[:12]}, and this encoder is {digest[:12]} (SHA-256 of weights, vocabulary, "
            "pooling, similarity, lengths and prompts). Use its encoder (`python -m flows canary` "
            "checks registered versions), or `encode` the documents again."
        )


def row_groups(index: Path) -> Iterator[Any]:
    """Tables of an index, one at a time; each holds whole documents.

    Raises:
        UnreadableSourceError: bytes are changed or missing.
    """
    try:
        with pq.ParquetFile(index, memory_map=True, page_checksum_verification=True) as file:
            for k in range(file.num_row_groups):
                yield file.read_row_group(k)
    except (OSError, pa.ArrowException) as error:
        raise UnreadableSourceError(
            f"{index} is damaged: {str(error).splitlines()[0].rstrip('.')}. Copy it again, or "
            "`encode` the documents again."
        ) from error
