"""Token cache, written once: shards of token ids, which all rounds and methods read."""

import hashlib
import logging
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from jaxtyping import Int32, Int64, Integer
from pydantic import Field
from tokenizers import Tokenizer

from sentemb_core import schemas
from sentemb_core.corpus.table import (
    RowGroups,
    document_batches,
    in_pieces,
    record_batch,
    sentence_bytes,
    sentence_count,
)
from sentemb_core.corpus.validation_pool import ValidationPool
from sentemb_core.encoder.safety import tokenising
from sentemb_core.encoder.truncation import WAY_OUT
from sentemb_core.encoder.vocabulary import UNKNOWN_SHARE_WARNING, unknown_id
from sentemb_core.shards import write_arrow
from sentemb_core.store.disk import require_free
from sentemb_core.types import Value

log = logging.getLogger(__name__)

SHARD_SENTENCES = 65_536
SHARD_BYTES = 32 << 20
"""Bytes of text in a shard: long sentences close it earlier, so that it fits in memory. Tokens do
not count, so the shards of a corpus are the same for every encoder."""

PIECE = 4 << 20
SENTENCE_BYTES = 64
"""Bytes tokenised at once, and bytes that a sentence counts beside its text. A byte of text needs
50 bytes of memory (MiniLM's tokenizer, documents of 1 MB)."""

Tokens = Integer[np.ndarray, " _"]


class TokenReport(Value):
    """Counts and settings of the token cache; also its meta.json."""

    documents: int
    held_out: int
    sentences: int
    tokens: int
    truncated: int
    unknown: int = Field(default=0, description="Unknown tokens.")
    special_tokens: bool = Field(default=False, description="Around every sentence.")
    token_type: str
    max_length: int
    tokenizer: str

    @property
    def cut(self) -> str:
        """Return the shares of truncated sentences and unknown tokens, as text."""
        share = self.truncated / max(self.sentences, 1)
        return (
            f"{share:.1%} of sentences truncated at {self.max_length} tokens, "
            f"{self.unknown_share:.1%} of tokens unknown"
        )

    @property
    def unknown_share(self) -> float:
        """Return the share of unknown tokens, in [0, 1]."""
        return self.unknown / max(self.tokens, 1)

    def summary(self) -> str:
        """Return one line for the log."""
        way_out = f". {WAY_OUT}" if self.truncated else ""
        return (
            f"{self.sentences:,} sentences of {self.documents:,} documents, {self.tokens:,} "
            f"tokens; {self.cut}{way_out}"
        )


def write_tokens(
    documents: Path,
    pool: Path | None,
    tokenizer_json: Path,
    max_length: int,
    out: Path,
    *,
    add_special_tokens: bool,
    unknown: int,
    prompt: str = "",
    counterpart: tuple[str, int] | None = None,
) -> TokenReport:
    """Tokenise all sentences of documents.parquet into shards of whole documents in `out`.

    Sentences are streamed: memory holds one shard and one piece (`PIECE`) for any corpus size.

    Args:
        documents: The documents.parquet of `write_documents`.
        pool: Folder of `write_validation_pool`, which names the held-out documents. None: all
            may be trained on.
        tokenizer_json: A `tokenizers` file; its own padding and truncation are replaced.
        max_length: Tokens kept of a sentence, special ones included.
        out: Folder for `sentences-*.arrow`, `documents.parquet` and `meta.json`.
        add_special_tokens: Whether to add the tokenizer's special tokens: for transformers.
        unknown: Token for a sentence without any token (`Encoder.unknown_id`).
        prompt: Text before each sentence. The cache has the texts without prompts.
        counterpart: Prompt and limit of the last sentence of each document, which is its
            counterpart (`labels.write_labelled`). None: it is a sentence like the others.

    Raises:
        StorageError: the disk has no room even for the texts, a part of the cache.
    """
    count, size = sentence_count(documents), sentence_bytes(documents)
    require_free(out, size, f"The texts of {count:,} sentences, without their tokens,")
    encode = _Encode(tokenizer_json, add_special_tokens, unknown, (prompt, max_length), counterpart)
    held_out = ValidationPool.open(pool).held_out_documents if pool else np.zeros(0, np.int64)
    with RowGroups(out / "documents.parquet", schemas.DOCUMENT_INDEX) as index:
        shards = in_pieces(
            _sentences(documents, encode, held_out, index),
            (SHARD_SENTENCES, SHARD_BYTES),
            lambda batch: (len(batch), batch.column("text").nbytes),
        )
        for k, shard in enumerate(shards):
            pa.default_memory_pool().release_unused()  # before a shard exists twice
            write_arrow(out / f"sentences-{k:05d}.arrow", pa.concat_batches(shard))
            shard.clear()  # else it stays in memory beside the next one
    report = TokenReport(
        documents=pq.read_metadata(documents).num_rows,
        held_out=len(held_out),
        sentences=count,
        tokens=encode.n_tokens,
        truncated=encode.n_truncated,
        unknown=encode.n_unknown,
        special_tokens=encode.adds_special_tokens,
        token_type=str(encode.token_type),
        max_length=max_length,
        tokenizer=hashlib.sha256(tokenizer_json.read_bytes()).hexdigest(),
    )
    (out / "meta.json").write_text(report.model_dump_json(indent=1), encoding="utf-8")
    log.info("%s", report.summary())
    if report.unknown_share > UNKNOWN_SHARE_WARNING:
        log.warning(
            "unknown tokens: %.0f %%. Sentences of unknown tokens have equal vectors. Use an "
            "encoder of the corpus's language, or an encoder from nothing, which learns its "
            "vocabulary from the corpus.",
            100 * report.unknown_share,
        )
    return report


