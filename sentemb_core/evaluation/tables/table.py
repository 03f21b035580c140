"""What a table of a paper is, once it is data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Rows = Mapping[str, Mapping[str, float]]
"""Row -> column -> value as printed."""


@dataclass(frozen=True)
class PaperTable:
    """One table or figure of a paper, as printed.

    A row is a method by our name, in brackets or behind a comma
    what it was run with when the table has it more than once; else the paper's words. A curve's
    row is its setting ("0.10", "1e-5", "100k"). A column is the set judged, or what else the row
    varies over. A value that could not be found is absent, never guessed.

    Attributes:
        id: Of the experiment (`experiments.Experiment.id`); a further part where one table of the
            paper has several measures ("mutual.t1.r10").
        source: Paper, table, and what it shows.
        measure: The measure, with its factor of 100 if it has one.
        rows: Row -> column -> value as printed, errata included.
        note: Errata, and what is uncertain.
        other_sets: Whether its average is of sets that are not our columns, even if all are there.
    """

    id: str
    source: str
    measure: str
    rows: Rows
    note: str = ""
    other_sets: bool = False


def rows_of(
    columns: Sequence[str], lines: Mapping[str, Sequence[float]]
) -> dict[str, dict[str, float]]:
    """Every line under the same columns.

    Raises:
        ValueError: a line has more or fewer values than there are columns.
    """
    return {row: dict(zip(columns, line, strict=True)) for row, line in lines.items()}
