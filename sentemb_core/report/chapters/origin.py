"""The end of the page: what was read and refused, where the time went, how to repeat the run."""

from sentemb_core.corpus.checks import REASONS
from sentemb_core.formats import ABSENT, count, counted, decimal, duration, percent
from sentemb_core.report.chapters.parts import (
    Drawings,
    explained,
    footnote,
    nothing_to_show,
    panel,
)
from sentemb_core.report.data import Refusals, RunReport
from sentemb_core.report.figures.timings import seconds_by_stage
from sentemb_core.report.legends import BY_STAGE, COUNTS, EVERY_STAGE, FIRST_REFUSED, REFUSED
from sentemb_core.report.markup import Html, join, quoted, table, tag


def data(report: RunReport, drawings: Drawings) -> Html:
    """What was read and what was refused."""
    read = [
        [_spelled(label), _plain(value), COUNTS.get(label, "")]
        for label, value in report.corpus.items()
    ]
    return join(
        [
            table("Corpus", ["Count", "Value", "Meaning"], read, numeric=False)
            if read
            else nothing_to_show("The reader left no counts."),
            _refusals("row", report.quarantine)
            or nothing_to_show("No row was refused: the quarantine is empty."),
            _refusals("label", report.labels)
            or nothing_to_show(f"None of {counted(report.labels.read, 'label')} was refused.")
            if report.labels
            else "",
        ]
    )


def _refusals(row: str, found: Refusals) -> Html:
    """Counts and shares by reason, the first examples, and where all are; nothing if none is."""
    if not found.counts:
        return Html("")
    by_reason = [
        [quoted(reason), REASONS.get(reason, ""), count(n), percent(n / max(found.read, 1))]
        for reason, n in found.counts.items()
    ]
    first = [
        [count(one.row), quoted(one.excerpt), quoted(one.reason), quoted(one.where)]
        for one in found.rows
    ]
    caption = f"Quarantine: refused {row}s of {count(found.read)} by reason"
    return join(
        [
            explained(caption, REFUSED, by_reason, numeric=False),
            explained(f"First refused {row}s", FIRST_REFUSED, first, numeric=False),
            tag("p", f"All refused {row}s: ", tag("code", quoted(found.file)), class_="caption"),
        ]
    )


def _spelled(label: str) -> Html:
    return quoted(label.replace("_", " ").capitalize())


def _plain(value: int | float | str) -> Html:
    if isinstance(value, str):
        return quoted(value)
    return quoted(count(value) if isinstance(value, int) else decimal(value))


def timings(report: RunReport, drawings: Drawings) -> Html:
    """Seconds and cache hits by stage, then every single stage."""
    if not report.timings:
        return nothing_to_show("No stage was timed.")
    hits = [timing.hit for timing in report.timings]
    by_stage = [
        [quoted(stage), *_ran_and_hit(report, stage), duration(seconds)]
        for stage, seconds in seconds_by_stage(report.timings).items()
    ]
    every = [
        [
            quoted(timing.stage),
            quoted(timing.round) if timing.round else ABSENT,
            "hit" if timing.hit else "ran",
            duration(timing.seconds),
        ]
        for timing in report.timings
    ]
    spent, saved = (
        sum((timing.seconds for timing in report.timings if timing.hit is hit), 0.0)
        for hit in (False, True)
    )
    found = f"; {hits.count(True)} came from the store, which saved {duration(saved)}"
    return join(
        [
            tag(
                "p",
                f"{counted(hits.count(False), 'stage')} ran in {duration(spent)}"
                f"{found if any(hits) else ''}.",
            ),
            panel(
                drawings.get("timings", ()),
                "Wall time by kind of stage, all rounds together; a hit counts with what it took "
                "when it was computed.",
            ),
            explained("Stages by kind", BY_STAGE, by_stage),
            tag(
                "details",
                tag("summary", "Every stage in order"),
                explained("Every stage in order", EVERY_STAGE, every),
            ),
        ]
    )


def _ran_and_hit(report: RunReport, stage: str) -> tuple[str, str]:
    hits = [timing.hit for timing in report.timings if timing.stage == stage]
    return count(hits.count(False)), count(hits.count(True))


def reproduce(report: RunReport, drawings: Drawings) -> Html:
    """The command and the facts it depends on."""
    rows = [
        [
            quoted(fact.label),
            tag("a", quoted(fact.value), href=fact.link, rel="noreferrer")
            if fact.link
            else tag("code", quoted(fact.value)),
        ]
        for fact in report.facts
    ]
    settings = [
        [quoted(path), tag("code", quoted(value))] for path, value in report.settings.items()
    ]
    return join(
        [
            tag("pre", tag("code", report.command), class_="scroll", tabindex=0),
            footnote(
                "This command repeats the run; equal data and versions give equal digests. The "
                "file of its settings lies beside this page, wherever that was copied."
            ),
            table("Facts of this run", ["Fact", "Value"], rows, numeric=False)
            if rows
            else nothing_to_show("No digests or versions were recorded."),
            tag(
                "details",
                tag("summary", "Every setting"),
                table("Every setting", ["Setting", "Value"], settings, numeric=False),
            )
            if settings
            else "",
        ]
    )
