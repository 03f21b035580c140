"""Texts of a run: one document before and after, and the queries with the worst ranks."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from textwrap import shorten

import numpy as np
from jaxtyping import Int64

from sentemb_core.annotation.clusters import Clusters
from sentemb_core.annotation.embeddings import Embeddings
from sentemb_core.annotation.pruning import clusters, pruned_edges
from sentemb_core.config.run import AnnotationConfig
from sentemb_core.corpus.table import document_batches
from sentemb_core.corpus.tokens import AT_ONCE, TokenCorpus
from sentemb_core.corpus.validation_pool import Split, ValidationPool
from sentemb_core.encoder.checkpoint import load_encoder
from sentemb_core.evaluation.validation_scores import read_ranks
from sentemb_core.evaluation.vectors import encoder_scorers
from sentemb_core.report.data import READABLE, DocumentClusters, Labelling, LostQuery
from sentemb_core.report.folders import RunFolders

LOOKED_AT = 100
"""Documents among which the most changed document is selected."""

LOST_QUERIES = 10
JUDGED: Split = "validation"
"""The split of lost queries: reading queries of the test split would lead to tuning on it."""

BEGINNING = 200
"""Characters that are shown of a document."""

Rows = Int64[np.ndarray, " sentences"]
View = Callable[[Rows], list[int]]
"""Sentences of a document -> their cluster labels under one encoder."""


def document_before_and_after(run: RunFolders, corpus: TokenCorpus) -> DocumentClusters | None:
    """Return the document of readable size on which the first and the best encoder differ most."""
    views = views_of(run)
    readable = readable_documents(corpus)
    if not views or not len(readable):
        return None
    before, after = first_and_best(views, run.rounds[run.best].label)
    step = max(1, len(readable) // LOOKED_AT)

    def change(document: int) -> float:
        rows = rows_of(corpus, document)
        return clustering_distance(before(rows), after(rows))

    document = max(readable[::step].tolist(), key=change)
    rows = rows_of(corpus, document)
    return DocumentClusters(
        name=column_of(run.documents, document, "doc_id") or "",
        counterpart=column_of(run.documents, document, "counterpart"),
        sentences=corpus.texts(rows),
        rounds=[Labelling(label=label, clusters=view(rows)) for label, view in views.items()],
    )


def first_and_best(views: Mapping[str, View], best: str) -> tuple[View, View]:
    """The first view and that of the best encoder; the last if the best is the first or unknown."""
    first, *others = views
    after = best if best in others else [first, *others][-1]
    return views[first], views[after]


def readable_documents(corpus: TokenCorpus) -> Int64[np.ndarray, " documents"]:
    """The documents of readable size; of a large corpus, those in some of its shards."""
    readable: list[np.ndarray] = []
    for shard in corpus.shards[:: -(-len(corpus.shards) // AT_ONCE)]:
        lengths = np.diff(corpus.shard_offsets(shard.index))
        fits = (lengths >= READABLE[0]) & (lengths <= READABLE[1])
        readable.append(shard.documents.start + np.flatnonzero(fits))
    return np.concatenate(readable)


def views_of(run: RunFolders) -> dict[str, View]:
    """The view of every encoder; without stored vectors, the annotation of every round."""
    if run.annotation.clustering == "partition":
        rows = [folders for folders in run.rounds if folders.kind != "control"]
        stored = {row.label: vectors for row in rows if (vectors := row.vectors())}
        if stored:
            return {label: partition_by(v, run.annotation) for label, v in stored.items()}
    return {
        f"annotation of {folders.label}": annotation_in(folders.clusters)
        for folders in run.rounds
        if folders.clusters
    }


def partition_by(vectors: Embeddings, config: AnnotationConfig) -> View:
    """The clusters of a document as a round computes them from these vectors."""

    def view(rows: Rows) -> list[int]:
        offsets = np.array([0, len(rows)])
        return clusters(pruned_edges(vectors.rows(rows), offsets, config), offsets).tolist()

    return view


def annotation_in(folder: Path) -> View:
    """The labels that a round's annotation stored."""
    stored = Clusters.open(folder)
    return lambda rows: stored.of(rows).tolist()


def clustering_distance(first: Sequence[int], second: Sequence[int]) -> float:
    """Share of the sentence pairs that share a cluster in only one of two clusterings."""
    together = [np.equal.outer(labels, labels) for labels in (first, second)]
    return float((together[0] != together[1]).mean())


def column_of(documents: Path, document: int, column: str) -> str | None:
    """A document's id, or its title, headline or query; None if it has none."""
    for batch in document_batches(documents / "documents.parquet", [column]):
        if document < len(batch):
            return batch.column(column)[document].as_py()
        document -= len(batch)
    return None


def lost_queries(
    run: RunFolders, corpus: TokenCorpus, benchmark: ValidationPool
) -> list[LostQuery]:
    """The queries with the worst ranks of the best encoder, and what it ranks first."""
    best = run.rounds[run.best]
    ranks = read_ranks(best.scores, JUDGED)
    worst = np.argsort(-ranks, kind="stable")[:LOST_QUERIES]
    worst = worst[ranks[worst] > 1]
    if not len(worst):
        return []
    asked = benchmark.with_queries(benchmark.queries(JUDGED)[worst])
    scorers = encoder_scorers(load_encoder(best.encoder), corpus, asked, best.vectors())
    first = scorers.document_to_counterpart(np.arange(len(worst))).argmax(axis=1)
    return [
        LostQuery(
            query=beginning(corpus.texts(rows_of(corpus, document))),
            wanted=candidate_text(corpus, benchmark, wanted),
            found=candidate_text(corpus, benchmark, found),
            rank=rank,
        )
        for document, wanted, found, rank in zip(
            asked.query_document.tolist(),
            asked.query_candidate.tolist(),
            first.tolist(),
            ranks[worst].tolist(),
            strict=True,
        )
    ]


def candidate_text(corpus: TokenCorpus, benchmark: ValidationPool, candidate: int) -> str:
    """A counterpart, or the beginning of the second half of a document."""
    if benchmark.kind == "counterpart":
        return benchmark.candidate_text[candidate] or ""
    rows = rows_of(corpus, int(benchmark.candidate_document[candidate]))
    return beginning(corpus.texts(rows[(len(rows) + 1) // 2 :]))


def rows_of(corpus: TokenCorpus, document: int) -> Rows:
    """Indices of a document's sentences."""
    (first,), (last,) = corpus.spans(np.array([document]))
    return np.arange(first, last)


def beginning(sentences: Sequence[str]) -> str:
    return shorten(" ".join(sentences), BEGINNING, placeholder=" ...")
