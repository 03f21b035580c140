"""Canaries: a few sentences with the vectors that one encoder gives them.

An index is built in hours and served for months, and nothing in it says by which encoder. Whoever
holds a model's canaries can tell in a second, and without loading the model.
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
from sentemb_core.types import Value

if TYPE_CHECKING:
    from sentemb_core.encoder.encoder import Encoder  # loads torch, which no comparison needs

COUNT = 64

SAME = 0.9999
"""Least cosine of an encoder with itself: 0.99998 with bf16 products (MiniLM), more with float16
storage. One round of training leaves 0.87 to 0.93 (static encoder, blog_usgov)."""


@dataclass(frozen=True)
class Canaries:
    """Sentences and their vectors."""

    sentences: list[str]
    vectors: Float32[np.ndarray, "canaries dim"]


class Match(Value):
    """Whether an index was built with the canaries' encoder, and what that rests on."""

    same: bool
    found: int
    least_cosine: float | None
    reason: str


def drawn_sentences(corpus: TokenCorpus) -> list[str]:
    """Different sentences from all over the corpus, `COUNT` at most."""
    return list(dict.fromkeys(corpus.texts(spread_rows(len(corpus)))))


def spread_rows(n: int) -> Int64[np.ndarray, " rows"]:
    """At most `COUNT` different rows of n, at even distances, the first and the last among them."""
    return np.unique(np.linspace(0, n - 1, COUNT).astype(np.int64))


def write_canaries(encoder: "Encoder", sentences: Sequence[str], path: Path) -> None:
    """Encode the sentences; the columns are those of an index (`encode --by sentence`)."""
    from sentemb_core.encoder.batching import embed_texts

    vectors = embed_texts(encoder, sentences)
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), encoder.dim)
    pq.write_table(pa.table({"sentence": pa.array(sentences), "embedding": column}), path)


def read_canaries(path: Path) -> Canaries:
    """What `write_canaries` wrote."""
    table = pq.read_table(path)
    return Canaries(table["sentence"].to_pylist(), vectors_in(table))


def compare(canaries: Canaries, index: Path) -> Match:
    """Look for the canaries in an index of sentences and compare their vectors.

    Args:
        canaries: Of the encoder that is asked about.
        index: Parquet with `sentence` and `embedding`, as `encode --by sentence` writes it.

    Raises:
        UsageError: There is nothing to compare: it is no index of sentences, or holds no canary.
    """
    with opened_index(index) as file:
        rows = rows_with(file, canaries.sentences)
        if not len(rows):
            raise UsageError(
                f"None of the {counted(len(canaries.sentences), 'canary')} is in {index}: it was "
                "built from another corpus. Add their sentences to what `encode --by sentence` "
                "reads."
            )
        table = taken(file, rows)
    return compared(canaries, table["sentence"].to_pylist(), vectors_in(table))


def compare_encoder(encoder: "Encoder", index: Path) -> Match:
    """Encode sentences from all over an index and compare their vectors with those in it.

    Raises:
        UsageError: It is no index of sentences.
    """
    from sentemb_core.encoder.batching import embed_texts

    with opened_index(index) as file:
        table = taken(file, spread_rows(file.metadata.num_rows)).drop_null()
    sentences = table["sentence"].to_pylist()
    canaries = Canaries(sentences, embed_texts(encoder, sentences))
    return compared(canaries, sentences, vectors_in(table))


def rows_with(file: pq.ParquetFile, sentences: Sequence[str]) -> Int64[np.ndarray, " rows"]:
    """Where an index has one of these sentences."""
    known, is_in = pa.array(sentences, pa.string()), cast(Any, pc).is_in
    batches = file.iter_batches(columns=["sentence"])
    return np.flatnonzero(np.concatenate([is_in(batch["sentence"], known) for batch in batches]))


def taken(file: pq.ParquetFile, rows: Int64[np.ndarray, " rows"]) -> Any:
    """These rows of an index, which stand in order; memory holds one row group."""
    tables: list[Any] = []
    start = 0
    for k in range(file.num_row_groups):
        size = file.metadata.row_group(k).num_rows
        here = rows[(rows >= start) & (rows < start + size)] - start
        if len(here):
            tables.append(file.read_row_group(k, COLUMNS).take(here))
        start += size
    return pa.concat_tables(tables)