def join_tokens(parts: Sequence[Path], pool: Path | None, out: Path) -> TokenReport:
    """Write index and report of the join of caches, with the held-out documents of a pool.

    Documents and sentences are numbered as if they had been tokenised at once.
    """
    held_out = ValidationPool.open(pool).held_out_documents if pool else np.zeros(0, np.int64)
    document = sentence = 0
    with RowGroups(out / "documents.parquet", schemas.DOCUMENT_INDEX) as index:
        for part in parts:
            for batch in pq.read_table(part / "documents.parquet").to_batches():
                rows = np.arange(document, document + len(batch))
                counts = batch.column("sentence_count").to_numpy().astype(np.int64)
                firsts = sentence + np.cumsum(counts) - counts
                index.write([batch.column("doc_id"), firsts, counts, np.isin(rows, held_out)])
                document, sentence = document + len(batch), sentence + int(counts.sum())
    reports = [read_report(part) for part in parts]
    summed = ("documents", "sentences", "tokens", "truncated", "unknown")
    sums = {name: sum(getattr(each, name) for each in reports) for name in summed}
    report = reports[0].model_copy(update=sums | {"held_out": len(held_out)})
    (out / "meta.json").write_text(report.model_dump_json(indent=1), encoding="utf-8")
    return report


def read_report(cache: Path) -> TokenReport:
    """Return the report of a cache in this folder."""
    return TokenReport.model_validate_json((cache / "meta.json").read_text("utf-8"))


def _sentences(
    documents: Path, encode: "_Encode", held_out: Int64[np.ndarray, " held"], index: RowGroups
) -> Iterator[Any]:
    """Yield batches of sentences with their tokens, and write their documents to the index."""
    schema = schemas.sentences(encode.token_type)
    first_row = first_sentence = 0
    for batch in _pieces(documents):
        sentences = batch.column("sentences")
        texts = sentences.flatten()
        counts = sentences.value_lengths().to_numpy().astype(np.int64)
        rows = np.arange(first_row, first_row + len(batch))
        numbers = np.arange(first_sentence, first_sentence + len(texts))
        firsts = first_sentence + np.cumsum(counts) - counts
        index.write([batch.column("doc_id"), firsts, counts, np.isin(rows, held_out)])
        encoded = encode(texts.to_pylist(), np.cumsum(counts) - 1)
        yield record_batch([numbers, np.repeat(rows, counts), texts, *encoded], schema)
        first_row += len(batch)
        first_sentence += len(texts)


