"""Three toy stages in a row, imported by tests and by the processes that they start."""

import json
import time

from pydantic import BaseModel, ConfigDict

from sentemb_core.store.objects import Store
from sentemb_core.store.stages import Stage
from sentemb_core.types import ArtifactRef

RAN: list[str] = []


class Pruning(BaseModel):
    model_config = ConfigDict(frozen=True)

    top_k: int = 1
    names: frozenset[str] = frozenset()


class Trained(BaseModel):
    model: ArtifactRef
    losses: list[float]


def put(kind: str, *values: object) -> ArtifactRef:
    with Store.default().writing(kind) as draft:
        (draft.path / "values.json").write_text(json.dumps(values))
    return draft.ref


def get(ref: ArtifactRef) -> list[object]:
    return json.loads((Store.default().path(ref) / "values.json").read_text())


def encode(text: str, workers: int = 1) -> ArtifactRef:
    RAN.append("encode")
    return put("embeddings", text)


def graph(embeddings: ArtifactRef, config: Pruning) -> dict[str, ArtifactRef]:
    RAN.append("graph")
    return {"edges": put("edges", get(embeddings), config.top_k)}


def train(edges: ArtifactRef, rate: float) -> Trained:
    RAN.append("train")
    return Trained(model=put("model", get(edges), rate), losses=[1.5, 0.25])


def slow(edges: ArtifactRef) -> ArtifactRef:
    RAN.append("slow")
    time.sleep(0.3)
    return put("model", get(edges))


ENCODE = Stage("encode", 1, encode, ignore=("workers",))
GRAPH = Stage("graph", 1, graph)
TRAIN = Stage("train", 1, train, numeric=("threads",))


def run_chain(
    text: str = "a",
    top_k: int = 1,
    rate: float = 0.1,
    names: tuple[str, ...] = (),
    workers: int = 1,
) -> Trained:
    store = Store.default()
    embeddings = ENCODE.run(store, {"text": text, "workers": workers})
    config = Pruning(top_k=top_k, names=frozenset(names))
    edges = GRAPH.run(store, {"embeddings": embeddings, "config": config})["edges"]
    return TRAIN.run(store, {"edges": edges, "rate": rate})
