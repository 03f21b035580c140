"""Label files: labelled pairs, checked against the corpus and joined with its documents.

A label pairs a document with a text that people matched with it: a title, a query, a clicked item.
"""

import logging
import shutil
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

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
from sentemb_core.corpus.table import Document, document_batches, read_documents, write_rows
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
"""Share of refused labels above which the whole file is refused."""

MORE_LABELS = "labels.parquet"
"""File beside the documents with the further counterparts of documents with several."""

REJECTED = "rejected_labels.parquet"
"""File beside the documents with the refused rows and their reasons."""

EXAMPLES = 3
"""Refused labels of each reason in a message."""

WAYS_OUT = {
    "bad-id": "An id is text or a whole number. If an id is missing, pandas writes 1.0 for 1: use "
    "`astype('Int64')` first.",
    "duplicate-label": "Click logs repeat labels: keep one row of each document and counterpart "
    "(`drop_duplicates` of pandas, SELECT DISTINCT).",
}
"""Reason code -> special advice."""


class LabelCounts(Value):
    """Number of rows in a label file, and of refused rows by reason code."""

    rows_read: int
    refused: dict[str, int]


def write_with_labels(
    documents: Path, corpus: CorpusConfig, config: LabelsConfig, out: Path
) -> int:
    """Write the documents again with the counterparts of a label file; return refused rows.

    The counterpart column of the corpus no longer counts. If a document has several labels, the
    first by a hash of document and text becomes its counterpart in validation; all are trained on.
    Sentences equal to a counterpart are dropped, unless no sentence would be left.

    Args:
        documents: Folder of `write_documents`.
        corpus: Its settings. If some of its documents were left out, the corpus is read again for
            their ids.
        config: Names the label file and its columns.
        out: Folder for the new documents, `rejected_labels.parquet` and `labels.json` (counts).

    Raises:
        UnreadableSourceError, MissingColumnError: E103, E104, from the reader.
        UnknownLabelsError: E501, more than 1 % of the ids are unknown to the corpus, or no label
            is of a document that was read.
        BadDataError: E100, more than 1 % of the rows are refused.
    """
    rewritten = shutil.ignore_patterns("documents.parquet", "report.json")
    shutil.copytree(documents, out, dirs_exist_ok=True, ignore=rewritten)
    labels, counts = _read_labels(documents, corpus, config, out / REJECTED)
    more: dict[str, list[Any]] = {"document": [], "text": []}

    def relabelled() -> Iterator[Document]:
        for row, document in enumerate(read_documents(documents / "documents.parquet")):
            own = sorted(labels.get(document.doc_id, ()), key=partial(unit_hash, document.doc_id))
            more["document"] += [row] * len(own[1:])
            more["text"] += own[1:]
            yield _with_counterparts(document, own)

    written = write_rows(out / "documents.parquet", relabelled())
    schema = pa.schema([("document", pa.int64()), ("text", pa.string())])
    pq.write_table(pa.table(more, schema), out / MORE_LABELS, compression="zstd")
    report = CorpusReport.model_validate_json((documents / "report.json").read_bytes())
    report = report.model_copy(update=written)
    (out / "report.json").write_text(report.model_dump_json(indent=1), encoding="utf-8")
    (out / COUNTED).write_text(counts.model_dump_json(indent=1), encoding="utf-8")
    return sum(counts.refused.values())


def check_label_file(config: LabelsConfig) -> None:
    """Check that the label file can be opened and has its columns.

    Raises:
        UnreadableSourceError, MissingColumnError: E103, E104, from the reader.
    """
    next(_rows(config), None)


def _read_labels(
    documents: Path, corpus: CorpusConfig, config: LabelsConfig, rejected: Path
) -> tuple[dict[str, dict[str, None]], LabelCounts]:
    """Return the counterparts by document id, each once, and the counts of refused rows."""
    known: dict[str, None] = {
        doc_id: None
        for batch in document_batches(documents / "documents.parquet", ["doc_id"])
        for doc_id in batch.column("doc_id").to_pylist()
    }
    labels: dict[str, dict[str, None]] = {}
    examples: dict[str, dict[str, None]] = {}
    unread = _unread(documents)
    left_out = _left_out(known, corpus, config) if unread else set[str]()
    read = 0
    with Quarantine(rejected) as quarantine:
        for row in _rows(config):
            read += 1
            label = row if isinstance(row, BadRow) else _label(row, known, left_out, labels)
            if isinstance(label, BadRow):
                quarantine.add(label)
                example = str(label.text if label.reason == "unknown-id" else label.row)
                of_reason = examples.setdefault(label.reason, {})
                if len(of_reason) < EXAMPLES:
                    of_reason[example] = None
            else:
                doc_id, text = label
                labels.setdefault(doc_id, {})[text] = None
    counts = LabelCounts(rows_read=read, refused=dict(quarantine.counts))
    if left_out:
        del examples["left-out"]
        log.warning(
            "labels left out: %d, of %s outside this run; the run reads %s and leaves out %d "
            "(corpus.max_documents, corpus.min_sentences, refused rows)",
            counts.refused["left-out"],
            counted(len(left_out), "document"),
            counted(len(known), "document"),
            unread,
        )
    for reason, shown in examples.items():
        _check_reason(counts, reason, list(shown), list(known), unread)
    _check_all_reasons(counts, examples)
    if read == 0:
        raise EmptyPairsError(
            f"A label file has a row for each label; {config.source} has no row. Name another "
            "file with --labels, or leave --labels out."
        )
    if not labels and left_out:
        raise UnknownLabelsError(
            f"Some labels must be of documents that the run reads. All labels of {config.source} "
            f"are of the {counted(unread, 'document')} left out here. Read more of the corpus, or "
            "leave --labels out."
        )
    return labels, counts