def _pieces(documents: Path) -> Iterator[Any]:
    """Yield ids and sentences of documents, at most `PIECE` bytes or one document at a time."""
    arrow: Any = pc
    for batch in document_batches(documents, ["doc_id", "sentences"]):
        sentences = batch.column("sentences")
        ends = sentences.value_lengths().to_numpy().cumsum()
        sizes = arrow.binary_length(sentences.flatten()).to_numpy() + SENTENCE_BYTES
        piece = np.append(0, sizes.cumsum(dtype=np.int64))[ends] // PIECE
        starts = np.flatnonzero(np.diff(piece, prepend=-1))
        for start, stop in pairwise([*starts.tolist(), len(batch)]):
            yield batch.slice(start, stop - start)


class _Encode:
    """Turns texts into token ids and counts unknown tokens and truncated sentences.

    `sentence` and `counterpart` are a prompt and a limit.
    """

    def __init__(
        self,
        tokenizer_json: Path,
        add_special_tokens: bool,
        unknown: int,
        sentence: tuple[str, int],
        counterpart: tuple[str, int] | None,
    ) -> None:
        self._tokenizer: Any = Tokenizer.from_file(str(tokenizer_json))
        self._tokenizer.no_padding()
        self._sentence, self._counterpart = sentence, counterpart
        added = self._tokenizer.num_special_tokens_to_add(is_pair=False)
        self.adds_special_tokens = add_special_tokens and added > 0
        self._unknown = unknown
        own_unknown = unknown_id(self._tokenizer)  # None: it drops unknown words instead
        self._counted = unknown if own_unknown is None else own_unknown
        largest = max(self._tokenizer.get_vocab().values())
        self.token_type = pa.uint16() if largest < 1 << 16 else pa.uint32()
        self.n_tokens = self.n_truncated = self.n_unknown = 0

    def __call__(
        self, texts: list[str], last: Int64[np.ndarray, " documents"]
    ) -> tuple[Any, Any, Any]:
        """Return hash, tokens (at least one) and truncated rest of each text, as Arrow columns.

        `last` are the last texts of documents.
        """
        encodings = self._encodings(texts, *self._sentence)
        shortest = self._sentence[1]
        if self._counterpart:
            rows = last.tolist()
            own = self._encodings([texts[row] for row in rows], *self._counterpart)
            for row, encoding in zip(rows, own, strict=True):
                encodings[row] = encoding
            shortest = min(shortest, self._counterpart[1])
        tokens = self._lists([each.ids or [self._unknown] for each in encodings])
        flat, offsets = tokens.values.to_numpy(), tokens.offsets.to_numpy()
        rest: list[list[int]] = [[]] * len(texts)
        for full in np.flatnonzero(np.diff(offsets) >= shortest).tolist():
            rest[full] = list(_cut_off(encodings[full]))
        self.n_tokens += len(flat)
        self.n_unknown += int((flat == self._counted).sum())
        self.n_truncated += sum(map(bool, rest))
        return _hashes(flat, offsets), tokens, self._lists(rest)

    def _encodings(self, texts: list[str], prompt: str, max_length: int) -> list[Any]:
        self._tokenizer.enable_truncation(max_length)
        with tokenising():
            return self._tokenizer.encode_batch_fast(
                [prompt + text for text in texts] if prompt else texts,
                add_special_tokens=self.adds_special_tokens,
            )

    def _lists(self, ids: list[list[int]]) -> Any:
        """Return one Arrow list per sentence."""
        flat = np.array([*chain.from_iterable(ids)], dtype=self.token_type.to_pandas_dtype())
        bounds = [0, *accumulate(map(len, ids))]
        return pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), pa.array(flat))


def _cut_off(encoding: Any) -> Iterator[int]:
    """Yield the token ids after the limit; `tokenizers` returns them in pieces."""
    for piece in encoding.overflowing:
        for token, special in zip(piece.ids, piece.special_tokens_mask, strict=True):
            if not special:
                yield token


def _hashes(
    tokens: Tokens, offsets: Int32[np.ndarray, " bounds"]
) -> Int64[np.ndarray, " sentences"]:
    """Return eight bytes of BLAKE2b over the token ids of each sentence."""
    data = tokens.astype(tokens.dtype.newbyteorder("<"), copy=False).tobytes()
    bounds = (offset * tokens.itemsize for offset in offsets.tolist())
    digests = b"".join(
        hashlib.blake2b(data[start:stop], digest_size=8).digest()
        for start, stop in pairwise(bounds)
    )
    return np.frombuffer(digests, dtype="<i8").astype(np.int64, copy=False)
