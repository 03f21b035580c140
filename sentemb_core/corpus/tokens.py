"""The token cache: every sentence tokenised once, read by memory map in all rounds and methods."""

import hashlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from jaxtyping import Bool, Int32, Int64, Integer
from pydantic import Field
from tokenizers import Tokenizer

from sentemb_core import schemas
from sentemb_core.arrow_files import read_arrow, write_arrow
from sentemb_core.corpus.benchmark import Benchmark
from sentemb_core.corpus.row_groups import RowGroups
from sentemb_core.corpus.shards import by_shard
from sentemb_core.corpus.table import document_batches, sentence_bytes, sentence_count
from sentemb_core.encoder.unknown import MANY, unknown_id
from sentemb_core.pairs.documents import Spans, spans_in
from sentemb_core.store.disk import require_free
from sentemb_core.types import Value

log = logging.getLogger(__name__)

SHARD_SENTENCES = 65_536
SHARD_BYTES = 32 << 20
"""Of texts: long sentences close a shard earlier, so that a shard fits in memory. Tokens do not
count: whatever encoder reads a corpus, its shards are the same."""

PIECE = 4 << 20
SENTENCE_BYTES = 64
"""Text tokenised at once, and what a sentence counts beside its letters: 50 bytes of memory a byte
of text (measured with MiniLM's tokenizer on documents of 1 MB)."""

AT_ONCE = 16
"""Shards that training reads at a time: a million sentences, whose pairs take some hundred
megabytes."""

VOCABULARY_SENTENCES = 2_000_000
"""Far more than a vocabulary gains from: learnt from 27,000 sentences in place of 301,000 (like the
blog's), 16,000 pieces cut a text into 0.5 % more. All 30 million of 4 GB would take 45 minutes."""

Tokens = Integer[np.ndarray, " _"]


class TokenReport(Value):
    """What the token cache holds; also its meta.json."""

    documents: int
    held_out: int
    sentences: int
    tokens: int
    truncated: int
    unknown: int = Field(default=0, description="Tokens that stand for what the vocabulary lacks.")
    special_tokens: bool = Field(default=False, description="Around every sentence.")
    token_type: str
    max_length: int
    tokenizer: str

    @property
    def cut(self) -> str:
        """How much of the corpus the encoder will not read."""
        share = self.truncated / max(self.sentences, 1)
        return (
            f"{share:.1%} of sentences truncated at {self.max_length} tokens, "
            f"{self.unknown_share:.1%} of tokens unknown"
        )

    @property
    def unknown_share(self) -> float:
        """Of all tokens, in [0, 1]."""
        return self.unknown / max(self.tokens, 1)

    def summary(self) -> str:
        """One line for the log."""
        return (
            f"{self.sentences:,} sentences of {self.documents:,} documents, {self.tokens:,} "
            f"tokens; {self.cut}"
        )


