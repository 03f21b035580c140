"""The verbs around what runs left."""

import pytest

from sentemb_core.store.objects import Store
from sentemb_core.store.stages import Stage
from sentemb_core.types import ArtifactRef


def noted(text: str) -> ArtifactRef:
    with Store.default().writing("note") as draft:
        (draft.path / "note.txt").write_text(text)
    return draft.ref


@pytest.mark.usefixtures("home")
def test_a_store_with_a_broken_artifact_is_whole_again_as_fsck_says(call):
    stage, store = Stage("noted", 1, noted), Store.default()
    ref = stage.run(store, {"text": "a"})
    (store.folder(ref.digest) / "data" / "note.txt").write_text("b")
    for _ in range(2):
        code, said, _ = call("fsck")
        assert (code, f"missing: {ref}\n`python -m flows gc` removes the record" in said) == (
            5,
            True,
        )
    assert call("gc")[1].startswith("Removed 1 record:")
    assert call("fsck")[0] == 0
    assert "python" not in call("fsck")[1]


def test_who_serves_is_told_at_once_that_it_takes_a_while(call, monkeypatch):
    begun = []
    monkeypatch.setattr("os.execv", lambda program, command: begun.append(command[1:]))
    _, _, told = call("serve", "--port", "0", "--mlflow")
    call("serve", "--debug")
    assert begun == [
        ["-m", "deployments", "--port", "0", "--mlflow"],
        ["-m", "deployments", "--port", "4200", "--debug"],
    ]
    assert told.endswith(
        "Starting Prefect's server and its worker, and MLflow's pages: up to a minute.\n"
    )
