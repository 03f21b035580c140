import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks import prefect_pages as artifacts
from tasks.prefect_pages import artifact_key, link, markdown, progress, rounds_table
from tests.waiting import awake


@pytest.fixture(autouse=True)
def reachable():
    artifacts._silence = artifacts.Silence()
    yield
    artifacts._silence = artifacts.Silence()


def show_everything():
    rounds_table("Run 1", [{"encoder": "start", "R@5": "0.1"}], "Validated")
    markdown("Run 1 report", "**better**", "The end")
    link("Run 1 mlflow", "http://127.0.0.1:5000/", "MLflow")
    with progress("Encode sentences", 10) as done:
        done(5)


def test_outside_a_run_nothing_is_shown_and_no_server_is_started(monkeypatch):
    monkeypatch.setattr("prefect.artifacts.get_client", lambda *_, **__: pytest.fail("a server"))
    show_everything()


@pytest.mark.server
def test_a_run_shows_a_growing_table_progress_a_note_and_a_link(prefect_server, monkeypatch):
    from prefect import flow
    from prefect.client.orchestration import get_client

    monkeypatch.setattr(artifacts, "PACE", 0.0)

    @flow
    def shows():
        show_everything()
        rounds_table("Run 1", [{"encoder": "start"}, {"encoder": "round 1"}], "Validated")

    shows()
    keys = {"run-1", "run-1-report", "run-1-mlflow", "encode-sentences"}
    wanted = {"artifacts": {"key": {"any_": sorted(keys)}}}  # the session's others fill a page
    with get_client(sync_client=True) as client:
        response = client.request("POST", "/artifacts/latest/filter", json=wanted)
        found = {artifact["key"]: artifact for artifact in response.json()}
    assert set(found) == keys
    assert "round 1" in found["run-1"]["data"]
    assert found["run-1"]["description"] == "Validated"
    assert found["run-1-report"]["description"] == "The end"
    assert found["encode-sentences"]["data"] == 100.0


@pytest.mark.server
def test_a_server_that_does_not_answer_costs_seconds_once_and_the_run_nothing(
    prefect_server, monkeypatch, caplog
):
    from prefect import flow

    monkeypatch.setattr(artifacts, "PATIENCE", 0.2)
    monkeypatch.setattr("prefect.artifacts.create_table_artifact", lambda *_, **__: time.sleep(9))
    monkeypatch.setattr("prefect.artifacts.create_link_artifact", lambda *_, **__: 1 / 0)

    @flow
    def goes_on():
        with awake() as seconds:
            for _ in range(50):
                show_everything()
            return seconds()

    assert goes_on() < 2.0
    assert caplog.text.count("Prefect's pages are not told for 30 s") == 1


@pytest.mark.server
def test_a_server_that_stalled_is_told_again_later_and_left_alone_ever_longer(
    prefect_server, monkeypatch, caplog
):
    from prefect import flow

    stalls = iter([True, True, False, True])
    told: list[str] = []

    def create(text, *_, **__):
        if next(stalls):
            raise TimeoutError("stalled")
        told.append(text)

    monkeypatch.setattr("prefect.artifacts.create_markdown_artifact", create)

    @flow
    def goes_on():
        for text in ("first", "second", "third", "fourth"):
            markdown("note", text, "A note")
            artifacts._silence.until = 0.0  # time passes

    goes_on()
    assert told == ["third"]
    silences = [line.partition(" s:")[0][-2:] for line in caplog.messages if "not told" in line]
    assert silences == ["30", "60", "30"], "who answered is left alone no longer than at first"


@given(st.text())
def test_any_name_becomes_a_key_that_prefect_takes(name):
    key = artifact_key(name)
    assert key
    assert set(key) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
