"""The top of the page: the verdict with its four numbers, and what moved."""

from collections.abc import Sequence

from sentemb_core.formats import change, count, decimal, duration
from sentemb_core.report.chapters.clusters import kept_share_warnings
from sentemb_core.report.chapters.parts import (
    Drawings,
    badge,
    footnote,
    named,
    nothing_to_show,
    panel,
)
from sentemb_core.report.data import CUTOFF, CUTOFFS, FixedRow, RoundRow, RunReport
from sentemb_core.report.legends import RECALL
from sentemb_core.report.markup import Html, join, legend, quoted, table, tag


def verdict(report: RunReport, drawings: Drawings) -> Html:
    """The outcome in words, its numbers, what a reader must know beside them, what to do next."""
    notes = [tag("li", quoted(note)) for note in report.notes]
    warned = [tag("li", text, class_="warning") for text in kept_share_warnings(report.rounds)]
    return join(
        [
            tag("p", quoted(report.verdict), class_="verdict"),
            _tiles(report),
            tag("ul", *warned, *notes, class_="notes") if warned or notes else "",
            tag("p", quoted(report.registry)) if report.registry else "",
            tag("p", "Search with it: ", tag("code", quoted(report.use))) if report.use else "",
        ]
    )


def _tiles(report: RunReport) -> Html:
    """Start, best, what a map made, a round beside its control, and the first fixed row."""
    best = [row for row in report.rounds if row.best and row.kind != "start"][:1]
    chosen = [
        *[row for row in report.rounds if row.kind == "start"][:1],
        *best,
        *[row for row in report.rounds if row.kind == "mapped" and not row.best],
        *[row for row in _round_and_its_control(report.rounds) if row not in best],
        *report.fixed[:1],
    ]
    scores = [(row, row.validation.forward.get(CUTOFF)) for row in chosen]
    measured = [(row, score) for row, score in scores if score is not None]
    if not measured:
        return Html("")
    start = measured[0][1]
    tiles = [
        tag(
            "div",
            tag("dt", quoted(row.label), badge(row)),
            tag("dd", decimal(score)),
            tag("dd", f"{change(score - start)} against the start", class_="delta")
            if getattr(row, "kind", "fixed") not in ("start", "fixed")
            else "",
        )
        for row, score in measured
    ]
    return join([tag("dl", *tiles, class_="tiles"), footnote(_rule(report))])


def _rule(report: RunReport) -> str:
    """What the deciding metric counts, and which encoder is the best by it."""
    pool = f"{count(report.candidates)} " if report.candidates else ""
    condensed = any(row.best and row.label == "after condenser" for row in report.rounds)
    tuned = any(row.kind == "fine-tuned" for row in report.rounds)
    said = (
        " Candidates that other documents have as a sentence, and that may have been trained on as "
        f"such: {count(report.in_other_documents)}."
        if report.in_other_documents
        else ""
    )
    return (
        f"{report.metric}: the share of the queries that find their answer among the first "
        f"{CUTOFF} of {pool}candidates. Best is the encoder returned: "
        f"{'the last, for its head' if condensed else 'the highest, of equals the earlier'}"
        f"{'; cycles return the best of the fine-tuned.' if tuned else '.'}{said}"
    )


def _round_and_its_control(rows: Sequence[RoundRow]) -> list[RoundRow]:
    """The best round and the control of as many steps; the last ones, if no round is the best.

    Of cycles the control alone: it is the same labels without any round.
    """
    rounds = [row for row in rows if row.kind == "round"]
    controls = [row for row in rows if row.kind == "control"]
    if len(rounds) != len(controls) or any(row.kind == "fine-tuned" for row in rows):
        return controls[-1:]
    beside = list(zip(rounds, controls, strict=True))
    return [*next((pair for pair in beside if pair[0].best), beside[-1])] if beside else []


def what_moved(report: RunReport, drawings: Drawings) -> Html:
    """The deciding metric by round, then every Recall@k on both splits."""
    if not report.rounds:
        return nothing_to_show("No encoder was validated, so no metric can be shown.")
    controls = any(row.kind == "control" for row in report.rounds)
    diamonds = "; diamonds are the controls: as much training without self-annotation."
    return join(
        [
            panel(
                drawings["recall"],
                f"R@{CUTOFF} of every encoder. Solid circles are the validation split, "
                "which decides; squares on the dotted line are the test split, which decides "
                "nothing. The band is the 95 % bootstrap interval of the validation score; dashed "
                f"lines are fixed rows (validation){diamonds if controls else '.'}",
            ),
            _recall_table(report, "validation", "decides the best round"),
            _recall_table(report, "test", "reported, never decided on"),
            legend(RECALL),
        ]
    )


def _recall_table(report: RunReport, split: str, role: str) -> Html:
    rows: list[FixedRow | RoundRow] = [*report.fixed, *report.rounds]
    directions = [(row, getattr(row, split)) for row in rows]
    body = [
        [
            named(row),
            *(decimal(both.forward.get(k)) for k in CUTOFFS),
            *(decimal(both.backward.get(k)) for k in CUTOFFS),
            duration(row.seconds if isinstance(row, RoundRow) else None),
        ]
        for row, both in directions
        if both.forward or both.backward
    ]
    if not body:
        return nothing_to_show(f"Nothing was measured on the {split} split.")
    columns = [f"R@{k}" for k in CUTOFFS]
    width = len(CUTOFFS)
    asked = f", {count(report.queries[split])} queries" if split in report.queries else ""
    pool = f" among {count(report.candidates)} candidates" if report.candidates else ""
    return table(
        f"{split.capitalize()} split{asked}{pool}: {role}",
        ["Encoder", *columns, *columns, "Time"],
        body,
        groups=[("", 1), (report.forward, width), (report.backward, width), ("", 1)],
    )
