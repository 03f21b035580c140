"""Document vectors of a corpus: written to an index, and searched in it or at once."""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Float32, Int64

from sentemb_core.corpus.table import Document, read_documents, sentence_count
from sentemb_core.encoder.batching import embed_texts, encode, naming_documents
from sentemb_core.encoder.checkpoint import encoder_digest
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.encoder.vocabulary import unknown_tokens
from sentemb_core.errors import BadDataError, UsageError
from sentemb_core.progress import progress
from sentemb_core.retrieval.dense import search
from sentemb_core.store.disk import replacing
from sentemb_core.vector_index import CELLS, By, index_schema, index_writer, row_groups

log = logging.getLogger(__name__)

Vectors = Float32[np.ndarray, "_ dim"]

DOCUMENTS_AT_ONCE = 1_000
SENTENCES_AT_ONCE = 65_536
LETTERS_AT_ONCE = 4 << 20
"""Bound memory: a corpus is encoded and written in pieces, which end at any of them. Of books a
thousand are millions of sentences, and tokenising takes 50 bytes a byte of text."""


@dataclass(frozen=True)
class Hit:
    """A found document: its inner product with the query, and its sentence nearest to the query.

    What an index does not hold is none.
    """

    doc_id: str
    score: float
    counterpart: str | None
    sentence: str | None


@dataclass(frozen=True)
class Piece:
    """Some documents and their vectors.

    Attributes:
        rows: Arrow table of `vector_index.CELLS`, a row a sentence or a row a document.
        of_rows: A vector a row.
        starts: First row of each document, and behind them the number of rows.
        vectors: A vector a document.
    """

    rows: Any
    of_rows: Vectors
    starts: Int64[np.ndarray, " bounds"]
    vectors: Vectors

    def hit(self, document: int, score: float, query: Float32[np.ndarray, " dim"]) -> Hit:
        """What is told of a document that was found."""
        first, end = self.starts[document], self.starts[document + 1]
        nearest = first + int((self.of_rows[first:end] @ query).argmax())
        told = self.rows.slice(nearest, 1).to_pylist()[0]
        return Hit(told["doc_id"], score, told.get("counterpart"), told.get("sentence"))


def encoded(encoder: Encoder, folder: Path) -> Iterator[Piece]:
    """A corpus in pieces, a row a sentence; how far it is, is told on stderr."""
    file = folder / "documents.parquet"
    done = 0
    with progress("encode sentences", sentence_count(file)) as update:
        for some in pieces_of(read_documents(file)):
            rows = sentence_rows(some)
            tokens = encoder.tokenise(rows["sentence"].to_pylist())
            with naming_documents(place_in(rows)):
                told = encode(
                    encoder, tokens, progress=lambda count, done=done: update(done + count)
                )
            yield of_sentences(encoder, rows, told)
            done += len(rows)


