"""What is kept of every step, whatever ended the training before."""

from pathlib import Path

import pytest

from sentemb_core.training.log import LossLog, final_loss, read_steps
from sentemb_core.training.state import TrainingReport


def test_a_resumed_training_that_ends_sooner_forgets_the_steps_behind_its_end(tmp_path: Path):
    """On a GPU two runs differ in the last digits, and patience may end the second one sooner."""
    killed = LossLog.continued(tmp_path)
    for step in range(1, 8):
        killed.add(step, {"loss": 1.0})
    resumed = LossLog.continued(tmp_path)
    resumed.add(5, {"loss": 2.0})
    resumed.write(tmp_path, TrainingReport(steps=5))
    assert read_steps(tmp_path)["step"] == [1, 2, 3, 4, 5]


def test_lines_that_a_power_cut_left_as_zeros_do_not_keep_a_training_from_going_on(tmp_path: Path):
    log = LossLog.continued(tmp_path)
    log.add(1, {"loss": 1.0})
    with log.path.open("ab") as file:
        file.write(bytes(40) + b"\n" + b'{"step": 3, "loss": 3.0}\n{"st')
    LossLog.continued(tmp_path).write(tmp_path, TrainingReport(steps=3))
    assert read_steps(tmp_path)["step"] == [1, 3]


@pytest.mark.parametrize(("steps", "loss"), [(1, 1.0), (19, 19.0), (40, 38.5)])
def test_the_final_loss_is_the_mean_over_the_last_tenth_of_the_steps(
    tmp_path: Path, steps: int, loss: float
):
    log = LossLog.continued(tmp_path)
    for step in range(1, steps + 1):
        log.add(step, {"loss": float(step)})
    log.write(tmp_path, TrainingReport(steps=steps))
    assert final_loss(tmp_path) == loss
