"""The short-lived server of a run: gone when the run is, however it ends.

Run: pytest tests/flows/test_server.py; the slow ones start servers.
"""

import errno
import fcntl
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock
from urllib import request
from urllib.error import HTTPError
from urllib.request import proxy_bypass

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows import server
from flows.environment import prepare
from flows.server import address, joined_server, served, wait_for
from sentemb_core.errors import ServerLostError
from sentemb_core.store.locks import held_note, is_locked, is_shared, shared_lock
from tasks.servers import EPHEMERAL, STARTED_BY, answers, users
from tests.flows.corpora import tiny_run
from tests.repository import ROOT
from tests.waiting import LONG, awake, soon

ENDS_WITH_ITS_RUNS = """
import sys
from functools import partial
from pathlib import Path
from flows.server import end_with_the_runs
from sentemb_core.store.locks import file_lock
from tasks.servers import users
end_with_the_runs(partial(file_lock, users(Path(sys.argv[1]))))
"""

STARTS_A_SERVER, JOINS_ONE = (
    f"""
import sys, time
from pathlib import Path
from flows.server import joined_server, start_server
print({call}(Path(sys.argv[1])), flush=True)
time.sleep(600)
"""
    for call in ("start_server", "joined_server")
)


def python(*arguments: str, home: Path, **options: object) -> "subprocess.Popen[str]":
    """A process that leads a group, with a home of its own and no server that it knows of."""
    kept = {name: value for name, value in os.environ.items() if name != "PREFECT_API_URL"}
    return subprocess.Popen(
        [sys.executable, *arguments],
        env=kept | {"SENTEMB_HOME": str(home), "PREFECT_HOME": str(home / "prefect")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **{"cwd": ROOT} | options,
    )


@pytest.mark.parametrize("direct", [{}, {"NO_PROXY": ".corp,10.0.0.1"}, {"no_proxy": "*"}])
def test_local_servers_bypass_proxies(tmp_path: Path, direct: dict[str, str]):
    proxies = {"http_proxy": "http://127.0.0.1:9", "SENTEMB_HOME": str(tmp_path)}
    with mock.patch.dict(os.environ):
        for name in ("no_proxy", "NO_PROXY"):  # an earlier run in this process left one
            os.environ.pop(name, None)
        os.environ.update(proxies | direct)
        prepare()
        once = os.environ["no_proxy"]
        prepare()
        assert os.environ["no_proxy"] == once
        assert all(map(proxy_bypass, ["127.0.0.1", "localhost"]))
        assert bool(proxy_bypass("www.corp")) == bool(direct)
        assert bool(proxy_bypass("example.org")) == ("*" in once)


def test_a_server_without_its_imports_does_not_begin(tmp_path: Path):
    code = (
        "import sys; from pathlib import Path; from flows.server import main\n"
        "sys.modules['tasks.servers'] = None; main(0, Path('logs'))"
    )
    with python("-c", code, home=tmp_path, stdin=subprocess.PIPE) as process:
        assert "ModuleNotFoundError" in process.stderr.read()
        assert process.wait(LONG) == 1


@pytest.mark.parametrize("file", [".env", "prefect.toml"])
def test_a_server_named_by_a_local_file_is_not_used(tmp_path: Path, file: str):
    named = {".env": "PREFECT_API_URL=", "prefect.toml": "api.url = "}[file]
    (tmp_path / file).write_text(f'{named}"http://127.0.0.1:9/api"')
    code = (
        "from flows.environment import prepare; prepare()\n"
        "from prefect.settings import PREFECT_API_URL; print(PREFECT_API_URL.value())"
    )
    with python("-c", code, home=tmp_path / "home", cwd=tmp_path) as process:
        assert process.stdout.read().strip() == "", process.stderr.read()


def test_a_user_without_home_folder_gets_the_runs_home(tmp_path: Path, monkeypatch):
    def nobody(_: int) -> None:
        raise KeyError

    with mock.patch.dict(os.environ, {"SENTEMB_HOME": str(tmp_path)}):
        monkeypatch.setattr("pwd.getpwuid", nobody)
        del os.environ["HOME"]
        prepare()
        assert Path.home() == tmp_path


def test_matplotlib_writes_to_the_runs_home_if_the_users_is_read_only(tmp_path: Path):
    with mock.patch.dict(os.environ, {"SENTEMB_HOME": str(tmp_path), "HOME": "/proc/none"}):
        os.environ.pop("MPLCONFIGDIR", None)
        prepare()
        assert Path(os.environ["MPLCONFIGDIR"]).parent == tmp_path
    with mock.patch.dict(os.environ, {"SENTEMB_HOME": str(tmp_path), "HOME": str(tmp_path)}):
        os.environ.pop("MPLCONFIGDIR", None)
        prepare()
        assert "MPLCONFIGDIR" not in os.environ


def test_a_server_ends_with_the_pipe_and_all_joined_runs(tmp_path: Path):
    joined = shared_lock(users(tmp_path))
    with python(
        "-c", ENDS_WITH_ITS_RUNS, str(tmp_path), home=tmp_path, stdin=subprocess.PIPE
    ) as process:
        process.stdin.close()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=2)
        os.close(joined)
        assert process.wait(timeout=LONG) == -signal.SIGTERM


URL = "http://127.0.0.1:9/api"


@pytest.fixture
def only_url_answers(monkeypatch):
    monkeypatch.setattr(server, "_joined", [])
    monkeypatch.setattr("tasks.servers.answers", lambda asked: asked == URL)


