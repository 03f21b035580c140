"""Verbs on what runs saved: fsck, gc, promote, serve; and the table of `lineage`."""

import io
import json
import re
from types import SimpleNamespace

import pytest
from rich.console import Console

from flows.cli.lineage import lineage_table
from sentemb_core.store.objects import Store
from sentemb_core.store.records import Lineage, Origin
from sentemb_core.store.stages import Stage
from sentemb_core.types import ArtifactRef, Json
from tasks.execution import InProcess, current_executor
from tasks.gate import GateOutcome


def note(text: str) -> ArtifactRef:
    with Store.default().writing("note") as draft:
        (draft.path / "note.txt").write_text(text)
    return draft.ref


@pytest.mark.usefixtures("home")
def test_gc_removes_the_record_of_a_corrupt_artifact(call):
    stage, store = Stage("noted", 1, note), Store.default()
    assert json.loads(call("fsck", "--json")[1])["ok"] == 0
    empty = json.loads(call("gc", "--json")[1])
    assert {*empty.pop("counts").values(), *empty.values()} == {0}
    assert re.search(r"\b0 bytes.*\b0 artifacts", call("gc")[1])
    ref = stage.run(store, {"text": "a"})
    (store.folder(ref.digest) / "data" / "note.txt").write_text("b")
    for _ in range(2):
        code, out, _ = call("fsck")
        assert (code, f"missing: {ref}" in out, "python -m flows gc" in out) == (5, True, True)
    assert json.loads(call("gc", "--json")[1])["counts"]["records"] == 1
    code, out, _ = call("fsck")
    assert (code, "missing" in out) == (0, False)


@pytest.mark.usefixtures("home")
def test_serve_replaces_the_process_by_the_deployments(call, monkeypatch):
    commands = []
    monkeypatch.setattr("os.execv", lambda program, command: commands.append(command[1:]))
    call("serve", "--port", "0", "--mlflow")
    call("serve", "--debug", "--for", "3")
    assert commands == [
        ["-m", "deployments", "--port", "0", "--mlflow"],
        ["-m", "deployments", "--port", "4200", "--for", "3.0", "--debug"],
    ]


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(("alias", "code"), [("champion", 0), ("challenger", 4)])
@pytest.mark.parametrize("registers", [True, False])
def test_promote_asks_the_gate_without_a_server(
    call, monkeypatch, alias: str, code: int, registers: bool
):
    def gated(*_: object) -> GateOutcome:
        assert isinstance(current_executor(), InProcess)
        return GateOutcome(uri="models:/tiny/2", alias=alias, reason="Why.", serving="It serves.")

    config = {"corpus": {"source": "a.jsonl"}, "register_model": registers}
    run = SimpleNamespace(id="run-1", config=config)
    outcome = SimpleNamespace(training=None, encoder=None, run="run-1")
    monkeypatch.setattr("flows.cli.records.outcome_of", lambda _: (run, outcome))
    monkeypatch.setattr("tasks.gate.register_and_gate", gated)
    found, out, error = call("promote")
    assert (found, "It serves. Why." in out, out == "") == (code, code == 0, code == 4)
    assert ("error E701 It serves. Why." in error) == (code == 4)
    assert bool(re.search(r"run-1\b.*register_model=false", error)) is not registers
    error = call("promote", "run-1")[2]
    assert ("register_model" in error, error == "") == (False, code == 0)


@pytest.mark.usefixtures("home")
def test_rollback_prints_both_versions_and_refuses_an_unknown_name(call, monkeypatch):
    code, out, error = call("rollback", "news")
    assert (code, out, "E702" in error, "models:/news@previous" in error) == (2, "", True, True)
    versions = [SimpleNamespace(uri=f"models:/news/{number}") for number in (1, 2)]
    monkeypatch.setattr("tasks.promotion.rollback", lambda _: tuple(versions))
    code, out, error = call("rollback", "news", "--json")
    assert (code, json.loads(out), error) == (
        0, {"uri": "models:/news/1", "before": "models:/news/2"}, ""
    )  # fmt: skip
    assert [version.uri in call("rollback", "news")[1] for version in versions] == [True, True]


# lineage


def ref(kind: str, digit: str) -> ArtifactRef:
    return ArtifactRef(kind=kind, digest=digit * 64, size=1)


DOCUMENTS, ENCODER, SENTENCES = ref("documents", "d"), ref("model", "e"), ref("sentences", "c")
TRAINED = ref("model", "f")


def made(what: ArtifactRef, stage: str, *inputs: ArtifactRef, **parameters: Json) -> Origin:
    return Origin(
        ref=what, stage=stage, inputs=list(inputs), parameters=parameters, created=1_700_000_000.0
    )


def lines(*origins: Origin) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=120).print(lineage_table(Lineage(origins=list(origins))))
    return [line.rstrip() for line in out.getvalue().splitlines()][1:]


def test_lineage_shows_every_artifact_once():
    training = {"config.method.name": "conpono", "config.steps": 30, "config.seed": 7}
    training["config.clip"] = 1.0
    table = lines(
        made(TRAINED, "train_encoder", ENCODER, SENTENCES, **training),
        made(ENCODER, "start_encoder", DOCUMENTS, **{"config.name": "static", "config.seed": 7}),
        made(SENTENCES, "tokenise_sentences", DOCUMENTS, ENCODER),
        made(DOCUMENTS, "read_corpus", **{"config.source": "5" * 64}),
    )
    assert [line[4:31].rstrip() for line in table] == [
        "model ffffffffffff",
        "  model eeeeeeeeeeee",
        "    documents dddddddddddd",
        "  sentences cccccccccccc",
    ]
    assert "train_encoder" in table[0]
    assert table[0].endswith("conpono, 30 steps, seed 7")
    assert "clip" not in "".join(table)
    assert all("2023-11-14" in line or "2023-11-15" in line for line in table)
    assert table[2].endswith("source 555555555555")
    assert table[3].endswith(" 3 2")


def test_lineage_shows_an_artifact_without_a_record_and_brackets_as_text():
    assert lines(Origin(ref=DOCUMENTS))[0].split()[:3] == ["1", "documents", "d" * 12]
    older = made(TRAINED, "train_encoder", **{"config.steps": 3})
    assert lines(older)[0].endswith("?, 3 steps, seed ?")
    card: Json = {"card.name": "[bold]posts", "card.steps": ["start", "round 1"]}
    published = made(TRAINED, "publish_encoder", **card)
    assert lines(published)[0].endswith("named [bold]posts")
