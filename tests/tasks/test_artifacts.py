import base64
import socket
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentemb_core.store.locks import file_lock
from tasks import artifacts
from tasks.artifacts import (
    artifact_key,
    link,
    live_server,
    markdown,
    progress,
    rounds_table,
    serve_lock,
)
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


@pytest.mark.parametrize(
    ("says", "ours"),
    [
        (b"HTTP/1.0 200 OK\r\n\r\ntrue", True),
        (b"HTTP/1.0 200 OK\r\n\r\nOK", True),
        (b"HTTP/1.0 200 OK\r\n\r\n<html><app-root></app-root></html>", False),
        (b"HTTP/1.0 401 Unauthorized\r\n\r\n", True),
        (b"HTTP/1.0 404 Not Found\r\n\r\n", False),
        (b"220 mail.example ESMTP\r\n", False),
    ],
)
def test_what_answers_at_a_noted_address_may_be_another_program(says, ours):
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer():
            caller, _ = listening.accept()
            with caller:
                caller.recv(4096)
                caller.sendall(says)

        thread = threading.Thread(target=answer)
        thread.start()
        assert artifacts.answers(f"http://127.0.0.1:{listening.getsockname()[1]}/api") is ours
        thread.join()


def test_a_login_in_an_address_is_sent_as_one():
    asked = artifacts.call_of("https://me:p%40ss@prefect.example:4200/api/health")
    assert asked.full_url == "https://prefect.example:4200/api/health"
    assert base64.b64decode(asked.get_header("Authorization").split()[1]) == b"me:p@ss"
    assert artifacts.call_of("http://127.0.0.1:4200/api/health").headers == {}
    with socket.create_server(("127.0.0.1", 0)) as listening:
        heard: list[bytes] = []

        def answer():
            caller, _ = listening.accept()
            with caller:
                heard.append(caller.recv(4096))
                caller.sendall(b"HTTP/1.0 200 OK\r\n\r\ntrue")

        thread = threading.Thread(target=answer)
        thread.start()
        assert artifacts.answers(f"http://me:secret@127.0.0.1:{listening.getsockname()[1]}/api")
        thread.join()
    assert b"Authorization: Basic bWU6c2VjcmV0\r\n" in heard[0]


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


def test_a_home_whose_server_is_gone_has_no_live_server(tmp_path):
    assert live_server(tmp_path) is None
    (tmp_path / "server.url").write_text("http://127.0.0.1:9/api\n")
    with file_lock(serve_lock(tmp_path)):
        assert live_server(tmp_path) is None


def test_the_note_of_a_killed_service_is_not_believed_though_another_home_s_has_its_port(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(artifacts, "answers", lambda _: True)
    (tmp_path / "server.url").write_text("http://127.0.0.1:4200/api\n")
    assert live_server(tmp_path) is None
    with file_lock(serve_lock(tmp_path)):
        assert live_server(tmp_path) == "http://127.0.0.1:4200/api"
