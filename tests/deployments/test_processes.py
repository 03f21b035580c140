import os
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from deployments import processes, server
from deployments.processes import MARK, children, end, is_running, marked
from deployments.server import free_port, wait_for
from sentemb_core.errors import SentembError
from tests.waiting import soon

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")

FAMILY = "sleep 900 & setsid sleep 900 & echo ready; sleep 900"
"""A shell, a child of it in its group, one in a session of its own, and one it waits for."""

DEAF = f"trap '' TERM; {FAMILY}"
"""The same, ignoring SIGTERM."""

PARENT = f"""
import os, signal, sys, time
from pathlib import Path
from deployments.processes import children
with children(Path(sys.argv[1])) as started:
    started.start("family", ["sh", "-c", {FAMILY!r}], os.environ)
    print(started.mark, flush=True)
    time.sleep(900)
"""


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(processes, "GRACE", 0.3)


@pytest.mark.parametrize("script", [FAMILY, DEAF])
def test_children_and_all_that_they_started_end_with_the_block(tmp_path, script):
    with children(tmp_path) as started:
        started.start("family", ["sh", "-c", script], os.environ)
        assert soon(lambda: len(marked(started.mark)) == 4)
    assert soon(lambda: not marked(started.mark)), "a kill takes its time"


def test_output_is_appended_to_the_log(tmp_path):
    (tmp_path / "talker.log").write_text("before\n")
    with children(tmp_path) as started:
        started.start("talker", ["echo", "now"], os.environ)
        started.processes["talker"].wait()
    assert (tmp_path / "talker.log").read_text() == "before\nnow\n"


def test_they_end_too_when_the_parent_is_killed(tmp_path):
    command = [sys.executable, "-c", PARENT, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        mark = parent.stdout.readline().strip()
        assert soon(lambda: len(marked(mark)) == 4)
        parent.send_signal(signal.SIGKILL)
    assert soon(lambda: not marked(mark))


def test_an_ended_child_is_an_error_with_its_last_lines(tmp_path):
    with children(tmp_path) as started:
        started.start("talker", ["sh", "-c", "echo no database; exit 7"], os.environ)
        started.processes["talker"].wait()
        with pytest.raises(SentembError, match=r"(?s)talker .* 7\b.*no database"):
            started.require_alive()


@pytest.fixture
def stranger():
    """The port of another program that answers every request."""
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as service:
        threading.Thread(target=service.serve_forever, daemon=True).start()
        yield service.server_port
        service.shutdown()


def test_the_answer_of_another_program_is_not_the_childs(tmp_path, stranger, monkeypatch):
    monkeypatch.setattr(server, "PATIENCE", 1.0)
    with children(tmp_path) as started:
        started.start("slow", ["sleep", "900"], os.environ)
        with pytest.raises(SentembError, match=rf":{stranger} .* 1 s\b.*{tmp_path}"):
            wait_for(f"http://127.0.0.1:{stranger}", started)


def test_a_child_whose_port_is_taken_is_an_error(tmp_path, stranger):
    command = ["sh", "-c", f"sleep .5; {sys.executable} -m http.server {stranger}"]
    with children(tmp_path) as started:
        started.start("late", command, os.environ)
        with pytest.raises(SentembError, match=r"(?s)late .*in use"):
            wait_for(f"http://127.0.0.1:{stranger}", started)


def test_a_grandchild_may_answer(tmp_path):
    port = free_port(0)
    (tmp_path / "health").write_text("OK")
    server = f"{sys.executable} -m http.server -b 127.0.0.1 -d {tmp_path} {port}"
    command = ["sh", "-c", f"{server}; true"]
    with children(tmp_path) as started:
        started.start("family", command, os.environ)
        wait_for(f"http://127.0.0.1:{port}", started)
        assert started.listens(port)
        assert not started.listens(free_port(0))


def test_other_processes_carry_no_mark():
    assert marked("0" * 32) == []
    assert MARK not in os.environ


def test_an_ended_process_is_not_running():
    process = subprocess.Popen(["true"])
    assert soon(lambda: not is_running(process.pid)), "a zombie counts as gone"
    process.wait()
    assert not is_running(process.pid)
    end([process.pid])
