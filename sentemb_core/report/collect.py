"""From the folders that a run's stages left behind to what its report shows."""

import json
from collections.abc import Mapping, Sequence
from heapq import nsmallest
from operator import itemgetter
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from jaxtyping import Float32

from sentemb_core.annotation.pairs import read_report
from sentemb_core.corpus.label_files import REJECTED, LabelCounts
from sentemb_core.corpus.tokenise import TokenReport
from sentemb_core.corpus.tokens import TokenCorpus
from sentemb_core.corpus.validation_pool import COUNTED, SIDES, ValidationPool
from sentemb_core.evaluation.bootstrap import confidence_interval
from sentemb_core.evaluation.diagnostics import directions
from sentemb_core.evaluation.round_diagnostics import Pair, annotation_numbers
from sentemb_core.evaluation.validation_scores import (
    DirectionScores,
    RetrievalScores,
    read_ranks,
    read_scores,
)
from sentemb_core.report.data import (
    CUTOFF,
    CUTOFFS,
    ClusterSizes,
    Curve,
    Directions,
    FixedRow,
    Move,
    PairPoints,
    Place,
    Projection,
    QuarantineRow,
    Refusals,
    RoundRow,
    RunReport,
    SentencePair,
    Similarities,
)
from sentemb_core.report.examples import document_before_and_after, lost_queries
from sentemb_core.report.folders import RoundFolders, RunFolders
from sentemb_core.training.state import read_steps
from sentemb_core.types import Positives

PROJECTED = (8, 300)
"""In the picture of the vectors: whole documents, and single sentences around them."""

QUARANTINED = 20
"""Refused rows shown."""

SEED = 42


def report_of(run: RunFolders, words: RunReport) -> RunReport:
    """`words` (title, verdict, facts, timings, ...) with every panel that the folders can fill."""
    benchmark = ValidationPool.open(run.benchmark)
    corpus = TokenCorpus.open(run.sentences)
    trained = [folders for folders in run.rounds if folders.log]
    annotated = [folders for folders in run.rounds if folders.diagnostics]
    last = annotated[-1].found() if annotated else None
    query, candidate = SIDES[benchmark.kind]
    panels: dict[str, object] = {
        "query": query,
        "candidate": candidate,
        "candidates": benchmark.n_candidates,
        "queries": {split: len(benchmark.queries(split)) for split in ("validation", "test")},
        "in_other_documents": benchmark.in_other_documents,
        "rounds": [
            round_row(folders, run.annotation.positives, best=number == run.best)
            for number, folders in enumerate(run.rounds)
        ],
        "fixed": [fixed_row(label, path) for label, path in run.fixed.items()],
        "document": document_before_and_after(run, corpus),
        "cluster_sizes": [sizes for folders in annotated if (sizes := cluster_sizes(folders))],
        "similarities": similarities(annotated),
        "moves": [move for folders in annotated if (move := moved(folders))],
        "overlaps": [points for folders in annotated if (points := overlap(folders))],
        "projections": projections(corpus, run.rounds),
        "curves": [curve(folders) for folders in trained],
        "best_pairs": [shown(pair) for pair in last.best] if last else [],
        "worst_pairs": [shown(pair) for pair in last.worst] if last else [],
        "lost_queries": lost_queries(run, corpus, benchmark),
        **corpus_counts(run.documents, run.sentences),
    }
    return words.model_copy(update=panels)


def round_row(folders: RoundFolders, positives: Positives, *, best: bool) -> RoundRow:
    """Scores with their band, and what the annotation behind the row found."""
    scores = read_scores(folders.scores)
    hits = (read_ranks(folders.scores, "validation") <= CUTOFF).astype(np.float64)
    band = confidence_interval(hits, SEED)
    row = RoundRow(
        label=folders.label,
        kind=folders.kind,
        best=best,
        validation=both_ways(scores.get("validation")),
        test=both_ways(scores.get("test")),
        low=band.low,
        high=band.high,
        seconds=folders.seconds,
    )
    found = folders.found()
    if not (found and folders.pairs):
        return row
    numbers = annotation_numbers(folders.pairs, found)
    shown = {name: value for name, value in numbers.items() if name in RoundRow.model_fields}
    return row.model_copy(update={"positives": positives} | shown)


def fixed_row(label: str, scores: Path) -> FixedRow:
    read = read_scores(scores)
    return FixedRow(
        label=label,
        validation=both_ways(read.get("validation")),
        test=both_ways(read.get("test")),
    )


def both_ways(scores: RetrievalScores | None) -> Directions:
    if scores is None:
        return Directions()
    return Directions(
        forward=recalls(scores.document_to_counterpart),
        backward=recalls(scores.counterpart_to_document),
    )


def recalls(scores: DirectionScores) -> dict[int, float | None]:
    told = scores.model_dump()
    return {k: told[f"recall_at_{k}"] for k in CUTOFFS}


