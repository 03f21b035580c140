"""The whole service for real: a server, a worker, a schedule, a run, and nothing left behind."""

import contextlib
import http.client
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from deployments import local
from deployments.processes import MARK
from deployments.production import NIGHTLY_DEMO
from flows.demo import WAYS
from sentemb_core.errors import UsageError
from sentemb_core.store.objects import Store
from sentemb_core.store.runs import last_runs
from tasks.delivery import sync
from tests.browser import needs_browser, shown
from tests.flows.corpora import tiny_run, write_corpus
from tests.repository import ROOT
from tests.waiting import LONG, soon

pytestmark = [
    pytest.mark.slow,
    pytest.mark.server,
    pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs /proc"),
]

ONE_ROUND = {"rounds": {"max_rounds": 1, "patience": 1}, "control": False}


def call(url, body=None):
    """An answer of Prefect's API; 503 is its busy database, where its own clients ask again."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})

    def answer():
        try:
            with urllib.request.urlopen(request, timeout=LONG) as answered:
                return json.load(answered)
        except urllib.error.HTTPError as error:
            if error.code != 503:
                raise
            return None

    return soon(answer, lambda answered: answered is not None)


def processes_of(home):
    """Processes that `serve` of this home started."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            variables = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if f"SENTEMB_HOME={home}".encode() in variables and any(
            variable.startswith(f"{MARK}=".encode()) for variable in variables
        ):
            found[int(path.parent.name)] = variables
    return found


def listeners(pids):
    """Addresses that these processes listen on, as in /proc/net: hexadecimal, then the port."""
    inodes = set()
    for pid in pids:
        with contextlib.suppress(OSError):  # the process ended
            for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):  # closed since it was listed
                    target = str(descriptor.readlink())
                    if target.startswith("socket:["):
                        inodes.add(target[8:-1])
    rows = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
    ]
    return {row[1].rpartition(":")[0] for row in rows if row[3] == "0A" and row[9] in inodes}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """`serve` with all deployments: its home, its API, its process."""
    home = tmp_path_factory.mktemp("service") / "home"
    dropped = {"PREFECT_API_URL", "PREFECT_HOME", "PREFECT_PROFILES_PATH", "MLFLOW_TRACKING_URI"}
    environment = {name: value for name, value in os.environ.items() if name not in dropped}
    environment["SENTEMB_HOME"] = str(home)
    command = [sys.executable, "-m", "flows", "serve", "--port", "0", "--for", "3600", "--mlflow"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, cwd=ROOT, env=environment, **pipes) as process:
        try:
            lines = []
            for line in process.stdout:
                lines.append(line)
                if line.startswith("Ready"):
                    break
            assert (home / "server.url").exists(), "".join(lines)
            yield home, (home / "server.url").read_text().strip(), process
        finally:
            process.kill()


@pytest.fixture(scope="module")
def run(served, tmp_path_factory):
    """A pipeline that was triggered through its deployment, on a tiny corpus, once it ended."""
    _, api, _ = served
    source = write_corpus(tmp_path_factory.mktemp("corpus") / "documents.jsonl")
    config = tiny_run(source, **ONE_ROUND)
    body = {"parameters": {"config": config.model_dump(mode="json")}}
    return triggered(api, "infocse-idc/blog-usgov", body)


RUNS_A_COMMAND = {
    "name": "evil",
    "trigger": {"type": "event", "expect": ["prefect.*"], "posture": "Reactive", "threshold": 1},
    "actions": [{"type": "run-deployment", "job_variables": {"command": "touch evil"}}],
}


@pytest.mark.parametrize(
    ("host", "headers"),
    [
        (None, {"Origin": "http://evil.example"}),  # a script of any page; without a type of body
        ("evil.example", {"Content-Type": "application/json"}),  # a name that leads to 127.0.0.1
    ],
)
def test_a_foreign_page_cannot_make_the_worker_run_a_command(served, host, headers):
    _, api, _ = served
    address = urlsplit(api)
    host = f"{host}:{address.port}" if host else address.netloc
    asked = http.client.HTTPConnection(address.netloc, timeout=LONG)
    asked.request("POST", "/api/automations/", json.dumps(RUNS_A_COMMAND), headers | {"Host": host})
    assert asked.getresponse().status == 403
    asked.close()
    assert "evil" not in {one["name"] for one in call(f"{api}/automations/filter", {})}


def test_a_second_service_of_a_home_is_refused_and_the_address_of_a_killed_one_goes(tmp_path):
    left = tmp_path / "server.url"
    left.write_text("http://127.0.0.1:4200/api\n")
    with local.exclusive(tmp_path), socket.create_server(("127.0.0.1", 0)) as taken:
        assert not left.exists()
        with pytest.raises(UsageError, match=f"process {os.getpid()}"):
            local.serve(tmp_path, port=taken.getsockname()[1], seconds=0, mlflow=False)


@pytest.mark.parametrize("paused", [[], [NIGHTLY_DEMO]])
def test_a_paused_schedule_is_announced_as_such(tmp_path, capsys, paused):
    local.announce({"server.url": "http://127.0.0.1:4200/api"}, tmp_path, paused)
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "demo/nightly" in line]
    assert "at 0 3 * * * (cron, UTC)" in line
    assert ("paused" in line) == bool(paused)


