"""The paper's number for a cell of our table: of the same arm, and of the same measure."""

from sentemb_core.config.experiments import SECONDS, Arm, Column, Experiment
from sentemb_core.config.suite import SUITE
from sentemb_core.evaluation.paper_tables import PaperTable, paper_table, paper_tables

AVERAGE = "average"
"""Column of the mean over several judges."""

MAIN = {"sts": "Spearman", "retrieval": "nDCG@"}
"""Group of the suite -> the papers' name of its main measure; for the others it is accuracy."""


class PaperNumbers:
    """The numbers that a paper prints for an experiment, cell by cell.

    A number belongs to our arm's row and our column's label. The paper's average, or its single
    column, is compared with our average, or with our only column of its measure. It is left out if
    our average covers fewer sets than the experiment has, or other sets than the paper's.

    Args:
        what: The experiment.
        whole: Whether every column of the experiment has its files.
    """

    def __init__(self, what: Experiment, *, whole: bool = True) -> None:
        self.what = what
        self.table = paper_table(what.id)
        self.whole = whole and not (self.table and self.table.other_sets)
        self.tables = tables_of(what.id)
        rows = self.table.rows.values() if self.table else ()
        columns = {column for row in rows for column in row}
        self.single = columns.pop() if len(columns) == 1 else None

    def of_cell(self, arm: Arm, column: Column) -> float | None:
        """Return the paper's number of the same arm and the same measure."""
        return self.in_place(arm, column) if self.has_measure_of(column) else None

    def in_place(self, arm: Arm, column: Column) -> float | None:
        """Return the paper's number in the place of a cell, by any measure."""
        single = self.single if column == self._only_column else None
        return number(self._table_for(column), arm, single or column.label)

    @property
    def _only_column(self) -> Column | None:
        """Our only column, or our only column of the paper's measure."""
        columns = self.what.columns
        alike = [column for column in columns if self.has_measure_of(column)]
        found = columns if len(columns) == 1 else alike
        return found[0] if len(found) == 1 else None

    def heading(self, column: Column) -> str:
        """Return our heading of the column, or the paper's if it uses another measure."""
        if not self.table or self.has_measure_of(column):
            return column.heading
        return f"{self.single or column.label} {self.table.measure.split(',')[0]}"

    def of_average(self, arm: Arm) -> float | None:
        """Return the paper's one number over all its sets, if ours covers the same sets."""
        judged = self.what.averaged or self.what.scored
        if not (self.whole and all(map(self.has_measure_of, judged))):
            return None
        return number(self.table, arm, self.single or AVERAGE)

    def has_measure_of(self, column: Column) -> bool:
        """Whether the paper uses the column's measure; recall at any depth counts as recall."""
        return self.table is not None and self.table.measure.startswith(measure_name(column))

    def _table_for(self, column: Column) -> PaperTable | None:
        """Return the paper's table, or its part at the recall depth of the column."""
        measure = column.measure or ""
        if not (self.table and is_recall(self.table.measure) and is_recall(measure)):
            return self.table
        if self.table.measure == measure:
            return self.table
        return paper_table(f"{self.what.id}.r{measure.removeprefix('R@')}")


def measure_name(column: Column) -> str:
    """Return how the papers' names of the column's measure begin."""
    if column.judge == SECONDS:
        return "minutes"
    if column.measure:
        return "".join(column.measure.partition("@")[:2])
    group = next((task.group for task in SUITE if task.name == column.judge), "retrieval")
    return MAIN.get(group, "accuracy")


def tables_of(id: str) -> list[PaperTable]:
    """Return the paper's table and its parts: at other depths, of gains."""
    return [table for table in paper_tables().values() if f"{table.id}.".startswith(f"{id}.")]


def is_recall(measure: str) -> bool:
    return measure.startswith("R@") and measure.removeprefix("R@").isdigit()


def number(table: PaperTable | None, arm: Arm, column: str) -> float | None:
    return table.rows.get(arm.label, {}).get(column) if table else None
