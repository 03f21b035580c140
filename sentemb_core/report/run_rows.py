"""What the tables and sentences of a run's page say: rows of cells, for `templates/run.html`."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from markupsafe import Markup

from sentemb_core.annotation.statistics import KEPT_SHARE_WARNING
from sentemb_core.corpus.checks import REASONS
from sentemb_core.formats import ABSENT, count, decimal, duration, letters, percent
from sentemb_core.report.data import (
    CUTOFF,
    CUTOFFS,
    DocumentClusters,
    Evaluation,
    FixedRow,
    Labelling,
    Refusals,
    RoundRow,
    RunReport,
    SentencePair,
)
from sentemb_core.report.drawing import HUES
from sentemb_core.report.legends import COUNTS, FIXED, OTHER, OWN, SUITE, Legend
from sentemb_core.report.page import code, macros, quoted
from sentemb_core.report.run_figures import seconds_by_stage

MATES_SHOWN = 10

Rows = list[list[str]]
"""Cells as text or as markup."""


class Tile(NamedTuple):
    """One of the numbers at the top of the page."""

    name: Markup
    score: float
    gain: float | None
    """Against the start; None for the start itself and for fixed rows."""


def tiles(report: RunReport) -> list[Tile]:
    """The start, the best encoder, whitened encoders, a round and its control, a fixed row."""
    best = [row for row in report.rounds if row.best and row.kind != "start"][:1]
    chosen: list[RoundRow | FixedRow] = [
        *[row for row in report.rounds if row.kind == "start"][:1],
        *best,
        *[row for row in report.rounds if row.kind == "mapped" and not row.best],
        *[row for row in round_and_control(report.rounds) if row not in best],
        *report.fixed[:1],
    ]
    scores = [(row, row.validation.forward.get(CUTOFF)) for row in chosen]
    measured = [(row, score) for row, score in scores if score is not None]
    return [
        Tile(
            named(row),
            score,
            score - measured[0][1] if isinstance(row, RoundRow) and row.kind != "start" else None,
        )
        for row, score in measured
    ]


def round_and_control(rows: Sequence[RoundRow]) -> list[RoundRow]:
    """The best round and the control of as many steps; the last ones, if no round is the best.

    Of cycles the control only: it is the same labels without any round.
    """
    rounds = [row for row in rows if row.kind == "round"]
    controls = [row for row in rows if row.kind == "control"]
    if len(rounds) != len(controls) or any(row.kind == "fine-tuned" for row in rows):
        return controls[-1:]
    matched = list(zip(rounds, controls, strict=True))
    return [*next((pair for pair in matched if pair[0].best), matched[-1])] if matched else []


def returned_for_its_head(report: RunReport) -> bool:
    """Whether the run returned the encoder of a Condenser stage."""
    return any(row.best and row.label == "after condenser" for row in report.rounds)


def fine_tuned(report: RunReport) -> bool:
    return any(row.kind == "fine-tuned" for row in report.rounds)


def has_controls(report: RunReport) -> bool:
    return any(row.kind == "control" for row in report.rounds)


def named(row: FixedRow | RoundRow) -> Markup:
    """A row's label, with a badge if it is the best encoder."""
    best = isinstance(row, RoundRow) and row.best
    badge = Markup(' <span class="badge">best</span>') if best else Markup("")
    return Markup("<span>{}{}</span>").format(quoted(row.label), badge)


recall_head = ["Encoder", *(2 * [f"R@{k}" for k in CUTOFFS]), "Time"]


def recall_groups(report: RunReport) -> list[tuple[str, int]]:
    width = len(CUTOFFS)
    return [("", 1), (report.forward, width), (report.backward, width), ("", 1)]


def recall_caption(report: RunReport, split: str, role: str) -> str:
    queries = f", {count(report.queries[split])} queries" if split in report.queries else ""
    pool = f" among {count(report.candidates)} candidates" if report.candidates else ""
    return f"{split.capitalize()} split{queries}{pool}: {role}"