def test_of_two_services_that_start_together_one_is_refused(tmp_path):
    barrier, refused = threading.Barrier(2), []

    def start() -> None:
        barrier.wait(LONG)
        try:
            with local.exclusive(tmp_path):
                barrier.wait(LONG)
        except UsageError as error:
            refused.append(str(error))
            barrier.wait(LONG)

    starts = [threading.Thread(target=start) for _ in range(2)]
    for each in starts:
        each.start()
    for each in starts:
        each.join()
    assert len(refused) == 1, "a barrier breaks where the second waits for the first"
    assert refused[0].startswith(f"E001 {tmp_path} is served ")


def triggered(api, deployment, body):
    """A run of a deployment, once it ended."""
    known = call(f"{api}/deployments/name/{deployment}")
    run = call(f"{api}/deployments/{known['id']}/create_flow_run", body)

    def ended():
        found = call(f"{api}/flow_runs/{run['id']}")
        return found if found["state"]["name"] in ("Completed", "Failed", "Crashed") else None

    return soon(ended)


def test_a_run_triggered_through_its_deployment_completes(served, run):
    home, _, _ = served
    assert run["state"]["name"] == "Completed", (home / "logs" / "worker.log").read_text()
    (record,) = last_runs(Store(home))
    assert (record.state, record.config["name"]) == ("completed", "tiny")
    assert (home / "logs" / "prefect-server.log").exists(), "server.log is that of a run's own"
    assert (home / "reports" / record.id / "report.html").exists()


def test_mlflow_shows_the_run_and_refuses_other_host_names(served, run, monkeypatch):
    home, _, _ = served
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert sync(home) == 0, "a run does not wait long for MLflow"
    pages = (home / "mlflow.url").read_text().strip()
    found = call(f"{pages}/api/2.0/mlflow/experiments/search", {"max_results": 10})
    experiments = [experiment["experiment_id"] for experiment in found["experiments"]]
    runs = call(f"{pages}/api/2.0/mlflow/runs/search", {"experiment_ids": experiments})["runs"]
    names = {one["info"]["run_name"] for one in runs}
    assert run["state"]["name"] == "Completed"
    assert {"tiny", "start", "round-1"} <= names
    with urllib.request.urlopen(pages, timeout=LONG) as page:
        assert "<title>MLflow</title>" in page.read().decode()
    experiment = {"query": 'query {mlflowGetExperiment(input: {experimentId: "1"}) {__typename}}'}
    new = {"name": "evil"}
    for path, body in (("/graphql", experiment), ("/api/2.0/mlflow/registered-models/create", new)):
        for name, value in (("Host", "evil.example"), ("Origin", "http://localhost:9")):
            foreign = urllib.request.Request(
                f"{pages}{path}",
                json.dumps(body).encode(),
                {"Content-Type": "application/json", name: value},
            )
            with pytest.raises(urllib.error.HTTPError, match="403"):
                urllib.request.urlopen(foreign, timeout=LONG)
    assert "data" in call(f"{pages}/graphql", experiment)


def test_the_nightly_schedule_makes_runs(served):
    _, api, _ = served
    nightly = {"flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}}}
    scheduled = soon(lambda: call(f"{api}/flow_runs/count", nightly))
    assert scheduled, "sqlalchemy 2.1 breaks the scheduler of prefect 3.8"


def test_a_nightly_run_of_the_demo_completes(served, run, tmp_path):
    home, api, _ = served
    source = write_corpus(tmp_path / "documents.jsonl")
    ways = {
        way: tiny_run(source, name=f"from-{way}", **ONE_ROUND).model_dump(mode="json")
        for way in WAYS
    }
    file = tmp_path / "ways.json"
    file.write_text(json.dumps(ways), "utf-8")
    small = shlex.join([sys.executable, str(ROOT / "tests/deployments/small_demo.py"), str(file)])
    nightly = triggered(api, "demo/nightly", {"job_variables": {"command": small}})
    assert nightly["state"]["name"] == "Completed", (home / "logs" / "worker.log").read_text()
    assert nightly["parameters"] == NIGHTLY_DEMO.parameters
    states = {record.config["name"]: record.state for record in last_runs(Store(home))}
    assert states == {"tiny": "completed", "from-nothing": "completed", "from-minilm": "completed"}


@needs_browser
def test_a_browser_can_show_the_run(served, run, tmp_path):
    _, api, _ = served
    pages = api.removesuffix("/api")
    seen = shown(f"{pages}/runs/flow-run/{run['id']}", tmp_path, milliseconds=15_000)
    assert f"{api}/flow_runs/{run['id']}" in seen.requests, "the page found its own API"
    assert all(address.startswith(pages) for address in seen.requests), "and asks nobody else"
    assert seen.colours > 100, "a timeline, a log, badges"


@needs_browser
def test_the_first_page_of_mlflow_lists_our_runs_without_telemetry(served, run, tmp_path):
    home, _, _ = served
    pages = (home / "mlflow.url").read_text().strip()
    seen = shown(f"{pages}/", tmp_path, milliseconds=10_000)
    called = {address.removeprefix(pages).partition("?")[0] for address in seen.requests}
    assert "/ajax-api/2.0/mlflow/runs/search" in called
    assert not {path for path in called if "telemetry" in path.lower()}
    assert all(address.startswith(pages) for address in seen.requests)


def test_everything_listens_on_loopback(served):
    home, _, _ = served
    own = processes_of(home)
    assert len(own) >= 2
    assert listeners(own) == {"0100007F"}, "127.0.0.1 and nothing else"


def test_nothing_stays_behind(served):
    """The last one: it ends the service."""
    home, _, process = served
    process.send_signal(signal.SIGTERM)
    assert process.wait(LONG) == 0
    assert soon(lambda: not processes_of(home)), processes_of(home)
    assert not (home / "server.url").exists()
    assert not (home / "mlflow.url").exists()
