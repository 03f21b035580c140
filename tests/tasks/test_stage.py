"""Stages as Prefect tasks: cached by verified records that never choose their own reader."""

import base64
import json
import os
import pickle
from pathlib import Path

import pytest
from prefect import flow
from pydantic import BaseModel

from sentemb_core.errors import BadDataError, UsageError
from sentemb_core.store import runs
from sentemb_core.store.objects import Store
from sentemb_core.types import ArtifactRef
from tasks.execution import dry_run
from tasks.prefect_task import RecordStorage
from tasks.stage import stage

pytestmark = [pytest.mark.server, pytest.mark.usefixtures("prefect_server", "home")]

RAN: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran_yet():
    RAN.clear()


class Scores(BaseModel):
    model: ArtifactRef
    recall: float


def new_text(kind: str, text: str) -> ArtifactRef:
    with Store.default().writing(kind) as draft:
        (draft.path / "text.json").write_text(json.dumps(text))
    return draft.ref


def text_of(ref: ArtifactRef) -> str:
    return json.loads((Store.default().path(ref) / "text.json").read_text())


@stage("test_encode", 1, ignore=("workers",))
def encode(text: str, workers: int = 1) -> ArtifactRef:
    RAN.append("encode")
    return new_text("embeddings", text)


@stage("test_graph", 1)
def graph(embeddings: ArtifactRef, top_k: int) -> ArtifactRef:
    RAN.append("graph")
    return new_text("graph", f"{text_of(embeddings)} {top_k}")


@stage("test_score", 1)
def score(model: ArtifactRef) -> Scores:
    RAN.append("score")
    return Scores(model=model, recall=0.5)


@flow(persist_result=False)
def pipeline(text: str = "a", top_k: int = 1, workers: int = 1) -> Scores:
    return score(graph(encode(text, workers), top_k))


@flow(persist_result=False)
def submitting() -> Scores:
    return score.task.submit(graph.task.submit(encode.task.submit("a"), 1)).result()


def test_an_unchanged_rerun_runs_nothing_and_returns_the_same_typed_result():
    first = pipeline()
    assert RAN == ["encode", "graph", "score"]
    again = pipeline()
    assert RAN == ["encode", "graph", "score"]
    assert isinstance(again, Scores)
    assert again == first


def test_futures_give_the_same_typed_result():
    assert submitting() == submitting() == pipeline()
    assert RAN == ["encode", "graph", "score"]


def test_states_are_completed_then_cached_and_a_refresh_runs_the_stage():
    assert encode("a", return_state=True).name == "Completed"
    assert encode("a", return_state=True).name == "Cached"
    assert encode.with_options(refresh_cache=True)("a", return_state=True).name == "Completed"
    assert RAN == ["encode", "encode"]


def test_only_stages_that_read_a_changed_argument_run_again():
    pipeline(top_k=1, workers=1)
    RAN.clear()
    pipeline(top_k=2, workers=4)
    assert RAN == ["graph", "score"]


def test_a_broken_artifact_is_computed_again_and_nothing_else_runs():
    model = pipeline().model
    (Store.default().folder(model.digest) / "data" / "text.json").write_text("flipped")
    RAN.clear()
    assert pipeline().model == model
    assert RAN == ["graph"]
    assert text_of(model) == "a 1"


def test_records_made_with_and_without_a_server_are_the_same(home):
    store = Store(home)
    encode.stage.run(store, {"text": "in process"})
    assert encode("in process", return_state=True).name == "Cached"
    ref = encode("by prefect")
    record = encode.stage.look_up(store, encode.stage.key({"text": "by prefect"}))
    assert record.outputs == [ref]
    assert RAN == ["encode", "encode"]


@pytest.mark.parametrize("run", [pipeline, submitting])
def test_a_run_records_its_stages_and_hits(home, run):
    encode("a")
    with runs.recording(Store(home), "run", [], {}) as log:
        run()
        run()
    used = [(stage.stage, stage.hit) for stage in log.run.stages]
    assert used == [("test_encode", True), ("test_graph", False), ("test_score", False)]


class Evil:
    def __reduce__(self):
        return (os.mkdir, (str(Store.default().root / "pwned"),))


def record_path(home: Path) -> Path:
    (path,) = (home / "records" / "test_encode").glob("*.json")
    return path


def prefect_envelope(serializer: str) -> str:
    payload = base64.encodebytes(pickle.dumps(Evil())).decode()
    return json.dumps({"metadata": {"serializer": {"type": serializer}}, "result": payload})


@pytest.mark.parametrize("serializer", ["pickle", "compressed/pickle", "sentemb-stage"])
def test_a_record_that_names_its_own_deserializer_is_a_miss(home, serializer):
    encode("a")
    record_path(home).write_text(prefect_envelope(serializer))
    assert encode("a", return_state=True).name == "Completed"
    assert not (home / "pwned").exists()
    assert RAN == ["encode", "encode"]


def test_the_storage_refuses_content_of_another_serializer(home):
    encode("a")
    key = f"test_encode-{record_path(home).stem}"
    with pytest.raises(ValueError, match=r"'test_encode' .*pickle"):
        RecordStorage().write_path(key, prefect_envelope("pickle").encode())
    with pytest.raises(KeyError, match="no such stage"):
        RecordStorage().read_path("../../etc/passwd-0")


@stage("test_untyped", 1)
def takes_anything(value: object) -> str:
    RAN.append("untyped")
    return str(value)


def test_an_argument_without_a_stable_text_stops_the_task():
    with pytest.raises(TypeError, match=r"test_untyped\.arguments\.value is a PosixPath"):
        takes_anything(Path("x"))
    assert RAN == []


@stage("test_flaky", 1)
def flaky(error: str) -> str:
    RAN.append("flaky")
    if error == "ours":
        raise BadDataError("a retry does not help")
    if len(RAN) < 2:
        raise ConnectionError("the network is down for a moment")
    return "done"


def test_passing_failures_are_tried_again_and_our_own_errors_are_not():
    retried = flaky.with_options(retries=2)
    assert retried("theirs") == "done"
    RAN.clear()
    with pytest.raises(BadDataError):
        retried("ours")
    assert RAN == ["flaky"]


def test_two_functions_cannot_share_a_stage_name():
    def encode_otherwise(text: str) -> str:
        return text

    with pytest.raises(UsageError):
        stage("test_encode", 1)(encode_otherwise)


def test_a_dry_run_names_the_stage_that_runs_now(home):
    def why() -> str:
        with dry_run() as plan:
            pipeline.fn()
        return plan.statuses[0].why

    with dry_run() as plan:
        pipeline.fn()
    store = Store.default()
    with store.claim(f"test_encode-{plan.next_key}"):
        assert why() == "runs now"
    assert why() == "first time"


def test_a_dry_run_reports_every_stage_and_runs_none(home):
    def statuses(**arguments) -> list[tuple[str, str, str]]:
        with dry_run() as plan:
            pipeline.fn(**arguments)
        return [(status.stage, status.verdict, status.why) for status in plan.statuses]

    assert statuses() == [
        ("test_encode", "MISS", "first time"),
        ("test_graph", "AFTER", "test_encode"),
        ("test_score", "AFTER", "test_graph"),
    ]
    pipeline()
    RAN.clear()
    assert statuses(top_k=2) == [
        ("test_encode", "HIT", ""),
        ("test_graph", "MISS", "top_k 1 -> 2"),
        ("test_score", "AFTER", "test_graph"),
    ]
    assert RAN == []