def pieces_of(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Documents in their order, as many as are encoded at once."""
    some: list[Document] = []
    sentences = letters = 0
    for document in documents:
        some.append(document)
        sentences += len(document.sentences)
        letters += sum(map(len, document.sentences))
        if (
            len(some) >= DOCUMENTS_AT_ONCE
            or sentences >= SENTENCES_AT_ONCE
            or letters >= LETTERS_AT_ONCE
        ):
            yield some
            some, sentences, letters = [], 0, 0
    if some:
        yield some


def sentence_rows(documents: Iterable[Document]) -> Any:
    """All cells of an index by sentence."""
    cells = (
        (document.doc_id, document.counterpart, position, sentence)
        for document in documents
        for position, sentence in enumerate(document.sentences)
    )
    columns = zip(zip(*cells, strict=True), CELLS.values(), strict=True)
    return pa.table([pa.array(column, kind) for column, kind in columns], names=list(CELLS))


def place_in(rows: Any) -> Callable[[int], tuple[str, int]]:
    """Document id and position of the k-th of these rows."""
    ids, positions = rows["doc_id"], rows["position"]
    return lambda k: (ids[k].as_py(), positions[k].as_py())


def of_sentences(encoder: Encoder, rows: Any, vectors: Vectors) -> Piece:
    """Document vectors are the means of their sentences' vectors (mutual, section 4).

    Means are normalised again for cosine, so that inner products are cosines.
    """
    starts = np.flatnonzero(rows["position"].to_numpy() == 0)
    counts = np.diff(starts, append=len(vectors))
    means = np.add.reduceat(vectors, starts, axis=0) / counts[:, None].astype(np.float32)
    bounds = np.append(starts, len(vectors))
    return Piece(rows, vectors, bounds, encoder.vectors(torch.from_numpy(means)).numpy())


def write_vectors(
    encoder: Encoder, folder: Path, out: Path, by: By, *, counterparts: bool = False
) -> int:
    """Write an index (`vector_index.index_schema`); returns the rows written.

    Raises:
        StorageError: `out` cannot be written; what was there stays.
    """
    schema = index_schema(
        by, encoder.dim, encoder_digest(encoder), encoder.similarity, counterparts=counterparts
    )
    written = 0
    with replacing(out) as draft, index_writer(draft, schema) as writer:
        for piece in encoded(encoder, folder):
            rows, vectors = piece.rows, piece.of_rows
            if by == "document":
                rows, vectors = rows.take(piece.starts[:-1]), piece.vectors
            column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), encoder.dim)
            cells = [rows[name] for name in schema.names[:-1]]
            table = pa.Table.from_arrays([*cells, column], schema=schema)
            writer.write_table(table, row_group_size=len(table))  # else cut at a million rows
            written += len(vectors)
    return written


def indexed(encoder: Encoder, index: Path) -> Iterator[Piece]:
    """An index that this encoder wrote, in pieces.

    Raises:
        UnreadableSourceError: E103, it is damaged.
        BadDataError: A row group begins within a document.
    """
    for rows in row_groups(index):
        flat = rows["embedding"].combine_chunks().flatten().to_numpy()
        vectors = flat.reshape(len(rows), encoder.dim)
        if "position" not in rows.column_names:
            yield Piece(rows, vectors, np.arange(len(rows) + 1), vectors)
            continue
        if rows["position"][0].as_py() != 0:
            raise BadDataError(
                f"Row groups of an index hold whole documents, and one of {index} begins within "
                f"{rows['doc_id'][0].as_py()!r}: it was written anew by another program. Search "
                "the file that `encode` wrote."
            )
        yield of_sentences(encoder, rows, vectors)


def query_vector(encoder: Encoder, query: str) -> Float32[np.ndarray, " dim"]:
    """The vector of what is looked for; a query of which the encoder knows little is told.

    Raises:
        UsageError: It is empty.
    """
    if not query.strip():
        raise UsageError(f"A query is a text; found {query!r}. Say what to look for.")
    vector = embed_texts(encoder, [query])[0]
    pieces = encoder.tokenizer.encode(query, add_special_tokens=encoder.add_special_tokens)
    unknown, tokens = unknown_tokens(encoder.tokenizer, [query])
    if unknown == tokens or not vector.any():
        log.warning("The encoder knows no word of the query: what it finds is as good as chance.")
    elif 2 * unknown >= tokens:
        log.warning(
            "%d of %d tokens of the query are unknown to the encoder, which looks for the rest.",
            unknown,
            tokens,
        )
    if pieces.overflowing:
        log.warning("%d tokens of the query are read, the rest is cut.", encoder.max_length)
    return vector


def nearest_documents(
    query: Float32[np.ndarray, " dim"], pieces: Iterable[Piece], top: int
) -> list[Hit]:
    """The `top` documents by inner product with the query, best first, earlier ones at ties."""
    best: list[Hit] = []
    for piece in pieces:
        least = best[-1].score if len(best) == top else -inf
        found, scores = search(query[None], piece.vectors, top)
        best += [
            piece.hit(document, score, query)
            for document, score in zip(found[0].tolist(), scores[0].tolist(), strict=True)
            if score > least
        ]
        best = sorted(best, key=lambda hit: -hit.score)[:top]
    return best
