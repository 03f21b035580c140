"""The table of `lineage`: one line per artifact, indented below the artifact made from it."""

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sentemb_core.console import plain
from sentemb_core.store.status import short

if TYPE_CHECKING:
    from rich.table import Table

    from sentemb_core.store.records import Lineage, Origin

PARAMETERS: Mapping[str, str] = {
    "read_corpus": "source %(config.source)s",
    "read_labels": "labels of %(config.source)s",
    "draw_labels": "count %(count)s",
    "start_encoder": "%(config.name)s, seed %(config.seed)s",
    "prune_graph": "top_k %(top_k)s",
    "cluster_by_kmeans": "%(n_clusters)s clusters",
    "train_encoder": "%(config.method.name)s, %(config.steps)s steps, seed %(config.seed)s",
    "publish_encoder": "named %(name)s",
}
"""Stage -> the parameters in its line; `--json` has all."""


@dataclass(frozen=True)
class Line:
    """An artifact, its depth, and the lines of the other artifacts that it was made from."""

    origin: "Origin"
    depth: int
    also: list[int] = field(default_factory=list[int])


def lineage_table(lineage: "Lineage") -> "Table":
    """Every artifact once, below the first artifact that was made from it."""
    from rich.table import Table

    table = Table(box=None)
    for name in ("", "artifact", "made by", "when"):
        table.add_column(name, no_wrap=True)
    for name in ("with", "also made from"):
        table.add_column(name)
    for number, line in enumerate(lines_of(lineage), 1):
        origin = line.origin
        table.add_row(
            str(number),
            f"{'  ' * line.depth}{origin.ref.kind} {origin.ref.digest[:12]}",
            origin.stage or "(no record)",
            f"{datetime.fromtimestamp(origin.created):%Y-%m-%d %H:%M}" if origin.created else "",
            plain(parameters(origin)),
            " ".join(map(str, line.also)),
        )
    return table


def lines_of(lineage: "Lineage") -> list[Line]:
    """The artifacts in the order of the table."""
    origins = {origin.ref.digest: origin for origin in lineage.origins}
    numbers: dict[str, int] = {}
    lines: list[Line] = []

    def add(origin: "Origin", depth: int) -> None:
        lines.append(line := Line(origin, depth))
        numbers[origin.ref.digest] = len(lines)
        for ref in origin.inputs:
            if ref.digest in numbers:
                line.also.append(numbers[ref.digest])
            else:
                add(origins[ref.digest], depth + 1)

    add(lineage.origins[0], 0)
    return lines


def parameters(origin: "Origin") -> str:
    known = {name: in_brief(value) for name, value in origin.parameters.items()}
    return PARAMETERS.get(origin.stage or "", "") % defaultdict(lambda: "?", known)


def in_brief(value: Any) -> str:
    """A value in a few characters; of a digest the first 12, which `lineage` accepts."""
    digest = re.fullmatch(r"[0-9a-f]{64}", str(value))
    return str(value)[:12] if digest else short(value)