def write_tokens(
    documents: Path,
    benchmark: Path | None,
    tokenizer_json: Path,
    max_length: int,
    out: Path,
    *,
    add_special_tokens: bool,
    unknown: int,
) -> TokenReport:
    """Tokenise all sentences of documents.parquet into shards of whole documents under `out`.

    Args:
        documents: The documents.parquet of `write_documents`.
        benchmark: Folder written by `write_benchmark`: names the held-out documents. None: all
            may be trained on.
        tokenizer_json: A `tokenizers` file; its own padding and truncation are replaced.
        max_length: Tokens kept of a sentence, special ones included.
        out: Folder for `sentences-*.arrow`, `documents.parquet` and `meta.json`.
        add_special_tokens: True for transformers, False for static encoders.
        unknown: Token that a sentence becomes of which the tokenizer leaves nothing, as to the
            encoder (`Encoder.unknown_id`).

    Streams: memory holds one shard, and what its last documents take while they are tokenised
    (`PIECE`), whatever the size of the corpus.

    Raises:
        StorageError: not even the texts, which the cache holds beside, would fit the disk.
    """
    count, size = sentence_count(documents), sentence_bytes(documents)
    require_free(out, size, f"The texts alone of {count:,} sentences, beside their tokens,")
    encode = _Encode(tokenizer_json, max_length, add_special_tokens, unknown)
    held_out = Benchmark.open(benchmark).held_out_documents if benchmark else np.zeros(0, np.int64)
    with _ShardWriter(out, encode.token_type, held_out) as shards:
        batches = document_batches(documents, ["doc_id", "sentences"])
        for batch in chain.from_iterable(map(_pieces, batches)):
            sentences = batch.column("sentences")
            texts = sentences.flatten()
            counts = sentences.value_lengths().to_numpy().astype(np.int64)
            shards.write(batch.column("doc_id"), counts, texts, encode(texts.to_pylist()))
    report = TokenReport(
        documents=shards.n_documents,
        held_out=shards.n_held_out,
        sentences=shards.n_sentences,
        tokens=encode.n_tokens,
        truncated=encode.n_truncated,
        unknown=encode.n_unknown,
        special_tokens=add_special_tokens,
        token_type=str(encode.token_type),
        max_length=max_length,
        tokenizer=hashlib.sha256(tokenizer_json.read_bytes()).hexdigest(),
    )
    (out / "meta.json").write_text(report.model_dump_json(indent=1), encoding="utf-8")
    log.info("%s", report.summary())
    if report.unknown_share > MANY:
        log.warning(
            "%.0f %% of the corpus's tokens are unknown to the encoder, and sentences of little "
            "else look alike to it: take an encoder of the corpus's language, or one from nothing, "
            "which learns its vocabulary from the corpus.",
            100 * report.unknown_share,
        )
    return report


def _pieces(batch: Any) -> Iterator[Any]:
    """Its documents, as many at a time as `PIECE` allows, or one."""
    sentences = batch.column("sentences")
    ends = sentences.value_lengths().to_numpy().cumsum()
    arrow: Any = pc
    sizes = arrow.binary_length(sentences.flatten()).to_numpy() + SENTENCE_BYTES
    piece = np.append(0, sizes.cumsum(dtype=np.int64))[ends] // PIECE
    starts = np.flatnonzero(np.diff(piece, prepend=-1))
    for start, stop in pairwise([*starts.tolist(), len(batch)]):
        yield batch.slice(start, stop - start)


@dataclass(frozen=True)
class _Encoded:
    """Token ids of sentences, flat, and how many each has: what is read, and what was cut off."""

    tokens: Tokens
    lengths: Int64[np.ndarray, " sentences"]
    rest: Tokens
    rest_lengths: Int64[np.ndarray, " sentences"]


class _Encode:
    """Texts to token ids, counting what was cut."""

    def __init__(
        self, tokenizer_json: Path, max_length: int, add_special_tokens: bool, unknown: int
    ) -> None:
        self._tokenizer: Any = Tokenizer.from_file(str(tokenizer_json))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_length)
        self._max_length = max_length
        self._special = add_special_tokens
        self._unknown = unknown
        self._counted = unknown_id(self._tokenizer)
        largest = max(self._tokenizer.get_vocab().values())
        self.token_type = pa.uint16() if largest < 1 << 16 else pa.uint32()
        self.n_tokens = self.n_truncated = self.n_unknown = 0

    def __call__(self, texts: list[str]) -> _Encoded:
        """All texts, of at least one token each."""
        encodings = self._tokenizer.encode_batch_fast(texts, add_special_tokens=self._special)
        tokens, lengths = self._flat([one.ids or [self._unknown] for one in encodings])
        rest: list[list[int]] = [[]] * len(texts)
        for full in np.flatnonzero(lengths == self._max_length).tolist():
            rest[full] = list(_cut_off(encodings[full]))
        self.n_tokens += len(tokens)
        self.n_unknown += 0 if self._counted is None else int((tokens == self._counted).sum())
        self.n_truncated += sum(map(bool, rest))
        return _Encoded(tokens, lengths, *self._flat(rest))

    def _flat(self, ids: list[list[int]]) -> tuple[Tokens, Int64[np.ndarray, " sentences"]]:
        flat = [token for sentence in ids for token in sentence]
        lengths = np.fromiter(map(len, ids), np.int64, len(ids))
        return np.array(flat, dtype=self.token_type.to_pandas_dtype()), lengths


