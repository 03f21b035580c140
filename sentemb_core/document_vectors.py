"""Document vectors of a corpus: write them to an index, or search them."""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Float32, Int64

from sentemb_core.corpus.sentences import is_blank
from sentemb_core.corpus.table import (
    Document,
    characters,
    in_pieces,
    read_documents,
    sentence_count,
)
from sentemb_core.encoder.batching import embed_texts, encode, naming_documents
from sentemb_core.encoder.checkpoint import encoder_digest
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.encoder.truncation import Cut
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
"""Limits of a piece of the corpus that is encoded at once; the first limit reached ends it. A
thousand books have millions of sentences, and tokenising needs 50 bytes per byte of text."""


@dataclass(frozen=True)
class Hit:
    """A document, its inner product with the query, and its sentence nearest to the query.

    The counterpart is None if the document has none. The sentence is None in a search by words, and
    if the index has no texts or no sentence vectors.
    """

    doc_id: str
    score: float
    counterpart: str | None
    sentence: str | None


@dataclass(frozen=True)
class Piece:
    """Some documents and their vectors.

    Attributes:
        rows: Arrow table of `vector_index.CELLS`, one row per sentence or per document.
        of_rows: One vector per row.
        starts: First row of each document, and last the number of rows.
        vectors: One vector per document.
    """

    rows: Any
    of_rows: Vectors
    starts: Int64[np.ndarray, " bounds"]
    vectors: Vectors

    def hit(self, document: int, score: float, query: Float32[np.ndarray, " dim"]) -> Hit:
        """The hit of a document by its index in this piece."""
        first, end = self.starts[document], self.starts[document + 1]
        nearest = first + int((self.of_rows[first:end] @ query).argmax())
        row = self.rows.slice(nearest, 1).to_pylist()[0]
        return Hit(row["doc_id"], score, row.get("counterpart"), row.get("sentence"))


def encoded(encoder: Encoder, folder: Path) -> Iterator[Piece]:
    """Encode a corpus in pieces with one row per sentence; progress goes to stderr.

    The share of cut sentences is logged at the end.
    """
    file = folder / "documents.parquet"
    done, cut = 0, Cut()
    with progress("encode sentences", sentence_count(file)) as update:
        for some in encoded_at_once(read_documents(file)):
            rows = sentence_rows(some)
            tokens = encoder.tokenise(rows["sentence"].to_pylist(), "sentence", cut)
            with naming_documents(partial(_place, rows)):
                vectors = encode(
                    encoder, tokens, progress=lambda count, done=done: update(done + count)
                )
            yield of_sentences(encoder, rows, vectors)
            done += len(rows)
    log.info("%s", cut.line("sentences"))


def encoded_at_once(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Yield the documents in pieces that are encoded at once."""
    limits = (DOCUMENTS_AT_ONCE, SENTENCES_AT_ONCE, LETTERS_AT_ONCE)
    return in_pieces(documents, limits, lambda each: (1, len(each.sentences), characters(each)))


def _place(rows: Any, row: int) -> tuple[str, int]:
    """Return the document id and the position of a row."""
    return rows["doc_id"][row].as_py(), rows["position"][row].as_py()


def sentence_rows(documents: Iterable[Document]) -> Any:
    """Rows of an index by sentence, without vectors."""
    cells = (
        (document.doc_id, document.counterpart, position, sentence)
        for document in documents
        for position, sentence in enumerate(document.sentences)
    )
    columns = zip(zip(*cells, strict=True), CELLS.values(), strict=True)
    return pa.table([pa.array(column, kind) for column, kind in columns], names=list(CELLS))


def of_sentences(encoder: Encoder, rows: Any, vectors: Vectors) -> Piece:
    """A piece whose document vectors are means of sentence vectors (mutual, section 4).

    For cosine the means are normalised again, so inner products are cosines.
    """
    starts = np.flatnonzero(rows["position"].to_numpy() == 0)
    counts = np.diff(starts, append=len(vectors))
    means = np.add.reduceat(vectors, starts, axis=0) / counts[:, None].astype(np.float32)
    bounds = np.append(starts, len(vectors))
    return Piece(rows, vectors, bounds, encoder.vectors(torch.from_numpy(means)).numpy())


def write_vectors(
    encoder: Encoder, folder: Path, out: Path, by: By, *, counterparts: bool = False
) -> int:
    """Write an index (`vector_index.index_schema`) and return its number of rows.

    Raises:
        StorageError: `out` cannot be written; an earlier file stays.
    """
    schema = index_schema(
        by, encoder.dim, encoder_digest(encoder), encoder.similarity, counterparts=counterparts
    )
    count = 0
    with replacing(out) as draft, index_writer(draft, schema) as writer:
        for piece in encoded(encoder, folder):
            rows, vectors = piece.rows, piece.of_rows
            if by == "document":
                rows, vectors = rows.take(piece.starts[:-1]), piece.vectors
            column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), encoder.dim)
            cells = [rows[name] for name in schema.names[:-1]]
            table = pa.Table.from_arrays([*cells, column], schema=schema)
            writer.write_table(table, row_group_size=len(table))  # default: a million rows
            count += len(vectors)
    return count


def indexed(encoder: Encoder, index: Path) -> Iterator[Piece]:
    """Read an index of this encoder in pieces.

    Raises:
        UnreadableSourceError: it is damaged.
        BadDataError: a row group begins inside a document.
    """
    for rows in row_groups(index):
        flat = rows["embedding"].combine_chunks().flatten().to_numpy()
        vectors = flat.reshape(len(rows), encoder.dim)
        if "position" not in rows.column_names:
            yield Piece(rows, vectors, np.arange(len(rows) + 1), vectors)
            continue
        if rows["position"][0].as_py() != 0:
            raise BadDataError(
                f"Row groups of an index hold whole documents, but one of {index} begins inside "
                f"{rows['doc_id'][0].as_py()!r}: another program rewrote the file. Use the file "
                "that `encode` wrote."
            )
        yield of_sentences(encoder, rows, vectors)


def query_vector(encoder: Encoder, query: str) -> Float32[np.ndarray, " dim"]:
    """Encode a query; warn if the encoder knows few of its tokens, or cuts it.

    Raises:
        UsageError: the query is empty.
    """
    if is_blank(query):
        raise UsageError(f"The query is empty (found {query!r}). Name a text to search for.")
    vector = embed_texts(encoder, [query], role="query")[0]
    prompted = encoder.prompts.before("query") + query
    pieces = encoder.tokenizer.encode(prompted, add_special_tokens=encoder.add_special_tokens)
    unknown, tokens = unknown_tokens(encoder.tokenizer, [query])
    if unknown == tokens or not vector.any():
        log.warning("The encoder knows no token of the query: the hits are random.")
    elif 2 * unknown >= tokens:
        log.warning(
            "%d of %d tokens of the query are unknown to the encoder and are ignored.",
            unknown,
            tokens,
        )
    if pieces.overflowing:
        log.warning("Only the first %d tokens of the query are used.", encoder.text_length)
    return vector


def nearest_documents(
    query: Float32[np.ndarray, " dim"], pieces: Iterable[Piece], top: int
) -> list[Hit]:
    """The `top` documents by inner product with the query, best first; ties in corpus order."""
    best: list[Hit] = []
    for piece in pieces:
        least = best[-1].score if len(best) == top else -inf
        indices, scores = search(query[None], piece.vectors, top)
        best += [
            piece.hit(document, score, query)
            for document, score in zip(indices[0].tolist(), scores[0].tolist(), strict=True)
            if score > least
        ]
        best = sorted(best, key=lambda hit: -hit.score)[:top]
    return best
