"""The log of all steps, and the mean loss at its end."""

from pathlib import Path

import pytest

from sentemb_core.training.state import StepLog, final_loss, read_steps


def test_unmeasured_metrics_are_null(tmp_path: Path):
    log = StepLog()
    log.add({"loss": 2.0, "learning_rate": 0.1, "gradient_norm": 1.5, "pairs_per_second": 9.0})
    log.add({"loss": 1.0, "learning_rate": 0.1, "gradient_norm": 0.5, "validation": 0.25})
    log.write(tmp_path)
    assert read_steps(tmp_path) == {
        "step": [1, 2],
        "loss": [2.0, 1.0],
        "learning_rate": [0.1, 0.1],
        "gradient_norm": [1.5, 0.5],
        "validation": [None, 0.25],
    }


@pytest.mark.parametrize(("steps", "loss"), [(1, 1.0), (19, 19.0), (40, 38.5)])
def test_the_final_loss_is_the_mean_over_the_last_tenth(tmp_path: Path, steps: int, loss: float):
    log = StepLog()
    for step in range(1, steps + 1):
        log.add({"loss": float(step)})
    log.write(tmp_path)
    assert final_loss(tmp_path) == loss