def cluster_sizes(folders: RoundFolders) -> ClusterSizes | None:
    if not folders.pairs:
        return None
    told = read_report(folders.pairs)["cluster_sizes"]
    return ClusterSizes(
        label=folders.label, sizes=[int(size) for size in told], counts=list(told.values())
    )


def similarities(annotated: Sequence[RoundFolders]) -> list[Similarities]:
    """Of the first annotator, then of the encoder after each round."""
    told: list[Similarities] = []
    for folders in annotated:
        found = folders.found()
        if found is None:
            continue
        sides = [("before " + folders.label, found.before)] if not told else []
        for label, side in [*sides, ("after " + folders.label, found.after)]:
            if side:
                told.append(
                    Similarities(
                        label=label,
                        edges=side.edges,
                        positives=side.positives,
                        negatives=side.negatives,
                    )
                )
    return told


def moved(folders: RoundFolders) -> Move | None:
    """None where the vectors of either encoder were not kept."""
    found = folders.found()
    if not (found and found.before and found.after):
        return None
    before, after = (
        Place(alignment=side.alignment, uniformity=side.shape.uniformity)
        for side in (found.before, found.after)
    )
    return Move(label=folders.label, before=before, after=after)


def overlap(folders: RoundFolders) -> PairPoints | None:
    found = folders.found()
    if found is None or found.before is None:
        return None
    return PairPoints(label=folders.label, jaccard=found.jaccard, cosine=found.cosine)


def projections(corpus: TokenCorpus, rounds: Sequence[RoundFolders]) -> list[Projection]:
    """The same sentences under every encoder that learnt, controls left out, on common axes.

    A map may leave fewer dimensions, which have no axes in common with the others.
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


def curve(folders: RoundFolders) -> Curve:
    assert folders.log is not None
    told = read_steps(folders.log)
    return Curve(
        label=folders.label,
        step=told["step"],
        loss=told["loss"],
        learning_rate=told["learning_rate"],
        gradient_norm=told["gradient_norm"],
        pairs=json.loads((folders.log / "report.json").read_text("utf-8"))["pairs"],
    )


def shown(pair: Pair) -> SentencePair:
    return SentencePair(left=pair.left, right=pair.right, cosine=pair.cosine)


def corpus_counts(documents: Path, sentences: Path) -> dict[str, object]:
    """Counts of the reader, and what it and the reader of labels refused."""
    tokens = TokenReport.model_validate_json((sentences / "meta.json").read_text("utf-8"))
    told = json.loads((documents / "report.json").read_text("utf-8"))
    counts = {name.replace("_", " "): n for name, n in told.items() if isinstance(n, int)}
    return {
        "corpus": counts | {"read by the encoder": tokens.cut},
        "quarantine": refusals(
            told["rows_read"], told["quarantined"], documents / "quarantine.parquet"
        ),
        "labels": refused_labels(documents),
    }


def refused_labels(documents: Path) -> Refusals | None:
    """None where no file of labels gave the counterparts."""
    if not (documents / COUNTED).exists():
        return None
    counts = LabelCounts.model_validate_json((documents / COUNTED).read_text("utf-8"))
    return refusals(counts.rows_read, counts.refused, documents / REJECTED)


def refusals(read: int, counts: Mapping[str, int], refused: Path) -> Refusals:
    """With the first refused rows in the source's order: a repeated id is found late."""
    with pq.ParquetFile(refused) as file:
        told = (row for batch in file.iter_batches() for row in batch.to_pylist())
        rows = nsmallest(QUARANTINED, told, key=itemgetter("row"))
    return Refusals(
        read=read,
        counts=dict(counts),
        rows=[QuarantineRow(**row) for row in rows],
        file=str(refused) if rows else "",
    )


def common_axes(
    vectors_by_round: Sequence[Float32[np.ndarray, "_ dim"]], n: int = 2
) -> list[Float32[np.ndarray, "_ _"]]:
    """Coordinates of every round's vectors on the first `n` principal axes of all of them.

    One centre and one set of axes for all rounds, so a point that moves has moved. The sign of an
    axis is free; here the largest loading is positive, so equal input gives equal output. The axes
    are eigenvectors of the [dim, dim] scatter: an SVD of all rows took most of a report's time.

    Args:
        vectors_by_round: per round float32 [sentences, dim], one dim for all; at least `n` rows
            in all and dim >= n.
        n: axes to keep.

    Returns:
        Per round float32 [sentences, n].
    """
    everything = np.concatenate(vectors_by_round).astype(np.float64)
    centre = everything.mean(axis=0)
    around = everything - centre
    axes = np.linalg.eigh(around.T @ around)[1][:, : -n - 1 : -1].T
    largest = np.abs(axes).argmax(axis=1, keepdims=True)
    axes = axes * np.sign(np.take_along_axis(axes, largest, axis=1))
    return [((vectors - centre) @ axes.T).astype(np.float32) for vectors in vectors_by_round]
