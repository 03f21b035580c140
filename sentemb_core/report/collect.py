"""Collect what a run's report shows from the folders that its stages wrote."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten

import numpy as np
from jaxtyping import Float32, Int64
from threadpoolctl import threadpool_limits

from sentemb_core.annotation.clusters import Clusters
from sentemb_core.annotation.embeddings import Embeddings
from sentemb_core.annotation.pairs import read_report
from sentemb_core.annotation.pruning import clusters, pruned_edges
from sentemb_core.config.run import AnnotationConfig
from sentemb_core.corpus.table import document_batches
from sentemb_core.corpus.tokens import AT_ONCE, TokenCorpus
from sentemb_core.corpus.validation_pool import SIDES, Split, ValidationPool
from sentemb_core.encoder.checkpoint import load_encoder
from sentemb_core.evaluation.bootstrap import confidence_interval
from sentemb_core.evaluation.diagnostics import directions, spread
from sentemb_core.evaluation.round_values import annotation_numbers, read_diagnostics
from sentemb_core.evaluation.validation_scores import read_hits, read_ranks, read_scores
from sentemb_core.evaluation.vectors import encoder_scorers
from sentemb_core.report.data import (
    CUTOFF,
    READABLE,
    Curve,
    DocumentClusters,
    Kind,
    LostQuery,
    Projection,
    RoundRow,
)
from sentemb_core.training.state import read_steps
from sentemb_core.types import Positives

PROJECTED = (8, 300)
"""In the projection: whole documents, and single sentences around them."""

LOOKED_AT = 100
"""Documents among which the most changed document is selected."""

LOST_QUERIES = 10
JUDGED: Split = "validation"
"""The split of lost queries: reading queries of the test split would lead to tuning on it."""

BEGINNING = 200
"""Characters that are shown of a document."""

SEED = 42

Sentences = Int64[np.ndarray, " sentences"]
View = Callable[[Sentences], list[int]]
"""Sentences of a document -> their cluster labels under one encoder."""


@dataclass(frozen=True)
class RoundFolders:
    """The folders of one encoder of the run."""

    label: str
    kind: Kind
    encoder: Path
    scores: Path
    embeddings: Path | None = None
    log: Path | None = None
    clusters: Path | None = None
    pairs: Path | None = None
    diagnostics: Path | None = None
    seconds: float | None = None

    def vectors(self) -> Embeddings | None:
        return Embeddings(self.embeddings) if self.embeddings else None


@dataclass(frozen=True)
class RunFolders:
    """The folders of a run; `rounds[best]` is the best encoder that it could return.

    `returned` is the name of what it returned, and `served` the scores of a returned retriever.
    """

    documents: Path
    validation_pool: Path
    sentences: Path
    rounds: Sequence[RoundFolders]
    fixed: Mapping[str, Path]
    best: int
    annotation: AnnotationConfig
    returned: str = ""
    served: Path | None = None


@threadpool_limits.wrap(limits=1, user_api="blas")
def panels_of(run: RunFolders) -> dict[str, object]:
    """Return the data of the panels, by the fields of `RunReport`."""
    pool = ValidationPool.open(run.validation_pool)
    corpus = TokenCorpus.open(run.sentences)
    query, candidate = SIDES[pool.kind]
    return {
        "query": query,
        "candidate": candidate,
        "candidates": pool.n_candidates,
        "queries": {split: len(pool.queries(split)) for split in ("validation", "test")},
        "in_other_documents": pool.in_other_documents,
        "rounds": [
            round_row(
                folders,
                run.annotation.positives,
                best=number == run.best,
                returned=number == run.best and folders.label == run.returned,
            )
            for number, folders in enumerate(run.rounds)
        ],
        "served": run.served
        and RoundRow(
            label=run.returned, kind="retriever", returned=True, scores=read_scores(run.served)
        ),
        "fixed": [
            RoundRow(label=label, kind="fixed", scores=read_scores(path))
            for label, path in run.fixed.items()
        ],
        "document": document_before_and_after(run, corpus),
        "projections": projections(corpus, run.rounds),
        "lost_queries": lost_queries(run, corpus, pool),
    }


def round_row(
    folders: RoundFolders, positives: Positives, *, best: bool, returned: bool
) -> RoundRow:
    """Return the scores with their interval, and what the row's training and annotation left."""
    band = confidence_interval(read_hits(folders.scores, "validation", CUTOFF), SEED)
    row = RoundRow(
        label=folders.label,
        kind=folders.kind,
        best=best,
        returned=returned,
        scores=read_scores(folders.scores),
        low=band.low,
        high=band.high,
        seconds=folders.seconds,
        curve=curve(folders.log) if folders.log else None,
    )
    if not (folders.diagnostics and folders.pairs):
        return row
    diagnostics = read_diagnostics(folders.diagnostics)
    sizes: Mapping[str, int] = read_report(folders.pairs)["cluster_sizes"]
    return row.model_copy(
        update={
            "positives": positives,
            "numbers": annotation_numbers(folders.pairs, diagnostics),
            "cluster_sizes": {int(size): number for size, number in sizes.items()},
            "diagnostics": diagnostics,
        }
    )


def curve(log: Path) -> Curve:
    steps = read_steps(log)
    return Curve(
        step=steps["step"],
        loss=steps["loss"],
        learning_rate=steps["learning_rate"],
        gradient_norm=steps["gradient_norm"],
        pairs=json.loads((log / "report.json").read_text("utf-8"))["pairs"],
    )


