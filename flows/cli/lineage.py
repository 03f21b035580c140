"""The table of `lineage`: one line per artifact, indented below the artifact made from it."""

import re
from collections import defaultdict
from collections.abc import Mapping
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
    "publish_encoder": "named %(card.name)s",
}
"""Stage -> the parameters in its line; `--json` has all."""


def lineage_table(lineage: "Lineage") -> "Table":
    """Every artifact once, below the first artifact that was made from it."""
    from rich.table import Table

    origins = {origin.ref.digest: origin for origin in lineage.origins}
    numbers: dict[str, int] = {}
    rows: list[tuple[list[str], list[str]]] = []

    def add(origin: "Origin", depth: int) -> None:
        """Add the row of an artifact, then the rows of its inputs that have no row yet."""
        also_from: list[str] = []
        made = f"{datetime.fromtimestamp(origin.created):%Y-%m-%d %H:%M}" if origin.created else ""
        artifact = f"{'  ' * depth}{origin.ref.kind} {origin.ref.digest[:12]}"
        by = origin.stage or "(no record)"
        rows.append(([artifact, by, made, plain(parameters(origin))], also_from))
        numbers[origin.ref.digest] = len(rows)
        for ref in origin.inputs:
            if ref.digest in numbers:
                also_from.append(str(numbers[ref.digest]))
            else:
                add(origins[ref.digest], depth + 1)

    add(lineage.origins[0], 0)
    table = Table(box=None)
    for name in ("", "artifact", "made by", "when"):
        table.add_column(name, no_wrap=True)
    for name in ("with", "also made from"):
        table.add_column(name)
    for number, (cells, also_from) in enumerate(rows, 1):
        table.add_row(str(number), *cells, " ".join(also_from))
    return table


def parameters(origin: "Origin") -> str:
    known = {name: in_brief(value) for name, value in origin.parameters.items()}
    return PARAMETERS.get(origin.stage or "", "") % defaultdict(lambda: "?", known)


def in_brief(value: Any) -> str:
    """A value in a few characters; of a digest the first 12, which `lineage` accepts."""
    digest = re.fullmatch(r"[0-9a-f]{64}", str(value))
    return str(value)[:12] if digest else short(value)
