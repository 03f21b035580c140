"""An experiment's table beside the paper's, for the terminal, for a document, for a program."""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

from sentemb_core.console import plain
from sentemb_core.experiments import (
    SECONDS,
    TITLE,
    Arm,
    Budget,
    Column,
    Experiment,
    SelfTrain,
    Train,
)
from sentemb_core.types import Json
from tasks.cells import across
from tasks.claims import Fated, fated
from tasks.findings import Cells, Finding, cells_of, value_of
from tasks.printed import AVERAGE, Printed

if TYPE_CHECKING:
    from rich.table import Table

    from sentemb_core.report.experiment import Mark
    from sentemb_core.report.panels import Panel


WHAT_CELLS_HOLD = "Mean ± standard deviation over the seeds [the paper's number, if it has one]"

READ_CURVES = (
    "A line is the mean over the seeds, its band their standard deviation; dashed lines have no "
    "place on the axis. What the paper printed has a panel of its own: other data, another height."
)
READ_MARKS = (
    "A dot is one seed, a bar the mean over them, grey what no seed changes. Every panel has a "
    "scale of its own."
)


class Told:
    """An experiment's findings as lines of text.

    Args:
        what: The experiment.
        budget: What each training was allowed.
        findings: Of the flow.
        settings: As they were asked for.
    """

    def __init__(
        self, what: Experiment, budget: Budget, findings: Sequence[Finding], settings: Json
    ) -> None:
        self.what = what
        self.budget = budget
        self.findings = findings
        self.settings = settings
        self.cells: Cells = cells_of(findings)
        self.printed = Printed(what)
        self.fates: list[Fated] = fated(what, self.cells)

    @property
    def averaged(self) -> bool:
        """Several judges, rather than several measures of one."""
        return len({(one.judge, one.corpus) for one in self.what.scored}) > 1

    @property
    def header(self) -> list[str]:
        placed = any(arm.x is not None for arm in self.what.arms)
        return [
            (placed and self.what.axis) or "",
            *(one.heading for one in self.what.columns),
            *([AVERAGE] if self.averaged else []),
        ]

    def lines(self) -> list[list[str]]:
        """Arm by arm: the mean, its deviation over the seeds, the paper's number in brackets."""
        return [
            [arm.label, *(self.cell(arm, one) for one in self.what.columns), *self.averages(arm)]
            for arm in self.what.arms
        ]

    def by_seed(self, arm: Arm, column: Column) -> dict[int, float]:
        """Seed -> value."""
        found = self.cells.get((arm.label, column.label), [])
        return {one.seed: value_of(one, column) for one in found}

    def values(self, arm: Arm, column: Column) -> list[float]:
        """One a seed."""
        return list(self.by_seed(arm, column).values())

    def cell(self, arm: Arm, column: Column) -> str:
        shown = across(self.values(arm, column), 0 if column.judge == SECONDS else 3)
        printed = self.printed.beside(arm, column)
        return f"{shown} [{printed:g}]" if printed is not None else shown

    def averages(self, arm: Arm) -> list[str]:
        """Over the columns, in the seeds under which the arm has all of them."""
        if not self.averaged:
            return []
        rows = [self.by_seed(arm, column) for column in self.what.scored]
        whole = sorted(set(rows[0]).intersection(*rows))
        if not whole:
            return [""]
        shown = across([mean(row[seed] for row in rows) for seed in whole])
        printed = self.printed.beside_average(arm, self.what.scored)
        return [f"{shown} [{printed:.4g}]" if printed is not None else shown]

    def notes(self) -> list[str]:
        """What the numbers are, what differs, and why cells are empty."""
        told = [self.cost()]
        if paper := self.printed.table:
            bracketed = any("[" in cell for line in self.lines() for cell in line[1:])
            where = "In brackets" if bracketed else "The paper"
            source = f"{where}: {paper.source} ({paper.measure})."
            told.append(" ".join(filter(None, (source, self.printed.elsewhere(), paper.note))))
        return [*told, f"What differs: {self.differs}", *self.failures()]

    @property
    def differs(self) -> str:
        """From the paper, in the budget that was allowed."""
        return self.budget.differs or self.what.differs

    def cost(self) -> str:
        """What each training was allowed, and the paper's; who judged; under which seeds."""
        budget, paper = self.budget, self.what.paper
        seeds = ", ".join(map(str, budget.seeds))
        told = [f"{allowed(self.what, budget)} a training"]
        if (budget.steps, budget.batch_size) != (paper.steps, paper.batch_size):
            told[0] += f" (the paper: {paper.steps:,} of {paper.batch_size:,})"
        if sample := self.settings.get("max_documents"):
            told.append(f"a sample of {sample:,} documents of each corpus")
        if any(one.judge == TITLE for one in self.what.scored):
            told.append(f"{budget.candidates:,} candidates")
        if len(budget.seeds) == 1:
            return f"{'; '.join(told)}; seed {seeds}."
        return f"{'; '.join(told)}; mean ± standard deviation over seeds {seeds}."

    def failures(self) -> list[str]:
        """Every error once, behind the cells that ended in it."""
        where: dict[str, list[str]] = {}
        for one in self.findings:
            if one.error:
                cell = f"{one.arm} in {one.column}, seed {one.seed}"
                where.setdefault(one.error.splitlines()[0], []).append(cell)
        return [f"{'; '.join(cells)}: {error}" for error, cells in where.items()]

    def verdicts(self) -> list[str]:
        """A line for each claim."""
        return [f"{one.fate}: {evidence(one)}" for one in self.fates]

    def markdown(self) -> str:
        """The table, its notes, its claims."""
        rule = ["---", *["---:"] * (len(self.header) - 1)]
        rows = "\n".join(f"| {' | '.join(row)} |" for row in (self.header, rule, *self.lines()))
        claims = "\n".join(f"- **{one.fate}**: {evidence(one)}" for one in self.fates)
        parts = [rows, claims, " ".join(self.notes()), f"```\n{self.command}\n```"]
        return "\n\n".join(filter(None, parts))

    @property
    def command(self) -> str:
        """What a person types to have it again."""
        asked = {k: v for k, v in self.settings.items() if k not in ("experiment", "data") and v}
        options = [
            f"--{name.replace('_', '-')} {' '.join(map(str, v)) if isinstance(v, list) else v}"
            for name, v in asked.items()
            if (name, v) != ("preset", "small")
        ]
        return " ".join(["python -m flows reproduce", self.what.id, *options])

    def table(self) -> "Table":
        """For the terminal."""
        from rich.table import Table

        table = Table(box=None, padding=(0, 1), header_style="bold", title=self.what.title)
        for number, name in enumerate(self.header):
            table.add_column(plain(name), justify="right" if number else "left")
        for line in self.lines():
            table.add_row(*map(plain, line))
        return table

    def json(self) -> Json:
        """Every number, and the claims."""
        return {
            "experiment": self.what.id,
            "title": self.what.title,
            "asked": self.settings,
            "differs": self.differs,
            "cells": [
                {
                    "arm": arm.label,
                    "x": arm.x,
                    "column": column.label,
                    "measure": column.measure,
                    "values": self.values(arm, column),
                    "paper": self.printed.beside(arm, column),
                }
                for arm in self.what.arms
                for column in self.what.columns
            ],
            "claims": [told_json(one) for one in self.fates],
            "errors": [one.model_dump(exclude={"result"}) for one in self.findings if one.error],
        }

    def write(self, folder: Path) -> Path:
        """table.json, page.html, and table.png if there is a number."""
        from sentemb_core.report.experiment import experiment_figure
        from sentemb_core.report.figures import Drawing
        from sentemb_core.report.panels import Panel, write_panels
        from sentemb_core.report.svg import png

        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.json(), indent=1, ensure_ascii=False) + "\n"
        (folder / "table.json").write_text(text, encoding="utf-8")
        title = f"{self.what.id}: {self.what.title}"
        drawing = None
        if marks := self.marks():
            figure = experiment_figure(marks, title, self.what.axis)
            drawing = Drawing("table", f"{self.what.title}, as in the table below", figure)
            (folder / "table.png").write_bytes(png(figure))
        panels = [
            self.claims_panel(),
            Panel("Table", [], drawing, self.reading, self.header, self.lines(), WHAT_CELLS_HOLD),
            Panel("How it was made", self.notes(), command=self.command),
        ]
        write_panels(title, "An experiment of sentemb", panels, folder)
        return folder

    @property
    def reading(self) -> str:
        """How to read the picture."""
        return READ_CURVES if self.what.axis else READ_MARKS

    def claims_panel(self) -> "Panel":
        """A line for each claim."""
        from sentemb_core.report.panels import Panel

        if not self.fates:
            return Panel("Claims", ["The paper claims nothing about it."])
        rows = [(one.fate, one.text, difference(one)) for one in self.fates]
        head = ("at our scale", "the claim", "the difference that decides, 95 %")
        caption = "What the paper says, and what we found"
        return Panel("Claims", head=head, rows=rows, caption=caption, numeric=False)

    def marks(self) -> "list[Mark]":
        """What the picture shows."""
        return [
            self.mark(arm, column, values)
            for arm in self.what.arms
            for column in self.what.columns
            if (values := self.values(arm, column))
        ]

    def mark(self, arm: Arm, column: Column, values: list[float]) -> "Mark":
        """A cell as a point; columns that lie on the axis are the points of their arm's curve."""
        from sentemb_core.report.experiment import Mark

        if column.x is not None:
            return Mark(
                column=self.what.title,
                arm=f"{arm.label}, {column.label}",
                x=column.x,
                curve=arm.label,
                values=values,
                paper=None,
            )
        return Mark(
            column=column.heading,
            arm=arm.label,
            x=arm.x,
            curve=arm.curve,
            values=values,
            paper=self.printed.of_row(arm, column),
            printed=self.printed.heading(column),
        )


