"""A transfer task of the suite as its examples."""

from dataclasses import replace
from pathlib import Path

from sentemb_core.evaluation.transfer import TransferTask
from sentemb_core.evaluation.transfer_files import (
    TRANSFER_TASKS,
    read_labelled,
    read_probing,
    read_transfer,
)
from sentemb_core.suite import ProbeTask


def read_probe(task: ProbeTask, folder: Path) -> TransferTask:
    """The examples of these files under the task's name.

    Raises:
        BadDataError: as the reader of the set.
    """
    if task.source == "probing":
        return read_probing(task.name, folder / task.files[0])
    if task.source in TRANSFER_TASKS:
        return replace(read_transfer(task.source, folder), name=task.name)
    return read_labelled(task.name, folder / task.files[0])
