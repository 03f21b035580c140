"""Collect what a run's report shows from the folders that its stages wrote."""

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
"""In the projection: whole documents, and single sentences around them."""

QUARANTINED = 20
"""Most refused rows that are shown."""

SEED = 42


def report_of(run: RunFolders, texts: RunReport) -> RunReport:
    """Return `texts` (title, verdict, facts, timings, ...) with the data of every panel."""
    benchmark = ValidationPool.open(run.benchmark)
    corpus = TokenCorpus.open(run.sentences)
    trained = [folders for folders in run.rounds if folders.log]
    annotated = [folders for folders in run.rounds if folders.diagnostics]
    last = annotated[-1].read_diagnostics() if annotated else None
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
    return texts.model_copy(update=panels)


def round_row(folders: RoundFolders, positives: Positives, *, best: bool) -> RoundRow:
    """Scores with their interval, and the numbers of the annotation behind the row."""
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
    diagnostics = folders.read_diagnostics()
    if not (diagnostics and folders.pairs):
        return row
    numbers = annotation_numbers(folders.pairs, diagnostics)
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
    values = scores.model_dump()
    return {k: values[f"recall_at_{k}"] for k in CUTOFFS}


def cluster_sizes(folders: RoundFolders) -> ClusterSizes | None:
    if not folders.pairs:
        return None
    histogram = read_report(folders.pairs)["cluster_sizes"]
    sizes = [int(size) for size in histogram]
    return ClusterSizes(label=folders.label, sizes=sizes, counts=list(histogram.values()))


def similarities(annotated: Sequence[RoundFolders]) -> list[Similarities]:
    """Under the first annotator, then under the encoder after each round."""
    histograms: list[Similarities] = []
    for folders in annotated:
        diagnostics = folders.read_diagnostics()
        if diagnostics is None:
            continue
        before = [("before " + folders.label, diagnostics.before)] if not histograms else []
        for label, side in [*before, ("after " + folders.label, diagnostics.after)]:
            if side:
                histograms.append(
                    Similarities(
                        label=label,
                        edges=side.edges,
                        positives=side.positives,
                        negatives=side.negatives,
                    )
                )
    return histograms


def moved(folders: RoundFolders) -> Move | None:
    """None where the vectors of either encoder were not kept."""
    diagnostics = folders.read_diagnostics()
    if not (diagnostics and diagnostics.before and diagnostics.after):
        return None
    before, after = (
        Place(alignment=side.alignment, uniformity=side.shape.uniformity)
        for side in (diagnostics.before, diagnostics.after)
    )
    return Move(label=folders.label, before=before, after=after)


def overlap(folders: RoundFolders) -> PairPoints | None:
    diagnostics = folders.read_diagnostics()
    if diagnostics is None or diagnostics.before is None:
        return None
    return PairPoints(label=folders.label, jaccard=diagnostics.jaccard, cosine=diagnostics.cosine)


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


def curve(folders: RoundFolders) -> Curve:
    assert folders.log is not None
    steps = read_steps(folders.log)
    return Curve(
        label=folders.label,
        step=steps["step"],
        loss=steps["loss"],
        learning_rate=steps["learning_rate"],
        gradient_norm=steps["gradient_norm"],
        pairs=json.loads((folders.log / "report.json").read_text("utf-8"))["pairs"],
    )


def shown(pair: Pair) -> SentencePair:
    return SentencePair(left=pair.left, right=pair.right, cosine=pair.cosine)


def corpus_counts(documents: Path, sentences: Path) -> dict[str, object]:
    """Counts of the reader of documents, and the rows that it and the reader of labels refused."""
    tokens = TokenReport.model_validate_json((sentences / "meta.json").read_text("utf-8"))
    read = json.loads((documents / "report.json").read_text("utf-8"))
    counts = {name.replace("_", " "): n for name, n in read.items() if isinstance(n, int)}
    return {
        "corpus": counts | {"read by the encoder": tokens.cut},
        "quarantine": refusals(
            read["rows_read"], read["quarantined"], documents / "quarantine.parquet"
        ),
        "labels": refused_labels(documents),
    }


def refused_labels(documents: Path) -> Refusals | None:
    """None where the counterparts are not from a file of labels."""
    if not (documents / COUNTED).exists():
        return None
    counts = LabelCounts.model_validate_json((documents / COUNTED).read_text("utf-8"))
    return refusals(counts.rows_read, counts.refused, documents / REJECTED)


def refusals(read: int, counts: Mapping[str, int], refused: Path) -> Refusals:
    """The first refused rows in the order of the source; a repeated id is noticed late."""
    with pq.ParquetFile(refused) as file:
        refused_rows = (row for batch in file.iter_batches() for row in batch.to_pylist())
        rows = nsmallest(QUARANTINED, refused_rows, key=itemgetter("row"))
    return Refusals(
        read=read,
        counts=dict(counts),
        rows=[QuarantineRow(**row) for row in rows],
        file=str(refused) if rows else "",
    )


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
