"""Which number of a paper stands beside one of ours: of the same arm, and of the same measure."""

from sentemb_core.config.experiments import SECONDS, Arm, Column, Experiment
from sentemb_core.config.suite import SUITE
from sentemb_core.evaluation.paper_tables import PaperTable, paper_table, paper_tables

AVERAGE = "average"
"""Of the columns that hold scores, where several judges gave them."""

MAIN = {"sts": "Spearman", "retrieval": "nDCG@"}
"""Group of the suite -> how papers name its main measure; of the others it is accuracy."""


class Printed:
    """What a paper printed of an experiment, cell by cell, as it is printed there.

    A number stands in our arm's row and our column's label. The paper's average, or its single
    column, stands beside our average, or beside our only column (of its measure); beside an
    average of fewer sets than the experiment has (not `whole`), or of other sets than the paper's,
    it would mislead, and stands in the notes.
    """

    def __init__(self, what: Experiment, *, whole: bool = True) -> None:
        self.what = what
        self.table = paper_table(what.id)
        self.whole = whole and not (self.table and self.table.other_sets)
        self.tables = tables_of(what.id)
        rows = self.table.rows.values() if self.table else ()
        columns = {column for row in rows for column in row}
        self.single = columns.pop() if len(columns) == 1 else None

    def beside(self, arm: Arm, column: Column) -> float | None:
        """The paper's number for a cell."""
        return self.of_row(arm, column) if self.is_alike(column) else None

    def of_row(self, arm: Arm, column: Column) -> float | None:
        """The paper's number in a cell's place, whatever it measures."""
        single = self.single if column == self.alone else None
        return number(self.of_measure(column), arm, single or column.label)

    @property
    def alone(self) -> Column | None:
        """Our only column, or our only one of the paper's measure."""
        columns = self.what.columns
        found = columns if len(columns) == 1 else [one for one in columns if self.is_alike(one)]
        return found[0] if len(found) == 1 else None

    def heading(self, column: Column) -> str:
        """The column's, or what the paper judged in its place."""
        if not self.table or self.is_alike(column):
            return column.heading
        return f"{self.single or column.label} {self.table.measure.split(',')[0]}"

    def beside_average(self, arm: Arm) -> float | None:
        """What the paper printed as one number of all its sets; none that it did not print."""
        return number(self.table, arm, self.single or AVERAGE) if self.is_beside else None

    @property
    def is_beside(self) -> bool:
        """Whether our average, or our only column, is of what the paper's is of."""
        return self.whole and all(map(self.is_alike, self.what.averaged or self.what.scored))

    def elsewhere(self) -> str:
        """What the paper has of our arms in a column of its own, if it stands nowhere yet."""
        beside_one = self.single and self.alone and self.is_alike(self.alone)
        if beside_one or (self.is_beside and (self.single or self.what.averaged)):
            return ""
        name = self.single or AVERAGE
        values = {arm.label: number(self.table, arm, name) for arm in self.what.arms}
        listed = [f"{label} {value:g}" for label, value in values.items() if value is not None]
        of = f"On {self.single}" if self.single else "Its averages over all its sets"
        return f"{of}: {', '.join(listed)}." if listed else ""

    def parts(self) -> str:
        """Which further part of the paper's table a column at another depth has beside it."""
        found = [
            (column, part)
            for column in self.what.columns
            if (part := self.of_measure(column)) and part is not self.table
        ]
        told = [f"{column.heading}: {part.source} ({part.measure})." for column, part in found]
        return " ".join(told)

    def of_another_depth(self) -> str:
        """What the paper has of our arms where our column is at another depth than its table."""
        told = list[str]()
        for column in self.what.columns:
            part = self.of_measure(column)
            if not self.table or part is self.table:
                continue
            values = {
                arm.label: number(self.table, arm, column.label)
                for arm in self.what.arms
                if number(part, arm, column.label) is None
            }
            listed = [f"{label} {value:g}" for label, value in values.items() if value is not None]
            if listed:
                told.append(f"{column.label} {self.table.measure}: {'; '.join(listed)}.")
        return " ".join(told)

    def other_rows(self) -> str:
        """What the paper has of rows that are no arms of ours: they stand in no line."""
        rows = self.table.rows if self.table else {}
        arms = {arm.label for arm in self.what.arms}
        listed = [
            f"{label} ({', '.join(f'{name} {value:g}' for name, value in row.items())})"
            for label, row in rows.items()
            if label not in arms
        ]
        return f"Its other rows: {'; '.join(listed)}." if listed else ""

    def is_alike(self, column: Column) -> bool:
        """Whether the paper measures what the column holds; recall at any depth is recall."""
        return self.table is not None and self.table.measure.startswith(measured(column))

    def of_measure(self, column: Column) -> PaperTable | None:
        """The paper's table; of a recall at another depth the table of that depth, or none."""
        measure = column.measure or ""
        if not (self.table and is_recall(self.table.measure) and is_recall(measure)):
            return self.table
        if self.table.measure == measure:
            return self.table
        return paper_table(f"{self.what.id}.r{measure.removeprefix('R@')}")


def measured(column: Column) -> str:
    """How the papers' names of what a column holds begin."""
    if column.judge == SECONDS:
        return "minutes"
    if column.measure:
        return "".join(column.measure.partition("@")[:2])
    group = next((task.group for task in SUITE if task.name == column.judge), "retrieval")
    return MAIN.get(group, "accuracy")


def tables_of(id: str) -> list[PaperTable]:
    """The paper's table, and its further parts: at other depths, of gains."""
    return [table for table in paper_tables().values() if f"{table.id}.".startswith(f"{id}.")]


def is_recall(measure: str) -> bool:
    return measure.startswith("R@") and measure.removeprefix("R@").isdigit()


def number(table: PaperTable | None, arm: Arm, column: str) -> float | None:
    return table.rows.get(arm.label, {}).get(column) if table else None
