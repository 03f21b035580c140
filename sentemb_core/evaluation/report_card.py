"""Scores of a retriever on documents that a program has: `sentemb_core.evaluate`."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from sentemb_core.config.run import ValidationConfig
from sentemb_core.corpus.given import Given, given_documents, read
from sentemb_core.corpus.sentences import same_text
from sentemb_core.corpus.table import Document, write_rows
from sentemb_core.corpus.validation_pool import Kind
from sentemb_core.errors import EmptyCorpusError
from sentemb_core.evaluation.bootstrap import (
    Difference,
    Interval,
    confidence_interval,
    paired_difference,
)
from sentemb_core.evaluation.folder_scores import RETRIEVER, WORDS, retriever_ranks
from sentemb_core.evaluation.metrics import values_of
from sentemb_core.retriever.retriever import Retriever

log = logging.getLogger(__name__)

MEASURES = ("R@1", "R@5", "R@10", "R@20", "MRR@10")
WAYS = ("document to counterpart", "counterpart to document")

Figures = dict[str, dict[str, Interval]]
"""Direction (`WAYS`) -> measure (`MEASURES`) -> mean over the queries, with its 95 % interval."""


@dataclass(frozen=True)
class Evaluation:
    """Figures of a retriever, of its vectors alone, and of BM25 on the same queries.

    Attributes:
        kind: counterpart: titles and documents look for each other; halves: halves of documents.
        queries: Number of queries by direction.
        systems: Figures by system.
        gains: The retriever's figures less those of BM25.
    """

    kind: Kind
    queries: dict[str, int]
    systems: dict[str, Figures]
    gains: dict[str, dict[str, Difference]]

    def __str__(self) -> str:
        lines = [f"{'':18} {'':24} " + " ".join(f"{measure:>18}" for measure in MEASURES)]
        for system, figures in [*self.systems.items(), (f"minus {WORDS}", self.gains)]:
            for way in WAYS:
                cells = [figures[way][measure] for measure in MEASURES]
                shown = (f"{cell.mean:.3f} ({cell.low:.3f} to {cell.high:.3f})" for cell in cells)
                lines.append(f"{system:18} {way:24} " + " ".join(shown))
        return "\n".join(lines)


def evaluate(
    retriever: Retriever, documents: str | Path | Iterable[Given], candidates: int = 3_000
) -> Evaluation:
    """Return how well documents and their titles find each other, with BM25 beside it.

    Without titles, the halves of each document look for each other. Intervals are bootstraps over
    the queries (`evaluation.bootstrap`).

    Args:
        retriever: What is evaluated.
        documents: As for `Index.build`, or a source that `corpus.given.read` reads.
        candidates: Documents in the pool, drawn by a hash of their id.

    Raises:
        EmptyCorpusError: there is no document.
        EmptyPairsError: fewer than two documents have a title or two sentences.
    """
    given = read(documents) if isinstance(documents, str | Path) else given_documents(documents)
    rows = list(given)
    if not rows:
        raise EmptyCorpusError("An evaluation needs documents; found none. Name other documents.")
    _warn_of_titles(rows)
    with TemporaryDirectory(prefix="sentemb-") as name:
        write_rows(Path(name) / "documents.parquet", rows)
        config = ValidationConfig(candidates=max(candidates, 2))
        kind, ranks = retriever_ranks(retriever, Path(name), config)
    ways = {
        system: {WAYS[0]: each.document_to_counterpart, WAYS[1]: each.counterpart_to_document}
        for system, each in ranks.items()
    }
    return Evaluation(
        kind,
        {way: len(each) for way, each in ways[RETRIEVER].items()},
        {
            system: {
                way: {name: confidence_interval(values_of(name, each), 0) for name in MEASURES}
                for way, each in of_ways.items()
            }
            for system, of_ways in ways.items()
        },
        {
            way: {
                name: paired_difference(values_of(name, each), values_of(name, ways[WORDS][way]), 0)
                for name in MEASURES
            }
            for way, each in ways[RETRIEVER].items()
        },
    )


def _warn_of_titles(documents: list[Document]) -> None:
    equal = sum(
        document.counterpart is not None
        and same_text(document.counterpart) == same_text(" ".join(document.sentences))
        for document in documents
    )
    if equal:
        log.warning(
            "titles that equal their texts: %d of %d. They find each other by any method, so the "
            "figures are too high.",
            equal,
            len(documents),
        )