def recall(report: RunReport, split: str) -> Rows:
    """Recall@k of both directions on one split."""
    encoders: list[FixedRow | RoundRow] = [*report.fixed, *report.rounds]
    scores = [(row, getattr(row, split)) for row in encoders]
    return [
        [
            named(row),
            *(decimal(both.forward.get(k)) for k in CUTOFFS),
            *(decimal(both.backward.get(k)) for k in CUTOFFS),
            duration(row.seconds if isinstance(row, RoundRow) else None),
        ]
        for row, both in scores
        if both.forward or both.backward
    ]


def document_head(document: DocumentClusters) -> list[str]:
    return ["No.", "Sentence", *(quoted(labels.label) for labels in document.rounds)]


def document(document: DocumentClusters) -> Rows:
    """The sentences of a document and their cluster under each encoder."""
    columns = [(document.rounds[0], document.rounds[0]), *pairwise(document.rounds)]
    return [
        [
            str(place + 1),
            quoted(sentence),
            *(_chip(labels, before, place) for before, labels in columns),
        ]
        for place, sentence in enumerate(document.sentences)
    ]


def _chip(labels: Labelling, before: Labelling, place: int) -> str:
    """Letter of the sentence's cluster and the numbers of its mates."""
    mates = _mates(labels.clusters, place)
    cluster = labels.clusters[place]
    return macros("run.html").chip(
        letters(cluster),
        cluster % len(HUES),
        ", ".join(str(mate + 1) for mate in mates[:MATES_SHOWN]),
        max(len(mates) - MATES_SHOWN, 0),
        mates != _mates(before.clusters, place),
    )


def _mates(clusters: Sequence[int], place: int) -> list[int]:
    own = clusters[place]
    return [k for k, cluster in enumerate(clusters) if cluster == own and k != place]


def annotated(report: RunReport) -> list[RoundRow]:
    """The rounds that annotated."""
    return [row for row in report.rounds if row.kept_share is not None or row.pairs is not None]


def any_value(rows: Sequence[RoundRow], name: str) -> bool:
    """Whether a value of that name was measured in any row."""
    return any(getattr(row, name) is not None for row in rows)


def any_clusters(rows: Sequence[RoundRow]) -> bool:
    return any(row.positives == "cluster" for row in rows)


def any_related(rows: Sequence[RoundRow]) -> bool:
    return any(row.positives == "related" for row in rows)


def pairs_share_a_cluster(report: RunReport) -> bool:
    """Whether the pairs of every annotation are those of its clusters."""
    return all(row.positives == "cluster" for row in report.rounds)


def listed(rows: Sequence[RoundRow], name: str) -> Markup:
    """`99 % in round 1, 98 % in round 2`."""
    measured = [(row, value) for row in rows if (value := getattr(row, name)) is not None]
    return Markup(", ").join(
        Markup("{} in {}").format(percent(value), quoted(row.label)) for row, value in measured
    )


def annotation(rows: Sequence[RoundRow]) -> Rows:
    """What each encoder's annotation found."""
    return [
        [
            named(row),
            percent(row.kept_share),
            decimal(row.clusters_per_document, 1),
            count(row.pairs),
            percent(row.adjacent_share),
            percent(row.related_share),
            decimal(row.churn, 2),
            _turnover(row),
            percent(row.lexical_overlap),
        ]
        for row in rows
    ]


def _turnover(row: RoundRow) -> str:
    if row.new_share is None or row.gone_share is None:
        return ABSENT
    return f"{percent(row.new_share)}, {percent(row.gone_share)}"


def kept_share_warnings(rows: Iterable[RoundRow]) -> list[str]:
    """One text for each annotation whose clusters kept too large a share of the pairs."""
    return [
        f"{row.label}: {percent(row.kept_share)} of all pairs inside documents were kept, above "
        f"{percent(KEPT_SHARE_WARNING)}. The clusters have grown into whole documents: lower "
        "top_k, set mutual = true or, for k-means, raise n_clusters."
        for row in rows
        if row.positives == "cluster"
        and row.kept_share is not None
        and row.kept_share > KEPT_SHARE_WARNING
    ]


