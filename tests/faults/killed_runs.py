"""Runs of the flow that are killed: one process forks a child for each, so imports cost once.

    python tests/faults/killed_runs.py CORPUS HOME SEED

Child after child is killed with SIGKILL: at a random moment of the stage it is meant to reach, one
for every stage of the flow; or a few disk operations after a training has written its first
checkpoint, in three trainings. Each goes on where the last one died. Prints a JSON line: kills by
target, and what the survivor made.
"""

import json
import logging
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import torch

from flows.infocse_idc import self_train
from sentemb_core.store import disk
from sentemb_core.types import Json
from tasks.execution import without_prefect
from tasks.publish import published_model
from tests.flows.corpora import tiny_run

CHECKPOINT = "past a checkpoint"
TARGETS = [
    "read_corpus",
    "draw_validation_pool",
    "start_encoder",
    "tokenise_sentences",
    "bm25_scores",
    "random_scores",
    "encode_sentences",
    "validate_encoder",
    "train_encoder",
    CHECKPOINT,
    "build_graph",
    "prune_graph",
    "cluster_sentences",
    "export_pairs",
    "diagnose_round",
    CHECKPOINT,
    CHECKPOINT,
    "publish_encoder",
]
KILL = "kill"


class KillOn(logging.Handler):
    """Kills this process at a random moment after a stage has begun, before another one does."""

    def __init__(self, stage: str, delay: float) -> None:
        super().__init__()
        self.stage, self.delay = stage, delay
        self.begun = False

    def emit(self, record: logging.LogRecord) -> None:
        name, _, rest = record.getMessage().partition(" ")
        if self.begun and rest.startswith("runs"):
            os.kill(os.getpid(), signal.SIGKILL)
        if name == self.stage and rest.startswith("runs"):
            self.begun = True
            threading.Thread(target=self.kill, name=KILL, daemon=True).start()

    def kill(self) -> None:
        time.sleep(self.delay)
        os.kill(os.getpid(), signal.SIGKILL)


class KillPastCheckpoint:
    """Carries out disk operations; some after a training's first checkpoint kills this process."""

    def __init__(self, known: set[Path], patience: int) -> None:
        self.known, self.left = known, patience
        self.reached = False

    def __call__(self, operation, path, *args):
        result = operation(path, *args)
        self.reached = self.reached or bool(checkpoints(path.parents[1]) - self.known)
        if self.reached:
            self.left -= 1
        if self.left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return result


def checkpoints(work: Path) -> set[Path]:
    """Folders of trainings that have written one."""
    return {path.parent for path in work.glob("train_encoder-*/step-*.json")}


def run_of(source: Path) -> Json:
    """What a run makes: its loop, and the encoder that is published at its end."""
    config = tiny_run(source)
    with without_prefect():
        training = self_train(config, lambda row: None)
        encoder = published_model(training, config)
    return {
        "training": training.model_dump(mode="json"),
        "encoder": encoder.model_dump(mode="json"),
    }


def attempt(source: Path, kill: Callable[[], object]) -> int | None:
    """Run in a fork; the signal that killed it, or none. What it returned is on the disk."""
    child = os.fork()
    if child == 0:
        kill()
        run_of(source)
        for thread in threading.enumerate():
            if thread.name == KILL:
                thread.join()  # the last stage may be quicker than its kill
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        return os.WTERMSIG(status)
    assert os.WEXITSTATUS(status) == 0, "the run failed by itself"
    return None


def main() -> None:
    source, home, seed = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    os.environ["SENTEMB_HOME"] = str(home)
    torch.set_num_threads(1)
    logger = logging.getLogger("sentemb_core")
    logger.setLevel(logging.INFO)
    rng = random.Random(seed)
    kills: Counter[str] = Counter()
    for target in TARGETS:
        if target == CHECKPOINT:
            perform = KillPastCheckpoint(checkpoints(home / "work"), rng.randrange(4))
            killed = attempt(source, lambda perform=perform: setattr(disk, "perform", perform))
        else:
            handler = KillOn(target, rng.choice([0.0, rng.random() * 0.02]))
            killed = attempt(source, lambda handler=handler: logger.addHandler(handler))
        kills[target] += killed is not None
    sys.stdout.write(json.dumps({"kills": kills, "survivor": run_of(source)}))


if __name__ == "__main__":
    main()
