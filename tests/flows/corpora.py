"""A corpus small enough for whole runs: documents on a few topics, each with a title."""

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.defaults import stated
from sentemb_core.config.run import InfoCSEIDC, RunConfig
from sentemb_core.store.objects import Store
from sentemb_core.store.runs import RunLog, recording
from tasks.artifacts import RunResult
from tasks.execution import without_prefect
from tasks.report import Outcome

TOPICS = (
    "river flood water rain dam",
    "budget tax money bank loan",
    "vaccine doctor clinic virus dose",
    "forest tree fire park ranger",
    "school teacher exam pupil class",
    "server code data cloud api",
)


def recorded_starts(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str) -> list:
    """The labels of student and annotator of every round, or cycle, in the order of the calls."""
    starts, function = [], getattr(module, name)

    def recording(label, student, annotator, *rest):
        starts.append((student.label, annotator.label))
        return function(label, student, annotator, *rest)

    monkeypatch.setattr(module, name, recording)
    return starts


def write_corpus(path: Path, documents: int = 60) -> Path:
    """JSONL: id, title, sentences. A document's words come from one topic and a few of its own."""
    rng = np.random.default_rng(0)
    with path.open("w", encoding="utf-8") as file:
        for number in range(documents):
            topic = TOPICS[number % len(TOPICS)].split()
            own = [f"name{number}", f"place{number}", f"thing{number}"]
            sentences = [
                " ".join(rng.choice([*topic, *own], size=rng.integers(4, 8))) + f" {k}."
                for k in range(int(rng.integers(5, 9)))
            ]
            title = " ".join([*rng.choice(topic, 2), *rng.choice(own, 2)])
            row = {"id": f"doc-{number}", "title": title, "sentences": sentences}
            file.write(json.dumps(row) + "\n")
    return path


def write_data_folder(folder: Path, documents: int = 40) -> list[str]:
    """A blog with titles, its sentences as plain ones, and STS files of them, under our names.

    Returns:
        The sentences.
    """
    lines = write_corpus(folder / "documents.jsonl", documents).read_text("utf-8").splitlines()
    blog = [json.loads(line) for line in lines]
    named = [{"doc_id": row.pop("id"), **row} for row in blog]
    pq.write_table(pa.Table.from_pylist(named), folder / "blog_usgov.parquet")
    texts = [text for row in blog for text in row["sentences"]]
    pq.write_table(pa.table({"text": texts}), folder / "plain_sentences.parquet")
    scores = [float(k) for k in range(20)]
    pairs = {"sentence1": texts[:20], "sentence2": texts[20:40], "score": scores}
    for name in ("stsb_dev", "sickr_test"):
        pq.write_table(pa.table(pairs), folder / f"{name}.parquet")
    return texts


def tiny_run(source: Path, **changes: object) -> InfoCSEIDC:
    """A run of a second or two, whose settings left out have the models' defaults."""
    settings: dict[str, object] = {
        "name": "tiny",
        "corpus": {
            "source": str(source),
            "id_column": "id",
            "sentences_column": "sentences",
            "counterpart_column": "title",
        },
        "encoder": {"name": "static", "dim": 16, "vocabulary": 400},
        "initialiser": {
            "method": "conpono",
            "steps": 12,
            "batch_size": 16,
            "learning_rate": 5e-3,
            "checkpoint_every": 4,
        },
        "training": {"steps": 10, "batch_size": 16, "learning_rate": 2e-3, "checkpoint_every": 4},
        "rounds": {"max_rounds": 2, "patience": 2},
        "returns": "encoder",
    }
    return stated(InfoCSEIDC.model_validate(settings | changes))


def in_process(loop: Callable[..., RunResult], config: RunConfig) -> RunResult:
    """What a flow's loop returns if its stages run in this process."""
    with without_prefect():
        return loop(config, lambda _: None)


@contextmanager
def probed() -> Generator[RunLog, None, None]:
    """A block whose stages run in this process, and the record of them."""
    with without_prefect(), recording(Store.default(), "probe", [], {}) as log:
        yield log


def bodies_run(call: Callable[..., object], *arguments: Any) -> list[str]:
    """The stages whose bodies a call ran, in order; the other stages were cached."""
    with probed() as log:
        call(*arguments)
    return [used.stage for used in log.run.stages if not used.hit]


def outcome_of(training: RunResult) -> Outcome:
    """As a finished run's, for what only reads it."""
    encoder = training.rows[-1].encoder
    return Outcome(run="x", training=training, encoder=encoder, report="r", gate=None, timings=[])
