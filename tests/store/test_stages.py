"""Stages: a result is computed again if, and only if, something that determines it changed."""

import math
import threading
import time
from enum import Enum
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from sentemb_core.errors import OtherDeviceError, StorageError, UsageError
from sentemb_core.store import runs, stages
from sentemb_core.store.machine import processors
from sentemb_core.store.records import Miss
from sentemb_core.store.seals import canonical
from sentemb_core.store.stages import Stage, normal, running, threads
from sentemb_core.types import ArtifactRef

REF = ArtifactRef(kind="graph", digest="a" * 64, size=3)

IN_A_NEW_PROCESS = """
import json, chain
result = chain.run_chain({arguments})
key = chain.GRAPH.key({{"embeddings": chain.put("embeddings", "a"),
                        "config": chain.Pruning(names=frozenset("abcdefgh"))}})
print(json.dumps([chain.RAN, result.model.digest, key.digest]))
"""


def test_an_unchanged_rerun_in_a_new_process_runs_nothing(python):
    ran, digest, _ = python(IN_A_NEW_PROCESS.format(arguments="")).json()
    assert ran == ["encode", "graph", "train"]
    ran, again, _ = python(IN_A_NEW_PROCESS.format(arguments="")).json()
    assert ran == []
    assert again == digest


def test_hash_seed_folder_time_zone_and_threads_do_not_enter_keys(python, tmp_path):
    first = python(IN_A_NEW_PROCESS.format(arguments=""), PYTHONHASHSEED="0").json()
    for environment in (
        {"PYTHONHASHSEED": "1", "CWD": str(tmp_path)},
        {"TZ": "Asia/Tokyo", "LC_ALL": "C", "OMP_NUM_THREADS": "1"},
    ):
        again = python(IN_A_NEW_PROCESS.format(arguments=""), **environment).json()
        assert again == [[], *first[1:]]


@pytest.mark.parametrize(
    ("change", "ran"),
    [
        ({"workers": 8}, []),
        ({"rate": 0.2}, ["train"]),
        ({"top_k": 2}, ["graph", "train"]),
        ({"names": ("x",)}, ["graph"]),  # the same edges come out: an early cut-off
        ({"text": "b"}, ["encode", "graph", "train"]),
    ],
)
def test_a_changed_parameter_runs_only_the_stages_that_read_it(chain, change, ran):
    chain.run_chain()
    chain.RAN.clear()
    chain.run_chain(**change)
    assert ran == chain.RAN


@pytest.mark.parametrize("stage", ["encode", "graph", "train"])
def test_a_damaged_artifact_is_rebuilt_by_its_stage_only(chain, store, stage):
    result = chain.run_chain()
    edges = chain.put("edges", ["a"], 1)
    ref = {"encode": chain.put("embeddings", "a"), "graph": edges, "train": result.model}[stage]
    for damage in (Path.unlink, lambda path: path.write_text("x")):
        damage(store.path(ref) / "values.json")
        chain.RAN.clear()
        assert chain.run_chain() == result
        assert [stage] == chain.RAN
        assert store.holds(ref)


def named_with(value: str, prefix: str = "x") -> str:
    return prefix + value


def test_explicit_and_omitted_defaults_give_one_key(chain):
    assert chain.ENCODE.key({"text": "a"}) == chain.ENCODE.key({"text": "a", "workers": 9})
    named = Stage("named", 1, named_with)
    assert named.key({"value": "a"}) == named.key({"value": "a", "prefix": "x"})
    embeddings = chain.put("embeddings", "a")
    one, two = (
        chain.GRAPH.key({"embeddings": embeddings, "config": config})
        for config in (chain.Pruning(), chain.Pruning(top_k=1))
    )
    assert one == two


def name_only(value: object) -> str:
    return str(value)


def test_an_ignored_setting_enters_no_key(chain):
    def keys(*ignored: str) -> set[str]:
        stage = Stage("graph", 1, chain.graph, ignore=ignored)
        return {
            stage.key({"embeddings": REF, "config": chain.Pruning(top_k=top_k)}).digest
            for top_k in (1, 2)
        }

    assert len(keys()) == 2
    assert len(keys("config.top_k")) == 1


def test_name_version_and_modules_enter_the_key():
    one = Stage("one", 1, name_only).key({"value": 1})
    two = Stage("two", 1, name_only).key({"value": 1})
    next_version = Stage("one", 2, name_only).key({"value": 1})
    modules = Stage("one", 1, name_only, modules=("sentemb_core.encoder.card",)).key({"value": 1})
    absent = Stage("one", 1, name_only, libraries=("no-such-library",)).key({"value": 1})
    assert len({key.digest for key in (one, two, next_version, modules, absent)}) == 5
    assert absent.parts["libraries.no-such-library"] == "absent"
    assert stages.flat({"a": {"b": {}, "c": 1}, "d": []}) == {"a.b": {}, "a.c": 1, "d": []}