def _cut_off(encoding: Any) -> Iterator[int]:
    """Token ids behind the limit, which `tokenizers` gives in pieces with special tokens."""
    for piece in encoding.overflowing:
        for token, special in zip(piece.ids, piece.special_tokens_mask, strict=True):
            if not special:
                yield token


class _ShardWriter:
    """Collects whole documents; a full shard becomes one Arrow file."""

    def __init__(self, out: Path, token_type: Any, held_out: Int64[np.ndarray, " held"]) -> None:
        self.n_documents = self.n_sentences = self.n_held_out = 0
        self._out = out
        self._held_out = held_out
        self._schema = schemas.sentences(token_type)
        self._index = RowGroups(out / "documents.parquet", schemas.DOCUMENT_INDEX)
        self._sentences: list[Any] = []
        self._shards = 0

    def __enter__(self) -> "_ShardWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._close_shard()
        self._index.close()

    def write(
        self,
        doc_ids: Any,
        counts: Int64[np.ndarray, " documents"],
        texts: Any,
        encoded: _Encoded,
    ) -> None:
        """Add documents of so many sentences each."""
        rows = np.arange(self.n_documents, self.n_documents + len(counts))
        sentences = np.arange(self.n_sentences, self.n_sentences + len(texts))
        held = np.isin(rows, self._held_out)
        ends = np.cumsum(counts)
        index = [doc_ids, self.n_sentences + ends - counts, counts.astype(np.int32), held]
        tokens = _lists(encoded.tokens, encoded.lengths)
        rest = _lists(encoded.rest, encoded.rest_lengths)
        hashes = _hashes(encoded.tokens, tokens.offsets.to_numpy().astype(np.int64))
        columns = [sentences, np.repeat(rows, counts), texts, hashes, tokens, rest]
        self._index.write(_batch(index, schemas.DOCUMENT_INDEX))
        self._sentences.append(_batch(columns, self._schema))
        self.n_documents += len(counts)
        self.n_sentences += len(texts)
        self.n_held_out += int(held.sum())
        size = sum(batch.column("text").nbytes for batch in self._sentences)
        if sum(map(len, self._sentences)) >= SHARD_SENTENCES or size >= SHARD_BYTES:
            self._close_shard()

    def _close_shard(self) -> None:
        if not self._sentences:
            return
        path = self._out / f"sentences-{self._shards:05d}.arrow"
        pa.default_memory_pool().release_unused()  # before a shard exists twice
        write_arrow(path, pa.concat_batches(self._sentences))
        self._sentences = []
        self._shards += 1


def _batch(columns: list[Any], schema: Any) -> Any:
    arrays = [
        column if isinstance(column, pa.Array) else pa.array(column, field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.record_batch(arrays, schema=schema)


def _lists(tokens: Tokens, lengths: Int64[np.ndarray, " sentences"]) -> Any:
    """An Arrow list a sentence."""
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    return pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), pa.array(tokens))


def _hashes(
    tokens: Tokens, offsets: Int64[np.ndarray, " bounds"]
) -> Int64[np.ndarray, " sentences"]:
    """Eight bytes of BLAKE2b over the token ids of each sentence."""
    data = tokens.astype(tokens.dtype.newbyteorder("<"), copy=False).tobytes()
    bounds = (offsets * tokens.itemsize).tolist()
    digests = b"".join(
        hashlib.blake2b(data[start:stop], digest_size=8).digest()
        for start, stop in pairwise(bounds)
    )
    return np.frombuffer(digests, dtype="<i8").astype(np.int64, copy=False)