def projections(corpus: TokenCorpus, rounds: Sequence[RoundFolders]) -> list[Projection]:
    """The same sentences under every trained encoder, without controls, on common axes.

    Encoders of different widths have no common axes, so then there is no projection.
    """
    shown = [folders for folders in rounds if folders.kind not in ("mapped", "control")]
    opened = [(folders.label, v) for folders in shown if (v := folders.vectors())]
    if not opened or len({vectors.dim for _, vectors in opened}) > 1:
        return []
    rng = np.random.default_rng(SEED)
    documents, others = PROJECTED
    drawn = rng.choice(corpus.n_documents, min(documents, corpus.n_documents), replace=False)
    whole = [np.arange(*span) for span in zip(*corpus.spans(drawn), strict=True)]
    around = rng.choice(len(corpus), min(others, len(corpus)), replace=False)
    rows = np.unique(np.concatenate([*whole, around]))
    group = np.unique(corpus.spans_of(rows)[0], return_inverse=True)[1].tolist()
    places = common_axes([directions(vectors.rows(rows)) for _, vectors in opened])
    return [
        Projection(label=label, x=place[:, 0].tolist(), y=place[:, 1].tolist(), group=group)
        for (label, _), place in zip(opened, places, strict=True)
    ]


def common_axes(
    vectors_by_round: Sequence[Float32[np.ndarray, "_ dim"]], n: int = 2
) -> list[Float32[np.ndarray, "_ _"]]:
    """Return the coordinates of every round's vectors on the first `n` principal axes of all.

    All rounds share one centre and one set of axes, so their positions can be compared. The
    largest loading of an axis is positive, so equal input gives equal output. The axes are
    eigenvectors of the [dim, dim] scatter matrix: an SVD of all rows took most of a report's time.

    Args:
        vectors_by_round: A round's vectors [sentences, dim], with one dim for all rounds, at least
            `n` rows in all, and dim >= n.
        n: Axes to keep.

    Returns:
        For each round [sentences, n].
    """
    everything = np.concatenate(vectors_by_round).astype(np.float64)
    centre = everything.mean(axis=0)
    around = everything - centre
    axes = np.linalg.eigh(around.T @ around)[1][:, : -n - 1 : -1].T
    largest = np.abs(axes).argmax(axis=1, keepdims=True)
    axes = axes * np.sign(np.take_along_axis(axes, largest, axis=1))
    return [((vectors - centre) @ axes.T).astype(np.float32) for vectors in vectors_by_round]


def document_before_and_after(run: RunFolders, corpus: TokenCorpus) -> DocumentClusters | None:
    """Return the document of readable size on which the first and the best encoder differ most."""
    views = views_of(run)
    readable = readable_documents(corpus)
    if not views or not len(readable):
        return None
    before, after = first_and_best(views, run.rounds[run.best].label)

    def change(document: int) -> float:
        rows = rows_of(corpus, document)
        return clustering_distance(before(rows), after(rows))

    document = max(readable[spread(len(readable), LOOKED_AT)].tolist(), key=change)
    rows = rows_of(corpus, document)
    name, counterpart = name_and_counterpart(run.documents, document)
    return DocumentClusters(
        name=name,
        counterpart=counterpart,
        sentences=corpus.texts(rows),
        clusters={label: view(rows) for label, view in views.items()},
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

    def view(rows: Sentences) -> list[int]:
        offsets = np.array([0, len(rows)])
        return clusters(pruned_edges(vectors.rows(rows), offsets, config), offsets).tolist()

    return view


def annotation_in(folder: Path) -> View:
    """The labels that a round's annotation stored."""
    stored = Clusters(folder)
    return lambda rows: stored.of(rows).tolist()


def clustering_distance(first: Sequence[int], second: Sequence[int]) -> float:
    """Share of the sentence pairs that share a cluster in only one of two clusterings."""
    together = [np.equal.outer(labels, labels) for labels in (first, second)]
    return float((together[0] != together[1]).mean())


def name_and_counterpart(documents: Path, document: int) -> tuple[str, str | None]:
    """A document's id, and its title, headline or query; None if it has none."""
    columns = ["doc_id", "counterpart"]
    for batch in document_batches(documents / "documents.parquet", columns):
        if document < len(batch):
            name, counterpart = (batch.column(one)[document].as_py() for one in columns)
            return name, counterpart
        document -= len(batch)
    raise IndexError(document)


def lost_queries(run: RunFolders, corpus: TokenCorpus, pool: ValidationPool) -> list[LostQuery]:
    """The queries with the worst ranks of the best encoder, and what it ranks first."""
    best = run.rounds[run.best]
    ranks = read_ranks(best.scores, JUDGED)
    worst = np.argsort(-ranks, kind="stable")[:LOST_QUERIES]
    worst = worst[ranks[worst] > 1]
    if not len(worst):
        return []
    asked = pool.with_queries(pool.queries(JUDGED)[worst])
    scorers = encoder_scorers(load_encoder(best.encoder), corpus, asked, best.vectors())
    first = scorers.document_to_counterpart(np.arange(len(worst))).argmax(axis=1)
    return [
        LostQuery(
            query=beginning(corpus.texts(rows_of(corpus, document))),
            wanted=candidate_text(corpus, pool, wanted),
            found=candidate_text(corpus, pool, found),
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


def candidate_text(corpus: TokenCorpus, pool: ValidationPool, candidate: int) -> str:
    """A counterpart, or the beginning of the second half of a document."""
    if pool.kind == "counterpart":
        return pool.candidate_text[candidate] or ""
    rows = rows_of(corpus, int(pool.candidate_document[candidate]))
    return beginning(corpus.texts(rows[(len(rows) + 1) // 2 :]))


def rows_of(corpus: TokenCorpus, document: int) -> Sentences:
    """Indices of a document's sentences."""
    (first,), (last,) = corpus.spans(np.array([document]))
    return np.arange(first, last)


def beginning(sentences: Sequence[str]) -> str:
    return shorten(" ".join(sentences), BEGINNING, placeholder=" ...")
