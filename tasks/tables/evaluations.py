"""What a finished benchmark says of an encoder, for the report of the run that made it."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentemb_core.store.objects import Store
from sentemb_core.store.runs import last_runs
from sentemb_core.types import ArtifactRef
from tasks.tables.scoreboard import ScoreCell
from tasks.tables.scoreboard_lines import points_of, with_interval

if TYPE_CHECKING:
    from sentemb_core.report.data import Evaluation

OWN = "this encoder"


def evaluation_of(encoder: ArtifactRef) -> "Evaluation | None":
    """Its scores in the last benchmark that it was part of, beside those of all other systems.

    A benchmark whose table is gone, or was written by an older version, counts for nothing.
    """
    for run, folder in benchmarks():
        try:
            told = json.loads((folder / "table.json").read_text("utf-8"))
            models = {label: model["encoder"] for label, model in told["models"].items()}
            if encoder.digest in models.values():
                return evaluation(run, folder, told, models, encoder)
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            continue
    return None


def benchmarks() -> Iterator[tuple[str, Path]]:
    """Finished benchmarks, the last one first: their runs, and where their tables went."""
    store = Store.default()
    for run in last_runs(store):
        if run.state == "completed" and "models" in run.config and "vectors" in run.config:
            out = run.config.get("out")
            yield run.id, Path(out) if out else store.root / "benchmarks" / run.id


def evaluation(
    run: str, folder: Path, told: Any, models: Mapping[str, str], encoder: ArtifactRef
) -> "Evaluation":
    """The main measures of a benchmark, task by task, this encoder's first."""
    from sentemb_core.report.data import Evaluation

    scores = [ScoreCell.model_validate(cell) for cell in told["scores"]]
    cells = {(cell.task, cell.system): cell for cell in scores}
    own = next(label for label, digest in models.items() if digest == encoder.digest)
    systems = list(dict.fromkeys([own, *(system for _, system in cells)]))
    tasks = {cell.task: cell.measure for cell in scores}
    fixed = [system for system in systems if system not in models]
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
            for point in points_of(sorted(scores, key=lambda cell: cell.system != own), fixed)
        ],
    )


def named(system: str, own: str) -> str:
    return OWN if system == own else system
