"""An encoder's measures on one task, with the units that a bootstrap resamples."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Float64

from sentemb_core.types import Json

Statistic = Literal["mean", "ratio", "spearman"]
"""How the main measure follows from the units: the mean of their one column, the sum of the first
column over the sum of the second, or Spearman's correlation of the two columns."""


@dataclass(frozen=True)
class TaskResult:
    """The measures of one encoder on one task.

    Attributes:
        task: Its name, as in the suite.
        main: The measure that stands for the task.
        measures: Every measure, by name; shares and correlations, not percentages.
        units: One row per query, pair or example, in a fixed order: its value of the main measure,
            or its cosine and gold score. Queries that answer each other share a row: the sum of
            their values, and their number.
        statistic: How `measures[main]` follows from `units`.
    """

    task: str
    main: str
    measures: Mapping[str, float]
    units: Float64[np.ndarray, "units columns"]
    statistic: Statistic = "mean"

    @property
    def value(self) -> float:
        return self.measures[self.main]

    @property
    def counted(self) -> int:
        """Number of queries, pairs or examples, also where several share one unit."""
        return int(self.units[:, 1].sum()) if self.statistic == "ratio" else len(self.units)


def write_result(result: TaskResult, folder: Path) -> None:
    """Write result.json and units.parquet."""
    columns = {f"{k}": result.units[:, k] for k in range(result.units.shape[1])}
    pq.write_table(pa.table(columns), folder / "units.parquet", compression="zstd")
    fields = {
        "task": result.task,
        "main": result.main,
        "measures": dict(result.measures),
        "statistic": result.statistic,
    }
    (folder / "result.json").write_text(json.dumps(fields, indent=1), encoding="utf-8")


def read_result(folder: Path) -> TaskResult:
    """Read what `write_result` wrote."""
    fields: Json = json.loads((folder / "result.json").read_text("utf-8"))
    table = pq.read_table(folder / "units.parquet")
    columns = [column.to_numpy() for column in table.columns]
    return TaskResult(**fields, units=np.stack(columns, axis=1).astype(np.float64))
