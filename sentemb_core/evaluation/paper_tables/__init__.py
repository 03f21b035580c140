"""Numbers that the five papers print, as data: one CSV file for each paper.

A line of `mutual.csv` is one number: its table, its row, its column, and the value as printed.
`tables.csv` has the source, the measure and a note for each table. docs/errata.md lists all
misprints. A misprint stays as printed, and the note has the correct value. A number is absent if
the paper prints it in a figure only, or in a table that our text of the paper lacks.

A row is one of our methods; brackets or a comma say how the paper ran it. Else it has the paper's
words, or the setting of a curve ("0.10", "1e-5", "100k"). A column is the evaluated set, with its
measure if the table has several ("News R@5").
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class PaperTable:
    """One table or figure of a paper.

    Attributes:
        id: Of the experiment, or of a part of it ("hicl.t1.gain" has another measure).
        source: Paper, table, and what it shows.
        measure: The measure, with its factor of 100 if it has one.
        rows: Row -> column -> value as printed.
        note: Misprints, and what is uncertain.
        other_sets: Whether its average is over other sets than our columns.
    """

    id: str
    source: str
    measure: str
    rows: Mapping[str, Mapping[str, str]]
    note: str = ""
    other_sets: bool = False

    @property
    def columns(self) -> list[str]:
        """Every column, in the order of its first number."""
        return list(dict.fromkeys(name for row in self.rows.values() for name in row))

    @property
    def head(self) -> list[str]:
        """The column titles of `lines`."""
        return ["row", *self.columns]

    def lines(self) -> list[list[str]]:
        """Return every number as printed: one line for each row, empty where there is none."""
        return [
            [row, *map(of.get, self.columns, [""] * len(self.columns))]
            for row, of in self.rows.items()
        ]

    def number(self, row: str, column: str) -> float | None:
        """Return the number of a row and a column."""
        printed = self.rows.get(row, {}).get(column)
        return float(printed) if printed else None


@cache
def paper_tables() -> Mapping[str, PaperTable]:
    """Return all tables by id, in the order of the papers."""
    numbers: dict[str, dict[str, dict[str, str]]] = {}
    for file in FOLDER.glob("*.csv"):
        if file.name != "tables.csv":
            for line in read_csv(file):
                row = numbers.setdefault(line["table"], {}).setdefault(line["row"], {})
                row[line["column"]] = line["value"]
    return {
        line["id"]: PaperTable(
            id=line["id"],
            source=line["source"],
            measure=line["measure"],
            rows=numbers[line["id"]],
            note=line["note"],
            other_sets=line["other_sets"] == "yes",
        )
        for line in read_csv(FOLDER / "tables.csv")
    }


def paper_table(id: str) -> PaperTable | None:
    """Return the table of this id; None if there is no such table or none of its numbers."""
    return paper_tables().get(id)


def read_csv(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))
