"""The scores of an encoder in its last benchmark, for the report of the run that made it."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel

from sentemb_core.redaction import first_line
from sentemb_core.store.objects import Store
from sentemb_core.store.runs import last_runs
from sentemb_core.types import ArtifactRef
from tasks.benchmark_rows import main_scores
from tasks.benchmark_table import percent, points_of
from tasks.results import ResultRow, ResultTable

if TYPE_CHECKING:
    from sentemb_core.report.data import Evaluation

log = logging.getLogger(__name__)

OWN = "this encoder"


class BenchmarkedModel(BaseModel):
    """A model of a table.json; a baseline of a comparison has no encoder.

    Of a retriever, `encoder` is its root alone.
    """

    model: str
    encoder: str = ""
    retriever: str = ""


class BenchmarkTable(BaseModel):
    """The part of a benchmark's table.json that a report reads."""

    run: str
    models: dict[str, BenchmarkedModel]
    rows: list[ResultRow]

    def label_of(self, encoder: ArtifactRef) -> str | None:
        """Return a model's name among the scores; None if it has no score."""
        scored = {row.system for row in main_scores(self.rows)}
        labels = (
            label
            for label, one in self.models.items()
            if (one.retriever or one.encoder) == encoder.digest and label in scored
        )
        return next(labels, None)


def evaluation_of(encoder: ArtifactRef) -> "Evaluation | None":
    """Return the encoder's scores in its last benchmark, beside those of all other systems.

    A benchmark is skipped if its table is gone, unreadable, or overwritten by a later benchmark.
    """
    for run, folder in benchmarks():
        table = table_in(folder)
        own = table.label_of(encoder) if table and table.run == run else None
        if table and own:
            return evaluation(folder, table, own)
    return None


def is_table(file: Path) -> bool:
    """Return whether a benchmark wrote the file."""
    try:
        return bool(BenchmarkTable.model_validate_json(file.read_bytes()))
    except (OSError, ValueError):
        return False


def table_in(folder: Path) -> BenchmarkTable | None:
    """Return the table of a benchmark; None, with a warning, if it cannot be read."""
    file = folder / "table.json"
    try:
        return BenchmarkTable.model_validate_json(file.read_bytes())
    except (OSError, ValueError) as error:
        log.warning("benchmark skipped, its %s cannot be read: %s", file, first_line(error))
        return None


def benchmarks() -> Iterator[tuple[str, Path]]:
    """Yield finished benchmarks, the last one first: their runs and the folders of their tables."""
    store = Store.default()
    for run in last_runs(store):
        if run.state == "completed" and "models" in run.config and "vectors" in run.config:
            out = run.config.get("out")
            yield run.id, Path(out) if out else store.root / "benchmarks" / run.id


def evaluation(folder: Path, table: BenchmarkTable, own: str) -> "Evaluation":
    """Return the main measures of a benchmark, task by task, those of the model `own` first."""
    from sentemb_core.report.data import Evaluation

    scores = sorted(main_scores(table.rows), key=lambda row: row.system != own)
    named = [row.model_copy(update={"system": OWN}) if row.system == own else row for row in scores]
    pivot = percent("task", "metric", columns=("system",), intervals="all")
    shown = ResultTable(id=table.run, title="", rows=tuple(named), pivot=pivot)
    systems = shown.head()[len(pivot.rows) :]
    fixed = [system for system in systems if system not in (OWN, *table.models)]
    return Evaluation(
        run=table.run,
        page=str(folder / "page.html"),
        systems=systems,
        fixed=fixed,
        rows=shown.lines(),
        points=points_of(named, fixed),
    )
