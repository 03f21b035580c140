"""Every way to pick positives against the better baseline, twelve tables of RESULTS.md in one.

    python -m benchmarks.annotation_summary --write

Reads what `annotation_study --write` left there for the four corpora from three start encoders, of
all rows and three seeds; it computes no difference anew.
"""

import argparse
from collections import Counter
from collections.abc import Mapping
from itertools import product

from benchmarks.annotation_study import LONGER, NEIGHBOURS, STUDIED
from benchmarks.main_job import RESULTS
from tasks.tables.markdown import between_marks, markdown_table, write_between_marks

STARTS = {"static": "static", "transformer": "two layers", "minilm": "MiniLM"}
SHORT = dict(zip(STUDIED, ("blog", "sessions", "Reuters", "arXiv"), strict=True))
EQUAL_TIME = "neighbours only, as long as an annotation takes"
BASELINE = "baseline"

Place = tuple[str, str]
"""A start encoder and a corpus."""


def differences(table: str) -> dict[str, str]:
    """Way to pick positives -> its difference as the table has it, bold where it leaves out zero.

    Without its interval; `BASELINE`: it is what the others are compared with.
    """
    found = dict[str, str]()
    for line in table.splitlines()[2:]:
        way, _, _, difference = line.removeprefix("| ").split(" | ")[:4]
        value, interval, _ = difference.partition(" (")
        bold = "**" if value.startswith("**") else ""
        name = EQUAL_TIME if way.endswith(LONGER) else way
        found[name] = value + bold if interval else BASELINE
    return found


def verdicts(row: Mapping[Place, str]) -> Counter[str]:
    """In how many places a way is `better` and `worse`, by its intervals."""
    signs = {"**+": "better", "**-": "worse"}
    return Counter(signs[told[:3]] for told in row.values() if told[:3] in signs)


def summary(found: Mapping[Place, Mapping[str, str]]) -> str:
    """One row a way in the order of the tables, a column for each start encoder and corpus."""
    ways = dict.fromkeys(way for table in found.values() for way in table)
    ordered = sorted(ways, key=lambda way: way not in (NEIGHBOURS, EQUAL_TIME))
    head = ["positives", "better", "worse", *(f"{STARTS[at]}, {SHORT[on]}" for at, on in found)]
    rows: list[list[str]] = []
    for way in ordered:
        row = {place: table.get(way, "") for place, table in found.items()}
        number = verdicts(row)
        rows.append([way, str(number["better"]), str(number["worse"]), *row.values()])
    return markdown_table(head, rows, range(1, len(head)))


def table_of(start: str, corpus: str) -> str:
    """Between its marks in RESULTS.md."""
    return (
        between_marks(RESULTS, f"annotation {corpus} {start}, 3 seeds").strip().partition("\n\n")[0]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="Into RESULTS.md, between its marks.")
    asked = parser.parse_args()
    places = list(product(STARTS, STUDIED))
    made = summary({place: differences(table_of(*place)) for place in places})
    print(made)
    if asked.write:
        write_between_marks(RESULTS, "annotation summary", made)


if __name__ == "__main__":
    main()
