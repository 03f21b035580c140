"""Token cache, read: memory-mapped files of `write_tokens`, for all rounds and methods."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise, starmap
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Bool, Int32, Int64

from sentemb_core.corpus.tokenise import read_report
from sentemb_core.documents import Spans, spans_in
from sentemb_core.shards import by_shard, read_arrow
from sentemb_core.store.parts import files_in, parts_of

AT_ONCE = 16
"""Shards that training reads at a time: a million sentences, with pairs of about 100 MB."""


@dataclass(frozen=True)
class Shard:
    """Whole documents in one file: their range of document and of sentence indices."""

    index: int
    documents: slice
    sentences: slice


class TokenCorpus:
    """Read-only, memory-mapped token cache; sentences are indexed in canonical order.

    Canonical order: by document as in documents.parquet, then by position in the document. A pass
    over the corpus in constant memory uses `shard_tokens` and `shard_offsets`; `spans` and
    `spans_of` look up some documents. Properties with a value for every document or sentence are
    read at first use. Of a corpus larger than memory, use them on a `part`.
    """

    def __init__(self, path: Path, files: Sequence[Path], rows: Sequence[slice]) -> None:
        """`rows` are the documents of each file among those of the whole cache."""
        self.path = path
        self.special_tokens = read_report(path).special_tokens
        """Whether every sentence starts and ends with a special token."""
        self._files, self._rows = files, rows
        self._kept: dict[int, Any] = {}
        self.shards = list(_shards(files, rows))
        self.n_documents = self.shards[-1].documents.stop if self.shards else 0
        self._starts: Int64[np.ndarray, " bounds"] = np.array(
            [0, *(shard.sentences.stop for shard in self.shards)]
        )

    @classmethod
    def open(cls, path: Path) -> "TokenCorpus":
        """Return the cache in folder `path` of `write_tokens` or `join_tokens`."""
        files = files_in(path, "sentences-*.arrow")
        ends = list(accumulate(map(_document_count, files)))
        return cls(path, files, list(starmap(slice, pairwise([0, *ends]))))

    def part(self, shards: Sequence[int]) -> "TokenCorpus":
        """Return a corpus of these shards, with documents and sentences counted from 0."""
        return TokenCorpus(
            self.path, [self._files[k] for k in shards], [self._rows[k] for k in shards]
        )

    def __len__(self) -> int:
        return int(self._starts[-1])

    def firsts(self, artifact: Path) -> list[int]:
        """Return for each shard the sentence from which an artifact's file of it counts.

        The files of a join count from the beginning of their part.
        """
        if not parts_of(artifact):
            return [0] * len(self.shards)
        return [self._part_starts[file.parent].sentences.start for file in self._files]

    @property
    def first_documents(self) -> list[int]:
        """Return the first document of each part of a joined cache."""
        return [shard.documents.start for shard in self._part_starts.values()]

    @cached_property
    def _part_starts(self) -> dict[Path, Shard]:
        """Return the first shard in each folder."""
        starts: dict[Path, Shard] = {}
        for file, shard in zip(self._files, self.shards, strict=True):
            starts.setdefault(file.parent, shard)
        return starts

    @cached_property
    def doc_ids(self) -> list[str]:
        return cast(list[str], self._index("doc_id").to_pylist())

    @cached_property
    def offsets(self) -> Int64[np.ndarray, " bounds"]:
        """Return the first sentence of each document and, last, the number of sentences."""
        ends = [self.shard_offsets(shard.index)[1:] for shard in self.shards]
        return np.concatenate([np.zeros(1, np.int64), *ends])

    @cached_property
    def held_out(self) -> Bool[np.ndarray, " documents"]:
        """Return which documents no training may read."""
        return self._index("held_out").to_numpy()

    @cached_property
    def lengths(self) -> Int32[np.ndarray, " sentences"]:
        """Return the number of tokens that an encoder reads of each sentence."""
        return self._lengths_of("tokens")

    @cached_property
    def uncut_lengths(self) -> Int32[np.ndarray, " sentences"]:
        """Return the number of tokens of each whole sentence."""
        return self.lengths + self._lengths_of("rest")

    @cached_property
    def text_hashes(self) -> Int64[np.ndarray, " sentences"]:
        """Return a 64-bit hash of each sentence's token ids."""
        return np.concatenate(
            [read_arrow(file).column("text_hash").to_numpy() for file in self._files]
        )

    def text_hashes_of(self, sentences: Int64[np.ndarray, " n"]) -> Int64[np.ndarray, " n"]:
        """Return `text_hashes` of these sentences."""
        hashes = np.empty(len(sentences), np.int64)
        for shard, places, rows in by_shard(sentences, self._starts, "sentence"):
            hashes[places] = read_arrow(self._files[shard]).column("text_hash").to_numpy()[rows]
        return hashes

    @cached_property
    def document_of(self) -> Int64[np.ndarray, " sentences"]:
        """Return the document of each sentence."""
        return np.repeat(np.arange(self.n_documents), np.diff(self.offsets))

    @cached_property
    def original_of(self) -> Int64[np.ndarray, " documents"]:
        """Return for each document the first of its adjacent copies, which share its id."""
        ids = np.array(self.doc_ids, dtype=object)
        first = np.arange(self.n_documents)
        first[1:][ids[1:] == ids[:-1]] = 0
        return np.maximum.accumulate(first)

    def shard_tokens(self, k: int) -> list[Int64[np.ndarray, " tokens"]]:
        """Return the token ids of all sentences of a shard, which does not stay mapped."""
        batch = read_arrow(self._files[k])
        return _copied_tokens(batch, "tokens", np.arange(len(batch)))

    def shard_offsets(self, k: int) -> Int64[np.ndarray, " bounds"]:
        """Return the first sentences of the shard's documents and, last, its end."""
        column = read_arrow(self._files[k]).column("document")
        documents = np.from_dlpack(column)  # `to_numpy` imports pandas: .25 s of `status`
        starts = np.flatnonzero(np.diff(documents, prepend=-1))
        return np.append(starts, len(documents)) + self._starts[k]

    @property
    def longest_document(self) -> int:
        """Return the number of sentences of the longest document; one shard is in memory."""
        lengths = (np.diff(self.shard_offsets(k)) for k in range(len(self._files)))
        return max((int(each.max(initial=0)) for each in lengths), default=0)

    def spans(self, documents: Int64[np.ndarray, " n"]) -> Spans:
        """Return the first sentence and the end of each of these documents."""
        first, last = np.empty((2, len(documents)), np.int64)
        starts = np.array([0, *(shard.documents.stop for shard in self.shards)])
        for shard, places, rows in by_shard(documents, starts, "document"):
            offsets = self.shard_offsets(shard)
            first[places], last[places] = offsets[rows], offsets[rows + 1]
        return first, last

    def spans_of(self, sentences: Int64[np.ndarray, " n"]) -> Spans:
        """Return the first sentence and the end of the document of each of these sentences."""
        first, last = np.empty((2, len(sentences)), np.int64)
        for shard, places, _ in by_shard(sentences, self._starts, "sentence"):
            first[places], last[places] = spans_in(self.shard_offsets(shard), sentences[places])
        return first, last

    def place(self, sentence: int) -> tuple[str, int]:
        """Return the id of a sentence's document and the sentence's position in it."""
        k = int(np.searchsorted(self._starts, sentence, side="right")) - 1
        offsets = self.shard_offsets(k)
        row = int(np.searchsorted(offsets, sentence, side="right")) - 1
        doc_id = self._index("doc_id")[self.shards[k].documents.start + row].as_py()
        return doc_id, sentence - int(offsets[row])

    def tokens(
        self, sentences: Sequence[int] | Int64[np.ndarray, " n"]
    ) -> list[Int64[np.ndarray, " tokens"]]:
        """Return the token ids of these sentences, in this order.

        Up to `AT_ONCE` shards stay mapped for the next call: training reads each of them again, and
        opening a shard takes longer than reading from it.
        """
        return self._tokens_of("tokens", sentences)

    def uncut_tokens(
        self, sentences: Sequence[int] | Int64[np.ndarray, " n"]
    ) -> list[Int64[np.ndarray, " tokens"]]:
        """Return the token ids of these sentences without truncation, to join longer texts."""
        both = zip(self.tokens(sentences), self._tokens_of("rest", sentences), strict=True)
        return [
            np.insert(read, len(read) - self.special_tokens, rest) if len(rest) else read
            for read, rest in both
        ]

    def texts(self, sentences: Sequence[int] | Int64[np.ndarray, " n"]) -> list[str]:
        """Return the texts of these sentences, in this order."""
        texts = [""] * len(sentences)
        for shard, places, rows in by_shard(sentences, self._starts, "sentence"):
            column = read_arrow(self._files[shard]).column("text")
            of_shard = column.take(pa.array(rows)).to_pylist()
            for place, text in zip(places.tolist(), of_shard, strict=True):
                texts[place] = text
        return texts

    def _tokens_of(
        self, column: str, sentences: Sequence[int] | Int64[np.ndarray, " n"]
    ) -> list[Int64[np.ndarray, " tokens"]]:
        """Return a column of token ids for these sentences, in this order."""
        tokens = [np.empty(0, np.int64)] * len(sentences)
        for shard, places, rows in by_shard(sentences, self._starts, "sentence"):
            of_shard = _copied_tokens(self._open(shard), column, rows)
            for place, ids in zip(places.tolist(), of_shard, strict=True):
                tokens[place] = ids
        return tokens

    def _open(self, shard: int) -> Any:
        """Return a shard that stays mapped until `AT_ONCE` others were opened."""
        if shard not in self._kept:
            if len(self._kept) == AT_ONCE:
                del self._kept[next(iter(self._kept))]
            self._kept[shard] = read_arrow(self._files[shard])
        return self._kept[shard]

    def _lengths_of(self, column: str) -> Int32[np.ndarray, " sentences"]:
        bounds = (_token_bounds(read_arrow(file), column) for file in self._files)
        return np.concatenate([np.diff(bound).astype(np.int32) for bound in bounds])

    def _index(self, column: str) -> Any:
        """Return a column of the document index for the documents of these shards."""
        rows = pq.read_table(self.path / "documents.parquet", columns=[column])[column]
        return pa.chunked_array(
            [chunk for documents in self._rows for chunk in rows[documents].chunks],
            rows.type,
        )