def compared(
    canaries: Canaries, sentences: Sequence[str], vectors: Float32[np.ndarray, "found dim"]
) -> Match:
    """What `compare` tells, of vectors at hand whose sentences are canaries."""
    place = {sentence: row for row, sentence in enumerate(canaries.sentences)}
    rows = [place[sentence] for sentence in sentences]
    expected, dim = canaries.vectors.shape[1], vectors.shape[1]
    if expected != dim:
        reason = f"Another encoder: {counted(expected, 'dimension')} expected, {dim} found."
        return Match(same=False, found=len(rows), least_cosine=None, reason=reason)
    stored, now = directions(canaries.vectors[rows]), directions(vectors)
    neither = ~(stored.any(axis=1) | now.any(axis=1))  # no known word, to one as to the other
    cosines = np.where(neither, 1, (stored * now).sum(axis=1))
    least = float(cosines.min())
    looked_at = counted(len(set(rows)), "canary")
    return Match(
        same=least >= SAME,
        found=len(rows),
        least_cosine=least,
        reason=f"{'The same' if least >= SAME else 'Another'} encoder: the least alike of "
        f"{looked_at} has a cosine of {least:.4f} to what it was; of one encoder it is at least "
        f"{SAME}.",
    )


def vectors_in(table: Any) -> Float32[np.ndarray, "rows dim"]:
    """The column `embedding` as a matrix.

    Raises:
        UsageError: Its vectors have different lengths, or there are none.
    """
    column = table["embedding"].combine_chunks()
    flat = column.flatten().to_numpy(zero_copy_only=False)
    if not len(column) or len(flat) % len(column):
        raise UsageError(
            f"An index holds vectors of one length; found {counted(len(flat), 'number')} in "
            f"{counted(len(column), 'row')}. Write it with `encode --by sentence`."
        )
    return flat.astype(np.float32).reshape(len(column), -1)


COLUMNS = ["sentence", "embedding"]
"""What is compared of an index."""


def check_index(index: Path) -> None:
    """Look for the columns, before anything is loaded.

    Raises:
        UsageError: as `opened_index`.
    """
    opened_index(index).close()


def opened_index(index: Path) -> pq.ParquetFile:
    """An index of sentences, as `encode --by sentence` writes it.

    Raises:
        UsageError: It is no Parquet file, is empty, or holds no sentences or no vectors. Bad data
            would end as an index of another encoder does.
    """
    if not index.exists():
        raise UsageError(
            f"An index is a Parquet file as `encode --by sentence` writes it; {index} is none: "
            "nothing lies there."
        )
    try:
        file = pq.ParquetFile(index)
    except (OSError, pa.ArrowInvalid) as error:
        raise UsageError(
            f"An index is a Parquet file as `encode --by sentence` writes it; {index} is none: "
            f"{str(error).rstrip('.')}."
        ) from error
    try:
        require_sentences(file, index)
    except UsageError:
        file.close()
        raise
    return file


def require_sentences(file: pq.ParquetFile, index: Path) -> None:
    """That it holds sentences and their vectors, a row at least.

    Raises:
        UsageError: It does not.
    """
    if missing := set(COLUMNS) - set(file.schema_arrow.names):
        raise UsageError(
            f"An index is compared by its sentences and their vectors; {index} has no column "
            f"{' nor '.join(sorted(missing))}: write it with `encode --by sentence`."
        )
    if not file.metadata.num_rows:
        raise UsageError(
            f"{index} is empty: nothing in it says which encoder wrote it. Write it with "
            "`encode --by sentence`."
        )
    kinds: list[Any] = [file.schema_arrow.field(name).type for name in COLUMNS]
    texts, vectors = kinds
    if not ("string" in str(texts) and hasattr(vectors, "value_type")):
        raise UsageError(
            f"An index holds texts and vectors; in {index} are {texts}, {vectors}: write it with "
            "`encode --by sentence`."
        )
