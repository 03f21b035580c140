"""Document vectors of a corpus: written to a file, or searched at once."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from jaxtyping import Float32

from sentemb_core.corpus.documents import Document, read_documents
from sentemb_core.encoder.batching import embed_texts
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.errors import UsageError
from sentemb_core.retrieval.dense import search
from sentemb_core.store.disk import replacing

Vectors = Float32[np.ndarray, "_ dim"]

DOCUMENTS_AT_ONCE = 1_000
"""Bounds memory: a corpus is encoded and written in pieces."""


@dataclass(frozen=True)
class Hit:
    """A found document: its inner product with the query, and its sentence nearest to the query."""

    doc_id: str
    score: float
    counterpart: str | None
    sentence: str


def vectors_of(encoder: Encoder, documents: Iterable[Document]) -> tuple[Vectors, Vectors]:
    """Sentence vectors, and document vectors: their means (seed 000, section 4).

    Means are normalised again for cosine, so that inner products are cosines.
    """
    counts = np.array([len(document.sentences) for document in documents])
    sentences = embed_texts(encoder, [s for document in documents for s in document.sentences])
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    means = np.add.reduceat(sentences, starts, axis=0) / counts[:, None].astype(np.float32)
    return sentences, encoder.vectors(torch.from_numpy(means)).numpy()


def encoded(encoder: Encoder, folder: Path) -> Iterator[tuple[list[Document], Vectors, Vectors]]:
    """Pieces of a corpus with their sentence and document vectors."""
    rows = read_documents(folder / "documents.parquet")
    while documents := list(islice(rows, DOCUMENTS_AT_ONCE)):
        yield documents, *vectors_of(encoder, documents)


def write_vectors(
    encoder: Encoder, folder: Path, out: Path, by: Literal["document", "sentence"]
) -> int:
    """Write doc_id (, position, sentence) and embedding as Parquet; returns the rows written.

    Raises:
        StorageError: `out` cannot be written; what was there stays.
    """
    rows = 0
    embedding = pa.field("embedding", pa.list_(pa.float32(), encoder.dim))
    names = [pa.field("doc_id", pa.string())]
    if by == "sentence":
        names += [pa.field("position", pa.int32()), pa.field("sentence", pa.string())]
    schema = pa.schema([*names, embedding])
    with replacing(out) as draft, pq.ParquetWriter(draft, schema) as writer:
        for documents, of_sentences, of_documents in encoded(encoder, folder):
            vectors = of_documents if by == "document" else of_sentences
            columns = columns_of(documents, by)
            flat = pa.array(vectors.reshape(-1))
            column = pa.FixedSizeListArray.from_arrays(flat, encoder.dim)
            writer.write_table(pa.Table.from_arrays([*columns, column], schema=schema))
            rows += len(vectors)
    return rows


def columns_of(documents: list[Document], by: Literal["document", "sentence"]) -> list[Any]:
    """What stands beside the vectors."""
    if by == "document":
        return [pa.array([document.doc_id for document in documents], pa.string())]
    cells = [
        (document.doc_id, position, sentence)
        for document in documents
        for position, sentence in enumerate(document.sentences)
    ]
    ids, positions, sentences = zip(*cells, strict=True)
    kinds = (pa.string(), pa.int32(), pa.string())
    return [pa.array(v, kind) for v, kind in zip((ids, positions, sentences), kinds, strict=True)]


def nearest_documents(encoder: Encoder, query: str, folder: Path, top: int) -> list[Hit]:
    """The `top` documents by inner product with the query, best first, earlier ones at ties.

    Raises:
        UsageError: the query is empty.
    """
    if not query.strip():
        raise UsageError(f"A query is a text; found {query!r}. Say what to look for.")
    asked = embed_texts(encoder, [query])
    best: list[Hit] = []
    for documents, of_sentences, vectors in encoded(encoder, folder):
        rows, scores = search(asked, vectors, min(top, len(documents)))
        starts = np.cumsum([0, *(len(document.sentences) for document in documents)])
        for row, score in zip(rows[0].tolist(), scores[0].tolist(), strict=True):
            found = documents[row]
            likeness = of_sentences[starts[row] : starts[row + 1]] @ asked[0]
            sentence = found.sentences[int(likeness.argmax())]
            best.append(Hit(found.doc_id, score, found.counterpart, sentence))
    return sorted(best, key=lambda hit: -hit.score)[:top]
