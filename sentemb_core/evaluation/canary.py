"""Canaries: a few sentences with the vectors that one encoder gives them.

Building an index takes hours, and nothing in it names its encoder. With a model's canaries the
check takes a second and loads no encoder.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from jaxtyping import Float32, Int64

from sentemb_core.corpus.tokens import TokenCorpus
from sentemb_core.errors import UsageError
from sentemb_core.evaluation.diagnostics import directions
from sentemb_core.formats import counted
from sentemb_core.retriever.index_files import is_index_folder
from sentemb_core.types import Value

if TYPE_CHECKING:
    from sentemb_core.encoder.encoder import Encoder  # loads torch, which no comparison needs

COUNT = 64

SAME = 0.9999
"""Least cosine of an encoder with itself: 0.99998 with bf16 products (MiniLM), more with float16
storage. One round of training leaves 0.87 to 0.93 (static encoder, blog_usgov)."""

COLUMNS = ["sentence", "embedding"]
"""Columns of an index of sentences that are compared."""


@dataclass(frozen=True)
class Canaries:
    """Sentences and their vectors."""

    sentences: list[str]
    vectors: Float32[np.ndarray, "canaries dim"]


class Match(Value):
    """Whether an index was built with the canaries' encoder, with the evidence."""

    same: bool
    found: int
    least_cosine: float | None
    reason: str


def drawn_sentences(corpus: TokenCorpus) -> list[str]:
    """Return at most `COUNT` different sentences, evenly spread over the corpus."""
    return list(dict.fromkeys(corpus.texts(spread_rows(len(corpus)))))


def spread_rows(n: int) -> Int64[np.ndarray, " rows"]:
    """Return at most `COUNT` evenly spaced rows of n, the first and the last among them."""
    return np.unique(np.linspace(0, n - 1, COUNT).astype(np.int64))


def write_canaries(encoder: "Encoder", sentences: Sequence[str], path: Path) -> None:
    """Encode the sentences and write them in the columns of an index (`encode --by sentence`)."""
    from sentemb_core.encoder.batching import embed_texts

    vectors = embed_texts(encoder, sentences, role="sentence")
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), encoder.dim)
    pq.write_table(pa.table({"sentence": pa.array(sentences), "embedding": column}), path)


def read_canaries(path: Path) -> Canaries:
    """Read what `write_canaries` wrote."""
    table = pq.read_table(path)
    return Canaries(table["sentence"].to_pylist(), vectors_in(table))


def match_index(canaries: Canaries, index: Path) -> Match:
    """Compare an encoder's canaries with their vectors in an index of sentences.

    Raises:
        UsageError: the file is no index of sentences, or contains no canary.
    """
    with open_index(index) as file:
        rows = rows_with(file, canaries.sentences)
        if not len(rows):
            raise UsageError(
                f"An index needs a canary to be compared; {index} has none of the "
                f"{counted(len(canaries.sentences), 'canary')}, so it was built from another "
                "corpus. Add their sentences to the input of `encode --by sentence`."
            )
        table = taken(file, rows)
    return match_vectors(canaries, table["sentence"].to_pylist(), vectors_in(table))


def match_encoder(encoder: "Encoder", index: Path) -> Match:
    """Encode sentences spread over an index and compare them with the vectors in it.

    Raises:
        UsageError: the file is no index of sentences.
    """
    from sentemb_core.encoder.batching import embed_texts

    with open_index(index) as file:
        table = taken(file, spread_rows(file.metadata.num_rows)).drop_null()
    sentences = table["sentence"].to_pylist()
    canaries = Canaries(sentences, embed_texts(encoder, sentences, role="sentence"))
    return match_vectors(canaries, sentences, vectors_in(table))


