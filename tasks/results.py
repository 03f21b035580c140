"""One long table of results and one renderer: terminal, Markdown, CSV, JSON, and page panels."""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import Field

from sentemb_core.console import terminal_table
from sentemb_core.types import Json, Value

if TYPE_CHECKING:
    from rich.table import Table

    from sentemb_core.report.drawing import Drawing
    from sentemb_core.report.page import Panel

COUNTS = ("better in",)
"""Metrics that count units: shown as 3 of 6."""

DIGITS = {"better in": 0, "seconds": 0, "CPU-s": 0, "steps": 0, "batch": 0, "loss": 5}
"""Metric -> decimals in a table."""

CODE = re.compile(r"E\d{3}\b")
"""The code that begins an error message."""


K = TypeVar("K")
V = TypeVar("V")


class ResultRow(Value):
    """One number of one system on one task, or the reason why there is no number.

    Attributes:
        system: Encoder, method, or arm of an experiment.
        metric: "R@5", "Spearman", "seconds".
        task: Data set or corpus that the system is evaluated on.
        value: A share or a correlation, not a percentage.
        low: Lower end of the 95 % interval.
        high: Upper end of the 95 % interval.
        spread: Standard deviation over the seeds.
        units: Queries, pairs or examples behind the value.
        seconds: Cost of the system's training.
        key: Digest of the artifact that holds the value.
        baseline: If given, the value is the system's score minus the baseline's.
        paper: The paper's number in the same place.
        factors: Other experimental factors by name: corpus, start encoder, labels.
        note: An error that begins with its code, or a remark.
    """

    system: str
    metric: str
    task: str = ""
    split: str = ""
    direction: str = ""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    spread: float | None = None
    seeds: tuple[int, ...] = ()
    units: int | None = None
    seconds: float | None = None
    key: str = ""
    baseline: str = ""
    paper: float | None = None
    factors: dict[str, str] = Field(default_factory=dict[str, str])
    note: str = ""

    def field(self, name: str) -> str:
        """Return a field or a factor as text; empty if the row does not have it."""
        known = name in type(self).model_fields
        value = getattr(self, name) if known else self.factors.get(name, "")
        return "" if value is None else str(value)

    @property
    def is_significant(self) -> bool:
        """Whether the 95 % interval of a difference excludes 0, before it was rounded."""
        if "significant" in self.factors:
            return self.factors["significant"] == "yes"
        if not self.baseline or self.low is None or self.high is None:
            return False
        return self.low > 0 or self.high < 0


class Pivot(Value):
    """Which fields or factors of the rows head the lines of a table, and which its columns.

    Attributes:
        corner: Title of the first column, if it is not the field's name.
        headings: Columns that come first, in this order.
        scale: Multiplies values, spreads and intervals.
        digits: Metric -> decimals, where `DIGITS` does not fit.
        places: Decimals of all other metrics.
        intervals: Which values show their 95 % interval.
    """

    rows: tuple[str, ...] = ("system",)
    columns: tuple[str, ...] = ("task", "metric")
    corner: str | None = None
    headings: tuple[str, ...] = ()
    scale: float = 1.0
    digits: dict[str, int] = Field(default_factory=dict[str, int])
    places: int = 3
    intervals: Literal["differences", "all", "none"] = "differences"

    def decimals(self, metric: str) -> int:
        """Return the decimals of a metric's numbers."""
        return self.digits.get(metric, DIGITS.get(metric, self.places))


class ResultTable(Value):
    """Rows that are shown together, and what a reader must know about them.

    Attributes:
        id: Key of the table: mutual.t1, main-job blog.
        question: What the table answers.
        command: What a person types to have it again.
        caveats: Keys of caveats that several tables share.
        notes: Sentences below the table.
    """

    id: str
    title: str
    rows: tuple[ResultRow, ...]
    pivot: Pivot = Pivot()
    question: str = ""
    command: str = ""
    caveats: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def head(self) -> list[str]:
        """Return the column titles: the line fields, then the headings of the rows."""
        first, *others = self.pivot.rows
        corner = first if self.pivot.corner is None else self.pivot.corner
        return [corner, *others, *self._headings()]

    def lines(self, *, bold: bool = False) -> list[list[str]]:
        """Return one line of cells for each value of the pivot's line fields, in row order.

        Args:
            bold: Mark significant differences as Markdown does.
        """
        headings = self._headings()
        cells: dict[tuple[str, ...], dict[str, list[str]]] = {}
        for row in self.rows:
            line = cells.setdefault(tuple(row.field(name) for name in self.pivot.rows), {})
            if text := cell(row, self.pivot, bold=bold):
                line.setdefault(heading(row, self.pivot), []).append(text)
        return [
            [*line, *(", ".join(found.get(name, [])) for name in headings)]
            for line, found in cells.items()
        ]

    def _headings(self) -> list[str]:
        found = dict.fromkeys(heading(row, self.pivot) for row in self.rows)
        first = [name for name in self.pivot.headings if name in found]
        return [*first, *(name for name in found if name not in first)]


