"""Few-shot cells as curves, and their files."""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

from sentemb_core.formats import counted
from sentemb_core.types import Json
from tasks.results import grouped
from tasks.tables.cells import MethodCell, leads, numbers_of
from tasks.validate import scores_of

if TYPE_CHECKING:
    from sentemb_core.report.curves import CurvePoint

MEASURE = "R@5"
"""mutual, Table 2."""


def write_curves(cells: Sequence[MethodCell], settings: Json, folder: Path) -> list[Path]:
    """A figure for each corpus and start encoder, and its numbers and `settings` beside it."""
    from sentemb_core.report.curves import curves_figure
    from sentemb_core.report.drawing import png

    folder.mkdir(parents=True, exist_ok=True)
    made: list[Path] = []
    by_block = grouped(((cell.corpus, cell.start), cell) for cell in cells)
    for (corpus, start), own in by_block.items():
        points, lines = points_of(own), fixed_of(own)
        seeds = counted(len({cell.seed for cell in own}), "seed")
        title = f"{corpus}, {start}: document → title, {asked(own):,} test queries, {seeds}"
        figure = curves_figure(points, lines, title, MEASURE)
        file = folder / f"few-shot-{corpus}-{start}.png"
        file.write_bytes(png(figure))
        told = {
            "settings": settings,
            "points": [point.model_dump() for point in points],
            "fixed": lines,
            "leads": [lead.model_dump() for lead in leads(own)],
        }
        file.with_suffix(".json").write_text(json.dumps(told, indent=1), encoding="utf-8")
        made.append(file)
    return made


def asked(cells: Sequence[MethodCell]) -> int:
    """Queries of the test split, which all cells of a block share."""
    scores = (scores_of(cell.scores)["test"] for cell in cells if cell.scores)
    return next((told.document_to_counterpart.queries for told in scores), 0)


def points_of(cells: Sequence[MethodCell]) -> "list[CurvePoint]":
    """One for each method and number of labels that has a score; the start has none without."""
    from sentemb_core.report.curves import CurvePoint

    scores = grouped(
        ((cell.method, cell.labels), numbers_of(cell)[MEASURE])
        for cell in cells
        if cell.scores and cell.learnt
    )
    return [CurvePoint(method=m, labels=n, scores=found) for (m, n), found in scores.items()]


def fixed_of(cells: Sequence[MethodCell]) -> dict[str, float]:
    """Rows that no label moves, over their seeds."""
    rows = grouped(
        (cell.method, numbers_of(cell)[MEASURE])
        for cell in cells
        if cell.scores and not cell.learnt
    )
    return {name: mean(values) for name, values in rows.items()}