def test_the_parts_of_a_key_are_readable(chain):
    embeddings = chain.put("embeddings", "a")
    parts = chain.GRAPH.key({"embeddings": embeddings, "config": chain.Pruning(top_k=2)}).parts
    assert parts["stage"] == "graph"
    assert parts["version"] == "1"
    assert parts["arguments.config.top_k"] == 2
    assert parts["arguments.embeddings"] == f"embeddings:{embeddings.digest}"
    assert {"libraries.torch", "libraries.transformers", "libraries.tokenizers"} < set(parts)


def test_a_named_library_enters_the_key_of_its_stage_only(monkeypatch: pytest.MonkeyPatch):
    plain, naming = Stage("one", 1, name_only), Stage("one", 1, name_only, libraries=("gensim",))
    before = [stage.key({"value": 1}) for stage in (plain, naming)]
    now = stages.library_versions
    monkeypatch.setattr(
        stages,
        "library_versions",
        lambda names: now(names) | ({"gensim": "9.9"} if "gensim" in names else {}),
    )
    after = [stage.key({"value": 1}) for stage in (plain, naming)]
    assert after[0] == before[0]
    assert after[1].digest != before[1].digest
    assert after[1].parts == before[1].parts | {"libraries.gensim": "9.9"}
    assert set(before[0].parts) < set(before[1].parts)


class Colour(Enum):
    RED = "red"


def test_different_values_differ_and_sets_are_sorted():
    values = [None, True, 1, 1.0, "1", [1], {"a": 1}, {}, []]
    assert len({canonical(normal(value, "x")) for value in values}) == len(values)
    assert normal({3, 1, 2}, "x") == [1, 2, 3]
    assert normal(Colour.RED, "x") == "red"
    assert normal((1, REF), "x") == [1, f"graph:{REF.digest}"]


finite = st.floats(allow_nan=False, allow_infinity=False)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | finite | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=10,
    )
)
def test_the_order_of_a_mapping_does_not_matter(value):
    def turned(part):
        if isinstance(part, dict):
            return {name: turned(part[name]) for name in reversed(part)}
        return [turned(inner) for inner in part] if isinstance(part, list) else part

    assert canonical(normal(turned(value), "x")) == canonical(normal(value, "x"))


@pytest.mark.parametrize(
    "value", [Path("a"), object(), b"x", math.nan, math.inf, {1: "a"}, [Path("a")], {"a": print}]
)
def test_a_value_without_a_stable_text_is_refused(value):
    with pytest.raises(TypeError, match=r"\bone\.arguments\.value"):
        Stage("one", 1, name_only).key({"value": value})


def test_an_unknown_argument_tag_or_missing_annotation_is_refused(chain):
    with pytest.raises(TypeError, match="'text'"):
        chain.ENCODE.key({})
    with pytest.raises(UsageError, match=r"'one' .*\['colour'\]"):
        Stage("one", 1, name_only, numeric=("colour",))
    with pytest.raises(UsageError, match=r"'one' .*\['nothing'\]"):
        Stage("one", 1, name_only, ignore=("nothing",))
    with pytest.raises(UsageError, match=r"'one' .* annotation"):
        Stage("one", 1, no_annotation)


def no_annotation(value: int):
    return value


def train_on_threads(threads: int | None, device: str | None = None) -> int:
    return threads or 0


def test_threads_and_device_enter_the_keys_that_ask_for_them():
    stage = Stage("one", 1, train_on_threads, numeric=("threads", "device"))
    parts = stage.key({"threads": 3, "device": "cuda:1"}).parts
    assert (parts["numeric.threads"], parts["numeric.device"]) == (3, "cuda")
    assert stage.key({"threads": None}).parts["numeric.threads"] == processors()


def never_computed(value: int) -> int:
    raise AssertionError


def test_nothing_is_computed_on_another_device_than_the_keys(store, monkeypatch):
    """A driver is loaded and torch cannot use it, or the reverse."""
    stage = Stage("one", 1, never_computed, numeric=("device",))
    for filed, found in (("cuda", "cpu"), ("cpu", "cuda")):
        monkeypatch.setattr(stages, "default_device", lambda filed=filed: filed)
        monkeypatch.setattr(torch.cuda, "is_available", lambda found=found: found == "cuda")
        with pytest.raises(
            OtherDeviceError, match=rf"E604 .*{filed}, .* {found}\. .*CUDA_VISIBLE_DEVICES="
        ):
            stage.run(store, {"value": 1})


