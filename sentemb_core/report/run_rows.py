"""What the tables and sentences of a run's page say: rows of cells, for `templates/run.html`."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from markupsafe import Markup

from sentemb_core.annotation.statistics import KEPT_SHARE_WARNING
from sentemb_core.corpus.checks import REASONS
from sentemb_core.corpus.validation_pool import Split
from sentemb_core.evaluation.round_values import Diagnostics, Pair
from sentemb_core.formats import ABSENT, change, count, decimal, duration, letters, percent
from sentemb_core.report.data import (
    CUTOFFS,
    CandidateRow,
    DocumentClusters,
    Evaluation,
    Refusals,
    RoundRow,
    RunReport,
    ServedRow,
    measured,
    seconds_by_stage,
)
from sentemb_core.report.drawing import HUES
from sentemb_core.report.legends import COUNTS, FIXED, OTHER, OWN, SUITE, Legend
from sentemb_core.report.page import code, macros, quoted

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
    """The start, what was returned, maps, a round and its control, BM25: on the test split."""
    best = [row for row in report.rounds if row.best and row.kind != "start"][:1]
    chosen = [
        *[row for row in report.rounds if row.kind == "start"][:1],
        *best,
        *[row for row in report.rounds if row.kind == "mapped" and not row.best],
        *[row for row in round_and_control(report.rounds) if row not in best],
        *([report.served] if report.served else []),
        *report.fixed[:1],
    ]
    scores = [(row, row.recall("test", "forward")) for row in chosen]
    scored = [(row, score) for row, score in scores if score is not None]
    return [
        Tile(named(row), score, None if row.kind in ("start", "fixed") else score - scored[0][1])
        for row, score in scored
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


def named(row: RoundRow) -> Markup:
    """A row's label, with a badge if the run returned it."""
    badge = Markup(' <span class="badge">returned</span>') if row.returned else Markup("")
    return Markup("<span>{}{}</span>").format(quoted(row.label), badge)


def served(systems: Sequence[ServedRow]) -> Rows:
    """BM25, the start encoder and the retriever on the test split."""
    return [
        [
            quoted(row.name),
            gain_text(row.gain, row.low, row.high),
            decimal(row.to_counterparts),
            decimal(row.to_documents),
        ]
        for row in systems
    ]


def gain_text(gain: float | None, low: float | None, high: float | None) -> str:
    """A difference with its interval: +0.057 (+0.031 to +0.083)."""
    if gain is None or low is None or high is None:
        return ABSENT
    return f"{change(gain)} ({change(low)} to {change(high)})"


def candidates(compared: Sequence[CandidateRow]) -> Rows:
    """Every retriever or encoder that was compared, and why it was not chosen."""
    return [
        [
            Markup("<span>{}{}</span>").format(
                quoted(row.label),
                "" if row.why_not else Markup(' <span class="badge">chosen</span>'),
            ),
            ", ".join(row.parts),
            count(row.width),
            decimal(row.mrr),
            gain_text(row.to_best, row.low, row.high),
            quoted(row.why_not) if row.why_not else ABSENT,
        ]
        for row in compared
    ]


recall_head = ["Encoder", *(2 * [f"R@{k}" for k in CUTOFFS]), "Time"]


def recall_groups(report: RunReport) -> list[tuple[str, int]]:
    width = len(CUTOFFS)
    return [("", 1), (report.forward, width), (report.backward, width), ("", 1)]


def recall_caption(report: RunReport, split: str, role: str) -> str:
    queries = f", {count(report.queries[split])} queries" if split in report.queries else ""
    pool = f" among {count(report.candidates)} candidates" if report.candidates else ""
    return f"{split.capitalize()} split{queries}{pool}: {role}"


def recall(report: RunReport, split: Split) -> Rows:
    """Recall@k of both directions on one split."""
    return [
        [
            named(row),
            *(decimal(row.recall(split, "forward", k)) for k in CUTOFFS),
            *(decimal(row.recall(split, "backward", k)) for k in CUTOFFS),
            duration(row.seconds),
        ]
        for row in (*report.fixed, *report.rounds, *([report.served] if report.served else []))
        if split in row.scores
    ]


def document_head(document: DocumentClusters) -> list[str]:
    return ["No.", "Sentence", *map(quoted, document.clusters)]


