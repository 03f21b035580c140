"""Status: what a run would compute, and why."""

import json
from collections.abc import Mapping
from functools import partial

from sentemb_core.store.records import all_records
from sentemb_core.store.stages import Stage, StageKey
from sentemb_core.store.status import (
    Status,
    differences,
    nearest_difference,
    status_of,
)
from sentemb_core.types import ArtifactRef


def status(store, stage, arguments) -> Status:
    key = stage.key(arguments)
    return status_of(stage.name, key, stage.look_up(store, key), partial(all_records, store))


def graph_status(store, chain, **config) -> str:
    arguments = {"embeddings": chain.put("embeddings", "a"), "config": chain.Pruning(**config)}
    return str(status(store, chain.GRAPH, arguments))


def test_first_time_hit_and_changed_parameter(chain, store):
    assert graph_status(store, chain) == "graph: MISS (first time)"
    chain.run_chain()
    assert graph_status(store, chain) == "graph: HIT"
    assert graph_status(store, chain, top_k=2) == "graph: MISS (arguments.config.top_k 1 -> 2)"


def test_the_most_similar_record_is_compared(chain, store):
    for top_k in (1, 5, 9):
        chain.run_chain(top_k=top_k, names=("x",) if top_k == 5 else ())
    assert graph_status(store, chain, top_k=4, names=("x",)).endswith(
        "(arguments.config.top_k 5 -> 4)"
    )


def other_graph(embeddings: object, config: object) -> int:
    return 1


def test_changed_code_and_version_are_listed(chain, store):
    chain.run_chain()
    arguments = {"embeddings": chain.put("embeddings", "a"), "config": chain.Pruning()}
    edited = Stage("graph", 2, other_graph)
    assert str(status(store, edited, arguments)) == "graph: MISS (code changed, version 1 -> 2)"


def pair(left: ArtifactRef, right: ArtifactRef, top_k: int) -> int:
    return 1


def test_new_inputs_are_named_as_such(chain, store):
    a, b, c, d = (chain.put("embeddings", name) for name in "abcd")
    stage = Stage("pair", 1, pair)
    stage.run(store, {"left": a, "right": b, "top_k": 1})
    why = status(store, stage, {"left": c, "right": d, "top_k": 2}).why
    assert why == "first time with these inputs"
    why = status(store, stage, {"left": a, "right": d, "top_k": 1}).why
    assert why == f"arguments.right embeddings:{b.digest[:12]} -> embeddings:{d.digest[:12]}"


def scored(encoder: ArtifactRef, task: Mapping[str, str], vectors: str) -> int:
    return 1


def test_records_of_other_tasks_are_not_compared(chain, store):
    encoder = chain.put("embeddings", "a")
    stage = Stage("scored", 1, scored)
    stage.run(store, {"encoder": encoder, "task": {"name": "cacm"}, "vectors": "text"})
    for task, why in (("npl", "first time"), ("cacm", "arguments.vectors text -> mean")):
        asked = {"encoder": encoder, "task": {"name": task}, "vectors": "mean"}
        assert status(store, stage, asked).why == why


def trained(encoder: ArtifactRef, config: Mapping[str, object], found: ArtifactRef | None) -> int:
    return 1


def test_trainings_by_other_methods_are_not_compared(chain, store):
    encoder, clusters = chain.put("embeddings", "a"), chain.put("embeddings", "b")
    stage = Stage("trained", 1, trained)
    first = {"method": {"name": "conpono", "window": 1}, "steps": 3}
    stage.run(store, {"encoder": encoder, "config": first, "found": None})
    later = {"method": {"name": "infocse_idc", "batches": "pair"}, "steps": 2}
    asked = {"encoder": encoder, "config": later, "found": clusters}
    assert status(store, stage, asked).why == "first time"
    asked = {"encoder": encoder, "config": first | {"steps": 2}, "found": None}
    assert status(store, stage, asked).why == "arguments.config.steps 3 -> 2"


def test_deleted_corrupt_and_unusable_artifacts_differ(chain, store):
    chain.run_chain()
    folder = store.folder(chain.put("edges", ["a"], 1).digest)
    (folder / "data" / "values.json").write_text("flipped")
    assert graph_status(store, chain).endswith("corrupt)")
    assert graph_status(store, chain).endswith("corrupt)"), "it is in quarantine now"
    for path in store.quarantine.iterdir():
        path.rename(store.root / "elsewhere")
    assert graph_status(store, chain).endswith("deleted)")
    (path,) = store.root.glob("records/graph/*.json")
    path.write_text(json.dumps({"serializer": "pickle"}))
    assert "record unusable" in graph_status(store, chain)


def test_a_miss_and_its_followers_would_run():
    would_run = [Status("one", name).would_run for name in ("MISS", "AFTER", "HIT", "SAME")]
    assert would_run == [True, True, False, False]


def test_at_most_three_differences_are_listed():
    old, new = {f"p{index}": 0 for index in range(6)}, {f"p{index}": 1 for index in range(6)}
    assert len(differences(old, new)) == 6
    assert differences(old, old) == []
    assert differences({"a": 1, "b": 2}, {"a": 1}) == ["b 2 -> absent"]
    assert differences({}, {"initialiser": "None"}) == ["initialiser absent -> None"]
    cut = "p0 0 -> 1, p1 0 -> 1, p2 0 -> 1"
    assert nearest_difference([old], StageKey("a" * 64, new)) == f"{cut} and 3 more"
    three = {name: new[name] for name in ("p0", "p1", "p2")}
    assert nearest_difference([dict.fromkeys(three, 0)], StageKey("a" * 64, three)) == cut
    equally_near = [{"top_k": 1}, {"top_k": 2}]
    assert nearest_difference(equally_near, StageKey("a" * 64, {"top_k": 3})) == "top_k 2 -> 3"