def heading(row: ResultRow, pivot: Pivot) -> str:
    """Return the title of the column that a row stands in."""
    name = " ".join(filter(None, (row.field(part) for part in pivot.columns))) or "value"
    if row.baseline and "baseline" not in pivot.rows:
        name = f"{name} minus {row.baseline}"
        return name if pivot.intervals == "none" else f"{name} (95 %)"
    return name


def cell(row: ResultRow, pivot: Pivot, *, bold: bool = False) -> str:
    """Return a row as `0.788 ± 0.010 (0.770 to 0.803) [0.634]`, or the code of its error.

    The parts are value, spread over seeds, 95 % interval and the paper's number.
    """
    code = CODE.match(row.note)
    reason = code[0] if code else row.note
    if row.value is None:
        return reason
    digits, sign = pivot.decimals(row.metric), "+" if row.baseline else ""

    def number(value: float, sign: str = "") -> str:
        return f"{pivot.scale * value:{sign},.{digits}f}"

    text = number(row.value, sign)
    if row.metric in COUNTS:
        text += f" of {row.units}"
    if row.spread is not None:
        text += f" ± {number(row.spread)}"
    shows_interval = pivot.intervals == "all" or (pivot.intervals == "differences" and row.baseline)
    if shows_interval and row.low is not None and row.high is not None:
        text += f" ({number(row.low, sign)} to {number(row.high, sign)})"
    if bold and row.is_significant:
        text = f"**{text}**"
    if row.paper is not None:
        text += f" [{row.paper:g}]"
    return f"{text} {reason}" if code or len(reason) == 1 else text


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Return key -> all values that came with it, in the order of the first."""
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def over_seeds(rows: Iterable[ResultRow]) -> list[ResultRow]:
    """Merge rows that differ only in seed, value, key and note: mean, spread and all seeds."""

    def place(row: ResultRow) -> tuple[Any, ...]:
        factors = tuple(sorted(row.factors.items()))
        return row.system, row.task, row.split, row.direction, row.metric, row.baseline, factors

    return [_merged(group) for group in grouped((place(row), row) for row in rows).values()]


def _merged(rows: Sequence[ResultRow]) -> ResultRow:
    if len(rows) == 1:
        return rows[0]
    values = [row.value for row in rows if row.value is not None]
    costs = [row.seconds for row in rows if row.seconds is not None]
    update = {
        "value": mean(values) if values else None,
        "spread": stdev(values) if len(values) > 1 else None,
        "low": None,
        "high": None,
        "seeds": tuple(seed for row in rows for seed in row.seeds),
        "seconds": mean(costs) if costs else None,
        "key": "",
        "note": "; ".join(dict.fromkeys(row.note for row in rows if row.note)),
    }
    return rows[0].model_copy(update=update)


def terminal(table: ResultTable) -> "Table":
    """Return the table for `console.show`; neighbours share the first field of their headings."""
    texts = len(table.pivot.rows)
    shown: list[str] = []
    before = ""
    for name in table.head()[texts:]:
        row = next(row for row in table.rows if heading(row, table.pivot) == name)
        first = row.field(table.pivot.columns[0]) if len(table.pivot.columns) > 1 else ""
        rest = name.removeprefix(first).strip()
        shown.append(f"{'' if first == before else first}\n{rest}" if first and rest else name)
        before = first
    head = [*table.head()[:texts], *shown]
    numbers = range(texts, len(head))
    return terminal_table(head, table.lines(), numbers, folded=True, title=table.title)


def markdown(table: ResultTable) -> str:
    """Return the table in Markdown; numbers are aligned on the right."""
    head = table.head()
    texts = len(table.pivot.rows)
    rule = ["---"] * texts + ["---:"] * (len(head) - texts)
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *table.lines(bold=True)))


def panel(table: ResultTable, drawing: "Drawing | None" = None, reading: str = "") -> "Panel":
    """Return the table as a panel of a page; `reading` explains how to read the drawing."""
    from sentemb_core.report.page import Panel

    return Panel(
        table.title,
        table.notes,
        drawing,
        reading,
        head=table.head(),
        rows=table.lines(),
        caption=table.question,
        command=table.command,
    )


def csv_text(rows: Iterable[ResultRow]) -> str:
    """Return one line for each row; a factor has a column of its own."""
    rows = list(rows)
    fields = [name for name in ResultRow.model_fields if name != "factors"]
    factors = list(dict.fromkeys(name for row in rows for name in row.factors))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*fields, *factors])
    for row in rows:
        seeds = " ".join(map(str, row.seeds))
        values = [seeds if name == "seeds" else row.field(name) for name in fields]
        writer.writerow([*values, *(row.factors.get(name, "") for name in factors)])
    return text.getvalue()


def json_rows(rows: Iterable[ResultRow]) -> list[Json]:
    """Return each row as a JSON object without its empty fields."""
    return [row.model_dump(mode="json", exclude_defaults=True) for row in rows]
