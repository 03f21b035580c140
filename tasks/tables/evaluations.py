"""What a finished benchmark says of an encoder, for the report of the run that made it."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from sentemb_core.redaction import first_line
from sentemb_core.store.objects import Store
from sentemb_core.store.runs import last_runs
from sentemb_core.types import ArtifactRef
from tasks.tables.scoreboard import ScoreCell
from tasks.tables.scoreboard_lines import points_of, with_interval

if TYPE_CHECKING:
    from sentemb_core.report.data import Evaluation

log = logging.getLogger(__name__)

OWN = "this encoder"


class Judged(BaseModel):
    """A model of a benchmark: the digest of the encoder that it is."""

    model_config = ConfigDict(frozen=True)

    encoder: str


class BenchmarkTable(BaseModel):
    """What a report reads of a benchmark's table.json, which says more."""

    model_config = ConfigDict(frozen=True)

    run: str
    models: dict[str, Judged]
    scores: list[ScoreCell]

    def label_of(self, encoder: ArtifactRef) -> str | None:
        """What the table calls this encoder; none where it is not in it."""
        labels = (label for label, one in self.models.items() if one.encoder == encoder.digest)
        return next(labels, None)


def evaluation_of(encoder: ArtifactRef) -> "Evaluation | None":
    """Its scores in the last benchmark that it was part of, beside those of all other systems.

    A benchmark whose table is gone, or made way for a later one's, or was written by an older
    version, is passed over.
    """
    for run, folder in benchmarks():
        table = table_in(folder)
        own = table.label_of(encoder) if table and table.run == run else None
        if table and own:
            return evaluation(run, folder, table, own)
    return None


def is_table(file: Path) -> bool:
    """Whether a benchmark wrote it."""
    try:
        return bool(BenchmarkTable.model_validate_json(file.read_bytes()))
    except (OSError, ValueError):
        return False


def table_in(folder: Path) -> BenchmarkTable | None:
    """The table that a benchmark left there; none, with a warning, where it cannot be read."""
    file = folder / "table.json"
    try:
        return BenchmarkTable.model_validate_json(file.read_bytes())
    except (OSError, ValueError) as error:
        why = first_line(error)
        log.warning("The report passes over a benchmark whose %s cannot be read: %s", file, why)
        return None


def benchmarks() -> Iterator[tuple[str, Path]]:
    """Finished benchmarks, the last one first: their runs, and where their tables went."""
    store = Store.default()
    for run in last_runs(store):
        if run.state == "completed" and "models" in run.config and "vectors" in run.config:
            out = run.config.get("out")
            yield run.id, Path(out) if out else store.root / "benchmarks" / run.id


def evaluation(run: str, folder: Path, table: BenchmarkTable, own: str) -> "Evaluation":
    """The main measures of a benchmark, task by task, those of the model `own` first."""
    from sentemb_core.report.data import Evaluation

    cells = {(cell.task, cell.system): cell for cell in table.scores}
    systems = list(dict.fromkeys([own, *(system for _, system in cells)]))
    tasks = {cell.task: cell.measure for cell in table.scores}
    fixed = [system for system in systems if system not in table.models]
    return Evaluation(
        run=run,
        page=str(folder / "page.html"),
        systems=[named(system, own) for system in systems],
        fixed=fixed,
        rows=[
            [task, measure, *(with_interval(cells.get((task, system))) for system in systems)]
            for task, measure in tasks.items()
        ],
        points=[
            point.model_copy(update={"system": named(point.system, own)})
            for point in points_of(sorted(table.scores, key=lambda cell: cell.system != own), fixed)
        ],
    )


def named(system: str, own: str) -> str:
    return OWN if system == own else system
