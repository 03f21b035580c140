"""Keeps what a small run of this version leaves in its store, for the versions after it to read.

Run at a release: python -m tests.golden.make_store
"""

import json
import os
import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from sentemb_core.encoder.batching import embed_texts
from sentemb_core.encoder.checkpoint import load_encoder
from sentemb_core.store.objects import Store
from tasks.report import Outcome
from tasks.validate import scores_of
from tests.flows.corpora import tiny_run, write_corpus

HERE = Path(__file__).parent
SENTENCES = ["bank money loan", "a teacher and a pupil"]
KEPT = ("corpus.jsonl", "objects", "records", "runs")


def small_run(folder: Path) -> Outcome:
    """A run of one round, its home in this folder, its corpus beside the store."""
    write_corpus(folder / "corpus.jsonl", documents=24)
    config = tiny_run(
        Path("corpus.jsonl"),
        name="golden",
        encoder={"name": "static", "dim": 8, "vocabulary": 200},
        rounds={"max_rounds": 1, "patience": 1},
        control=False,
        register_model=False,
    )
    (folder / "config.json").write_text(config.model_dump_json(), "utf-8")
    command = [sys.executable, "-m", "flows", "run", "--config", "config.json", "--json"]
    environment = os.environ | {"SENTEMB_HOME": str(folder), "PYTHONPATH": str(HERE.parents[1])}
    done = subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.PIPE)
    return Outcome.model_validate_json(done.stdout)


def facts(outcome: Outcome, store: Store) -> dict[str, object]:
    """What a later version has to find in the store, as this one reads it."""
    rows = outcome.training.rows
    return {
        "run": outcome.run,
        "artifacts": len(list(store.objects.glob("*/*"))),
        "records": len(list(store.root.glob("records/*/*.json"))),
        "recall_at_5": {
            row.label: scores_of(row.scores)["test"].document_to_counterpart.recall_at_5
            for row in rows
        },
        "sentences": SENTENCES,
        "vectors": embed_texts(load_encoder(store.path(outcome.encoder)), SENTENCES).tolist(),
    }


def main() -> None:
    name = f"store-{version('sentemb')}"
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        outcome = small_run(folder)
        os.environ["SENTEMB_HOME"] = scratch
        told = facts(outcome, Store.default())
        with tarfile.open(HERE / f"{name}.tar.xz", "w:xz") as archive:
            for kept in KEPT:
                archive.add(folder / kept, kept, filter=nobody)
    (HERE / f"{name}.json").write_text(json.dumps(told, indent=1) + "\n", "utf-8")


def nobody(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """The entry without the person who made it."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    main()
