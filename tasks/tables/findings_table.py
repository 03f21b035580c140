"""An experiment's table beside the paper's, for the terminal, for a document, for a program."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import mean
from types import MappingProxyType
from typing import TYPE_CHECKING

from sentemb_core.config.experiments import (
    CASE,
    SECONDS,
    TITLE,
    Arm,
    Budget,
    Column,
    Experiment,
    SelfTrain,
    Train,
)
from sentemb_core.console import terminal_table
from sentemb_core.types import Json
from tasks.checks import starts_static
from tasks.tables.bm25_note import ONE_FIELD, bm25_note
from tasks.tables.claims import DIGITS, ClaimResult, fated
from tasks.tables.findings import ArmResult, Cells, cells_of, result_in, value_of
from tasks.tables.grouped import grouped
from tasks.tables.markdown import across, markdown_table
from tasks.tables.printed import AVERAGE, Printed
from tasks.tables.seen import overlap_notes, pool_notes

if TYPE_CHECKING:
    from rich.table import Table

    from sentemb_core.corpus.validation_pool import PoolReport
    from sentemb_core.evaluation.overlap import Overlap


class FindingsTable:
    """An experiment's findings as lines of text.

    Args:
        what: The experiment.
        budget: What each training was allowed.
        findings: Of the flow.
        settings: As they were asked for.
        left_out: Columns without their files, and which these are.
        overlaps: Judge -> what of its texts stands in what the arms read.
        pools: Column -> its pool of titles; of several on one corpus the first.
        unmeasured: Corpus that the arms read -> why it is not known for that one.
    """

    def __init__(
        self,
        what: Experiment,
        budget: Budget,
        findings: Sequence[ArmResult],
        settings: Json,
        left_out: Mapping[str, Sequence[str]] = MappingProxyType({}),
        overlaps: "Mapping[str, Overlap]" = MappingProxyType({}),
        pools: "Mapping[str, PoolReport]" = MappingProxyType({}),
        unmeasured: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.what = what
        self.budget = budget
        self.findings = findings
        self.settings = settings
        self.left_out = left_out
        self.overlaps = overlaps
        self.pools = pools
        self.unmeasured = unmeasured
        self.cells: Cells = cells_of(findings)
        self.printed = Printed(what, whole=not left_out)
        self.fates: list[ClaimResult] = fated(what, self.cells)
        errors = {(one.arm, one.column): one.error for one in findings if one.error}
        self.codes = {place: error.partition(" ")[0] for place, error in errors.items()}

    @property
    def header(self) -> list[str]:
        placed = any(arm.x is not None for arm in self.what.arms)
        return [
            (placed and self.what.axis) or "",
            *(one.heading for one in self.what.columns),
            *([AVERAGE] if self.what.averaged else []),
        ]

    def lines(self) -> list[list[str]]:
        """Arm by arm: the mean, its deviation over the seeds, the paper's number in brackets.

        In place of a mean that no seed has stands the code of an error.
        """
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
        digits = 0 if column.judge == SECONDS else DIGITS.get(column.judge, 3)
        refused = self.codes.get((arm.label, column.label), "")
        shown = across(self.values(arm, column), digits) or refused
        printed = self.printed.beside(arm, column)
        return f"{shown} [{printed:g}]" if printed is not None else shown

    def averages(self, arm: Arm) -> list[str]:
        """The last cell of a line, where columns are averaged."""
        if not self.what.averaged:
            return []
        if not (values := self.means(arm)):
            return [""]
        printed = self.printed.beside_average(arm)
        return [f"{across(values)} [{printed:.4g}]" if printed is not None else across(values)]

    def means(self, arm: Arm) -> list[float]:
        """Over the averaged columns, one for each seed under which the arm has all of them."""
        rows = [self.by_seed(arm, column) for column in self.what.averaged]
        whole = sorted(set(rows[0]).intersection(*rows))
        return [mean(row[seed] for row in rows) for seed in whole]

    def notes(self) -> list[str]:
        """What the numbers are, what differs, and why cells are empty."""
        told = [self.cost()]
        if paper := self.printed.table:
            bracketed = any("[" in cell for line in self.lines() for cell in line[1:])
            where = "In brackets" if bracketed else "The paper"
            source = f"{where}: {paper.source} ({paper.measure})."
            depths = (self.printed.parts(), self.printed.of_another_depth())
            beside = (self.printed.elsewhere(), self.printed.other_rows())
            told.append(" ".join(filter(None, (source, *depths, *beside, paper.note))))
        told += [*self.of_average(), *self.words()]
        told += [f"What differs: {self.differs}", *self.less(), *self.absent()]
        told += [*overlap_notes(self.overlaps, self.unmeasured), *pool_notes(self.pools)]
        return [*told, *self.groups(), *self.failures()]

    @property
    def differs(self) -> str:
        """From the paper: in the budget that was allowed, and in any."""
        return " ".join(filter(None, (self.budget.differs, self.what.differs)))

    def of_average(self) -> list[str]:
        """What is averaged, where that is not every score, or is of several depths."""
        of = self.what.averaged
        if len({one.measure for one in of}) < 2 and len(of) in (0, len(self.what.scored)):
            return []
        return [f"The average is of {', '.join(one.heading for one in of)}."]

    def words(self) -> list[str]:
        """Which BM25 it was, where an arm is that or rescores what it finds."""
        systems = ("BM25" if arm.alpha is not None else arm.system for arm in self.what.arms)
        return bm25_note(systems, [ONE_FIELD])

    def less(self) -> list[str]:
        """Arms that asked for more labels or documents than there are, and what they had."""
        had = grouped((one.arm, told) for one in self.findings for told in one.less)
        arms = "; ".join(f"{arm} ({', '.join(dict.fromkeys(told))})" for arm, told in had.items())
        return [f"Had less than was asked for, all that there is: {arms}."] if arms else []

    def absent(self) -> list[str]:
        """Columns that could be there."""
        wanted = [f"{label} ({', '.join(files)})" for label, files in self.left_out.items()]
        return [f"Left out, for their files are not there: {', '.join(wanted)}."] if wanted else []

    def groups(self) -> list[str]:
        """Titles that were grouped, by their numbers, where a column judges that."""
        from sentemb_core.evaluation.appendix_d import clusters_in

        def numbers(found: ArmResult, column: Column) -> str:
            groups = clusters_in(result_in(found, column))
            return " | ".join(" ".join(map(str, one)) for one in groups)

        seeds = grouped(
            ((arm.label, numbers(found, column)), str(found.seed))
            for arm in self.what.arms
            for column in self.what.columns
            if column.judge == CASE
            for found in self.cells.get((arm.label, column.label), [])
        )
        return [f"{arm}: {told} ({', '.join(of)})." for (arm, told), of in seeds.items()]

    def cost(self) -> str:
        """What each training was allowed, and the paper's; who judged; under which seeds."""
        budget, paper = self.budget, self.what.paper
        seeds = ", ".join(map(str, budget.seeds))
        told = [f"{allowed(self.what, budget)} a training"]
        if (budget.steps, budget.batch_size) != (paper.steps, paper.batch_size):
            told[0] += f" (the paper: {paper.steps:,} of {paper.batch_size:,})"
        if budget.dtype == "float32" and not starts_static(budget.base.encoder.name):
            told.append("in float32")
        if sample := self.settings.get("max_documents"):
            told.append(f"a sample of {sample:,} documents of each corpus")
        if any(one.judge == TITLE for one in self.what.scored):
            told.append(f"{budget.candidates:,} candidates")
        if len(budget.seeds) == 1:
            return f"{'; '.join(told)}; seed {seeds}."
        return f"{'; '.join(told)}; mean ± standard deviation over seeds {seeds}."

    def failures(self) -> list[str]:
        """Every error once, behind the cells that ended in it."""
        where = grouped(
            (one.error.splitlines()[0], f"{one.arm} in {one.column}, seed {one.seed}")
            for one in self.findings
            if one.error
        )
        return [f"{'; '.join(cells)}: {error}" for error, cells in where.items()]

    def verdicts(self) -> list[str]:
        """A line for each claim."""
        return [f"{one.fate}: {evidence(one)}" for one in self.fates]

    def markdown(self) -> str:
        """The table, its notes, its claims."""
        table = markdown_table(self.header, self.lines(), range(1, len(self.header)))
        claims = "\n".join(f"- **{one.fate}**: {evidence(one)}" for one in self.fates)
        parts = [table, claims, " ".join(self.notes()), f"```\n{self.command}\n```"]
        return "\n\n".join(filter(None, parts))

    @property
    def command(self) -> str:
        """What a person types to have it again."""
        asked = {k: v for k, v in self.settings.items() if k not in ("experiment", "data") and v}
        words = ["python", "-m", "flows", "reproduce", self.what.id]
        for name, value in asked.items():
            if (name, value) != ("preset", "small"):
                values = value if isinstance(value, list) else [value]
                words += [f"--{name.replace('_', '-')}", *map(str, values)]
        return shlex.join(words)

    @property
    def title(self) -> str:
        """The experiment's, and the encoder that was asked for in place of its own.

        Of a long name the end, for a picture has no room for more; the command has all of it.
        """
        encoder = str(self.settings.get("encoder") or "")
        short = encoder if len(encoder) <= 40 else f"…{encoder[-39:]}"
        return f"{self.what.title}, from {short}" if encoder else self.what.title

    def table(self) -> "Table":
        """For the terminal."""
        numbers = range(1, len(self.header))
        return terminal_table(self.header, self.lines(), numbers, title=self.title)

    def json(self) -> Json:
        """Every number, and the claims."""
        return {
            "experiment": self.what.id,
            "title": self.title,
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
            "averages": [
                {
                    "arm": arm.label,
                    "values": self.means(arm),
                    "paper": self.printed.beside_average(arm),
                }
                for arm in self.what.arms
                if self.what.averaged
            ],
            "notes": self.notes(),
            "paper": [asdict(table) for table in self.printed.tables],
            "overlap": {name: one.model_dump() for name, one in self.overlaps.items()},
            "pools": {name: one.model_dump() for name, one in self.pools.items()},
            "overlap_errors": dict(self.unmeasured),
            "claims": [told_json(one) for one in self.fates],
            "errors": [one.model_dump(exclude={"result"}) for one in self.findings if one.error],
        }


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