def match_vectors(
    canaries: Canaries, sentences: Sequence[str], vectors: Float32[np.ndarray, "found dim"]
) -> Match:
    """Compare vectors of canaries' sentences with the canaries' own vectors."""
    place = {sentence: row for row, sentence in enumerate(canaries.sentences)}
    rows = [place[sentence] for sentence in sentences]
    expected, dim = canaries.vectors.shape[1], vectors.shape[1]
    if expected != dim:
        reason = f"Different encoder: {counted(expected, 'dimension')} expected, {dim} found."
        return Match(same=False, found=len(rows), least_cosine=None, reason=reason)
    stored, now = directions(canaries.vectors[rows]), directions(vectors)
    neither = ~(stored.any(axis=1) | now.any(axis=1))  # both encoders know no word of the sentence
    cosines = np.where(neither, 1, (stored * now).sum(axis=1))
    least = float(cosines.min())
    return Match(
        same=least >= SAME,
        found=len(rows),
        least_cosine=least,
        reason=f"{'Same' if least >= SAME else 'Different'} encoder: the least cosine of "
        f"{counted(len(set(rows)), 'canary')} with its stored vector is {least:.4f} (the same "
        f"encoder has at least {SAME}).",
    )


def check_index(index: Path) -> None:
    """Check that a file is an index of sentences, before anything else is loaded.

    Raises:
        UsageError: as `open_index`.
    """
    open_index(index).close()


def open_index(index: Path) -> pq.ParquetFile:
    """Open an index of sentences, as `encode --by sentence` writes it.

    Raises:
        UsageError: the file is no Parquet, is empty, or lacks sentences or vectors.
    """
    form = "An index is a Parquet file that `encode --by sentence` writes"
    if is_index_folder(index):
        raise UsageError(
            f"{form}; {index} is a folder of `index`, which `search --model` compares with its "
            "model (E202). Search it, or name a file of `encode`."
        )
    if not index.is_file():
        raise UsageError(f"{form}; found no file at {index}.")
    try:
        file = pq.ParquetFile(index)
    except (OSError, pa.ArrowInvalid) as error:
        raise UsageError(f"{form}; {index} is not: {str(error).rstrip('.')}.") from error
    try:
        _require_sentences(file, index)
    except UsageError:
        file.close()
        raise
    return file


def _require_sentences(file: pq.ParquetFile, index: Path) -> None:
    """Refuse a file without sentences and vectors, or without a row."""
    way_out = "Write it with `encode --by sentence`."
    if missing := set(COLUMNS) - set(file.schema_arrow.names):
        raise UsageError(
            f"An index needs the columns {' and '.join(COLUMNS)}; {index} lacks "
            f"{' and '.join(sorted(missing))}. {way_out}"
        )
    if not file.metadata.num_rows:
        raise UsageError(f"An index needs a row to be compared; {index} is empty. {way_out}")
    kinds: list[Any] = [file.schema_arrow.field(name).type for name in COLUMNS]
    texts, vectors = kinds
    if not ("string" in str(texts) and hasattr(vectors, "value_type")):
        raise UsageError(
            f"An index holds texts and vectors; {index} holds {texts} and {vectors}. {way_out}"
        )


def rows_with(file: pq.ParquetFile, sentences: Sequence[str]) -> Int64[np.ndarray, " rows"]:
    """Return the rows of an index with one of these sentences."""
    known, is_in = pa.array(sentences, pa.string()), cast(Any, pc).is_in
    batches = file.iter_batches(columns=["sentence"])
    return np.flatnonzero(np.concatenate([is_in(batch["sentence"], known) for batch in batches]))


def taken(file: pq.ParquetFile, rows: Int64[np.ndarray, " rows"]) -> Any:
    """Return these ascending rows of an index, with one row group in memory at once."""
    tables: list[Any] = []
    start = 0
    for k in range(file.num_row_groups):
        size = file.metadata.row_group(k).num_rows
        here = rows[(rows >= start) & (rows < start + size)] - start
        if len(here):
            tables.append(file.read_row_group(k, COLUMNS).take(here))
        start += size
    return pa.concat_tables(tables)


def vectors_in(table: Any) -> Float32[np.ndarray, "rows dim"]:
    """Return the column `embedding` as a matrix.

    Raises:
        UsageError: its vectors have different lengths, or there are none.
    """
    column = table["embedding"].combine_chunks()
    flat = column.flatten().to_numpy(zero_copy_only=False)
    if not len(column) or len(flat) % len(column):
        raise UsageError(
            f"An index holds vectors of one length; found {counted(len(flat), 'number')} in "
            f"{counted(len(column), 'row')}. Write it with `encode --by sentence`."
        )
    return flat.astype(np.float32).reshape(len(column), -1)
