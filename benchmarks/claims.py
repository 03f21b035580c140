"""What becomes of the papers' claims, at a glance: the table of RESULTS.md, from finished runs.

    python -m benchmarks.claims --write

Reads the table.json that every `python -m flows reproduce ID` leaves below the home, of whole
tables at the preset `small` alone; rows of experiments that ran elsewhere stay.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.main_job import RESULTS
from flows.experiments import index
from flows.experiments.index import Reproduction
from sentemb_core.store.objects import Store
from sentemb_core.types import Json
from tasks.tables.markdown import between_marks, markdown_table, write_between_marks

HEAD = (
    "experiment",
    "claim",
    "at our scale",
    "difference to the rival that decides, 95 %, seeds above",
)


def tables(reports: Path) -> Iterator[Json]:
    """Experiments that have run as RESULTS.md has them; what older versions had is passed over."""
    for file in sorted(reports.glob("s00*/table.json")):
        table = json.loads(file.read_text("utf-8"))
        if table["experiment"] not in index.EXPERIMENTS:
            continue
        if Reproduction.model_validate(table["asked"]).name == table["experiment"]:
            yield table


def rows_of(table: Json) -> Iterator[Sequence[str]]:
    """One for each claim that had something to compare."""
    for claim in table["claims"]:
        if closest := claim["deciding"]:
            digits = closest.get("digits", 3)  # tables of before have none
            low, difference, high = (
                f"{closest[name]:+.{digits}f}" for name in ("low", "difference", "high")
            )
            found = f"{difference} ({low} to {high}), {closest['better_in']} of {closest['seeds']}"
            if closest.get("units") is None and not closest.get("unkept"):
                found += "; the range over the seeds, of the rival less the better"
            yield table["experiment"], claim["text"], f"**{claim['fate']}**", found


def stood(ran: set[str]) -> Iterator[Sequence[str]]:
    """Rows of RESULTS.md whose experiments are not among those."""
    for line in between_marks(RESULTS, "claims").splitlines():
        row = line.removeprefix("| ").removesuffix(" |").split(" | ")
        if row[0].startswith("s00") and row[0] not in ran:
            yield row


def place(row: Sequence[str]) -> int:
    """Where the row's experiment stands in `reproduce list`."""
    return list(index.EXPERIMENTS).index(row[0])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reports", type=Path, default=Store.default().root / "reports")
    parser.add_argument("--write", action="store_true", help="between the marks of RESULTS.md")
    asked = parser.parse_args()
    found = list(tables(asked.reports))
    rows = [
        *stood({one["experiment"] for one in found}),
        *(row for one in found for row in rows_of(one)),
    ]
    told = markdown_table(HEAD, sorted(rows, key=place))
    if asked.write:
        write_between_marks(RESULTS, "claims", told)
    print(told)