def told_json(claim: ClaimResult) -> Json:
    """A claim, its fate, and the rival that it hangs on."""
    deciding = claim.deciding.model_dump() if claim.deciding else None
    return claim.model_dump() | {"fate": claim.fate, "deciding": deciding}


def evidence(claim: ClaimResult) -> str:
    """The claim, and the difference that decides it."""
    return f"{claim.text}. {difference(claim)}"


def difference(claim: ClaimResult) -> str:
    """To the rival that decides, and in how many seeds it is above."""
    if not (rival := claim.deciding):
        return "There is nothing to compare yet."
    of = f" (of {len(claim.rivals)} the one that decides)" if len(claim.rivals) > 1 else ""
    above = f"above {-rival.margin:+.3f}" if rival.margin else "above"
    missing = f" Not compared: {', '.join(claim.missing)}." if claim.missing else ""
    sides = f"{claim.better} less {rival.than}"
    if rival.reversed:
        sides = f"{rival.than} less {claim.better}, {', '.join(claim.columns)}"
    least, middle, most = (
        f"{value:+.{rival.digits}f}" for value in (rival.low, rival.difference, rival.high)
    )
    over = " over the seeds" if rival.over_seeds else ""
    told = f"{sides}{of}: {middle} ({least} to {most}{over})"
    if rival.undecidable:
        return f"{told}; {rival.undecidable}.{missing}"
    equal = f", equal in {rival.equal_in}" if rival.equal_in else ""
    return f"{told}, {above} in {rival.better_in} of {rival.seeds} seeds{equal}.{missing}"