def allowed(what: Experiment, budget: Budget) -> str:
    """Steps and batch of its trainings, from the least to the most where arms differ."""
    steps = [one for arm in what.arms for one in arm.steps if isinstance(one, Train | SelfTrain)]
    lengths = [max(1, round(budget.steps * one.times)) for one in steps]
    batches = [getattr(one, "batch_size", None) or budget.batch_size for one in steps]
    batch = budget.batch or span(batches or [budget.batch_size])
    return f"{span(lengths or [budget.steps])} steps of {batch}"


def span(numbers: Sequence[int]) -> str:
    """The number, or the least and the most of them."""
    return " to ".join(f"{number:,}" for number in sorted({min(numbers), max(numbers)}))


def told_json(claim: Fated) -> Json:
    """A claim, its fate, and the rival that it hangs on."""
    deciding = claim.deciding.model_dump() if claim.deciding else None
    return claim.model_dump() | {"fate": claim.fate, "deciding": deciding}


def evidence(claim: Fated) -> str:
    """The claim, and the difference that decides it."""
    return f"{claim.text}. {difference(claim)}"


def difference(claim: Fated) -> str:
    """To the rival that decides, and in how many seeds it is above."""
    if not (rival := claim.deciding):
        return "There is nothing to compare yet."
    of = f" (of {len(claim.rivals)} the one that decides)" if len(claim.rivals) > 1 else ""
    above = f"above {-rival.margin:+.3f}" if rival.margin else "above"
    missing = f" Not compared: {', '.join(claim.missing)}." if claim.missing else ""
    return (
        f"{claim.better} less {rival.than}{of}: {rival.difference:+.3f} "
        f"({rival.low:+.3f} to {rival.high:+.3f}), {above} in {rival.better_in} of "
        f"{rival.seeds} seeds.{missing}"
    )
