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

    A number belongs to our arm's row and our column's heading or label. The paper's average, or its
    only column of a measure, is compared with our average, or with our only column of that measure.
    It is left out if our average covers fewer sets than the experiment has, or other sets than the
    paper's.

    Args:
        what: The experiment.
        whole: Whether every column of the experiment has its files.
    """

    def __init__(self, what: Experiment, *, whole: bool = True) -> None:
        self.what = what
        self.table = paper_table(what.id)
        self.whole = whole and not (self.table and self.table.other_sets)
        self.tables = tables_of(what.id)

    def of_cell(self, arm: Arm, column: Column) -> float | None:
        """Return the paper's number of the same arm and the same measure."""
        name = self._name(column)
        return self._number(arm, name) if name and self._measures(name, column) else None

    def in_place(self, arm: Arm, column: Column) -> float | None:
        """Return the paper's number in the place of a cell, by any measure."""
        return self._number(arm, self._name(column))

    def heading(self, column: Column) -> str:
        """Return our heading of the column, or the paper's if it uses another measure."""
        name = self._name(column)
        if not self.table or not name or self._measures(name, column):
            return column.heading
        measure = self.table.measure.split(",")[0]
        return name if "@" in name else f"{name} {measure}"

    def of_average(self, arm: Arm) -> float | None:
        """Return the paper's one number over all its sets, if ours covers the same sets."""
        judged = self.what.judged
        name = AVERAGE if self.table and AVERAGE in self.table.columns else self._single(judged[0])
        alike = name and all(self._measures(name, one) for one in judged)
        return self._number(arm, name) if self.whole and alike else None

    def _name(self, column: Column) -> str:
        """Return the paper's column in the place of ours; empty if it has none."""
        names = self.table.columns if self.table else []
        found = [name for name in (column.heading, column.label) if name in names]
        if found:
            return found[0]
        single = self._single(column)
        alike = [one for one in self.what.columns if self._measures(single, one)]
        return single if [column] in (alike, list(self.what.columns)) else ""

    def _single(self, column: Column) -> str:
        """Return the paper's only column of our column's measure; without any, its first column."""
        names = [name for name in (self.table.columns if self.table else []) if name != AVERAGE]
        alike = [name for name in names if self._measures(name, column)]
        found = alike or names[:1]
        return found[0] if len(found) == 1 else ""

    def _measures(self, name: str, column: Column) -> bool:
        """Whether a column of the paper has our column's measure; recall at the same depth."""
        if not self.table:
            return False
        _, _, last = name.rpartition(" ")
        own = measure_name(column)
        if "@" in last:
            return last == column.measure or (column.measure is None and last.startswith(own))
        return self.table.measure.startswith(own)

    def _number(self, arm: Arm, name: str) -> float | None:
        return self.table.number(arm.label, name) if self.table else None


def measure_name(column: Column) -> str:
    """Return how the papers' names of the column's measure begin."""
    if column.judge == SECONDS:
        return "minutes"
    if column.measure:
        return "".join(column.measure.partition("@")[:2])
    group = next((task.group for task in SUITE if task.name == column.judge), "retrieval")
    return MAIN.get(group, "accuracy")


def tables_of(id: str) -> list[PaperTable]:
    """Return the paper's table and its parts, such as those of gains."""
    return [table for table in paper_tables().values() if f"{table.id}.".startswith(f"{id}.")]
