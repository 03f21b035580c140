"""Scores of a retriever on a corpus, beside BM25: for both command lines and from Python."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from jaxtyping import Float64

from sentemb_core.config.run import ValidationConfig
from sentemb_core.corpus.given import Given, given_documents, read
from sentemb_core.corpus.sentences import same_text
from sentemb_core.corpus.table import Document, read_documents, write_rows
from sentemb_core.corpus.validation_pool import (
    SIDES,
    Kind,
    ValidationPool,
    write_validation_pool,
)
from sentemb_core.encoder.truncation import Cut, log_once
from sentemb_core.errors import EmptyCorpusError
from sentemb_core.evaluation.bm25_scores import bm25_scorers, pool_texts
from sentemb_core.evaluation.bootstrap import (
    Difference,
    Interval,
    by_unit,
    confidence_interval,
    paired_difference,
)
from sentemb_core.evaluation.metrics import values_of
from sentemb_core.evaluation.pool_size import few_candidates
from sentemb_core.evaluation.validation_scores import Scorers, rank_pool
from sentemb_core.formats import with_interval
from sentemb_core.progress import log_progress
from sentemb_core.retriever.choice import direction_units
from sentemb_core.retriever.pool import Query, pool_pairs, pool_scorers
from sentemb_core.retriever.retriever import Retriever

log = logging.getLogger(__name__)

MEASURES = ("R@1", "R@5", "R@10", "R@20", "MRR@10")

RETRIEVER, ALONE, WORDS = "this retriever", "vectors alone", "BM25"

Values = Float64[np.ndarray, " counterparts"]

Figures = dict[str, dict[str, Interval]]
"""Direction -> measure (`MEASURES`) -> mean over the queries, with its 95 % interval."""


@dataclass(frozen=True)
class Evaluation:
    """Figures of a retriever, of its vectors alone, and of BM25 on the same queries.

    Attributes:
        kind: counterpart: titles and documents look for each other; halves: halves of documents.
        queries: Number of queries by direction: "document to counterpart" and "counterpart to
            document"; of halves "first half to second half" and "second half to first half".
        candidates: Number of candidates by direction.
        systems: Figures by system.
        gains: The retriever's figures less those of BM25.
    """

    kind: Kind
    queries: dict[str, int]
    candidates: dict[str, int]
    systems: dict[str, Figures]
    gains: dict[str, dict[str, Difference]]

    def __str__(self) -> str:
        """A table of the means; below it the gain in MRR@10, whose interval decides."""
        width = max(map(len, self.queries))
        lines = [f"{'':14}  {'':{width}}  " + "  ".join(f"{name:>6}" for name in MEASURES)]
        for system, figures in self.systems.items():
            for way, cells in figures.items():
                shown = "  ".join(f"{cells[name].mean:6.3f}" for name in MEASURES)
                lines.append(f"{system:14}  {way:{width}}  {shown}")
        for way, gain in self.gains.items():
            lines.append(
                f"MRR@10, {way}: {RETRIEVER} minus {WORDS} {_verdict(gain['MRR@10'])} "
                f"({self.queries[way]:,} queries, {self.candidates[way]:,} candidates)."
            )
        return "\n".join(lines)


def _verdict(gain: Difference) -> str:
    shown = with_interval(gain.low, gain.mean, gain.high)
    if gain.low > 0:
        return f"{shown}, significantly better"
    return f"{shown}, significantly worse" if gain.high < 0 else f"{shown}, not decided"


def evaluate(
    retriever: Retriever, documents: str | Path | Iterable[Given], candidates: int = 3_000
) -> Evaluation:
    """Return how well documents and their titles find each other, with BM25 beside it.

    Without titles, the halves of each document look for each other. Intervals are bootstraps over
    the counterparts (`evaluation.bootstrap`).

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
    with TemporaryDirectory(prefix="sentemb-") as name:
        write_rows(Path(name) / "documents.parquet", rows)
        return evaluation_of_folder(retriever, Path(name), max(candidates, 2))


def evaluation_of_folder(retriever: Retriever, documents: Path, candidates: int) -> Evaluation:
    """Return the same for a folder that `write_documents` wrote; every document is a query."""
    table = documents / "documents.parquet"
    _warn_of_titles(read_documents(table))
    with TemporaryDirectory(prefix="sentemb-") as name:
        write_validation_pool(table, ValidationConfig(candidates=candidates), Path(name))
        if doubt := few_candidates(Path(name)):
            log.warning("%s", doubt)
        drawn = ValidationPool.open(Path(name))
    pool = replace(drawn, query_split=np.full(len(drawn.query_split), "test"))
    units = direction_units(pool, "test", None)
    query, candidate = SIDES[pool.kind]
    ways = f"{query} to {candidate}", f"{candidate} to {query}"
    values: dict[str, dict[str, dict[str, Values]]] = {}
    for system, scorers in _scorers(retriever, documents, pool).items():
        found = rank_pool(pool, scorers, "test")
        ranks = found.document_to_counterpart, found.counterpart_to_document
        values[system] = {
            way: {name: by_unit(values_of(name, each), of_way) for name in MEASURES}
            for way, each, of_way in zip(ways, ranks, units, strict=True)
        }
    own, words = values[RETRIEVER], values[WORDS]
    return Evaluation(
        kind=pool.kind,
        queries={way: len(of_way) for way, of_way in zip(ways, units, strict=True)},
        candidates=dict(zip(ways, (pool.n_candidates, len(pool.query_document)), strict=True)),
        systems={
            system: {
                way: {name: confidence_interval(each, 0) for name, each in measures.items()}
                for way, measures in found.items()
            }
            for system, found in values.items()
        },
        gains={
            way: {
                name: paired_difference(each, words[way][name], 0)
                for name, each in measures.items()
            }
            for way, measures in own.items()
        },
    )


def _scorers(retriever: Retriever, documents: Path, pool: ValidationPool) -> dict[str, Scorers]:
    """Return the scores of a retriever, of BM25, and of the retriever's vectors alone."""
    kind: Query = "counterpart" if pool.kind == "counterpart" else "first half"
    pair = pool_pairs(documents, pool)[kind]
    texts = retriever.read_sentences(pair.texts, documents=False)
    update = log_progress("read documents of the pool", sum(map(len, pair.documents)))
    cut = Cut()
    read = retriever.read_documents(pair.documents, update, cut)
    if cut.texts:
        log_once(cut.line("texts of the pool"))
    spec, alone = retriever.spec, retriever.spec.vectors_alone
    systems = {
        RETRIEVER: pool_scorers(spec, texts, read, kind),
        WORDS: bm25_scorers(*pool_texts(documents, pool)),
    }
    if alone and alone != spec:
        systems[ALONE] = pool_scorers(alone, texts, read, kind)
    return systems


def _warn_of_titles(documents: Iterable[Document]) -> None:
    equal = [
        document.counterpart is not None
        and same_text(document.counterpart) == same_text(" ".join(document.sentences))
        for document in documents
    ]
    if any(equal):
        log.warning(
            "titles that equal their texts: %d of %d. They find each other by any method, so the "
            "figures are too high.",
            sum(equal),
            len(equal),
        )
