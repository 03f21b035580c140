"""A pool of titles as a task of the suite: hit by hit."""

from pathlib import Path

import numpy as np

from sentemb_core.evaluation.results import TaskResult
from sentemb_core.evaluation.scores import read_ranks


def title_result(scores: Path, measure: str) -> TaskResult:
    """Recall@k of the test split's documents for their counterparts.

    Args:
        scores: Folder of a validated encoder's scores.
        measure: R@k.
    """
    ranks = read_ranks(scores, "test")
    hits = (ranks <= int(measure.removeprefix("R@"))).astype(np.float64)
    return TaskResult("title", measure, {measure: float(hits.mean())}, hits[:, None])
