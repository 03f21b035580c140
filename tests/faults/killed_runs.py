"""Runs of the flow that are killed: one process forks a child for each, so imports cost once.

    python tests/faults/killed_runs.py CORPUS HOME SEED

Child after child is killed with SIGKILL at a random moment of the stage it is meant to reach, one
for every stage of the flow and three for trainings that have written a checkpoint; each goes on
where the last one died. Prints a JSON line: kills by stage, and what the survivor returned.
"""

import json
import logging
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

import torch

from flows.infocse_idc import self_train
from sentemb_core.store.objects import Store
from tasks.caching import without_prefect
from tests.flows.corpora import tiny_run

STAGES = [
    "read_corpus",
    "draw_benchmark",
    "start_encoder",
    "tokenise_sentences",
    "bm25_scores",
    "random_scores",
    "encode_sentences",
    "validate_encoder",
    "train_encoder",
    "build_graph",
    "prune_graph",
    "cluster_sentences",
    "export_pairs",
    "diagnose_round",
]


class KillOn(logging.Handler):
    """Kills this process at a random moment after a stage has begun."""

    def __init__(self, stage: str, delay: float) -> None:
        super().__init__()
        self.stage, self.delay = stage, delay

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage().startswith(f"{self.stage} runs"):
            threading.Thread(target=self.kill, daemon=True).start()

    def kill(self) -> None:
        time.sleep(self.delay)
        os.kill(os.getpid(), signal.SIGKILL)


def kill_after_checkpoint(home: Path, delay: float) -> None:
    """Kills this process a moment after some training has written a checkpoint that is new."""
    known = set(home.glob("work/train_encoder-*/*"))
    while True:
        fresh = set(home.glob("work/train_encoder-*/*")) - known
        if any(path.suffix == ".json" for path in fresh):
            time.sleep(delay)
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.001)


def attempt(source: Path, kill: object) -> int | None:
    """Run in a fork; the signal that killed it, or none. What it returned is on the disk."""
    child = os.fork()
    if child == 0:
        kill()
        with without_prefect(Store.default()):
            self_train(tiny_run(source), lambda row: None)
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
    logging.getLogger("sentemb_core").setLevel(logging.INFO)
    rng = random.Random(seed)
    kills: dict[str, int] = {}
    for stage in STAGES:
        handler = KillOn(stage, rng.choice([0.0, rng.random() * 0.02]))
        logger = logging.getLogger("sentemb_core")
        if attempt(source, lambda handler=handler, logger=logger: logger.addHandler(handler)):
            kills[stage] = kills.get(stage, 0) + 1
    for _ in range(12):
        if kills.get("past a checkpoint", 0) >= 3:
            break
        delay = rng.random() * 0.01
        watch = threading.Thread(target=kill_after_checkpoint, args=(home, delay), daemon=True)
        if attempt(source, watch.start):
            kills["past a checkpoint"] = kills.get("past a checkpoint", 0) + 1
    with without_prefect(Store.default()):
        survivor = self_train(tiny_run(source), lambda row: None)
    sys.stdout.write(json.dumps({"kills": kills, "survivor": survivor.model_dump(mode="json")}))


if __name__ == "__main__":
    main()
