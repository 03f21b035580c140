"""Labels to train on, in the order of a hash, without labels of the validation pool.

A label is a counterpart of the corpus, or a text of a label file.
"""

import logging
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq

from sentemb_core.corpus.checks import EXCERPT
from sentemb_core.corpus.label_files import MORE_LABELS
from sentemb_core.corpus.sentences import same_text
from sentemb_core.corpus.table import Document, document_batches, read_documents, write_rows
from sentemb_core.corpus.validation_pool import (
    LABEL,
    ValidationPool,
    is_label,
    repeating,
    unit_hash,
)
from sentemb_core.errors import EmptyPairsError
from sentemb_core.types import Value

log = logging.getLogger(__name__)


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
    for batch in document_batches(documents / "documents.parquet", ["doc_id", "counterpart"]):
        begin = len(ids)
        ids += batch.column("doc_id").to_pylist()
        for row, text in enumerate(batch.column("counterpart").to_pylist(), begin):
            if text is not None:
                yield ids[row], row, text
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
