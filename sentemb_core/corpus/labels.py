"""Labels: pairs of a document and a text that people matched with it, as a title or a query.

A label file is checked against the corpus and joined with its documents. The labels to train on are
drawn in the order of a hash, without labels of the validation pool.
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
    EXCERPT,
    REASONS,
    BadRow,
    Quarantine,
    RefusedError,
    usable_counterpart,
    usable_id,
)
from sentemb_core.corpus.columns import LabelSource, Row, composed, row_id
from sentemb_core.corpus.documents import CorpusReport, source_ids
from sentemb_core.corpus.readers import rows
from sentemb_core.corpus.sentences import same_text
from sentemb_core.corpus.table import Document, counterparts, read_documents, write_rows
from sentemb_core.corpus.titles import Title
from sentemb_core.corpus.validation_pool import (
    COUNTED,
    LABEL,
    ValidationPool,
    is_label,
    repeating,
    unit_hash,
)
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

Labels = dict[str, dict[str, None]]
"""Document id -> its counterparts, each once."""

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
    report = CorpusReport.read(documents)
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
) -> tuple[Labels, LabelCounts]:
    """Return the counterparts by document id, each once, and the counts of refused rows."""
    check_label_file(config)
    rows_of_corpus = counterparts(documents / "documents.parquet")
    known = dict.fromkeys(doc_id for _, doc_id, _ in rows_of_corpus)
    report = CorpusReport.read(documents)
    unread = report.not_drawn + report.left_out + sum(report.quarantined.values())
    left_out: set[str] = set()
    if unread and (unknown := {one for one in source_ids(_source(config)) if one not in known}):
        left_out = unknown.intersection(source_ids(corpus))
    labels: Labels = {}
    examples: dict[str, dict[str, None]] = {}
    read = 0
    with Quarantine(rejected) as quarantine:
        for row in _rows(config):
            read += 1
            try:
                doc_id, text = _label(row, known, left_out, labels)
            except RefusedError as error:
                quarantine.add(row, error.reason, error.text)
                example = error.text if error.reason == "unknown-id" else row.number
                of_reason = examples.setdefault(error.reason, {})
                if len(of_reason) < EXAMPLES:
                    of_reason[str(example)] = None
            else:
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
    _check_refused(counts, examples, list(known), unread)
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


def _source(config: LabelsConfig) -> LabelSource:
    """Return the label file as a corpus: its counterpart column is read as the text."""
    assert config.source is not None, "a label file is named"
    return LabelSource(
        source=config.source,
        id_column=config.id_column,
        text_column=config.counterpart_column,
        encoding=config.encoding,
    )


def _rows(config: LabelsConfig) -> Iterator[Row | BadRow]:
    try:
        yield from rows(_source(config))
    except MissingColumnError as error:
        raise MissingColumnError(
            f"In the label file {config.source}: {error.args[0]} Name its columns by "
            "--set labels.id_column=... and --set labels.counterpart_column=..."
        ) from error


def _label(
    row: Row | BadRow, known: Container[str], left_out: Container[str], labels: Labels
) -> tuple[str, str]:
    """Return the id and counterpart of a new usable row, or raise RefusedError."""
    if isinstance(row, BadRow):
        raise RefusedError(row.reason, row.text)
    doc_id = usable_id(row.doc_id)
    if doc_id not in known:
        raise RefusedError("left-out" if doc_id in left_out else "unknown-id", doc_id)
    text = usable_counterpart(row.text)
    if text is None:
        raise RefusedError("empty", "")
    if text in labels.get(doc_id, ()):
        raise RefusedError("duplicate-label", text)
    return doc_id, text


def _check_refused(
    counts: LabelCounts, examples: Mapping[str, Iterable[str]], known: list[str], unread: int
) -> None:
    """Raise if more than 1 % of the rows are refused, for one reason or for all together.

    `examples` are refused ids or rows by reason, `known` are corpus ids, `unread` documents are
    left out.
    """
    read, limit = counts.rows_read, MOST_BAD * counts.rows_read
    refused = {reason: counts.refused[reason] for reason in examples}
    for reason, count in refused.items():
        if count <= limit:
            log.warning("%d of %s refused: %s", count, counted(read, "label"), REASONS[reason])
            continue
        first = list(examples[reason])
        if reason == "unknown-id":
            apart = f", apart from the {counted(unread, 'document')} left out" if unread else ""
            raise UnknownLabelsError(
                f"At most 1 % of the label ids may be unknown to the corpus{apart}. "
                f"Found {count} of {read} (first: {', '.join(map(repr, first))}; the corpus has "
                f"{', '.join(map(repr, known[:2]))}). {_advice_on_ids(first, known)}"
            )
        raise BadDataError(
            f"At most 1 % of the labels may be refused for one reason. Found {count} of {read} "
            f"{REASONS[reason]} (first: row {', '.join(first)}, counted from 0). "
            f"{WAYS_OUT.get(reason, 'Repair the file, or check its columns.')}"
        )
    if sum(refused.values()) > limit:
        each = ", ".join(f"{number} {REASONS[reason]}" for reason, number in refused.items())
        raise BadDataError(
            f"At most 1 % of the labels may be refused. Found {sum(refused.values())} of {read}: "
            f"{each}. Repair the file, or check its columns."
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
    titles = list(map(Title, texts))
    kept = [
        sentence
        for sentence in document.sentences
        if not any(title.is_sentence(sentence) for title in titles)
    ]
    return document._replace(
        counterpart=texts[0] if texts else None, sentences=kept or document.sentences
    )


class LabelReport(Value):
    """Labels to train on: `labels` of `available` were drawn.

    judged: left out, because their text or their document is in the validation pool.
    """

    labels: int
    available: int
    judged: int

    def summary(self) -> str:
        """Return one line for the log."""
        return (
            f"labels to train on: {self.labels:,} of {self.available:,}; left out, because text or "
            f"document is in the validation pool: {self.judged:,}"
        )


def write_labelled(
    documents: Path, pool: Path, share: float, count: int | None, out: Path
) -> LabelReport:
    """Write documents to fine-tune on: their sentences with the label as the last sentence.

    Labels are ordered by a hash of the document's id, and by a hash of both within a document, so a
    smaller count is a part of a larger one. Labels with a candidate of the pool as their text are
    left out, since they are answers. So are labels of held-out documents.

    Args:
        documents: Folder of `write_documents` or `write_with_labels`.
        pool: Folder of `write_validation_pool` with the same `share`.
        share: `ValidationConfig.label_share`.
        count: Number of labels to draw. None: all.
        out: Folder for documents.parquet and report.json.

    Raises:
        EmptyPairsError: E102, fewer than two documents have a label to train on, or all labels
            have the same text.
    """
    drawn, report = drawn_labels(documents, pool, share, count)
    if count is not None and len(drawn) < count:
        log.warning("labels requested: %d; found: %d", count, len(drawn))
    write_rows(out / "documents.parquet", _pairs(documents / "documents.parquet", drawn))
    (out / "report.json").write_text(report.model_dump_json(indent=1), encoding="utf-8")
    log.info("%s", report.summary())
    return report


def drawn_labels(
    documents: Path, pool: Path, share: float, count: int | None
) -> tuple[list[tuple[str, int, str]], LabelReport]:
    """Return id, row and text of each label that `write_labelled` writes, and its report.

    Raises:
        EmptyPairsError: E102, as there.
    """
    validation = ValidationPool.open(pool)
    candidates = {same_text(text) for text in validation.candidate_text if text}
    repeated = repeating(documents / "documents.parquet", set(validation.query_document.tolist()))
    held_out = {*validation.held_out_documents.tolist(), *repeated}
    labels = [label for label in _labels(documents) if is_label(label[0], share)]
    available = [
        (doc_id, row, text)
        for doc_id, row, text in labels
        if row not in held_out and same_text(text) not in candidates
    ]
    available.sort(key=lambda label: unit_hash(LABEL, label[0]))
    drawn = available[:count]
    judged = len(labels) - len(available)
    report = LabelReport(labels=len(drawn), available=len(available), judged=judged)
    n_documents = len({row for _, row, _ in drawn})
    if n_documents < 2:
        raise EmptyPairsError(
            f"Fine-tuning needs labels of at least two documents. Found those of {n_documents}; "
            f"{report.summary()}. Name a counterpart column or a label file, or raise labels.count "
            "or validation.label_share."
        )
    if len({same_text(text) for _, _, text in drawn}) < 2:
        raise EmptyPairsError(
            f"Fine-tuning needs at least two different counterparts. Found {len(drawn)} labels "
            f"with the text {drawn[0][2][:EXCERPT]!r}. Name another column or file, or raise "
            "labels.count or validation.label_share."
        )
    return drawn, report


def _labels(documents: Path) -> Iterator[tuple[str, int, str]]:
    """Yield (id, row, text) of every label; several labels of a document by their hashes."""
    ids: list[str] = []
    for row, doc_id, text in counterparts(documents / "documents.parquet"):
        ids.append(doc_id)
        if text is not None:
            yield doc_id, row, text
    if (documents / MORE_LABELS).exists():
        more = pq.read_table(documents / MORE_LABELS)
        for row, text in zip(more["document"].to_pylist(), more["text"].to_pylist(), strict=True):
            yield ids[row], row, text


def _pairs(documents: Path, labels: list[tuple[str, int, str]]) -> Iterator[Document]:
    """Yield a copy of its document for every label, in the order of the corpus."""
    texts: dict[int, list[str]] = {}
    for _, row, text in labels:
        texts.setdefault(row, []).append(text)
    for row, document in enumerate(read_documents(documents)):
        for text in texts.get(row, ()):
            yield document._replace(sentences=[*document.sentences, text], counterpart=None)