@pytest.mark.usefixtures("only_url_answers")
def test_a_run_joins_the_server_of_another_run(tmp_path: Path):
    log = tmp_path / "server.log"
    assert joined_server(log) is None, "no server was ever started here"
    living = held_note(address(log), URL)
    assert joined_server(log) == URL
    assert is_shared(users(tmp_path)), "or the server would end with who started it"
    os.close(living)
    assert joined_server(log) is None, "the one that noted this is gone: anybody may answer there"


@pytest.mark.usefixtures("only_url_answers")
def test_only_a_server_that_answers_is_joined(tmp_path: Path):
    log = tmp_path / "server.log"
    hangs = held_note(address(log), "http://127.0.0.1:10/api")
    assert joined_server(log) is None
    assert not is_shared(users(tmp_path)), "a server that nobody joined is kept by nobody"
    answering = held_note(address(log), URL)
    assert joined_server(log) == URL
    for descriptor in (hangs, answering):
        os.close(descriptor)


@pytest.mark.usefixtures("only_url_answers")
def test_without_file_locks_every_run_has_its_own_server(tmp_path: Path, monkeypatch):
    def refuse(*_: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    log = tmp_path / "server.log"
    os.close(held_note(address(log), URL))
    assert joined_server(log) is None


def test_a_server_records_the_process_that_started_it(tmp_path: Path, monkeypatch):
    noted: dict[str, str] = {}
    monkeypatch.setattr(server, "_servers", [])
    monkeypatch.setattr(subprocess, "Popen", lambda _, env, **__: noted.update(env))
    server.start_server(tmp_path / "server.log")
    assert noted[STARTED_BY] == str(os.getpid())
    assert noted[EPHEMERAL] == "1"


def test_a_server_that_does_not_start_is_an_error_with_its_log(tmp_path: Path):
    with pytest.raises(ServerLostError, match=r"E602 .*refused.*all\.log"):
        wait_for("http://127.0.0.1:9/api", tmp_path / "all.log")


def test_servers_of_one_home_start_one_after_the_other(tmp_path: Path, monkeypatch):
    log = tmp_path / "server.log"
    held: list[bool] = []
    monkeypatch.setattr(server, "_joined", [])
    monkeypatch.setenv(PREFECT_API_URL.name, "")
    monkeypatch.setattr("prefect.context.refresh_global_settings_context", lambda: None)
    monkeypatch.setattr(server, "start_server", lambda log: URL)
    monkeypatch.setattr(
        server, "wait_for", lambda *_: held.append(is_locked(log.with_suffix(".lock")))
    )
    with temporary_settings({PREFECT_API_URL: None}), served(log, dict):
        held.append(is_locked(log.with_suffix(".lock")))
    assert held == [True, False]


def test_a_home_that_cannot_be_created_is_refused(tmp_path: Path):
    file = tmp_path / "file"
    file.touch()
    with python("-m", "flows", "status", home=file) as process:
        assert process.wait() == 2
        error = process.stderr.read()
        assert re.search(r"error E001 .*\$SENTEMB_HOME.*/file/.*: Not a directory", error)


@pytest.mark.slow
def test_a_run_that_is_killed_leaves_no_server(tmp_path: Path):
    with python("-c", STARTS_A_SERVER, str(tmp_path / "log"), home=tmp_path) as process:
        url = process.stdout.readline().strip()
        assert soon(lambda: answers(url))
        foreign = request.Request(f"{url}/health", headers={"Origin": "http://evil.example"})
        with pytest.raises(HTTPError, match="403"):
            request.urlopen(foreign, timeout=LONG)
        process.kill()
    assert soon(lambda: not answers(url)), "the server outlived the run"


@pytest.mark.slow
def test_a_server_outlives_its_first_run_while_another_one_joined(tmp_path: Path):
    log = str(tmp_path / "server.log")
    with python("-c", STARTS_A_SERVER, log, home=tmp_path) as first:
        url = first.stdout.readline().strip()
        assert soon(lambda: answers(url))
        with python("-c", JOINS_ONE, log, home=tmp_path) as second:
            assert second.stdout.readline().strip() == url
            first.kill()
            time.sleep(server.GRACE + 1)
            assert answers(url), "it ended with the run that started it"
            second.kill()
    assert soon(lambda: not answers(url)), "it outlived both"


@pytest.mark.slow
def test_a_terminated_group_ends_at_once_and_can_resume(tmp_path: Path, corpus_file: Path):
    initialiser = {"method": "conpono", "steps": 5_000, "batch_size": 16}
    config = tiny_run(corpus_file, register_model=False, initialiser=initialiser)
    file = tmp_path / "config.json"
    file.write_text(config.model_dump_json())
    home = tmp_path / "home"
    with python("-m", "flows", "run", "--config", str(file), home=home) as process:
        trainings = (line for line in process.stderr if "train_encoder runs" in line)
        assert next(trainings, None), "the run ended by itself"
        with awake() as seconds:
            for _ in range(2):  # as `timeout` does: the process, then its group
                os.killpg(process.pid, signal.SIGTERM)
            lines = process.stderr.read().splitlines()
            code = process.wait()
            assert seconds() < 15, "half a minute is what a server that is gone costs"
    assert code == 143
    (run,) = (home / "runs").glob("*.json")
    resume = rf"python -m flows resume {run.stem}\b"
    assert re.search(rf"\b8 .*{resume}", lines[-2]), "finished stages, and the way on"
    assert lines[-1] == "error interrupted"
    assert not any("E602" in line or "---" in line or "Crash" in line for line in lines)
