"""Results of `sentemb` as tables for the terminal: hits and methods."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.table import Column, Table

from sentemb_core import console
from sentemb_core.config.method_list import UNTRAINED, needs
from sentemb_core.config.methods import METHODS

if TYPE_CHECKING:
    from sentemb_core.document_vectors import Hit

LONGEST_TITLE = 120
"""Characters of a query above its hits."""

LONGEST_CELL = 300
"""Characters of a sentence or counterpart in their table."""


def hits_table(query: str, hits: "Sequence[Hit]", counterpart: str) -> Table:
    """Ranks, scores and ids, with counterparts and sentences where they exist."""
    optional = {
        counterpart: [hit.counterpart for hit in hits],
        "nearest sentence": [hit.sentence for hit in hits],
    }
    shown = {name: texts for name, texts in optional.items() if any(texts)}
    whole = Column("document", overflow="fold")  # an id is there to be copied
    columns = "rank", "score", whole, *map(console.plain, shown)
    title = _cut(console.plain(query), LONGEST_TITLE)
    table = Table(*columns, title=f"“{title}”", box=None)
    for rank, (hit, *texts) in enumerate(zip(hits, *shown.values(), strict=True), 1):
        cells = [hit.doc_id, *(_cut(text or "", LONGEST_CELL) for text in texts)]
        table.add_row(str(rank), f"{hit.score:.3f}", *map(console.plain, cells))
    return table


def _cut(text: str, most: int) -> str:
    """The first `most` characters of a text on one line; --json has the whole text."""
    words = " ".join(text.split())
    return words if len(words) <= most else f"{words[:most]} ..."


def methods_table(presets: Mapping[str, Sequence[str]]) -> Table:
    """Every training method, with the names of its presets."""
    head = "method", "needs", "what it takes for positives", "presets"
    rows = [
        (name, needs(method), method.summary, ", ".join(presets[name]))
        for name, method in METHODS.items()
    ]
    return console.terminal_table(head, rows)


def untrained_table() -> Table:
    """Every method without training, with its option."""
    return console.terminal_table(("without a gradient", "by"), UNTRAINED.items())
