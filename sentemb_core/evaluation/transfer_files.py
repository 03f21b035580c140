"""Transfer tasks out of files: SentEval's sets as Parquet, long reviews, probing files.

Texts are used as they stand in the file.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
from jaxtyping import Float64

from sentemb_core.config.suite import DOMAINS, ProbeTask
from sentemb_core.encoder.safety import require_ordinary
from sentemb_core.errors import BadDataError, UnreadableSourceError
from sentemb_core.evaluation.parquet import refuse_rows, require_columns, require_texts, table_of
from sentemb_core.evaluation.sts import read_sts
from sentemb_core.evaluation.transfer import TransferTask

log = logging.getLogger(__name__)

WHAT = "This transfer task"

TEXTS = ("text", "sentence1", "sentence2", "domain")

PROBING_PARTS = {"tr": "train", "va": "dev", "te": "test"}


def read_labelled(
    name: str,
    *paths: Path,
    target: str = "label",
    pairs: bool = False,
    no_class: Collection[object] = (),
) -> TransferTask:
    """Read Parquet files with the columns text, or sentence1 and sentence2, and `target`.

    Args:
        name: Of the task.
        paths: One file, whose column split names each row's part (without it folds are drawn), or
            three files: train, dev and test.
        target: The column with the classes, numbers or words; they are numbered in ascending order
            from 0.
        pairs: Whether an example must have two texts; one of them alone would be another task.
        no_class: Values of `target` without a class; these examples are left out.

    Raises:
        UnreadableSourceError: a file does not exist or is no Parquet.
        MissingColumnError: a file lacks a column.
        BadDataError: a file has no row, a row lacks a value, or the parts are wrong.
    """
    tables = [table_of(path, WHAT) for path in paths]
    pair = pairs or "sentence1" in tables[0].column_names
    sides = ("sentence1", "sentence2") if pair else ("text",)
    columns, parts = _joined(paths, tables, (*sides, target)), _parts(paths, tables)
    kept = [row for row, value in enumerate(columns[-1]) if value not in no_class]
    if left := len(columns[-1]) - len(kept):
        log.warning("%s: examples left out without a class: %d", name, left)
    first, *others, label = ([column[row] for row in kept] for column in columns)
    split = [parts[row] for row in kept] if parts else None
    return TransferTask(name, first, _numbered(label), others[0] if pair else None, split)


def read_phrases(name: str, sentences: Path, phrases: Path) -> TransferTask:
    """Read SST-2 as in SentEval: dev and test are sentences, train are phrases.

    Raises:
        BadDataError: as `read_labelled`.
    """
    whole, train = read_labelled(name, sentences), read_labelled(name, phrases)
    split = whole.split or ()
    kept = [row for row, part in enumerate(split) if part != "train"]
    return TransferTask(
        name,
        [*train.first, *(whole.first[row] for row in kept)],
        np.concatenate([train.gold, whole.gold[kept]]),
        split=["train"] * len(train) + [split[row] for row in kept],
    )


def read_relatedness(name: str, train: Path, dev: Path, test: Path) -> TransferTask:
    """Read scored pairs of sentences, as `read_sts` does.

    Raises:
        BadDataError: as `read_sts`.
    """
    parts = {"train": read_sts(train), "dev": read_sts(dev), "test": read_sts(test)}
    return TransferTask(
        name,
        [text for pairs in parts.values() for text in pairs.first],
        np.concatenate([pairs.gold for pairs in parts.values()]),
        [text for pairs in parts.values() for text in pairs.second],
        [part for part, pairs in parts.items() for _ in range(len(pairs))],
        "scores",
    )


def read_reviews(name: str, path: Path, domain: str | None = None) -> TransferTask:
    """Read whole reviews of a Parquet file with the columns sentences and label; folds are drawn.

    A column split is ignored: with 2,000 reviews a domain, folds are the more precise estimate.

    Args:
        name: Of the task.
        path: The file.
        domain: Only reviews with this value of the column domain.

    Raises:
        BadDataError: as `read_labelled`; no review of the domain, a review without a sentence, or
            text instead of lists.
    """
    columns = ("sentences", "label") if domain is None else ("sentences", "label", "domain")
    rows = list(zip(*_joined([path], [table_of(path, WHAT)], columns), strict=True))
    kept = [row for row in rows if domain is None or row[2] == domain]
    if any(isinstance(row[0], str) for row in rows):
        raise BadDataError(
            f"Reviews are lists of sentences; the column sentences of {path} holds text. Split it "
            "into a list for each review."
        )
    refuse_rows(
        path, "sentences", "lists of texts", [k for k, row in enumerate(rows) if None in row[0]]
    )
    if not kept or not all(row[0] for row in kept):
        raise BadDataError(
            f"A review needs a sentence; {path} has {len(kept)} reviews of the domain {domain}, "
            f"{sum(not row[0] for row in kept)} of them without a sentence. Check the file."
        )
    texts = [" ".join(row[0]) for row in kept]
    return TransferTask(name, texts, _numbered([row[1] for row in kept]))


def read_probing(name: str, path: Path) -> TransferTask:
    """Read a probing file of SentEval: lines of part (tr, va, te), class and text, with tabs.

    Raises:
        UnreadableSourceError: the file does not exist or is not UTF-8.
        BadDataError: a line has another form, or a part is missing.
    """
    try:
        require_ordinary(path)
        lines = path.read_text("utf-8").split("\n")  # a text may contain other line ends
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableSourceError(
            f"A probing task is a text file in UTF-8; {path} cannot be read as one: {error}"
        ) from error
    rows = [line.split("\t") for line in lines if line.strip()]
    bad = [row for row in rows if len(row) != 3 or row[0] not in PROBING_PARTS]
    if not rows:
        raise BadDataError(
            f"A probing file has one line per example; {path} is empty. Fetch it again."
        )
    if bad:
        raise BadDataError(
            f"A probing line is tr, va or te, a class and a text, with tabs between; {len(bad)} of "
            f"{len(rows)} lines of {path} are not, first {bad[0]}. Fetch it again."
        )
    if absent := PROBING_PARTS.keys() - {row[0] for row in rows}:
        raise BadDataError(
            f"A probing file has lines of tr, va and te; {path} lacks "
            f"{' and '.join(sorted(absent))}. Fetch it again."
        )
    split, label, texts = (list(column) for column in zip(*rows, strict=True))
    parts = [PROBING_PARTS[part] for part in split]
    return TransferTask(name, texts, _numbered(label), split=parts)


def _joined(paths: Sequence[Path], tables: Sequence[Any], wanted: Sequence[str]) -> list[list[Any]]:
    """Return these columns of all files, concatenated."""
    for path, table in zip(paths, tables, strict=True):
        require_columns(table, path, WHAT, wanted)
        if not len(table):
            raise BadDataError(f"A task needs examples; {path} has no row. Fetch it again.")
        require_texts(table, path, [name for name in TEXTS if name in wanted])
        for name in wanted:
            refuse_rows(path, name, "a value", _empty(table[name]))
    return [[cell for table in tables for cell in table[name].to_pylist()] for name in wanted]


def _empty(column: Any) -> list[int]:
    """Return the rows with null or NaN."""
    arrow: Any = pc
    empty = arrow.is_null(column, nan_is_null=True).to_pylist()
    return [row for row, without in enumerate(empty) if without]


def _parts(paths: Sequence[Path], tables: Sequence[Any]) -> list[str] | None:
    if len(paths) == 3:
        names = ("train", "dev", "test")
        return [part for part, table in zip(names, tables, strict=True) for _ in range(len(table))]
    if "split" not in tables[0].column_names:
        return None
    require_texts(tables[0], paths[0], ["split"])
    return tables[0]["split"].to_pylist()


def _numbered(label: Sequence[Any]) -> Float64[np.ndarray, " n"]:
    return np.unique(np.array(label), return_inverse=True)[1].astype(np.float64)


UNDECIDED = ("-", -1)
"""SNLI's labels of pairs without agreement of the annotators: no class, as in SentEval."""

READERS: Mapping[str, Callable[..., TransferTask]] = {
    "mrpc": partial(read_labelled, pairs=True),
    "sst2_phrases": read_phrases,
    "sick_entailment": partial(read_labelled, target="entailment", pairs=True),
    "snli": partial(read_labelled, pairs=True, no_class=UNDECIDED),
    "sick_regression": read_relatedness,
    "stsb_regression": read_relatedness,
    "imdb": read_reviews,
    **{f"blitzer_{domain}": partial(read_reviews, domain=domain) for domain in DOMAINS},
    "probing": read_probing,
}
"""Readers by source; every other source is a file of classes."""


def read_probe(task: ProbeTask, folder: Path) -> TransferTask:
    """Read a transfer task of the suite.

    Raises:
        BadDataError: as the reader of the set.
    """
    reader = READERS.get(task.source, read_labelled)
    return reader(task.name, *(folder / file for file in task.files))
