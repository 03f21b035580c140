"""Numbers that the five papers print, as data: one CSV file for each paper.

A line of `mutual.csv` is one number: its table, its row, its column, and the value as printed.
`tables.csv` has the source, the measure and a note for each table. docs/errata.md lists all
misprints. An average that its own row contradicts stays as printed, and the note has the correct
value. Table 12 of `infocse` alone is corrected, by another table of that paper.

A row is one of our methods; brackets or a comma say how the paper ran it. Else it has the paper's
words, or the setting of a curve ("0.10", "1e-5", "100k"). A column is the evaluated set. A number
that could not be found is absent, never guessed.
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
        id: Of the experiment, or of a part of it ("mutual.t1.r10" has another measure).
        source: Paper, table, and what it shows.
        measure: The measure, with its factor of 100 if it has one.
        rows: Row -> column -> value as printed.
        note: Misprints, and what is uncertain.
        other_sets: Whether its average is over other sets than our columns.
    """

    id: str
    source: str
    measure: str
    rows: Mapping[str, Mapping[str, float]]
    note: str = ""
    other_sets: bool = False


@cache
def paper_tables() -> Mapping[str, PaperTable]:
    """Return all tables by id, in the order of the papers."""
    numbers: dict[str, dict[str, dict[str, float]]] = {}
    for file in FOLDER.glob("*.csv"):
        if file.name != "tables.csv":
            for line in read_csv(file):
                row = numbers.setdefault(line["table"], {}).setdefault(line["row"], {})
                row[line["column"]] = float(line["value"])
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