def test_threads_are_found_in_a_config(chain):
    class Training(chain.BaseModel):
        threads: int | None = None

    assert threads({"config": Training(threads=5)}) == 5
    assert threads({"config": Training(threads=5), "threads": 2}) == 2
    assert threads({"config": Training(threads=5), "threads": None}) == 5


def returns_nan() -> float:
    return math.nan


class Score(BaseModel):
    recall: float


def returns_a_nan_score() -> Score:
    return Score(recall=math.nan)


def returns_too_much() -> list[int]:
    return list(range(20_000))


def test_a_result_that_is_too_large_or_not_json_is_refused(store):
    for function in (returns_nan, returns_a_nan_score):
        with pytest.raises(UsageError, match=r"JSON.*'one'"):
            Stage("one", 1, function).run(store, {})
    with pytest.raises(UsageError, match=r"65536 bytes.*'two'"):
        Stage("two", 1, returns_too_much).run(store, {})
    assert list(store.root.glob("records/*/*")) == []


def counts_in_its_work_folder(fail: bool) -> int:
    folder = running().work
    (folder / f"step-{len(list(folder.iterdir()))}").write_text("")
    steps = len(list(folder.iterdir()))
    if fail and steps < 3:
        raise ConnectionError("killed")
    return steps


def test_a_work_folder_lasts_until_the_stage_is_done(store):
    stage = Stage("one", 1, counts_in_its_work_folder)
    for _ in range(2):
        with pytest.raises(ConnectionError):
            stage.run(store, {"fail": True})
    assert len(list(store.root.glob("work/one-*/*"))) == 2
    assert stage.run(store, {"fail": True}) == 3
    assert list(store.root.glob("work/*")) == []


PASSED = [0.0]
"""Seconds that a stage's clock is ahead, far more than any stall of the machine."""


def takes_long_once_and_dies(kept: float, lost: float) -> int:
    if not list(running().work.iterdir()):
        PASSED[0] += kept
        running().save_seconds()
        PASSED[0] += lost
        raise ConnectionError("killed")
    return 1


def test_a_resumed_stage_counts_the_seconds_of_its_checkpoint(store, monkeypatch):
    clock = SimpleNamespace(perf_counter=lambda: time.perf_counter() + PASSED[0], time=time.time)
    monkeypatch.setattr(stages, "time", clock)
    stage, takes = Stage("one", 1, takes_long_once_and_dies), {"kept": 1e5, "lost": 1e6}
    with pytest.raises(ConnectionError):
        stage.run(store, takes)
    PASSED[0] = 0.0  # the next process has its own clock
    stage.run(store, takes)
    seconds = stage.look_up(store, stage.key(takes)).seconds
    assert 1e5 <= seconds < 2e5, "lost seconds do not count"


def test_unreadable_seconds_count_as_zero(store):
    stage = stages.Running(store, "one", "a" * 64)
    (stage.work / stages.SECONDS).write_text("12 mi")
    assert stage.earlier_seconds == 0


def test_checkpoints_stay_until_the_record_is_written(store, monkeypatch):
    def refuse(*_: object) -> None:
        raise StorageError("full")

    monkeypatch.setattr(stages.records, "write", refuse)
    with pytest.raises(StorageError):
        Stage("one", 1, counts_in_its_work_folder).run(store, {"fail": False})
    assert len(list(store.root.glob("work/one-*/*"))) == 1


def test_a_record_written_during_the_wait_is_a_hit(chain, store, monkeypatch):
    looked_up, asked = Stage.look_up, list[str]()

    def late(stage: Stage, *where):
        asked.append(stage.name)
        if len(asked) > 1:
            return looked_up(stage, *where)
        other = threading.Thread(target=stage.run, args=(store, {"text": "a"}))
        other.start()
        other.join()
        return Miss("first time")

    monkeypatch.setattr(Stage, "look_up", late)
    with runs.recording(store, "waits", [], {}) as log:
        chain.ENCODE.run(store, {"text": "a"})
    assert chain.RAN == ["encode"]
    assert [used.hit for used in log.uses] == [True]


def test_running_needs_a_stage():
    with pytest.raises(UsageError):
        running()


def test_refresh_computes_again(chain, store):
    chain.ENCODE.run(store, {"text": "a"})
    chain.ENCODE.run(store, {"text": "a"}, refresh=True)
    assert chain.RAN == ["encode", "encode"]
