"""Records are sealed JSON of one form; any other file in their place is a miss."""

import hashlib
import json
import os
import pickle
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sentemb_core.store import records
from sentemb_core.store.maintenance import fsck
from sentemb_core.store.records import Miss, Record, refs_in
from sentemb_core.store.seals import canonical
from sentemb_core.types import ArtifactRef


class Evil:
    def __reduce__(self):
        return (os.abort, ())


def sealed(body: dict) -> dict:
    """Return an envelope as an attacker who knows the form would write it."""
    digest = hashlib.sha256(canonical(body)).hexdigest()
    return {"serializer": "sentemb-json", "sha256": digest, "record": body}


def changed(envelope: dict, **changes) -> bytes:
    return canonical(envelope | changes)


def poisoned(envelope: dict, put) -> dict[str, bytes]:
    body = envelope["record"]
    other = put("other", text="other").model_dump()
    ghost = other | {"digest": "0" * 64}
    return {
        "empty": b"",
        "not JSON": b"{",
        "not UTF-8": b"\xff\xfe",
        "a list": b"[]",
        "pickle": pickle.dumps(Evil()),
        "deep": b"[" * 30_000,
        "another serializer": changed(envelope, serializer="pickle"),
        "a serializer of Prefect": changed(envelope, serializer={"type": "pickle"}),
        "an unknown field": changed(envelope, hook="os.system"),
        "a broken seal": changed(envelope, sha256="0" * 64),
        "unsealed score": changed(envelope, record=body | {"seconds": 1.25}),
        "an unknown field inside": canonical(sealed(body | {"loader": "pickle"})),
        "a missing field": canonical(sealed({"stage": "train"})),
        "of another stage": canonical(sealed(body | {"stage": "encode"})),
        "of another key": canonical(sealed(body | {"key": "0" * 64})),
        "a stage that is a path": canonical(sealed(body | {"stage": "../../evil"})),
        "of another type": canonical(sealed(body | {"result": {"__class__": "os.system"}})),
        "another artifact": canonical(sealed(body | {"result": body["result"] | {"model": other}})),
        "a missing artifact": canonical(
            sealed(body | {"outputs": [ghost], "result": body["result"] | {"model": ghost}})
        ),
        "of another kind": canonical(
            sealed(body | {"outputs": [body["outputs"][0] | {"kind": "graph"}]})
        ),
        "too large": canonical(envelope) + b" " * 70_000,
    }


POISONS = list(
    poisoned(
        {"record": {"result": {}, "outputs": [{}]}},
        lambda *_, **__: ArtifactRef(kind="x", digest="0" * 64, size=0),
    )
)


@pytest.mark.parametrize("poison", POISONS)
def test_a_poisoned_record_is_a_miss_and_runs_nothing(chain, store, put, poison):
    result = chain.run_chain()
    (path,) = store.root.glob("records/train/*.json")
    path.write_bytes(poisoned(json.loads(path.read_bytes()), put)[poison])
    chain.RAN.clear()
    edges = chain.put("edges", ["a"], 1)
    missed = chain.TRAIN.look_up(store, chain.TRAIN.key({"edges": edges, "rate": 0.1}))
    assert isinstance(missed, Miss)
    assert missed.reason
    assert chain.run_chain() == result
    assert chain.RAN == ["train"]
    assert store.holds(result.model)


@settings(
    max_examples=100,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(junk=st.binary(max_size=200))
def test_random_bytes_are_a_miss(chain, store, junk):
    path = store.root / "records" / "train" / f"{'a' * 64}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(junk)
    assert isinstance(records.look_up(store, "train", "a" * 64), Miss)
    assert list(records.all_records(store)) == []


@settings(
    max_examples=100,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(position=st.integers(0), bit=st.integers(0, 7))
def test_any_flipped_bit_of_a_record_is_a_miss(store, position, bit):
    record = Record(
        stage="score", key="a" * 64, parts={"arguments.k": 1}, inputs=[], outputs=[],
        result={"recall": 0.8125}, seconds=0.5, created=1.0,
    )  # fmt: skip
    records.write(store, record)
    path = store.root / "records" / "score" / f"{record.key}.json"
    content = bytearray(path.read_bytes())
    content[position % len(content)] ^= 1 << bit
    path.write_bytes(content)
    assert isinstance(records.look_up(store, "score", record.key), Miss)


def test_a_folder_in_place_of_a_record_is_a_miss(chain, store):
    chain.run_chain()
    (path,) = store.root.glob("records/encode/*.json")
    path.unlink()
    path.mkdir()
    assert isinstance(chain.ENCODE.look_up(store, chain.ENCODE.key({"text": "a"})), Miss)
    assert [record.stage for record in records.all_records(store)] == ["graph", "train"]
    assert fsck(store).stray == [str(path)]
    assert not fsck(store).healthy


@pytest.mark.parametrize("outputs", [[], ["edges", "model"]])
def test_a_record_whose_result_and_outputs_differ_is_a_miss(chain, store, outputs: list[str]):
    model = chain.run_chain().model
    edges = chain.put("edges", ["a"], 1)
    key = chain.TRAIN.key({"edges": edges, "rate": 0.1})
    record = chain.TRAIN.look_up(store, key)
    refs = [{"edges": edges, "model": model}[name] for name in outputs]
    records.write(store, record.model_copy(update={"outputs": refs}))
    assert isinstance(chain.TRAIN.look_up(store, key), Miss)


def test_a_record_holds_inputs_outputs_and_the_result_in_64_kib(chain, store):
    result = chain.run_chain()
    edges = chain.put("edges", ["a"], 1)
    record = chain.TRAIN.look_up(store, chain.TRAIN.key({"edges": edges, "rate": 0.1}))
    assert record.inputs == [edges]
    assert record.outputs == [result.model]
    assert record.result["losses"] == [1.5, 0.25]
    sizes = [path.stat().st_size for path in store.root.glob("records/*/*.json")]
    assert len(sizes) == 3
    assert max(sizes) < 64 * 1024


@pytest.mark.parametrize("message", ["", "\n", "\n \n"])
def test_an_error_without_a_message_is_a_miss_with_its_class(chain, store, monkeypatch, message):
    def refuse(_):
        raise ValueError(message)

    monkeypatch.setattr(records, "read", refuse)
    assert records.look_up(store, "train", "a" * 64).reason.endswith(": ValueError")


def test_refs_in_finds_nested_references(put):
    one, two, three = put("one"), put("two"), put("three")
    nested = {"a": [one, (two, {"b": three})], "c": one, "d": "not a reference"}
    assert refs_in(nested) == [one, two, three]
    assert refs_in(frozenset({two})) == [two]


def test_an_unreadable_artifact_is_a_miss_with_its_code(chain, store, broken_disk):
    chain.run_chain()
    broken_disk(lambda _, path: path.name == "manifest.json")
    found = chain.ENCODE.look_up(store, chain.ENCODE.key({"text": "a"}))
    assert re.match("artifact embeddings:.* E601", found.reason)