def document(document: DocumentClusters) -> Rows:
    """The sentences of a document and their cluster under each encoder."""
    clusters = list(document.clusters.values())
    columns = [(clusters[0], clusters[0]), *pairwise(clusters)]
    return [
        [
            str(place + 1),
            quoted(sentence),
            *(_chip(labels, before, place) for before, labels in columns),
        ]
        for place, sentence in enumerate(document.sentences)
    ]


def _chip(labels: Sequence[int], before: Sequence[int], place: int) -> str:
    """Letter of the sentence's cluster and the numbers of its mates."""
    mates = _mates(labels, place)
    return macros("run.html").chip(
        letters(labels[place]),
        labels[place] % len(HUES),
        ", ".join(str(mate + 1) for mate in mates[:MATES_SHOWN]),
        max(len(mates) - MATES_SHOWN, 0),
        mates != _mates(before, place),
    )


def _mates(clusters: Sequence[int], place: int) -> list[int]:
    own = clusters[place]
    return [k for k, cluster in enumerate(clusters) if cluster == own and k != place]


def annotated(report: RunReport) -> list[RoundRow]:
    """The rounds that annotated."""
    return [row for row in report.rounds if row.numbers]


def last_diagnostics(report: RunReport) -> Diagnostics | None:
    return next((row.diagnostics for row in reversed(report.rounds) if row.diagnostics), None)


def pairs_share_a_cluster(report: RunReport) -> bool:
    """Whether the pairs of every annotation are those of its clusters."""
    return all(row.positives == "cluster" for row in report.rounds)


def listed(rows: Sequence[RoundRow], name: str) -> Markup:
    """`99 % in round 1, 98 % in round 2`."""
    return Markup(", ").join(
        Markup("{} in {}").format(percent(row.numbers[name]), quoted(row.label))
        for row in measured(rows, name)
    )


def annotation(rows: Sequence[RoundRow]) -> Rows:
    """What each encoder's annotation found."""
    return [
        [
            named(row),
            percent(row.numbers.get("kept_share")),
            decimal(row.numbers.get("clusters_per_document"), 1),
            count(row.numbers.get("pairs")),
            percent(row.numbers.get("adjacent_share")),
            percent(row.numbers.get("related_share")),
            decimal(row.numbers.get("churn"), 2),
            _turnover(row.numbers.get("new_share"), row.numbers.get("gone_share")),
            percent(row.numbers.get("lexical_overlap")),
        ]
        for row in rows
    ]


def _turnover(new: float | None, gone: float | None) -> str:
    return ABSENT if new is None or gone is None else f"{percent(new)}, {percent(gone)}"


def kept_share_warnings(rows: Iterable[RoundRow]) -> list[str]:
    """One text for each annotation whose clusters kept too large a share of the pairs."""
    return [
        f"{row.label}: {percent(share)} of all pairs inside documents were kept, above "
        f"{percent(KEPT_SHARE_WARNING)}. The clusters have grown into whole documents: lower "
        "top_k, set mutual = true or, for k-means, raise n_clusters."
        for row in rows
        for share in [row.numbers.get("kept_share")]
        if row.positives == "cluster" and share is not None and share > KEPT_SHARE_WARNING
    ]


def geometry(report: RunReport) -> Rows:
    return [
        [
            named(row),
            decimal(row.numbers["alignment"]),
            decimal(row.numbers["uniformity"]),
            decimal(row.numbers["effective_rank"], 1),
        ]
        for row in measured(report.rounds, "alignment")
    ]


def training(report: RunReport) -> Rows:
    """Steps and pairs of every training, and pairs per second where its stage was timed."""
    rows: Rows = []
    for row in report.rounds:
        if row.curve:
            timings = [one for one in report.timings if one.round == row.label]
            seconds = sum(one.seconds for one in timings if one.stage == "train_encoder")
            steps, pairs = len(row.curve.step), row.curve.pairs
            speed = count(round(pairs / seconds)) if seconds else ABSENT
            cost = duration(seconds or None)
            rows.append([quoted(row.label), count(steps), count(pairs), cost, speed])
    return rows


def pairs(pairs: Sequence[Pair]) -> Rows:
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
        [
            quoted(label.replace("_", " ").capitalize()),
            quoted(value if isinstance(value, str) else count(value)),
            COUNTS.get(label, ""),
        ]
        for label, value in report.corpus.items()
    ]


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


def copied(values: Mapping[str, str]) -> Rows:
    """Names and values to copy."""
    return [[quoted(name), code(value)] for name, value in values.items()]