def geometry(report: RunReport) -> Rows:
    return [
        [
            named(row),
            decimal(row.alignment),
            decimal(row.uniformity),
            decimal(row.effective_rank, 1),
        ]
        for row in report.rounds
        if row.alignment is not None
    ]


def training(report: RunReport) -> Rows:
    """Steps and pairs of every training, and pairs per second where its stage was timed."""
    seconds = {curve.label: 0.0 for curve in report.curves}
    for timing in report.timings:
        if timing.stage == "train_encoder" and timing.round in seconds:
            seconds[timing.round] += timing.seconds
    return [
        [
            quoted(curve.label),
            count(len(curve.step)),
            count(curve.pairs),
            duration(seconds[curve.label] or None),
            count(round(curve.pairs / seconds[curve.label])) if seconds[curve.label] else ABSENT,
        ]
        for curve in report.curves
    ]


def pairs(pairs: Sequence[SentencePair]) -> Rows:
    return [[decimal(pair.cosine), quoted(pair.left), quoted(pair.right)] for pair in pairs]


def lost(report: RunReport) -> Rows:
    return [
        [count(row.rank), quoted(row.query), quoted(row.wanted), quoted(row.found)]
        for row in report.lost_queries
    ]


def suite(evaluation: Evaluation) -> Rows:
    return [[quoted(cell) for cell in row] for row in evaluation.rows]


def suite_legend(evaluation: Evaluation) -> Legend:
    own, *others = evaluation.systems
    fixed = {name: FIXED if name in evaluation.fixed else OTHER for name in others}
    return SUITE | {own: OWN} | fixed


def corpus(report: RunReport) -> Rows:
    return [
        [quoted(label.replace("_", " ").capitalize()), _plain(value), COUNTS.get(label, "")]
        for label, value in report.corpus.items()
    ]


def _plain(value: int | float | str) -> Markup:
    if isinstance(value, str):
        return quoted(value)
    return quoted(count(value) if isinstance(value, int) else decimal(value))


def refused_by_reason(refused: Refusals) -> Rows:
    return [
        [quoted(reason), REASONS.get(reason, ""), count(n), percent(n / max(refused.read, 1))]
        for reason, n in refused.counts.items()
    ]


def first_refused(refused: Refusals) -> Rows:
    return [
        [count(row.row), quoted(row.excerpt), quoted(row.reason), quoted(row.where)]
        for row in refused.rows
    ]


def ran_and_hits(report: RunReport) -> tuple[list[float], list[float]]:
    """Seconds of the stages that ran, and of those whose result the store had."""
    ran, hits = (
        [timing.seconds for timing in report.timings if timing.hit is hit] for hit in (False, True)
    )
    return ran, hits


def stages_by_kind(report: RunReport) -> Rows:
    rows: Rows = []
    for stage, seconds in seconds_by_stage(report.timings).items():
        hits = [timing.hit for timing in report.timings if timing.stage == stage]
        counts = count(hits.count(False)), count(hits.count(True))
        rows.append([quoted(stage), *counts, duration(seconds)])
    return rows


def stages(report: RunReport) -> Rows:
    return [
        [
            quoted(timing.stage),
            quoted(timing.round) if timing.round else ABSENT,
            "hit" if timing.hit else "ran",
            duration(timing.seconds),
        ]
        for timing in report.timings
    ]


def facts(report: RunReport) -> Rows:
    link = Markup('<a href="{}" rel="noreferrer"><bdi>{}</bdi></a>')
    return [
        [quoted(fact.label), link.format(fact.link, fact.value) if fact.link else code(fact.value)]
        for fact in report.facts
    ]


def settings(report: RunReport) -> Rows:
    return [[quoted(path), code(value)] for path, value in report.settings.items()]
