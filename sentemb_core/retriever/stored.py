"""The arrays of an open index: memory-mapped, except for the document vectors."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from jaxtyping import Float32, Int64

from sentemb_core.corpus.table import Document
from sentemb_core.evaluation.ranking import rows_of
from sentemb_core.retrieval.bm25 import StoredBM25
from sentemb_core.retriever.index_files import (
    DOCUMENTS,
    FAISS,
    SENTENCES,
    TEXTS,
    TOKENS,
    IndexFile,
    damaged,
    open_ragged,
    vector_blocks,
    words_folder,
)
from sentemb_core.retriever.nearest import Exact, Graph, Nearest
from sentemb_core.retriever.spec import RetrieverSpec
from sentemb_core.retriever.tokens import TokenVectors
from sentemb_core.retriever.words import TERMS

BLOCK = 4_096
"""Sentence vectors that are compared with a query at once: 6 MB, which fit the cache."""

Rows = Int64[np.ndarray, " _"]
Vector = Float32[np.ndarray, " dim"]


class Stored:
    """What an index has of its documents; a row is a document.

    Attributes:
        ids: Ids of the documents.
        counterparts: Their counterparts, where they have one.
        words: BM25 on each kind of term.
        nearest: The document vectors; None for words alone.
        tokens: Token vectors in int8; None without that part.

    Raises:
        UnreadableSourceError: a file is damaged.
    """

    def __init__(self, folder: Path, spec: RetrieverSpec, stated: IndexFile) -> None:
        columns = ["doc_id", "counterpart", "digest"]
        try:
            table = pq.read_table(
                folder / DOCUMENTS, columns=columns, page_checksum_verification=True
            )
            kinds = TERMS[spec.words] if spec.words else ()
            self.words = [StoredBM25(words_folder(folder, terms), terms) for terms in kinds]
            self.tokens = TokenVectors(*open_ragged(folder, TOKENS)) if spec.tokens else None
            self._sentences = open_ragged(folder, SENTENCES) if spec.best_sentence else None
            self.nearest: Nearest | None = None
            if stated.approximate:
                self.nearest = Graph(folder / FAISS, stated.approximate.search_depth)
            elif spec.vectors:
                self.nearest = Exact(np.concatenate([*vector_blocks(folder)]))
            self._texts = None
            if (folder / TEXTS).is_file():
                self._texts = pa.ipc.open_file(pa.memory_map(str(folder / TEXTS))).read_all()
        except (OSError, ValueError, KeyError, pa.ArrowException) as error:
            raise damaged(folder, str(error)) from error
        self.ids: list[str] = table["doc_id"].to_pylist()
        self.counterparts: list[str | None] = table["counterpart"].to_pylist()
        self._digests: list[str] = table["digest"].to_pylist()

    @cached_property
    def row_of(self) -> dict[str, int]:
        """Row of each id."""
        return {doc_id: row for row, doc_id in enumerate(self.ids)}

    def unchanged(self, documents: Sequence[Document], digests: Sequence[str]) -> Rows:
        """Return the row of each document with the same id and digest; -1 for others."""
        rows = [self.row_of.get(document.doc_id, -1) for document in documents]
        same = [
            row if row >= 0 and self._digests[row] == digest else -1
            for row, digest in zip(rows, digests, strict=True)
        ]
        return np.array(same, np.int64)

    def cosines(
        self, query: Vector, rows: Int64[np.ndarray, " rows"]
    ) -> Float32[np.ndarray, " rows"]:
        """Return the cosine of the query with each document."""
        return self.vectors_of(rows) @ query

    def vectors_of(self, rows: Int64[np.ndarray, " rows"]) -> Float32[np.ndarray, "rows dim"]:
        """Return the vectors of some documents."""
        assert self.nearest, "the index has vectors"
        return self.nearest.of(rows)

    def sentences_of(self, row: int) -> np.ndarray:
        """Return the sentence vectors of a document; none without that part."""
        if self._sentences is None:
            return np.empty((0, 0), np.float16)
        vectors, starts = self._sentences
        return vectors[starts[row] : starts[row + 1]]

    def tokens_of(self, row: int) -> np.ndarray:
        """Return the token vectors of a document; none without that part."""
        if self.tokens is None:
            return np.empty((0, 0), np.int8)
        return self.tokens.rows[self.tokens.starts[row] : self.tokens.starts[row + 1]]

    def best_sentences(
        self, query: Vector, rows: Int64[np.ndarray, " rows"]
    ) -> Float32[np.ndarray, " rows"]:
        """Return the cosine of the query with the nearest sentence of each document."""
        assert self._sentences, "the index has sentence vectors"
        vectors, starts = self._sentences
        places, bounds = rows_of(starts, rows)
        wanted = torch.from_numpy(query)
        cosines = [  # torch widens float16 four times as fast as numpy
            torch.from_numpy(vectors.take(some, axis=0)).float() @ wanted
            for some in np.split(places, range(BLOCK, len(places), BLOCK))
        ]
        return np.maximum.reduceat(torch.cat(cosines).numpy(), bounds[:-1])

    def sentence(self, query: Vector, row: int) -> str | None:
        """Return the sentence of a document that is nearest to the query, if it is stored."""
        if self._texts is None or self._sentences is None:
            return None
        nearest = int((self.sentences_of(row).astype(np.float32) @ query).argmax())
        texts: list[list[str]] = self._texts["sentences"].slice(row, 1).to_pylist()
        return texts[0][nearest]

    @property
    def has_counterparts(self) -> bool:
        """Whether a document has a counterpart."""
        return any(counterpart is not None for counterpart in self.counterparts)

    @property
    def has_texts(self) -> bool:
        """Whether the sentences of the documents are stored."""
        return self._texts is not None
