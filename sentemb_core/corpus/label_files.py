"""A file of labelled pairs: its rows checked against the corpus and laid beside its documents.

A label pairs a document with the text that people matched with it: a title, a query, a clicked
item.
"""

import logging
import shutil
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sentemb_core.config.run import CorpusConfig, LabelsConfig
from sentemb_core.corpus.checks import (
    REASONS,
    BadRow,
    Quarantine,
    RefusedError,
    title_key,
    usable_counterpart,
    usable_id,
)
from sentemb_core.corpus.columns import Row, composed, row_id
from sentemb_core.corpus.documents import CorpusReport, source_ids
from sentemb_core.corpus.readers import rows
from sentemb_core.corpus.table import Document, DocumentWriter, document_batches, read_documents
from sentemb_core.corpus.validation_pool import COUNTED, unit_hash
from sentemb_core.errors import (
    BadDataError,
    EmptyPairsError,
    MissingColumnError,
    UnknownLabelsError,
)
from sentemb_core.formats import counted
from sentemb_core.types import Value

log = logging.getLogger(__name__)

MOST_BAD = 0.01
"""Of the labels. Above it the file is refused: it belongs elsewhere."""

MORE_LABELS = "labels.parquet"
"""Beside the documents: further counterparts of those that have several."""

REJECTED = "rejected_labels.parquet"
"""Beside the documents: the rows that were refused, and why."""

EXAMPLES = 3
"""Refused labels that a message names, of each reason."""

WAYS_OUT = {
    "bad-id": "An id is text or a whole number: where one is missing, pandas writes 1.0 for 1 "
    "(`astype('Int64')` first).",
    "duplicate-label": "A click log repeats itself: keep one row of each document and counterpart "
    "(`drop_duplicates` of pandas, SELECT DISTINCT).",
}
"""Reason code -> what to do, where that is not to repair the file."""


class LabelCounts(Value):
    """Rows of a file of labels, and by reason code those that were refused."""

    rows_read: int
    refused: dict[str, int]


def write_with_labels(
    documents: Path, corpus: CorpusConfig, config: LabelsConfig, out: Path
) -> int:
    """The documents folder again, with the counterparts that a file of labels gives.

    The counterpart column of the corpus no longer counts. Of several labels of one document the
    first by a hash of both judges, wherever it stands in the file, and all are learnt from.
    Sentences equal to a counterpart are dropped, unless nothing is left. How many rows were refused
    is returned.

    Args:
        documents: Folder that `write_documents` filled.
        corpus: What it read; it is read again for its ids where some were left out, and a label
            names none of the others.
        config: Names the file and its columns.
        out: Folder for the new one; `rejected_labels.parquet` holds the rows that were refused,
            `labels.json` their counts.

    Raises:
        UnreadableSourceError, MissingColumnError: E103, E104, from the reader.
        UnknownLabelsError: E501, no row of the corpus has more than 1 % of the ids, or no label is
            of one of the documents.
        BadDataError: E100, more than 1 % of the rows are empty, broken, without a usable id or
            repeat another, or are refused for several reasons together.
    """
    anew = shutil.ignore_patterns("documents.parquet", "report.json")
    shutil.copytree(documents, out, dirs_exist_ok=True, ignore=anew)
    found, counts = _read_labels(documents, corpus, config, out / REJECTED)
    row_of: list[int] = []
    texts: list[str] = []
    with DocumentWriter(out / "documents.parquet") as writer:
        for row, document in enumerate(read_documents(documents / "documents.parquet")):
            texts_of = found.get(document.doc_id, ())
            own = sorted(texts_of, key=partial(unit_hash, document.doc_id))
            writer.write(_with_counterparts(document, own))
            row_of += [row] * len(own[1:])
            texts += own[1:]
    more = {"document": pa.array(row_of, pa.int64()), "text": pa.array(texts, pa.string())}
    pq.write_table(pa.table(more), out / MORE_LABELS, compression="zstd")
    report = CorpusReport.model_validate_json((documents / "report.json").read_bytes())
    report = report.model_copy(update=writer.counts)
    (out / "report.json").write_text(report.model_dump_json(indent=1), encoding="utf-8")
    (out / COUNTED).write_text(counts.model_dump_json(indent=1), encoding="utf-8")
    return sum(counts.refused.values())