def _unread(documents: Path) -> int:
    """Return how many documents of the corpus were left out: not drawn, too short or refused."""
    text = (documents / "report.json").read_text("utf-8")
    report = CorpusReport.model_validate_json(text)
    return report.not_drawn + report.left_out + sum(report.quarantined.values())


def _left_out(known: Mapping[str, object], corpus: CorpusConfig, config: LabelsConfig) -> set[str]:
    """Return the label ids that a row of the corpus has, but no document that was read."""
    ids = (_id(row) for row in _rows(config) if not isinstance(row, BadRow))
    unknown = {doc_id for doc_id in ids if not isinstance(doc_id, BadRow) and doc_id not in known}
    return unknown.intersection(source_ids(corpus)) if unknown else unknown


def _rows(config: LabelsConfig) -> Iterator[Row | BadRow]:
    """Yield the rows of the label file; its counterpart column is read as the text."""
    assert config.source is not None, "a label file is named"
    file = CorpusConfig(
        source=config.source,
        id_column=config.id_column,
        text_column=config.counterpart_column,
        encoding=config.encoding,
    )
    try:
        yield from rows(file)
    except MissingColumnError as error:
        raise MissingColumnError(
            f"In the label file {config.source}: {error.args[0]} Name its columns by "
            "--set labels.id_column=... and --set labels.counterpart_column=..."
        ) from error


def _label(
    row: Row, known: Container[str], left_out: Container[str], labels: dict[str, dict[str, None]]
) -> tuple[str, str] | BadRow:
    """Return the id and counterpart of a new usable row; else the refused row."""
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
    if text in labels.get(doc_id, ()):
        return BadRow(row.where, row.number, "duplicate-label", text)
    return doc_id, text


def _id(row: Row) -> str | BadRow:
    """Return the document's id by the rules of the corpus: None and 1.0 are no ids."""
    try:
        return usable_id(row.doc_id)
    except RefusedError as error:
        return BadRow(row.where, row.number, error.reason, error.text)


def _check_reason(
    counts: LabelCounts, reason: str, first: list[str], known: list[str], unread: int
) -> None:
    """Raise if more than 1 % of the rows are refused for one reason; `known` are corpus ids."""
    count, read = counts.refused[reason], counts.rows_read
    if count <= MOST_BAD * read:
        log.warning("%d of %s refused: %s", count, counted(read, "label"), REASONS[reason])
    elif reason == "unknown-id":
        sample = f", apart from the {counted(unread, 'document')} left out here" if unread else ""
        raise UnknownLabelsError(
            f"At most 1 % of the label ids may be unknown to the corpus{sample}. Found {count} of "
            f"{read} (first: {', '.join(map(repr, first))}; the corpus has "
            f"{', '.join(map(repr, known[:2]))}). {_advice_on_ids(first, known)}"
        )
    else:
        raise BadDataError(
            f"At most 1 % of the labels may be refused for one reason. Found {count} of {read} "
            f"{REASONS[reason]} (first: row {', '.join(first)}, counted from 0). "
            f"{WAYS_OUT.get(reason, 'Repair the file, or check its columns.')}"
        )


def _check_all_reasons(counts: LabelCounts, reasons: Iterable[str]) -> None:
    """Raise if more than 1 % of the rows are refused for these reasons together."""
    refused = {reason: counts.refused[reason] for reason in reasons}
    count, read = sum(refused.values()), counts.rows_read
    if count > MOST_BAD * read:
        each = ", ".join(f"{number} {REASONS[reason]}" for reason, number in refused.items())
        raise BadDataError(
            f"At most 1 % of the labels may be refused. Found {count} of {read}: {each}. Repair "
            "the file, or check its columns."
        )


def _advice_on_ids(unknown: list[str], known: list[str]) -> str:
    """Return what to do: row numbers as ids mean that the corpus has no id column."""
    if known[:2] == [row_id(number) for number in range(len(known[:2]))]:
        return "Name the corpus's id column with --id-column."
    if set(map(composed, unknown)).intersection(map(composed, known)):
        return (
            "They look like ids of the corpus, but their accents are composed differently (NFC, "
            "NFD). Write both in one form."
        )
    return (
        "Corpus ids are in --id-column, label ids in --set labels.id_column=...: check both, or "
        "repair the file."
    )


def _with_counterparts(document: Document, texts: list[str]) -> Document:
    same = {title_key(text) for text in texts}
    kept = [sentence for sentence in document.sentences if title_key(sentence) not in same]
    return document._replace(
        counterpart=texts[0] if texts else None, sentences=kept or document.sentences
    )
