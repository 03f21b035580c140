"""The scores of an encoder in its last benchmark, for the report of the run that made it."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from sentemb_core.redaction import first_line
from sentemb_core.store.objects import Store
from sentemb_core.store.runs import last_runs
from sentemb_core.types import ArtifactRef
from tasks.benchmark_rows import main_scores
from tasks.benchmark_table import PERCENT, points_of
from tasks.results import ResultRow, cell

if TYPE_CHECKING:
    from sentemb_core.report.data import Evaluation

log = logging.getLogger(__name__)

OWN = "this encoder"


class BenchmarkedModel(BaseModel):
    """A model of a benchmark: the digest of its encoder."""

    model_config = ConfigDict(frozen=True)

    encoder: str


class BenchmarkTable(BaseModel):
    """The part of a benchmark's table.json that a report reads."""

    model_config = ConfigDict(frozen=True)

    run: str
    models: dict[str, BenchmarkedModel]
    rows: list[ResultRow]

    def label_of(self, encoder: ArtifactRef) -> str | None:
        """Return the encoder's name in the table; None if the table does not have it."""
        labels = (label for label, one in self.models.items() if one.encoder == encoder.digest)
        return next(labels, None)


def evaluation_of(encoder: ArtifactRef) -> "Evaluation | None":
    """Return the encoder's scores in its last benchmark, beside those of all other systems.

    A benchmark is skipped if its table is gone, unreadable, or overwritten by a later benchmark.
    """
    for run, folder in benchmarks():
        table = table_in(folder)
        own = table.label_of(encoder) if table and table.run == run else None
        if table and own:
            return evaluation(run, folder, table, own)
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


def evaluation(run: str, folder: Path, table: BenchmarkTable, own: str) -> "Evaluation":
    """Return the main measures of a benchmark, task by task, those of the model `own` first."""
    from sentemb_core.report.data import Evaluation

    scores = sorted(main_scores(table.rows), key=lambda row: row.system != own)
    named = [row.model_copy(update={"system": OWN}) if row.system == own else row for row in scores]
    cells = {(row.task, row.system): row for row in named}
    systems = list(dict.fromkeys([OWN, *(row.system for row in named)]))
    fixed = [system for system in systems if system not in (OWN, *table.models)]
    metrics = {row.task: row.metric for row in main_scores(table.rows)}
    pivot = PERCENT.model_copy(update={"intervals": "all"})
    return Evaluation(
        run=run,
        page=str(folder / "page.html"),
        systems=systems,
        fixed=fixed,
        rows=[
            [task, metric]
            + [cell(row, pivot) if (row := cells.get((task, system))) else "" for system in systems]
            for task, metric in metrics.items()
        ],
        points=points_of(named, fixed),
    )
