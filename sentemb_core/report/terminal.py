"""Results of `sentemb` as tables for the terminal: hits, scores, methods."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.table import Column, Table

from sentemb_core import console
from sentemb_core.config.method_list import UNTRAINED, needs
from sentemb_core.config.methods import METHODS
from sentemb_core.formats import with_interval

if TYPE_CHECKING:
    from sentemb_core.corpus.validation_pool import Kind
    from sentemb_core.document_vectors import Hit
    from sentemb_core.evaluation.bootstrap import Difference
    from sentemb_core.evaluation.validation_scores import RetrievalScores

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


def scores_table(kind: "Kind", scores: "Mapping[str, RetrievalScores]") -> Table:
    """Recall@k with one row for each direction."""
    from sentemb_core.corpus.validation_pool import SIDES  # brings pyarrow: `methods` needs none

    head = "", "direction", "R@1", "R@5", "R@10", "R@20", "queries", "candidates"
    rows: list[Sequence[str]] = []
    for label, row in scores.items():
        both = row.document_to_counterpart, row.counterpart_to_document
        for sides, scores_of_way in zip((SIDES[kind], SIDES[kind][::-1]), both, strict=True):
            way = scores_of_way.model_dump()
            figures = (f"{way[f'recall_at_{k}']:.3f}" for k in (1, 5, 10, 20))
            counts = (f"{way[count]:,}" for count in ("queries", "candidates"))
            rows.append((label, " to ".join(sides), *figures, *counts))
    return console.terminal_table(head, rows)


def bm25_difference_text(kind: "Kind", own: str, leads: "Iterable[Difference]") -> list[str]:
    """The difference of a system to BM25 in one or both directions, with its 95 % interval."""
    from sentemb_core.corpus.validation_pool import SIDES

    return [
        f"R@5, {' to '.join(sides)}: {own} minus BM25 "
        f"{with_interval(lead.low, lead.mean, lead.high)}, {_verdict(lead)}."
        for sides, lead in zip((SIDES[kind], SIDES[kind][::-1]), leads, strict=False)
    ]


def _verdict(gain: "Difference") -> str:
    if gain.low > 0:
        return "significantly better"
    return "significantly worse" if gain.high < 0 else "not decided"


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
