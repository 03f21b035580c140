"""Stages as Prefect tasks: cached by our records, verified, and never running what a file says.

Run: pytest tests/tasks/test_caching.py
"""

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
from tasks.execution import making_plan
from tasks.stage import RecordStorage, stage

pytestmark = [pytest.mark.server, pytest.mark.usefixtures("prefect_server", "home")]

RAN: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran_yet():
    RAN.clear()


class Scores(BaseModel):
    model: ArtifactRef
    recall: float


def written(kind: str, text: str) -> ArtifactRef:
    with Store.default().writing(kind) as draft:
        (draft.path / "text.json").write_text(json.dumps(text))
    return draft.ref


def text_of(ref: ArtifactRef) -> str:
    return json.loads((Store.default().path(ref) / "text.json").read_text())


@stage("test_encode", 1, ignore=("workers",))
def encode(text: str, workers: int = 1) -> ArtifactRef:
    RAN.append("encode")
    return written("embeddings", text)


@stage("test_graph", 1)
def graph(embeddings: ArtifactRef, top_k: int) -> ArtifactRef:
    RAN.append("graph")
    return written("graph", f"{text_of(embeddings)} {top_k}")


@stage("test_score", 1)
def score(model: ArtifactRef) -> Scores:
    RAN.append("score")
    return Scores(model=model, recall=0.5)


@flow(persist_result=False)
def pipeline(text: str = "a", top_k: int = 1, workers: int = 1) -> Scores:
    return score(graph(encode(text, workers), top_k))


def test_an_unchanged_rerun_runs_nothing_and_gives_the_same_typed_result():
    first = pipeline()
    assert RAN == ["encode", "graph", "score"]
    RAN.clear()
    again = pipeline()
    assert RAN == []
    assert isinstance(again, Scores)
    assert again == first


def test_only_the_stages_that_read_a_changed_parameter_run_again():
    pipeline(top_k=1, workers=1)
    RAN.clear()
    pipeline(top_k=2, workers=4)
    assert RAN == ["graph", "score"]


def test_states_say_completed_then_cached():
    assert encode("a", return_state=True).name == "Completed"
    assert encode("a", return_state=True).name == "Cached"


@flow(persist_result=False)
def submitting() -> Scores:
    return score.submit(graph.submit(encode.submit("a"), 1)).result()


def test_a_future_gives_the_typed_result_too():
    assert submitting() == submitting() == pipeline()
    assert RAN == ["encode", "graph", "score"]


def test_a_broken_artifact_is_rebuilt_and_nothing_else_runs():
    model = pipeline().model
    (Store.default().folder(model.digest) / "data" / "text.json").write_text("flipped")
    RAN.clear()
    assert pipeline().model == model
    assert RAN == ["graph"]
    assert text_of(model) == "a 1"


def test_a_record_made_without_a_server_is_a_hit_under_it_and_the_other_way_round(home):
    store = Store(home)
    encode.stage.run(store, {"text": "core first"})
    assert encode("core first", return_state=True).name == "Cached"
    ref = encode("prefect first")
    record = encode.stage.look_up(store, encode.stage.key({"text": "prefect first"}))
    assert record.outputs == [ref]
    assert RAN == ["encode", "encode"]


@pytest.mark.parametrize("run", [pipeline, submitting])
def test_a_run_writes_down_its_stages_and_hits(home, run):
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
def test_a_record_that_names_its_own_deserializer_runs_nothing_and_is_a_miss(home, serializer):
    encode("a")
    record_path(home).write_text(prefect_envelope(serializer))
    assert encode("a", return_state=True).name == "Completed"
    assert not (home / "pwned").exists()
    assert RAN == ["encode", "encode"]


def test_the_storage_refuses_what_another_serializer_wrote(home):
    encode("a")
    key = f"test_encode-{record_path(home).stem}"
    with pytest.raises(ValueError, match="Records are written by 'test_encode' alone"):
        RecordStorage().write_path(key, prefect_envelope("pickle").encode())
    with pytest.raises(KeyError, match="no such stage"):
        RecordStorage().read_path("../../etc/passwd-0")


@stage("test_untyped", 1)
def takes_anything(value: object) -> str:
    RAN.append("untyped")
    return str(value)


def test_an_argument_without_a_stable_text_stops_the_task_loudly():
    with pytest.raises(TypeError, match=r"test_untyped.arguments.value is a PosixPath"):
        takes_anything(Path("x"))
    assert RAN == []


def test_refreshing_runs_the_stage_although_its_record_is_sound():
    encode("a")
    assert encode.with_options(refresh_cache=True)("a", return_state=True).name == "Completed"
    assert RAN == ["encode", "encode"]


@stage("test_flaky", 1)
def flaky(error: str) -> str:
    RAN.append("flaky")
    if error == "ours":
        raise BadDataError("nothing gets better by trying again")
    if len(RAN) < 2:
        raise ConnectionError("gone for a moment")
    return "done"


def test_a_passing_failure_is_tried_again_and_our_own_errors_are_not():
    tried_again = flaky.with_options(retries=2)
    assert tried_again("theirs") == "done"
    RAN.clear()
    with pytest.raises(BadDataError):
        tried_again("ours")
    assert RAN == ["flaky"]


def test_two_functions_cannot_share_a_name():
    def encode_otherwise(text: str) -> str:
        return text

    with pytest.raises(UsageError, match="Rename one"):
        stage("test_encode", 1)(encode_otherwise)


def test_a_plan_tells_every_stage_and_runs_none(home):
    with making_plan(Store(home)) as plan:
        pipeline.fn()
    assert [str(told) for told in plan.told] == [
        "test_encode: MISS (first time)",
        "test_graph: after test_encode",
        "test_score: after test_graph",
    ]
    pipeline()
    RAN.clear()
    with making_plan(Store(home)) as plan:
        pipeline.fn(top_k=2)
    assert [str(told) for told in plan.told] == [
        "test_encode: HIT",
        "test_graph: MISS (top_k 1 -> 2)",
        "test_score: after test_graph",
    ]
    assert RAN == []
