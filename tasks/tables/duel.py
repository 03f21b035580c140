"""Which differences of two models are real: rows of paired bootstraps, for people and programs."""

from typing import TYPE_CHECKING

from sentemb_core.config.suite import GROUPS
from sentemb_core.console import terminal_table
from sentemb_core.formats import counted
from sentemb_core.types import ArtifactRef, Json, Value
from tasks.benchmark import Placed, comparison_of
from tasks.tables.bm25_note import bm25_note, fields_of
from tasks.tables.scoreboard import (
    Score,
    absences,
    averaged_tasks,
    lengths_note,
    max_lengths,
    models_told,
    not_run,
    refused,
)
from tasks.tables.scoreboard_tables import overlap_json, overlap_tables

if TYPE_CHECKING:
    from rich.table import Table

    from sentemb_core.evaluation.comparison import Comparison

MANY = 10
"""Rows from which on a twentieth of them is a number worth telling."""


class Duel(Value):
    """Two models on the tasks that both can do; averages come after the tasks they are of.

    encoders: of those models that are no fixed row. left_out: tasks that a fixed row cannot do.
    overlap: what the training corpus has of the tasks' texts, if one was named.
    """

    models: dict[str, str]
    encoders: dict[str, ArtifactRef]
    tasks: list[Placed]
    left_out: list[str]
    scores: list[Score]
    rows: list[ArtifactRef]
    averages: list[ArtifactRef]
    overlap: ArtifactRef | None = None


def verdict_of(found: "Comparison", first: str, second: str) -> str:
    """The better one, if the interval leaves out 0."""
    return {"first": first, "second": second, "undecided": "not decided"}[found.verdict]


def left_out(duel: Duel) -> list[str]:
    """A line on the tasks that a fixed row cannot do, if there are any."""
    if not duel.left_out:
        return []
    fixed = " and ".join(label for label in duel.models if label not in duel.encoders)
    names = ", ".join(duel.left_out)
    return [f"Left out, for a probe reads vectors, and there are none of {fixed}: {names}."]


def duel_json(duel: Duel) -> Json:
    """Every row as shares and correlations."""
    first, second = duel.models
    rows, means = (
        [
            found.model_dump() | {"better": verdict_of(found, first, second)}
            for found in map(comparison_of, refs)
        ]
        for refs in (duel.rows, duel.averages)
    )
    return {
        "models": duel.models,
        "encoders": {name: encoder.digest for name, encoder in duel.encoders.items()},
        "max_length": max_lengths(duel.encoders),
        "values": "shares and correlations; low and high bound the 95 % interval of first - second",
        "tasks": rows,
        "averages": means,
        "left_out": duel.left_out,
        "not_run": not_run(duel.tasks),
        "refused": refused(duel.scores),
        "overlap": overlap_json(duel.overlap),
    }


def duel_tables(duel: Duel) -> "list[Table | str]":
    """The rows, what has no number, and what the whole comes to."""
    first, second = duel.models
    head = ("task", "measure", "units", first, second, "difference", "interval", "better")
    rows = [comparison_of(ref) for ref in duel.rows]
    lines = [
        [
            found.task,
            found.measure,
            f"{found.units:,}",
            f"{100 * found.first:.1f}",
            f"{100 * found.second:.1f}",
            f"{100 * found.difference:+.1f}",
            f"{100 * found.low:+.1f} to {100 * found.high:+.1f}",
            verdict_of(found, first, second),
        ]
        for found in (*rows, *map(comparison_of, duel.averages))
    ]
    return [
        f"{first} less {second}, times 100, with the 95 % interval of the difference.",
        terminal_table(head, lines, range(2, 7), folded=True),
        *absences(duel.tasks, duel.scores),
        *left_out(duel),
        *([ending(duel, rows)] if rows else []),
        *models_told(duel.models, duel.encoders),
        *filter(None, [lengths_note(duel.encoders)]),
        *bm25_note(duel.models.keys() - duel.encoders.keys(), fields_of(duel.tasks)),
        *overlap_tables(duel.overlap),
    ]


def ending(duel: Duel, rows: "list[Comparison]") -> str:
    """What the whole comes to; of one encoder under two names, that it is one."""
    first, second = duel.models
    if len({encoder.digest for encoder in duel.encoders.values()}) < len(duel.encoders):
        return f"{first} and {second} are one encoder."
    return conclusion(rows, duel.tasks, first, second)


def conclusion(found: "list[Comparison]", tasks: list[Placed], first: str, second: str) -> str:
    """How many differences are real, and how many such an interval calls real by chance.

    Of the tasks that averages are of: SICK-R's test split counts once, and not in `all` again.
    """
    counting = {name for group in GROUPS for name in averaged_tasks(tasks, group)}
    rows = [row for row in found if row.task in counting]
    others = ", ".join(row.task for row in found if row.task not in counting)
    won = {side: sum(row.verdict == side for row in rows) for side in ("first", "second")}
    by_chance = f": {len(rows) / 20:.1f} of these" if len(rows) >= MANY else ""
    undecided = len(rows) - sum(won.values())
    return (
        f"{first} is better on {won['first']} of {counted(len(rows), 'task')}, {second} on "
        f"{won['second']}; not decided: {undecided}. Between two equal models one in twenty "
        f"differences would look real{by_chance}."
        f"{f' Not counted, as in averages: {others}.' if others else ''}"
    )