def vocabulary_texts(documents: Path, most: int = VOCABULARY_SENTENCES) -> Iterator[str]:
    """Sentences of documents.parquet in canonical order, to learn a vocabulary from.

    All of them, or of a larger corpus every k-th, so that there are at most `most`.
    """
    every, ahead = max(1, -(-sentence_count(documents) // most)), 0
    for batch in document_batches(documents, ["sentences"]):
        texts = batch.column("sentences").flatten().to_pylist()
        yield from texts[ahead::every]
        ahead = (ahead - len(texts)) % every


@dataclass(frozen=True)
class Shard:
    """A run of whole documents in one file: ranges of document and of sentence indices."""

    index: int
    documents: slice
    sentences: slice


class TokenCorpus:
    """Read-only token cache, memory-mapped; sentences are indexed in canonical order.

    Canonical order: by document as in documents.parquet, then by position in the document.
    `shard_tokens` and `shard_offsets` serve a pass over the corpus in flat memory, `spans` and
    `spans_of` a look at some documents. What holds a number for every document or sentence is read
    when first asked for; of a corpus larger than memory a `part` has few enough of them.
    """

    def __init__(self, path: Path, files: Sequence[Path]) -> None:
        self.path = path
        self.meta = TokenReport.model_validate_json((path / "meta.json").read_text("utf-8"))
        """Of the whole cache."""
        self._files = files
        self._kept: dict[int, Any] = {}
        self.shards = list(_shards(files))
        self.n_documents = self.shards[-1].documents.stop if self.shards else 0
        self._starts: Int64[np.ndarray, " bounds"] = np.array(
            [0, *(shard.sentences.stop for shard in self.shards)]
        )

    @classmethod
    def open(cls, path: Path) -> "TokenCorpus":
        """The cache that `write_tokens` wrote into folder `path`."""
        return cls(path, sorted(path.glob("sentences-*.arrow")))

    def part(self, shards: Sequence[int]) -> "TokenCorpus":
        """These shards as a corpus of their own: documents and sentences count from 0 again."""
        return TokenCorpus(self.path, [self._files[k] for k in shards])

    def __len__(self) -> int:
        return int(self._starts[-1])

    @cached_property
    def doc_ids(self) -> list[str]:
        return cast(list[str], self._index("doc_id").to_pylist())

    @cached_property
    def offsets(self) -> Int64[np.ndarray, " bounds"]:
        """First sentence of each document; last, the number of sentences."""
        ends = [self.shard_offsets(shard.index)[1:] for shard in self.shards]
        return np.concatenate([np.zeros(1, np.int64), *ends])

    @cached_property
    def held_out(self) -> Bool[np.ndarray, " documents"]:
        """Documents that no training may see."""
        return self._held_out_bits.to_numpy()

    @cached_property
    def lengths(self) -> Int32[np.ndarray, " sentences"]:
        """Tokens of each sentence that an encoder reads."""
        return self._lengths_of("tokens")

    @cached_property
    def uncut_lengths(self) -> Int32[np.ndarray, " sentences"]:
        """Tokens of each whole sentence."""
        return self.lengths + self._lengths_of("rest")

    @cached_property
    def text_hashes(self) -> Int64[np.ndarray, " sentences"]:
        """Equal for two sentences exactly when their token ids are (64-bit hash)."""
        return np.concatenate(
            [read_arrow(file).column("text_hash").to_numpy() for file in self._files]
        )

    def text_hashes_of(self, sentences: Int64[np.ndarray, " n"]) -> Int64[np.ndarray, " n"]:
        """`text_hashes` of these sentences alone."""
        found = np.empty(len(sentences), np.int64)
        for shard, places in by_shard(sentences, self._starts[1:], "sentence"):
            hashes = read_arrow(self._files[shard]).column("text_hash").to_numpy()
            found[places] = hashes[sentences[places] - self._starts[shard]]
        return found

    @cached_property
    def document_of(self) -> Int64[np.ndarray, " sentences"]:
        """Index of each sentence's document."""
        return np.repeat(np.arange(self.n_documents), np.diff(self.offsets))

    @cached_property
    def original_of(self) -> Int64[np.ndarray, " documents"]:
        """The first of the adjacent documents with a document's id, which are copies of one."""
        ids = np.array(self.doc_ids, dtype=object)
        first = np.arange(self.n_documents)
        first[1:][ids[1:] == ids[:-1]] = 0
        return np.maximum.accumulate(first)

    def shard_tokens(self, k: int) -> list[Int64[np.ndarray, " tokens"]]:
        """Token ids of all sentences of a shard; its pages leave memory with the call."""
        batch = read_arrow(self._files[k])
        return _taken_tokens(batch, "tokens", np.arange(len(batch)))

    def shard_offsets(self, k: int) -> Int64[np.ndarray, " bounds"]:
        """First sentences of the shard's documents, and its end."""
        documents = read_arrow(self._files[k]).column("document").to_numpy()
        starts = np.flatnonzero(np.diff(documents, prepend=-1))
        return np.append(starts, len(documents)) + self._starts[k]

    def spans(self, documents: Int64[np.ndarray, " n"]) -> Spans:
        """The first sentence of each of these documents, and the first one behind it."""
        first, last = np.empty((2, len(documents)), np.int64)
        ends = np.array([shard.documents.stop for shard in self.shards])
        for shard, places in by_shard(documents, ends, "document"):
            rows = documents[places] - self.shards[shard].documents.start
            offsets = self.shard_offsets(shard)
            first[places], last[places] = offsets[rows], offsets[rows + 1]
        return first, last

    def spans_of(self, sentences: Int64[np.ndarray, " n"]) -> Spans:
        """First sentence and end of the document in which each of these sentences lies."""
        first, last = np.empty((2, len(sentences)), np.int64)
        for shard, places in by_shard(sentences, self._starts[1:], "sentence"):
            first[places], last[places] = spans_in(self.shard_offsets(shard), sentences[places])
        return first, last

    def place(self, sentence: int) -> tuple[str, int]:
        """Id of the document in which a sentence lies, and its position there."""
        k = int(np.searchsorted(self._starts, sentence, side="right")) - 1
        offsets = self.shard_offsets(k)
        row = int(np.searchsorted(offsets, sentence, side="right")) - 1
        doc_id = self._index("doc_id")[self.shards[k].documents.start + row].as_py()
        return doc_id, sentence - int(offsets[row])

    def shard_held_out(self, k: int) -> Bool[np.ndarray, " documents"]:
        """Which of the shard's documents are held out."""
        documents = self.shards[k].documents
        return self._held_out_bits[documents].to_numpy()

    def tokens(
        self, sentences: Sequence[int] | Int64[np.ndarray, " n"]
    ) -> list[Int64[np.ndarray, " tokens"]]:
        """Token ids of these sentences, in the order asked for.

        Shards stay mapped for the next call, `AT_ONCE` of them: training comes back to each, and
        opening one takes longer than reading from it.
        """
        return self._taken("tokens", np.asarray(sentences, dtype=np.int64))

    def uncut_tokens(
        self, sentences: Sequence[int] | Int64[np.ndarray, " n"]
    ) -> list[Int64[np.ndarray, " tokens"]]:
        """`tokens`, of the whole sentences: what longer texts are joined of."""
        wanted = np.asarray(sentences, dtype=np.int64)
        last = -1 if self.meta.special_tokens else None
        return [
            np.concatenate([read[:last], rest, read[last:] if last else rest[:0]])
            if len(rest)
            else read
            for read, rest in zip(self.tokens(wanted), self._taken("rest", wanted), strict=True)
        ]

    def texts(self, sentences: Sequence[int] | Int64[np.ndarray, " n"]) -> list[str]:
        """The sentences themselves, in the order asked for."""
        wanted = np.asarray(sentences, dtype=np.int64)
        found = [""] * len(wanted)
        for shard, places in by_shard(wanted, self._starts[1:], "sentence"):
            rows = pa.array(wanted[places] - self._starts[shard])
            texts = read_arrow(self._files[shard]).column("text").take(rows).to_pylist()
            for place, text in zip(places.tolist(), texts, strict=True):
                found[place] = text
        return found

    def _taken(
        self, column: str, wanted: Int64[np.ndarray, " n"]
    ) -> list[Int64[np.ndarray, " tokens"]]:
        """A column of token ids, in the order asked for."""
        found: list[np.ndarray] = [wanted] * len(wanted)
        for shard, places in by_shard(wanted, self._starts[1:], "sentence"):
            ids = _taken_tokens(self._open(shard), column, wanted[places] - self._starts[shard])
            for place, tokens in zip(places.tolist(), ids, strict=True):
                found[place] = tokens
        return found

    def _open(self, shard: int) -> Any:
        """A shard that stays mapped until `AT_ONCE` others were opened."""
        if shard not in self._kept:
            if len(self._kept) == AT_ONCE:
                del self._kept[next(iter(self._kept))]
            self._kept[shard] = read_arrow(self._files[shard])
        return self._kept[shard]

    def _lengths_of(self, column: str) -> Int32[np.ndarray, " sentences"]:
        bounds = (_token_bounds(read_arrow(file), column) for file in self._files)
        return np.concatenate([np.diff(bound).astype(np.int32) for bound in bounds])

    @cached_property
    def _held_out_bits(self) -> Any:
        """A bit a document, as Arrow reads them."""
        return self._index("held_out")

    def _index(self, column: str) -> Any:
        """One column over the documents of these shards, whose rows in the index they name."""
        rows = pq.read_table(self.path / "documents.parquet", columns=[column])[column]
        return pa.chunked_array(
            [chunk for file in self._files for chunk in rows[_documents_in(file)].chunks],
            rows.type,
        )


def _shards(files: Sequence[Path]) -> Iterator[Shard]:
    document = sentence = 0
    for k, file in enumerate(files):
        rows = _documents_in(file)
        documents = slice(document, document + rows.stop - rows.start)
        sentences = slice(sentence, sentence + len(read_arrow(file)))
        yield Shard(k, documents, sentences)
        document, sentence = documents.stop, sentences.stop


def _documents_in(file: Path) -> slice:
    """The documents of a shard, by their places in the whole corpus."""
    documents = read_arrow(file).column("document")
    return slice(documents[0].as_py(), documents[-1].as_py() + 1)


def _taken_tokens(
    batch: Any, column: str, rows: Int64[np.ndarray, " n"]
) -> list[Int64[np.ndarray, " tokens"]]:
    """Copies of the token ids of these rows, cut out of one array."""
    bounds = _token_bounds(batch, column)
    starts = bounds[rows].astype(np.int64)
    ends = np.cumsum(bounds[rows + 1] - starts)
    lengths = np.diff(ends, prepend=0)
    flat = np.arange(ends[-1]) + np.repeat(starts - ends + lengths, lengths)
    values = batch.column(column).values.to_numpy()[flat].astype(np.int64)
    return [values[start:end] for start, end in pairwise([0, *ends.tolist()])]


def _token_bounds(batch: Any, column: str) -> Int32[np.ndarray, " bounds"]:
    """Where the tokens of each sentence of a shard begin; last, where they end."""
    return cast(np.ndarray, batch.column(column).offsets.to_numpy())
