"""Which number of a paper stands beside one of ours."""

from collections.abc import Sequence
from statistics import mean

from sentemb_core.evaluation.tables.index import paper_table
from sentemb_core.evaluation.tables.table import PaperTable
from sentemb_core.experiments import Arm, Column, Experiment

AVERAGE = "average"
"""Of the columns that hold scores, where several judges gave them."""


class Printed:
    """What a paper printed of an experiment, cell by cell, as it is printed there.

    A number stands in our arm's row and our column's label. Where the paper has a single column,
    that stands beside our average, or beside our only column.
    """

    def __init__(self, what: Experiment) -> None:
        self.what = what
        self.table = paper_table(what.id)
        rows = self.table.rows.values() if self.table else ()
        columns = {column for row in rows for column in row}
        self.single = columns.pop() if len(columns) == 1 else None

    def beside(self, arm: Arm, column: Column) -> float | None:
        """The paper's number for a cell."""
        alone = self.single if len(self.what.columns) == 1 else None
        return number(self.of_measure(column), arm, alone or column.label)

    def beside_average(self, arm: Arm, columns: Sequence[Column]) -> float | None:
        """The single column's, else the mean of what stands beside these columns."""
        if self.single:
            return number(self.table, arm, self.single)
        values = [self.beside(arm, column) for column in columns]
        known = [value for value in values if value is not None]
        return mean(known) if known and len(known) == len(values) else None

    def elsewhere(self) -> str:
        """The paper's averages, which are over columns of its own, if they stand nowhere yet."""
        if self.single:
            return ""
        values = {arm.label: number(self.table, arm, AVERAGE) for arm in self.what.arms}
        listed = [f"{label} {value:g}" for label, value in values.items() if value is not None]
        return f"Its averages over all its sets: {', '.join(listed)}." if listed else ""

    def of_measure(self, column: Column) -> PaperTable | None:
        """The paper's table; of a recall at another depth the table of that depth, or none."""
        measure = column.measure or ""
        if not (self.table and is_recall(self.table.measure) and is_recall(measure)):
            return self.table
        if self.table.measure == measure:
            return self.table
        return paper_table(f"{self.what.id}.r{measure.removeprefix('R@')}")


def is_recall(measure: str) -> bool:
    return measure.startswith("R@") and measure.removeprefix("R@").isdigit()


def number(table: PaperTable | None, arm: Arm, column: str) -> float | None:
    return table.rows.get(arm.label, {}).get(column) if table else None
