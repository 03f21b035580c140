"""A corpus small enough for whole runs: documents on a few topics, each with a title."""

import json
from pathlib import Path

import numpy as np

from sentemb_core.configs import InfoCSEIDC

TOPICS = (
    "river flood water rain dam",
    "budget tax money bank loan",
    "vaccine doctor clinic virus dose",
    "forest tree fire park ranger",
    "school teacher exam pupil class",
    "server code data cloud api",
)


def write_corpus(path: Path, documents: int = 60, seed: int = 0) -> Path:
    """JSONL: id, title, sentences. A document's words come from one topic and a few of its own."""
    rng = np.random.default_rng(seed)
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


def tiny_run(source: Path, **changes: object) -> InfoCSEIDC:
    """A run of a second or two."""
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
    }
    return InfoCSEIDC.model_validate(settings | changes)
