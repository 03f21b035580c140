"""A home with files of another form: they are refused with a code, or computed again."""

import json
import re
from hashlib import sha256
from pathlib import Path

import pytest

from flows.pipeline import documents_of
from sentemb_core.errors import CorruptArtifactError, UsageError
from sentemb_core.store.objects import Store
from sentemb_core.store.runs import recording
from sentemb_core.store.seals import canonical
from sentemb_core.types import ArtifactRef, Json
from tasks.execution import without_prefect
from tests.flows.corpora import tiny_run
from tests.messages import pattern

pytestmark = pytest.mark.usefixtures("home")


def record_run(run: str, config: Json, *outputs: ArtifactRef) -> None:
    """Record a completed run of these settings."""
    with recording(Store.default(), run, [], config) as log:
        log.update(outputs=list(outputs))


def refusal(call, *command: str) -> tuple[int, str]:
    """Return the exit code and the last line of a refused command."""
    code, output, error = call(*command)
    assert output == ""
    return code, error.splitlines()[-1]


@pytest.mark.parametrize("change", [{"loader": "pickle"}, {"inputs": None}, {"created": "today"}])
def test_a_stage_record_of_another_form_is_computed_again(call, corpus_file: Path, change: Json):
    config = tiny_run(corpus_file)
    record_run("mine", config.model_dump(mode="json"))
    with without_prefect():
        documents = documents_of(config.corpus)
    (file,) = Store.default().root.glob("records/read_corpus/*.json")
    whole = file.read_bytes()
    envelope = json.loads(whole)
    body = envelope["record"] | change
    digest = sha256(canonical(body)).hexdigest()
    file.write_bytes(canonical(envelope | {"record": body, "sha256": digest}))
    code, output, _ = call("status", "mine", "--json")
    first = json.loads(output)[0]
    assert (code, first["stage"], first["verdict"]) == (0, "read_corpus", "MISS")
    assert re.match("record unusable: ", first["why"])
    with without_prefect():
        assert documents_of(config.corpus) == documents
    code, output, _ = call("status", "mine", "--json")
    assert json.loads(output)[0]["verdict"] == "HIT"


@pytest.mark.parametrize("verb", ["status", "resume", "report", "register", "promote"])
def test_a_run_record_of_another_form_is_refused(call, home: Path, verb: str):
    config = tiny_run(home / "documents.jsonl").model_dump(mode="json")
    record_run("old", config)
    file = Store.default().root / "runs" / "old.json"
    before = json.loads(file.read_bytes())
    for form in (
        {"id": "old", "started": 1.0},
        before | {"state": "done"},
        before | {"landing": 1},
    ):
        file.write_text(json.dumps(form))
        code, line = refusal(call, verb, "old")
        assert code == UsageError.exit_code
        assert re.match(pattern("error E001 'old'"), line)


@pytest.mark.parametrize("verb", ["status", "report"])
@pytest.mark.parametrize(
    ("change", "setting"),
    [({"initializer": None}, "initializer"), ({"training": {"method": "infocse"}}, "training")],
)
def test_settings_of_another_form_are_refused(call, home: Path, verb: str, change, setting: str):
    with Store.default().writing("outcome") as draft:
        (draft.path / "outcome.json").write_text("{}")
    config = tiny_run(home / "documents.jsonl").model_dump(mode="json")
    record_run("old", config | change, draft.ref)
    code, _, error = call(verb, "old", "--json")
    line = error.splitlines()[0]
    if verb == "status":
        assert code == UsageError.exit_code
        assert re.match(pattern(f"error E001 {setting}"), line)
    else:
        assert code == CorruptArtifactError.exit_code
        assert line.startswith("error E600 ")


@pytest.mark.parametrize("verb", ["report", "register"])
def test_an_outcome_of_another_form_is_refused(call, home: Path, verb: str):
    with Store.default().writing("outcome") as draft:
        (draft.path / "outcome.json").write_text('{"run": "old", "landing": null}')
    config = tiny_run(home / "documents.jsonl").model_dump(mode="json")
    record_run("old", config, draft.ref)
    folder = Store.default().path(draft.ref)
    for run in ([], ["old"]):
        code, line = refusal(call, verb, *run)
        assert code == CorruptArtifactError.exit_code
        assert re.match(pattern(f"error E600 {folder}"), line)