def check_label_file(config: LabelsConfig) -> None:
    """Open the file of labels and look for its columns, as reading it would first.

    Raises:
        UnreadableSourceError, MissingColumnError: E103, E104, from the reader.
    """
    next(_rows(config), None)


def _read_labels(
    documents: Path, corpus: CorpusConfig, config: LabelsConfig, rejected: Path
) -> tuple[dict[str, dict[str, None]], LabelCounts]:
    """Document id -> its counterparts, each once; and how many rows were refused."""
    known: dict[str, None] = {
        doc_id: None
        for batch in document_batches(documents / "documents.parquet", ["doc_id"])
        for doc_id in batch.column("doc_id").to_pylist()
    }
    found: dict[str, dict[str, None]] = {}
    examples: dict[str, dict[str, None]] = {}
    unread = _unread(documents)
    left_out = _left_out(known, corpus, config) if unread else set[str]()
    read = 0
    with Quarantine(rejected) as quarantine:
        for row in _rows(config):
            read += 1
            label = row if isinstance(row, BadRow) else _label(row, known, left_out, found)
            if isinstance(label, BadRow):
                quarantine.add(label)
                example = str(label.text if label.reason == "unknown-id" else label.row)
                told = examples.setdefault(label.reason, {})
                if len(told) < EXAMPLES:
                    told[example] = None
            else:
                doc_id, text = label
                found.setdefault(doc_id, {})[text] = None
    counts = LabelCounts(rows_read=read, refused=dict(quarantine.counts))
    if left_out:
        del examples["left-out"]
        log.warning(
            "left out: %s of %s; this run reads %s of the corpus and leaves out %d "
            "(corpus.max_documents, corpus.min_sentences, refused rows)",
            counted(counts.refused["left-out"], "label"),
            counted(len(left_out), "document"),
            counted(len(known), "document"),
            unread,
        )
    for reason, shown in examples.items():
        _check(counts, reason, list(shown), list(known), unread)
    _check_all(counts, examples)
    if read == 0:
        raise EmptyPairsError(
            f"Labels are rows of a document and its counterpart; {config.source} has no row: name "
            "another with --labels, or leave it out."
        )
    if not found and left_out:
        raise UnknownLabelsError(
            f"Some labels are of documents that the run reads; those of {config.source} are all of "
            f"the {counted(unread, 'document')} left out here: read more of the corpus, or leave "
            "--labels out."
        )
    return found, counts


def _unread(documents: Path) -> int:
    """Documents of the corpus that are not in the table: not drawn, too short, refused."""
    text = (documents / "report.json").read_text("utf-8")
    report = CorpusReport.model_validate_json(text)
    return report.not_drawn + report.left_out + sum(report.quarantined.values())


def _left_out(known: Mapping[str, object], corpus: CorpusConfig, config: LabelsConfig) -> set[str]:
    """Ids of labels that a row of the corpus has, and none of the documents read."""
    labels = (_id(row) for row in _rows(config) if not isinstance(row, BadRow))
    unknown = {one for one in labels if not isinstance(one, BadRow) and one not in known}
    return unknown.intersection(source_ids(corpus)) if unknown else unknown


def _rows(config: LabelsConfig) -> Iterator[Row | BadRow]:
    """The file's rows; a missing column is told as one of the labels (E104)."""
    try:
        yield from rows(_as_corpus(config))
    except MissingColumnError as error:
        raise MissingColumnError(
            f"The file of labels {config.source}: {error.args[0]} Its columns are named by "
            "--set labels.id_column=... and --set labels.counterpart_column=..."
        ) from error


