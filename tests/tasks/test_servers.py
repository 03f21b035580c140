import base64
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sentemb_core.store.locks import file_lock
from tasks import servers
from tasks.servers import live_server, serve_lock


@contextmanager
def answering(content: bytes, heard: list[bytes] | None = None) -> Iterator[int]:
    """The port of a server that answers one call, whose bytes it adds to `heard`."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer():
            caller, _ = listening.accept()
            with caller:
                received = caller.recv(4096)
                if heard is not None:
                    heard.append(received)
                caller.sendall(content)

        thread = threading.Thread(target=answer)
        thread.start()
        yield listening.getsockname()[1]
        thread.join()


@pytest.mark.parametrize(
    ("content", "ours"),
    [
        (b"HTTP/1.0 200 OK\r\n\r\ntrue", True),
        (b"HTTP/1.0 200 OK\r\n\r\nOK", True),
        (b"HTTP/1.0 200 OK\r\n\r\n<html><app-root></app-root></html>", False),
        (b"HTTP/1.0 401 Unauthorized\r\n\r\n", True),
        (b"HTTP/1.0 404 Not Found\r\n\r\n", False),
        (b"220 mail.example ESMTP\r\n", False),
    ],
)
def test_what_answers_at_a_noted_address_may_be_another_program(content, ours):
    with answering(content) as port:
        assert servers.answers(f"http://127.0.0.1:{port}/api") is ours


def test_a_login_in_an_address_is_sent_as_one():
    asked = servers.call_of("https://me:p%40ss@prefect.example:4200/api/health")
    assert asked.full_url == "https://prefect.example:4200/api/health"
    assert base64.b64decode(asked.get_header("Authorization").split()[1]) == b"me:p@ss"
    assert servers.call_of("http://127.0.0.1:4200/api/health").headers == {}
    heard: list[bytes] = []
    with answering(b"HTTP/1.0 200 OK\r\n\r\ntrue", heard) as port:
        assert servers.answers(f"http://me:secret@127.0.0.1:{port}/api")
    assert b"Authorization: Basic bWU6c2VjcmV0\r\n" in heard[0]


def test_a_home_whose_server_is_gone_has_no_live_server(tmp_path):
    assert live_server(tmp_path) is None
    (tmp_path / "server.url").write_text("http://127.0.0.1:9/api\n")
    with file_lock(serve_lock(tmp_path)):
        assert live_server(tmp_path) is None


def test_the_note_of_a_killed_service_is_not_believed_though_another_home_s_has_its_port(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(servers, "answers", lambda _: True)
    (tmp_path / "server.url").write_text("http://127.0.0.1:4200/api\n")
    assert live_server(tmp_path) is None
    with file_lock(serve_lock(tmp_path)):
        assert live_server(tmp_path) == "http://127.0.0.1:4200/api"
