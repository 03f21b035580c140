"""A paper's experiment as rows of results beside the paper's numbers: terminal, Markdown, page."""

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

from sentemb_core.config.experiments import (
    CASE,
    OF_TRAINING,
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
from tasks.benchmark_table import bm25_note
from tasks.checks import starts_static
from tasks.claims import (
    CLAIMS,
    ArmResult,
    Cells,
    cells_of,
    claim_result,
    has_units,
    paired,
    pairwise_result,
    task_result,
    value_of,
)
from tasks.paper_numbers import AVERAGE, PaperNumbers
from tasks.results import Pivot, ResultRow, ResultTable, grouped, json_rows, over_seeds, panel

if TYPE_CHECKING:
    from rich.table import Table

    from sentemb_core.corpus.validation_pool import PoolReport
    from sentemb_core.evaluation.contamination import Overlap
    from sentemb_core.evaluation.paper_tables import PaperTable
    from sentemb_core.report.experiment import Mark
    from sentemb_core.report.page import Panel

READ_CURVES = (
    "A line is the mean over the seeds, its band their standard deviation. Dashed lines have no "
    "place on the axis. The paper's numbers have a panel of their own."
)
READ_MARKS = (
    "A dot is one seed, a bar the mean over the seeds; grey marks do not depend on the seed. Every "
    "panel has its own scale."
)

NAMED = 0.001
"""Share of a set's texts from which on the set is named."""

ONE_FIELD = "each text, or title that is searched for, as one field"
"""What BM25 reads of a pool of titles."""

LONGEST_NAME = 40
"""Characters of an encoder's name in a title; a longer name is cut at its start."""


@dataclass
class ExperimentTable:
    """The results of an experiment's arms, its claims, and what a reader must know about them.

    Attributes:
        what: The experiment.
        budget: Budget of each training.
        results: Results of the flow, one for each arm, column and seed.
        settings: The settings that were asked for.
        left_out: Columns without their files -> these files.
        overlaps: Set of evaluation texts -> its overlap with the training corpora.
        pools: Column -> its pool of titles.
        unmeasured: Training corpus -> the error that prevented measuring the overlap.
    """

    what: Experiment
    budget: Budget
    results: Sequence[ArmResult]
    settings: Json
    left_out: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    overlaps: "Mapping[str, Overlap]" = field(default_factory=dict[str, "Overlap"])
    pools: "Mapping[str, PoolReport]" = field(default_factory=dict[str, "PoolReport"])
    unmeasured: Mapping[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        self.cells: Cells = cells_of(self.results)
        self.paper = PaperNumbers(self.what, whole=not self.left_out)
        self.claims = [claim_result(claim, self.what, self.cells) for claim in self.what.claims]
        self.differences = [
            row
            for arm in self.what.arms
            for column in self.what.columns
            if arm.baseline and column.compared
            for row in self._difference(arm, column)
        ]

    def rows(self) -> list[ResultRow]:
        """Return one row for each arm, column and seed, then averages, differences and claims."""
        places = [(arm, column) for arm in self.what.arms for column in self.what.columns]
        return [
            *(row for place in places for row in self._scores(*place)),
            *(row for arm in self.what.arms for row in self._averages(arm)),
            *self.differences,
            *(claim.row(self.what.id) for claim in self.claims),
        ]

    def _row(self, arm: Arm, heading: str, metric: str, **fields: object) -> ResultRow:
        x = "" if arm.x is None else f"{arm.x:g}"
        factors = {"column": heading, "curve": arm.curve, "x": x}
        factors = {name: value for name, value in factors.items() if value}
        row = {"system": arm.label, "metric": metric, "factors": factors}
        return ResultRow.model_validate(row | fields)

    def _cell(self, arm: Arm, column: Column, **fields: object) -> ResultRow:
        """A row in a column; the measure has the name that the judge's results give it."""
        task = column.corpus if column.judge == TITLE else column.judge
        metric = column.measure
        if column.judge in OF_TRAINING:
            task, metric = "", metric or column.judge
        if not metric:
            results = (one for (_, label), one in self.cells.items() if label == column.label)
            metric = next((task_result(one[0], column).main for one in results), "score")
        return self._row(arm, column.heading, metric, task=task, **fields)

    def _scores(self, arm: Arm, column: Column) -> list[ResultRow]:
        """One row per seed."""
        own = [one for one in self.results if (one.arm, one.column) == (arm.label, column.label)]
        return [
            self._cell(
                arm,
                column,
                value=None if one.error else value_of(one, column),
                seeds=(one.seed,),
                seconds=one.seconds or None,
                key=one.result.digest if one.result else "",
                paper=self.paper.of_cell(arm, column),
                note=one.error.splitlines()[0] if one.error else "",
            )
            for one in sorted(own, key=lambda one: one.seed)
        ]

    def _averages(self, arm: Arm) -> list[ResultRow]:
        paper = self.paper.of_average(arm)
        return [
            self._row(arm, AVERAGE, AVERAGE, value=value, seeds=(seed,), paper=paper)
            for seed, value in self.means(arm).items()
        ]

    def _difference(self, arm: Arm, column: Column) -> list[ResultRow]:
        """The arm minus its baseline, by paired bootstrap over units and over seeds."""
        pairs = paired(arm.label, arm.baseline, [column], self.cells)
        if not pairs or not has_units(next(iter(pairs.values()))[0][1], column):
            return []
        one = pairwise_result(arm.baseline, pairs, 0.0, of=1)
        found = one.model_dump(include={"low", "high", "units"})
        common = {"baseline": arm.baseline, "value": one.difference, "seeds": tuple(pairs)}
        return [self._cell(arm, column, **common, **found)]

    def means(self, arm: Arm) -> dict[int, float]:
        """Return seed -> mean over the averaged columns, for seeds that have all of them."""
        if not self.what.averaged:
            return {}
        values = [self.by_seed(arm, column) for column in self.what.averaged]
        whole = sorted(set(values[0]).intersection(*values))
        return {seed: mean(value[seed] for value in values) for seed in whole}

    def by_seed(self, arm: Arm, column: Column) -> dict[int, float]:
        """Return seed -> value."""
        found = self.cells.get((arm.label, column.label), [])
        return {one.seed: value_of(one, column) for one in found}

    def table(self) -> ResultTable:
        """Return arms as lines, judges as columns: mean, spread, the paper's number in brackets."""
        lines = [row for row in self.rows() if "column" in row.factors]
        order = {arm.label: place for place, arm in enumerate(self.what.arms)}
        rows = sorted(over_seeds(lines), key=lambda row: order[row.system])
        placed = any(arm.x is not None for arm in self.what.arms)
        pivot = Pivot(
            columns=("column",),
            corner=(placed and self.what.axis) or "",
            headings=(*(column.heading for column in self.what.columns), AVERAGE),
        )
        return ResultTable(
            id=self.what.id,
            title=self.title,
            rows=tuple(rows),
            pivot=pivot,
            question="Mean ± standard deviation over the seeds [the paper's number]",
            command=self.command,
            notes=tuple(self.notes()),
        )

    def claims_table(self) -> ResultTable:
        """Return the verdict on each claim and the difference that it depends on."""
        rows = tuple(claim.row(self.what.id) for claim in self.claims)
        return ResultTable(id=f"{self.what.id} claims", title="Claims", rows=rows, pivot=CLAIMS)

    @property
    def title(self) -> str:
        """The experiment's title, and the end of the encoder's name if one was asked for."""
        encoder = str(self.settings.get("encoder") or "")
        if len(encoder) > LONGEST_NAME:
            encoder = f"…{encoder[1 - LONGEST_NAME :]}"
        return f"{self.what.title}, from {encoder}" if encoder else self.what.title

    @property
    def command(self) -> str:
        """The command that makes the table again."""
        given = {k: v for k, v in self.settings.items() if k not in ("experiment", "data") and v}
        words = ["python", "-m", "flows", "reproduce", self.what.id]
        for name, value in given.items():
            if (name, value) != ("preset", "small"):
                values = value if isinstance(value, list) else [value]
                words += [f"--{name.replace('_', '-')}", *map(str, values)]
        return shlex.join(words)

    def notes(self) -> list[str]:
        """Return the budget, the paper's source, differences to it, contamination, and errors."""
        what, averaged = self.what, self.what.averaged
        notes = [self._cost()]
        if paper := self.paper.table:
            notes.append(f"In brackets: {paper.source} ({paper.measure}). {paper.note}".strip())
        if len({one.measure for one in averaged}) > 1 or 0 < len(averaged) < len(what.scored):
            notes.append(f"The average is over {', '.join(one.heading for one in averaged)}.")
        systems = ("BM25" if arm.alpha is not None else arm.system for arm in what.arms)
        notes += bm25_note(systems, [ONE_FIELD])
        if differs := " ".join(filter(None, (self.budget.differs, what.differs))):
            notes.append(f"Differences from the paper: {differs}")
        lacks = grouped((one.arm, less) for one in self.results for less in one.less)
        if arms := "; ".join(f"{arm} ({listed(less)})" for arm, less in lacks.items()):
            notes.append(f"The corpus has less than these arms asked for: {arms}.")
        if absent := [f"{label} ({listed(files)})" for label, files in self.left_out.items()]:
            notes.append(f"Left out, because files are missing: {', '.join(absent)}.")
        of_arms = grouped((note, one.arm) for one in self.results for note in one.notes)
        notes += [f"{listed(arms)}: {note}." for note, arms in of_arms.items()]
        notes += contamination_notes(self.overlaps, self.unmeasured)
        errors = grouped(
            (one.error.splitlines()[0], f"{one.arm} in {one.column}, seed {one.seed}")
            for one in self.results
            if one.error
        )
        notes += [*pool_notes(self.pools), *self._clusters()]
        return [*notes, *(f"{'; '.join(cells)}: {error}" for error, cells in errors.items())]

    def _cost(self) -> str:
        """The budget of each training, the paper's budget, and the seeds."""
        budget, paper = self.budget, self.what.paper
        parts = [f"Each training: {training_budget(self.what, budget)}"]
        is_paper = (budget.steps, budget.batch_size) == (paper.steps, paper.batch_size)
        if not (is_paper or budget.as_run):
            parts[0] += f" (the paper: {paper.steps:,} of {paper.batch_size:,})"
        if budget.dtype == "float32" and not starts_static(budget.base.encoder.name):
            parts.append("float32")
        if sample := self.settings.get("max_documents"):
            parts.append(f"a sample of {sample:,} documents of each corpus")
        if any(one.judge == TITLE for one in self.what.scored):
            parts.append(f"{budget.candidates:,} candidates")
        word = "seed" if len(budget.seeds) == 1 else "seeds"
        return f"{'; '.join(parts)}; {word} {', '.join(map(str, budget.seeds))}."

    def _clusters(self) -> list[str]:
        """The clusters of the eight titles, if a column judges them."""
        from sentemb_core.evaluation.appendix_d import clusters_in

        def clusters(one: ArmResult, column: Column) -> str:
            found = clusters_in(task_result(one, column))
            return " | ".join(" ".join(map(str, cluster)) for cluster in found)

        seeds = grouped(
            ((arm.label, clusters(one, column)), str(one.seed))
            for arm in self.what.arms
            for column in self.what.columns
            if column.judge == CASE
            for one in self.cells.get((arm.label, column.label), [])
        )
        return [f"{arm}: {found} ({', '.join(of)})." for (arm, found), of in seeds.items()]

    def json(self) -> Json:
        """Return every row, the notes, and all numbers that the paper prints."""
        return {
            "experiment": self.what.id,
            "title": self.title,
            "command": self.command,
            "settings": self.settings,
            "rows": json_rows(self.rows()),
            "notes": self.notes(),
            "paper": [asdict(table) for table in self.paper.tables],
            "overlap": {name: one.model_dump() for name, one in self.overlaps.items()},
            "pools": {name: one.model_dump() for name, one in self.pools.items()},
            "overlap_errors": dict(self.unmeasured),
        }


def training_budget(what: Experiment, budget: Budget) -> str:
    """Return steps and batch of the trainings, with the range where arms differ."""
    steps = [one for arm in what.arms for one in arm.steps if isinstance(one, Train | SelfTrain)]
    lengths = [max(1, round(budget.steps * one.times)) for one in steps]
    batches = [getattr(one, "batch_size", None) or budget.batch_size for one in steps]
    batch = budget.batch or span(batches or [budget.batch_size])
    return f"{span(lengths or [budget.steps])} steps of {batch}"


def listed(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names))


def span(numbers: Sequence[int]) -> str:
    """Return the number, or the smallest and the largest."""
    return " to ".join(f"{number:,}" for number in sorted({min(numbers), max(numbers)}))


def contamination_notes(
    overlaps: "Mapping[str, Overlap]", unmeasured: Mapping[str, str]
) -> list[str]:
    """Return how much evaluation text also occurs in the training corpus.

    Args:
        overlaps: Set of evaluation texts -> its overlap with the training corpus.
        unmeasured: Training corpus -> the error that prevented the measurement.
    """
    notes = [
        f"Overlap of evaluation texts with {corpus} was not measured: {error.splitlines()[0]}"
        for corpus, error in unmeasured.items()
    ]
    texts = {name: one.exact for name, one in overlaps.items()}
    runs = {name: one.runs for name, one in overlaps.items() if one.runs is not None}
    notes += shares("Evaluation text in the training corpus, by runs of eight words", runs)
    return notes + shares("Evaluation texts in the training corpus as a whole", texts)


def shares(what: str, of: Mapping[str, float]) -> list[str]:
    """Return a sentence that names every share of `NAMED` and more; empty without shares."""
    named = [f"{name} {100 * share:.1f} %" for name, share in of.items() if share >= NAMED]
    rest = [f"{'all others' if named else 'all'} below {100 * NAMED:g} %"]
    parts = named + (rest if len(named) < len(of) else [])
    return [f"{what}: {', '.join(parts)}."] if of else []


def pool_notes(pools: "Mapping[str, PoolReport]") -> list[str]:
    """Return how many titles of each pool also occur as a sentence of another document."""
    counts = [
        f"{name} {pool.in_other_documents:,} of {pool.n_candidates:,}"
        for name, pool in pools.items()
    ]
    what = "Titles that also occur as a sentence of another document"
    return [f"{what}: {', '.join(counts)}."] if counts else []


def write_experiment(experiment: ExperimentTable, folder: Path) -> Path:
    """Write table.json, page.html, and table.png if there is a number."""
    from sentemb_core.report.drawing import Drawing, png
    from sentemb_core.report.experiment import experiment_figure
    from sentemb_core.report.page import Panel, write_panels

    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(experiment.json(), indent=1, ensure_ascii=False) + "\n"
    (folder / "table.json").write_text(text, encoding="utf-8")
    title = f"{experiment.what.id}: {experiment.title}"
    drawing = None
    if shown := marks(experiment):
        figure = experiment_figure(shown, title, experiment.what.axis)
        drawing = Drawing("table", f"{experiment.title}, as in the table below", figure)
        (folder / "table.png").write_bytes(png(figure))
    table = experiment.table()
    scores = panel(table, drawing, READ_CURVES if experiment.what.axis else READ_MARKS)
    claims = panel(experiment.claims_table())
    panels = [
        replace(claims, numeric=False) if experiment.claims else Panel("Claims", ["None."]),
        replace(scores, title="Table", notes=(), command=""),
        *map(paper_panel, experiment.paper.tables),
        Panel("How it was made", table.notes, command=table.command),
    ]
    write_panels(title, "An experiment of sentemb", panels, folder)
    return folder


def printed_numbers(table: "PaperTable") -> "Table":
    """Return all numbers that the paper prints, for the terminal."""
    numbers = range(1, len(table.head))
    return terminal_table(table.head, table.lines(), numbers, folded=True, title=table.source)


def paper_panel(table: "PaperTable") -> "Panel":
    """Return all numbers that the paper prints."""
    from sentemb_core.report.page import Panel

    notes = [table.note] if table.note else []
    caption = f"As printed: {table.measure}"
    return Panel(table.source, notes, head=table.head, rows=table.lines(), caption=caption)


def marks(experiment: ExperimentTable) -> "list[Mark]":
    """Return what the figure shows: one mark for each cell with a number.

    Columns that lie on the axis are points of their arm's curve.
    """
    from sentemb_core.report.experiment import Mark

    found: list[Mark] = []
    for arm in experiment.what.arms:
        for column in experiment.what.columns:
            values = list(experiment.by_seed(arm, column).values())
            if not values:
                continue
            if column.x is None:
                mark = Mark(
                    column=column.heading,
                    arm=arm.label,
                    x=arm.x,
                    curve=arm.curve,
                    values=values,
                    paper=experiment.paper.in_place(arm, column),
                    printed=experiment.paper.heading(column),
                )
            else:
                mark = Mark(
                    column=experiment.what.title,
                    arm=f"{arm.label}, {column.label}",
                    x=column.x,
                    curve=arm.label,
                    values=values,
                    paper=None,
                )
            found.append(mark)
    return found
