"""Tables, bars, notes and links on Prefect's pages, with and without a server that answers."""

import logging
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks import prefect_pages
from tasks.prefect_pages import artifact_key, link, markdown, progress, rounds_table
from tests.waiting import awake


@pytest.fixture(autouse=True)
def reachable():
    prefect_pages._silence = prefect_pages.Silence()
    yield
    prefect_pages._silence = prefect_pages.Silence()


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

    monkeypatch.setattr(prefect_pages, "PACE", 0.0)

    @flow
    def shows():
        show_everything()
        rounds_table("Run 1", [{"encoder": "start"}, {"encoder": "round 1"}], "Validated")

    shows()
    keys = {"run-1", "run-1-report", "run-1-mlflow", "encode-sentences"}
    wanted = {"artifacts": {"key": {"any_": sorted(keys)}}}  # other tests' artifacts fill a page
    with get_client(sync_client=True) as client:
        response = client.request("POST", "/artifacts/latest/filter", json=wanted)
        shown = {artifact["key"]: artifact for artifact in response.json()}
    assert set(shown) == keys
    assert "round 1" in shown["run-1"]["data"]
    assert shown["run-1"]["description"] == "Validated"
    assert shown["run-1-report"]["description"] == "The end"
    assert shown["encode-sentences"]["data"] == 100.0


@pytest.mark.server
def test_a_server_that_does_not_answer_delays_a_run_by_seconds_once(
    prefect_server, monkeypatch, caplog
):
    from prefect import flow

    monkeypatch.setattr(prefect_pages, "PATIENCE", 0.2)
    monkeypatch.setattr("prefect.artifacts.create_table_artifact", lambda *_, **__: time.sleep(9))
    monkeypatch.setattr("prefect.artifacts.create_link_artifact", lambda *_, **__: 1 / 0)

    @flow
    def goes_on():
        with awake() as seconds:
            for _ in range(50):
                show_everything()
            return seconds()

    assert goes_on() < 2.0
    pauses = [line.args[0] for line in caplog.records if line.name == "tasks.prefect_pages"]
    assert pauses == [30]


@pytest.mark.server
def test_pauses_double_with_each_failure_and_restart_after_an_answer(
    prefect_server, monkeypatch, caplog
):
    from prefect import flow

    stalls = iter([True, True, False, True])
    shown: list[str] = []

    def create(text, *_, **__):
        if next(stalls):
            raise TimeoutError("stalled")
        shown.append(text)

    monkeypatch.setattr("prefect.artifacts.create_markdown_artifact", create)

    @flow
    def goes_on():
        for text in ("first", "second", "third", "fourth"):
            markdown("note", text, "A note")
            prefect_pages._silence.until = 0.0  # time passes

    with caplog.at_level(logging.WARNING, "tasks.prefect_pages"):
        goes_on()
    assert shown == ["third"]
    pauses = [line.args[0] for line in caplog.records if line.name == "tasks.prefect_pages"]
    assert pauses == [30, 60, 30]


@given(st.text())
def test_any_name_becomes_a_key_that_prefect_takes(name):
    key = artifact_key(name)
    assert key
    assert set(key) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