def _label(
    row: Row, known: Container[str], left_out: Container[str], found: dict[str, dict[str, None]]
) -> tuple[str, str] | BadRow:
    """Id and counterpart of a row that can be used and was not there before."""
    doc_id = _id(row)
    if isinstance(doc_id, BadRow):
        return doc_id
    if doc_id not in known:
        reason = "left-out" if doc_id in left_out else "unknown-id"
        return BadRow(row.where, row.number, reason, doc_id)
    try:
        text = usable_counterpart(row.text)
    except RefusedError as error:
        return BadRow(row.where, row.number, error.reason, error.text)
    if text is None:
        return BadRow(row.where, row.number, "empty", "")
    if text in found.get(doc_id, ()):
        return BadRow(row.where, row.number, "duplicate-label", text)
    return doc_id, text


def _id(row: Row) -> str | BadRow:
    """The document's id, by the rule of the corpus: none, or 1.0, is the id of no document."""
    try:
        return usable_id(row.doc_id)
    except RefusedError as error:
        return BadRow(row.where, row.number, error.reason, error.text)


def _check(
    counts: LabelCounts, reason: str, first: list[str], known: list[str], unread: int
) -> None:
    """Refuse a file of which more than 1 % is bad for one reason; `known` are the corpus's ids."""
    count, read = counts.refused[reason], counts.rows_read
    if count <= MOST_BAD * read:
        log.warning("%d of %s refused: %s", count, counted(read, "label"), REASONS[reason])
    elif reason == "unknown-id":
        raise UnknownLabelsError(
            f"{count} of {read} label ids are of no row of the corpus (first: "
            f"{', '.join(map(repr, first))}; the corpus has "
            f"{', '.join(map(repr, known[:2]))}); 1 % may be{_beside(unread)}. "
            f"{_way_to_ids(first, known)}"
        )
    else:
        raise BadDataError(
            f"At most 1 % of the labels may be refused for one reason; found {count} of {read} "
            f"{REASONS[reason]} (first: row {', '.join(first)}, counted from 0). "
            f"{WAYS_OUT.get(reason, 'Repair the file, or check its columns.')}"
        )


def _check_all(counts: LabelCounts, reasons: Iterable[str]) -> None:
    """Refuse a file of which more than 1 % is bad for these reasons together."""
    found = {reason: counts.refused[reason] for reason in reasons}
    count, read = sum(found.values()), counts.rows_read
    if count > MOST_BAD * read:
        told = ", ".join(f"{number} {REASONS[reason]}" for reason, number in found.items())
        raise BadDataError(
            f"At most 1 % of the labels may be refused; found {count} of {read}: {told}. Repair "
            "the file, or check its columns."
        )


def _beside(unread: int) -> str:
    """Ids of documents that this run leaves out, as of a sample, are not unknown."""
    return (
        f"; ids of the {counted(unread, 'document')} left out here do not count" if unread else ""
    )


def _way_to_ids(unknown: list[str], known: list[str]) -> str:
    """Row numbers for ids mean a corpus without an id column; else the labels' may be wrong."""
    if known[:2] == [row_id(number) for number in range(len(known[:2]))]:
        return "Name the corpus's id column with --id-column."
    if set(map(composed, unknown)).intersection(map(composed, known)):
        return (
            "They look like ids of the corpus, which has their accents composed otherwise (NFC, "
            "NFD): write both in one form."
        )
    return (
        "The ids of the corpus are those of --id-column, the ones of the labels those of --set "
        "labels.id_column=...: check both, or repair the file."
    )


def _as_corpus(config: LabelsConfig) -> CorpusConfig:
    """The file as the corpus readers see it."""
    assert config.source is not None, "a file of labels is named"
    return CorpusConfig(
        source=config.source,
        id_column=config.id_column,
        text_column=config.counterpart_column,
        encoding=config.encoding,
    )


def _with_counterparts(document: Document, texts: list[str]) -> Document:
    same = {title_key(text) for text in texts}
    kept = [sentence for sentence in document.sentences if title_key(sentence) not in same]
    return document._replace(
        counterpart=texts[0] if texts else None, sentences=kept or document.sentences
    )
