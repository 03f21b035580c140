"""Labels to learn from, in the order of a hash: none whose document judges or whose text is sought.

A label is a counterpart of the corpus, or one of a file of labels.
"""

import logging
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq

from sentemb_core.corpus.checks import EXCERPT
from sentemb_core.corpus.label_files import MORE_LABELS
from sentemb_core.corpus.sentences import same_text
from sentemb_core.corpus.table import DocumentWriter, document_batches, read_documents
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
    """The labels to train on: `labels` of `available` were taken.

    judged: left out, for their text or their document is one of the pool.
    """

    labels: int
    available: int
    judged: int

    def summary(self) -> str:
        """One line for the log."""
        return (
            f"labels to train on: {self.labels:,} of {self.available:,}; not among them: "
            f"{self.judged:,}, whose text is looked for in the pool or whose document is held out"
        )


def write_labelled(
    documents: Path, benchmark: Path, share: float, count: int | None, out: Path
) -> LabelReport:
    """Documents to fine-tune on: the sentences of each, and its counterpart as the last one.

    Labels of documents outside the pool, in the order of a hash of the document's id, those of one
    document by a hash of both, so that a smaller count is part of a larger one. A label whose text
    is a candidate of the pool would teach an answer: it is left out. So is one of a document that
    is held out: where too few counterparts judge, halves of documents do.

    Args:
        documents: Folder that `write_documents` or `write_with_labels` filled.
        benchmark: Folder that `write_validation_pool` filled with the same `share`.
        share: `ValidationConfig.label_share`.
        count: Labels wanted. None: all.
        out: Folder for documents.parquet and report.json.

    Raises:
        EmptyPairsError: E102, fewer than two documents have a label to train on, or all labels
            say the same.
    """
    taken, report = drawn_labels(documents, benchmark, share, count)
    if count is not None and len(taken) < count:
        log.warning("labels asked for: %d; found: %d", count, len(taken))
    _write_pairs(documents / "documents.parquet", taken, out / "documents.parquet")
    (out / "report.json").write_text(report.model_dump_json(indent=1), encoding="utf-8")
    log.info("%s", report.summary())
    return report


def drawn_labels(
    documents: Path, benchmark: Path, share: float, count: int | None
) -> tuple[list[tuple[str, int, str]], LabelReport]:
    """Id, row and counterpart of each label that `write_labelled` takes, and what was left.

    Raises:
        EmptyPairsError: E102, as there.
    """
    pool = ValidationPool.open(benchmark)
    looked_for = {same_text(text) for text in pool.candidate_text if text}
    repeated = repeating(documents / "documents.parquet", set(pool.query_document.tolist()))
    judging = {*pool.held_out_documents.tolist(), *repeated}
    every = [label for label in _labels(documents) if is_label(label[0], share)]
    fair = [
        (doc_id, row, text)
        for doc_id, row, text in every
        if row not in judging and same_text(text) not in looked_for
    ]
    fair.sort(key=lambda label: unit_hash(LABEL, label[0]))
    taken = fair[:count]
    report = LabelReport(labels=len(taken), available=len(fair), judged=len(every) - len(fair))
    of_documents = len({row for _, row, _ in taken})
    if of_documents < 2:
        raise EmptyPairsError(
            "Fine-tuning needs labels of two documents at least, or it has nothing to contrast "
            f"with: found those of {of_documents}; {report.summary()}. Name a counterpart column "
            "or a file of labels, or raise labels.count or validation.label_share."
        )
    if len({same_text(text) for _, _, text in taken}) < 2:
        raise EmptyPairsError(
            "Fine-tuning needs two different counterparts at least, or it has nothing to contrast "
            f"with: all {len(taken)} labels say {taken[0][2][:EXCERPT]!r}. Name another column or "
            "file, or raise labels.count or validation.label_share."
        )
    return taken, report


def _labels(documents: Path) -> Iterator[tuple[str, int, str]]:
    """(id, row, counterpart) of every label; of a document with several, all by their hashes."""
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


def _write_pairs(documents: Path, taken: list[tuple[str, int, str]], out: Path) -> None:
    """Every label as a copy of its document, in the corpus's order."""
    texts: dict[int, list[str]] = {}
    for _, row, text in taken:
        texts.setdefault(row, []).append(text)
    with DocumentWriter(out) as writer:
        for row, document in enumerate(read_documents(documents)):
            for text in texts.get(row, ()):
                writer.write(
                    document._replace(sentences=[*document.sentences, text], counterpart=None)
                )
