"""What is kept of every step, whatever ended the training before."""

import json
from pathlib import Path

from sentemb_core.training.log import LossLog
from sentemb_core.training.state import TrainingReport


def steps_of(work: Path) -> list[int]:
    return json.loads((work / "steps.json").read_text("utf-8"))["step"]


def test_a_resumed_training_that_ends_sooner_forgets_the_steps_behind_its_end(tmp_path: Path):
    """On a GPU two runs differ in the last digits, and patience may end the second one sooner."""
    killed = LossLog.continued(tmp_path)
    for step in range(1, 8):
        killed.add(step, {"loss": 1.0})
    resumed = LossLog.continued(tmp_path)
    resumed.add(5, {"loss": 2.0})
    resumed.write(tmp_path, TrainingReport(steps=5))
    assert steps_of(tmp_path) == [1, 2, 3, 4, 5]


def test_lines_that_a_power_cut_left_as_zeros_do_not_keep_a_training_from_going_on(tmp_path: Path):
    log = LossLog.continued(tmp_path)
    log.add(1, {"loss": 1.0})
    with log.path.open("ab") as file:
        file.write(bytes(40) + b"\n" + b'{"step": 3, "loss": 3.0}\n{"st')
    LossLog.continued(tmp_path).write(tmp_path, TrainingReport(steps=3))
    assert steps_of(tmp_path) == [1, 3]