def _shards(files: Sequence[Path], of_files: Sequence[slice]) -> Iterator[Shard]:
    document = sentence = 0
    for k, (file, rows) in enumerate(zip(files, of_files, strict=True)):
        documents = slice(document, document + rows.stop - rows.start)
        sentences = slice(sentence, sentence + len(read_arrow(file)))
        yield Shard(k, documents, sentences)
        document, sentence = documents.stop, sentences.stop


def _document_count(file: Path) -> int:
    documents = read_arrow(file).column("document")
    return documents[-1].as_py() - documents[0].as_py() + 1


def _copied_tokens(
    batch: Any, column: str, rows: Int64[np.ndarray, " n"]
) -> list[Int64[np.ndarray, " tokens"]]:
    """Return copies of the token ids of these rows, cut from one array."""
    bounds = _token_bounds(batch, column)
    starts = bounds[rows].astype(np.int64)
    ends = np.cumsum(bounds[rows + 1] - starts)
    lengths = np.diff(ends, prepend=0)
    flat = np.arange(ends[-1]) + np.repeat(starts - ends + lengths, lengths)
    values = batch.column(column).values.to_numpy()[flat].astype(np.int64)
    return [values[start:end] for start, end in pairwise([0, *ends.tolist()])]


def _token_bounds(batch: Any, column: str) -> Int32[np.ndarray, " bounds"]:
    """Return the start of each sentence's tokens in a shard and, last, their end."""
    return cast(np.ndarray, batch.column(column).offsets.to_numpy())
