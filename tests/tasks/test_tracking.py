"""Events of a run reach MLflow once, in order, whatever happens to server, disk and process."""

import contextlib
import errno
import json
import logging
import math
import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from requests import HTTPError, Response

from tasks import delivery
from tasks.delivery import Event, Spool, batches, deliver, is_refusal, sync
from tasks.servers import experiment_id, mlflow_client, server_address
from tasks.tracking import tracked_run
from tests.waiting import LONG, awake, soon

pytestmark = pytest.mark.usefixtures("tracked_home")


@pytest.fixture
def impatient(monkeypatch):
    """Ends of runs that wait for a second only."""
    monkeypatch.setattr(delivery, "PATIENCE", 1.0)
    monkeypatch.setattr(delivery, "INTERVAL", 0.05)


def runs(home):
    found = mlflow_client(home).search_runs([experiment_id(home)])
    return {run.info.run_name: run for run in found}


def waits_for(lock, caplog):
    """Whether somebody came to this lock while another held it."""
    return f"Waiting for another process that holds {lock}" in caplog.text


def points(home, run, name):
    history = mlflow_client(home).get_metric_history(run.info.run_id, name)
    return [(point.step, point.value) for point in history]


def spooled(home, name, steps):
    """A spool that no process writes to any more."""
    spool = Spool(home / "spool" / name)
    spool.folder.mkdir(parents=True)
    spool.append(Event(run="", kind="start", values={"name": name}))
    for step in range(steps):
        spool.append(Event(run="", kind="metrics", values={"loss": 1.0}, step=step))
    return spool


class Tracker(ThreadingHTTPServer):
    """An MLflow server that answers everything with one status, after a while."""

    def __init__(self, status, seconds):
        class Handler(BaseHTTPRequestHandler):
            def answer(self):
                time.sleep(seconds)
                self.send_response(status)
                self.end_headers()
                self.wfile.write(b"OK")

            do_GET = do_POST = answer  # noqa: N815

            def log_message(self, *args): ...

        super().__init__(("127.0.0.1", 0), Handler)
        self.daemon_threads = True
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


def test_a_run_has_a_child_per_round_with_its_metrics_files_and_digests(home):
    figure = home / "figure.svg"
    figure.write_text("<svg/>")
    with tracked_run("blog", params={"idc": {"top_k": 1}}, tags={"corpus": "a" * 64}) as run:
        for number in (1, 2):
            child = run.child(f"round-{number}")
            child.log_metrics({"recall@5": number / 10}, step=number)
        run.log_artifact(figure)
        assert soon(lambda: run.id)
        assert run.url is None  # a database has no page

    found = runs(home)
    assert set(found) == {"blog", "round-1", "round-2"}
    parent = found["blog"]
    assert parent.data.params == {"idc.top_k": "1"}
    assert parent.data.tags["corpus"] == "a" * 64
    assert {run.info.status for run in found.values()} == {"FINISHED"}
    for number in (1, 2):
        child = found[f"round-{number}"]
        assert child.data.tags["mlflow.parentRunId"] == parent.info.run_id
        assert points(home, child, "recall_5") == [(number, number / 10)]
    files = mlflow_client(home).list_artifacts(parent.info.run_id)
    assert [file.path for file in files] == ["figure.svg"]
    assert not list(home.glob("spool/*/")), "a delivered spool is removed"


def test_a_dead_server_neither_delays_nor_loses_a_point(home, monkeypatch, impatient):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    with awake() as seconds:
        with tracked_run("dark") as run:
            for step in range(2_000):
                run.log_metrics({"loss": 1 / (step + 1), "rate": float(step)}, step)
            logged = seconds()
        assert logged < 2.0
        assert seconds() < 8.0
    assert len(list(home.glob("spool/*/"))) == 1

    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    assert sync(home) == 0
    run = runs(home)["dark"]
    assert points(home, run, "loss") == [(step, 1 / (step + 1)) for step in range(2_000)]
    assert run.info.status == "FINISHED"
    assert not list(home.glob("spool/*/"))


@pytest.mark.parametrize(("status", "seconds"), [(500, 0.0), (200, 5.0)])
def test_a_failing_or_slow_server_does_not_stop_a_training(
    home, monkeypatch, impatient, status, seconds
):
    tracker = Tracker(status, seconds)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracker.url)
    with awake() as seconds:
        with tracked_run("slow") as run:
            for step in range(200):
                run.log_metrics({"loss": 1.0}, step)
            assert seconds() < 1.0
        assert seconds() < 4.0
    tracker.shutdown()
    tracker.server_close()
    assert Spool(next(home.glob("spool/*/"))).size > 0


def test_an_exception_ends_the_run_and_its_children_as_failed(home):
    with contextlib.suppress(ZeroDivisionError), tracked_run("broken") as run:
        run.child("round-1")
        1 / 0  # noqa: B018
    assert {run.info.status for run in runs(home).values()} == {"FAILED"}


def test_a_second_delivery_repeats_no_point(home):
    with tracked_run("once", key="once") as run:
        for step in range(30):
            run.log_metrics({"loss": float(step)}, step)
        run.child("round-1").log_metrics({"loss": 0.5}, 1)
        lines = run.spool.events.read_bytes()
    spool = Spool(home / "spool" / "once")
    spool.folder.mkdir()
    spool.events.write_bytes(lines)  # as if nothing had been remembered
    deliver(spool)
    found = runs(home)
    assert set(found) == {"once", "round-1"}
    assert points(home, found["once"], "loss") == [(step, float(step)) for step in range(30)]


def test_a_resumed_run_continues_its_mlflow_run_and_its_children(home):
    with contextlib.suppress(KeyboardInterrupt), tracked_run("stopped", key="run-9") as run:
        run.child("start").log_metrics({"recall@5": 0.5}, 1)
        raise KeyboardInterrupt
    assert {run.info.status for run in runs(home).values()} == {"FAILED"}
    with tracked_run("stopped", key="run-9") as run:
        run.child("start").log_metrics({"recall@5": 0.5}, 2)
        deliver(run.spool)
        assert {run.info.status for run in runs(home).values()} == {"RUNNING"}
    found = runs(home)
    assert set(found) == {"stopped", "start"}
    assert points(home, found["start"], "recall_5") == [(1, 0.5), (2, 0.5)]
    assert {run.info.status for run in found.values()} == {"FINISHED"}


@pytest.mark.parametrize("delivered", [True, False])
def test_what_a_resumed_run_logs_again_is_delivered_once(home, monkeypatch, impatient, delivered):
    if not delivered:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    for seconds in (7.0, 0.0):  # a row that is computed, then the same from the cache
        monkeypatch.setattr(delivery, "PATIENCE", LONG if delivered or not seconds else 1.0)
        with tracked_run("resumed", key="run-8") as run:
            run.child("start").log_metrics({"recall@5": 0.5, "seconds": seconds}, step=0)
            for step in range(5 if seconds else 8):
                run.child("round-1").log_metrics({"loss": 1 / (step + 1)}, step)
        monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    found = runs(home)
    assert points(home, found["start"], "recall_5") == [(0, 0.5)]
    assert points(home, found["start"], "seconds") == [(0, 7.0)]
    assert points(home, found["round-1"], "loss") == [(step, 1 / (step + 1)) for step in range(8)]


def test_a_late_delivery_and_the_next_one_repeat_nothing(home, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "sentemb_core.store.locks")
    creating, begun, late = mlflow_client(home).create_run, threading.Event(), threading.Event()
    first = iter([lambda: begun.set() or late.wait(LONG)])

    def create(*arguments, **named):
        next(first, lambda: None)()
        return creating(*arguments, **named)

    monkeypatch.setattr(mlflow_client(home), "create_run", create)
    monkeypatch.setattr(delivery, "PATIENCE", 0.5)
    with tracked_run("late", key="run-9") as run:
        run.log_metrics({"loss": 1.0}, 1)
        assert begun.wait(LONG)
    with tracked_run("late", key="run-9") as run:
        assert soon(lambda: waits_for(run.spool.delivery_lock, caplog)), "behind the late sender"
        late.set()
        monkeypatch.setattr(delivery, "PATIENCE", LONG)
    found = mlflow_client(home).search_runs([experiment_id(home)])
    assert [one.info.status for one in found] == ["FINISHED"]
    assert points(home, found[0], "loss") == [(1, 1.0)]


KILLED = """
import os, signal
from tasks.tracking import tracked_run
with tracked_run("killed") as run:
    for step in range(50):
        run.log_metrics({"loss": 1.0}, step)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_run_keeps_its_points_and_the_next_run_delivers_them(home):
    dark = os.environ | {"MLFLOW_TRACKING_URI": "http://127.0.0.1:9"}
    killed = subprocess.run([sys.executable, "-c", KILLED], env=dark, check=False)
    assert killed.returncode == -signal.SIGKILL
    (folder,) = home.glob("spool/*/")
    with (folder / "events.jsonl").open("ab") as file:
        file.write(b'{"run":"","kind":"metr')  # what a kill in the middle of a write leaves

    with tracked_run("next"):
        assert soon(lambda: not folder.exists())
    found = runs(home)
    assert len(points(home, found["killed"], "loss")) == 50
    assert found["killed"].info.status == "KILLED"
    assert not folder.exists()


def test_resuming_during_a_delivery_of_its_spool_loses_nothing(home, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "sentemb_core.store.locks")
    spooled(home, "back", 0)
    delivered, deliver_now = threading.Event(), delivery.deliver

    def slowly(spool, late=None):
        deliver_now(spool, late)
        delivered.set()
        soon(lambda: waits_for(spool.writer_lock, caplog))

    monkeypatch.setattr(delivery, "deliver", slowly)
    other = threading.Thread(target=sync, args=(home,))
    other.start()
    assert delivered.wait(LONG)
    with tracked_run("back", params={"top_k": 1}, key="back") as run:
        assert waits_for(run.spool.writer_lock, caplog), "for the end of the other's delivery"
        other.join()
        run.log_metrics({"loss": 1.0}, 1)
    found = runs(home)["back"]
    assert (found.info.status, found.data.params) == ("FINISHED", {"top_k": "1"})
    assert points(home, found, "loss") == [(1, 1.0)]


def test_another_tracker_gets_a_run_from_its_start(home, tmp_path, monkeypatch):
    spool = spooled(home, "moved", 3)
    deliver(spool)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/other.db")
    assert not runs(home), "this is the other one"
    spool.append(Event(run="", kind="metrics", values={"loss": 1.0}, step=3))
    deliver(spool)
    assert len(points(home, runs(home)["moved"], "loss")) == 4
    assert not (home / "spool" / "rejected.txt").exists()


def test_delivered_events_lost_in_a_power_cut_leave_no_run_open(home):
    spool = spooled(home, "cut", 3)
    deliver(spool)
    os.truncate(spool.events, spool.size // 2)
    sync(home)
    assert not spool.folder.exists()
    assert runs(home)["cut"].info.status == "KILLED"
    assert len(points(home, runs(home)["cut"], "loss")) == 3


def test_a_refused_event_is_recorded_and_blocks_nothing(home, caplog):
    with tracked_run("contrary", params={"rate": 1}) as run:
        run.log_params({"rate": 2})  # MLflow: a parameter never changes
        run.log_metrics({"loss": math.nan}, 1)
    found = runs(home)["contrary"]
    assert found.data.params == {"rate": "1"}
    assert math.isnan(points(home, found, "loss")[0][1])
    rejected = (home / "spool" / "rejected.txt").read_text()
    assert "rate" in rejected
    assert "Changing param values is not allowed" in rejected, "the reason of MLflow"
    refused = [line.args[0] for line in caplog.records if line.name == "tasks.delivery"]
    assert refused == ["params"]


def test_a_deleted_experiment_is_restored_without_loss(home):
    client = mlflow_client(home)
    with tracked_run("first") as run:
        run.log_metrics({"loss": 1.0}, 1)
    client.delete_experiment(experiment_id(home))
    with tracked_run("second", params={"rate": 1}) as run:
        run.child("round-1").log_metrics({"loss": 1.0}, 1)
        deliver(run.spool)
        client.delete_experiment(experiment_id(home))
        run.child("round-1").log_metrics({"loss": 0.5}, 2)
    found = runs(home)
    assert set(found) == {"first", "second", "round-1"}
    assert points(home, found["round-1"], "loss") == [(1, 1.0), (2, 0.5)]
    assert {run.info.status for run in found.values()} == {"FINISHED"}
    assert not (home / "spool" / "rejected.txt").exists()


def test_a_deleted_live_run_is_restored(home):
    with tracked_run("deleted") as run:
        run.child("round-1").log_metrics({"loss": 1.0}, 1)
        deliver(run.spool)
        for id_ in run.spool.sent.ids.values():
            mlflow_client(home).delete_run(id_)
        run.child("round-1").log_metrics({"loss": 0.5}, 2)
    found = runs(home)
    assert points(home, found["round-1"], "loss") == [(1, 1.0), (2, 0.5)]
    assert {run.info.status for run in found.values()} == {"FINISHED"}
    assert not (home / "spool" / "rejected.txt").exists()


def answered(status: int) -> HTTPError:
    response = Response()
    response.status_code = status
    return HTTPError(f"{status} of a proxy", response=response)


@pytest.mark.parametrize(
    "failure", [answered(413), ModuleNotFoundError("No module named 'boto3'")], ids=str
)
def test_a_file_that_mlflow_refuses_for_good_blocks_nothing(home, monkeypatch, failure: Exception):
    def refuse(*_):
        raise failure

    monkeypatch.setattr(delivery, "upload", refuse)
    with tracked_run("large") as run:
        figure = home / "figure.svg"
        figure.write_text("<svg/>")
        run.log_artifact(figure)
        run.log_metrics({"loss": 1.0}, 1)
    found = runs(home)["large"]
    assert (found.info.status, points(home, found, "loss")) == ("FINISHED", [(1, 1.0)])
    assert str(failure) in (home / "spool" / "rejected.txt").read_text()


@pytest.mark.parametrize("failure", [answered(503), answered(429), ConnectionError("reset")])
def test_a_file_that_mlflow_may_take_later_waits(failure: Exception):
    assert not is_refusal(failure, "artifact")
    assert not is_refusal(answered(413), "metrics"), "MLflow names these itself"


def test_nothing_is_printed_of_a_tracker_with_a_password(home, monkeypatch, capsys):
    """MLflow would print the address of a run that ends, as it was given."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:word-of-it@127.0.0.1:9")
    mlflow_client(home)._tracking_client._log_url("a run")
    assert capsys.readouterr().out == ""


def test_names_and_sizes_are_fitted_to_mlflows_limits(home):
    with tracked_run("it's / odd", params={f"p{i}": i for i in range(250)}) as run:
        run.log_metrics({"R@5 (test)": 0.5, "x" * 400: 1.0})
        run.child("round's 1")
        run.child("round_s-1").log_metrics({"loss": 1.0})
    found = runs(home)
    assert len(found["it's / odd"].data.params) == 250
    assert {"R_5 _test_", "x" * 250} <= set(found["it's / odd"].data.metrics)
    assert len(found) == 2
    assert found["round_s-1"].data.metrics == {"loss": 1.0}


def test_no_secret_reaches_spool_log_or_tracker(home, monkeypatch, impatient, caplog):
    caplog.set_level(logging.DEBUG, "tasks")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "canary-password")
    monkeypatch.setenv("HF_TOKEN", "canary-token")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://user:canary-userinfo@127.0.0.1:9")
    config = {"source": "https://me:canary-url@example.org/x", "canary-token": "canary-password"}
    with tracked_run("quiet canary-token", params=config, tags=config) as run:
        run.child("canary-password").log_metrics({"canary-token": 1.0})
        soon(lambda: "tasks.delivery" in {record.name for record in caplog.records})
    written = [path for path in home.rglob("*") if path.is_file()]
    assert written
    text = b"".join(path.read_bytes() for path in written).decode("utf-8", "replace")
    text += caplog.text + str(written)
    assert "tasks.delivery" in {record.name for record in caplog.records}
    assert "canary" not in text
    assert "https://***@example.org/x" in text
    assert "canary" not in str(server_address(home))


def test_a_run_has_a_page_where_mlflow_is_served(home):
    pages = Tracker(200, 0.0)
    (home / "mlflow.url").write_text(f"{pages.url}\n")
    with tracked_run("shown") as run:
        assert soon(lambda: run.id)
        assert run.url == f"{pages.url}/#/experiments/{experiment_id(home)}/runs/{run.id}"
        pages.shutdown()
        pages.server_close()
        assert run.url is None, "a service that was killed leaves its note"


def first_use(home, begin, results):
    begin.wait()
    try:
        results.put(mlflow_client(Path(home)) and experiment_id(Path(home)))
    except Exception as error:
        results.put(error)


@pytest.mark.slow
def test_processes_can_create_the_database_together(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    context = multiprocessing.get_context("spawn")
    begin, results = context.Event(), context.Queue()
    arguments = (str(tmp_path), begin, results)
    users = [context.Process(target=first_use, args=arguments) for _ in range(3)]
    for user in users:
        user.start()
    begin.set()
    found = {results.get(timeout=LONG) for _ in users}
    for user in users:
        user.join()
    assert len(found) == 1
    assert found.pop().isdigit()


def test_an_interrupted_creation_of_the_database_leaves_none(tmp_path, monkeypatch):
    """Tables made in part are no database to MLflow: every later run found it so."""
    from mlflow import MlflowClient

    def ends(client, tracking_uri, registry_uri):
        with contextlib.closing(sqlite3.connect(tracking_uri.removeprefix("sqlite:///"))) as half:
            half.execute("CREATE TABLE experiments (experiment_id INTEGER)")
        raise KeyboardInterrupt

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with monkeypatch.context() as patched:
        patched.setattr(MlflowClient, "__init__", ends)
        with pytest.raises(KeyboardInterrupt):
            mlflow_client(tmp_path)
    assert experiment_id(tmp_path).isdigit()
    assert not list(tmp_path.glob("mlflow.db.*"))


def test_a_batch_is_successive_metrics_of_one_run_up_to_mlflows_limit():
    def metric(run, count):
        return Event(run=run, kind="metrics", values={f"m{i}": 0.0 for i in range(count)})

    events = [metric("", 100)] * 11 + [metric("a", 1), Event(run="a", kind="tags", values={})]
    found = list(batches(enumerate(events, start=1)))
    assert [(end, len(batch)) for end, batch in found] == [(10, 10), (11, 1), (12, 1), (13, 1)]


def test_a_full_disk_costs_points_and_not_the_training(home, monkeypatch, caplog):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with tracked_run("full") as run:
        with monkeypatch.context() as patched:
            patched.setattr(Spool, "append", full)
            run.log_metrics({"loss": 1.0}, 1)
        run.log_metrics({"loss": 2.0}, 2)
    assert points(home, runs(home)["full"], "loss") == [(2, 2.0)]
    (lost,) = [line.args for line in caplog.records if line.name == "tasks.tracking"]
    assert lost[0].errno == errno.ENOSPC


CUT_OFF = """
import json, resource, signal, sys
from contextlib import suppress
from pathlib import Path
from tasks.delivery import Event, Spool

spool = Spool(Path(sys.argv[1]))
spool.append(Event(run="", kind="start", values={}))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (spool.size + 20, hard))
with suppress(OSError):
    spool.append(Event(run="", kind="tags", values={"a": "b"}))
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
spool.append(Event(run="", kind="end", values={}))
print(json.dumps([event.kind for _, event in spool.after(0)]))
"""
"""A limit of the file's size stands for the disk: it takes twenty bytes of the second event."""


def test_an_event_cut_off_by_a_full_disk_does_not_spoil_the_next(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", CUT_OFF, str(tmp_path)], stdout=subprocess.PIPE, check=True
    )
    assert json.loads(done.stdout) == ["start", "end"]


def test_a_broken_line_in_a_spool_blocks_nothing(home, caplog):
    with tracked_run("first", key="first") as run:
        run.log_metrics({"loss": 1.0}, 1)
        lines = run.spool.events.read_bytes().splitlines(keepends=True)
    folder = home / "spool" / "second"
    folder.mkdir()
    (folder / "events.jsonl").write_bytes(
        b"".join([lines[0], b'{"kind": "nonsense"}\n', lines[-1]])
    )
    assert sync(home) == 0
    broken = [line.args[0] for line in caplog.records if line.name == "tasks.delivery"]
    assert broken == ["broken"]
    rejected = (home / "spool" / "rejected.txt").read_text()
    assert "nonsense" in rejected, "nothing is lost"
    assert "E605 " in rejected
    named = mlflow_client(home).search_runs([experiment_id(home)], "tags.`sentemb.run` = 'second/'")
    assert points(home, named[0], "loss") == [(1, 1.0)]


def test_a_damaged_file_of_a_spool_is_not_uploaded(home):
    (home / "report.html").write_text("recall .476")
    spool = spooled(home, "damaged", steps=1)
    kept = spool.keep(home / "report.html")
    spool.append(Event(run="", kind="artifact", values=kept))
    (spool.folder / str(kept["file"])).write_text("recall .476 ")
    assert sync(home) == 0
    (run,) = runs(home).values()
    assert mlflow_client(home).list_artifacts(run.info.run_id) == []
    assert "E605 " in (home / "spool" / "rejected.txt").read_text()


def test_a_spool_is_read_by_other_programs_and_with_a_torn_mark(home):
    with tracked_run("read", key="read") as run:
        run.log_metrics({"loss": 0.25}, 3)
        lines = [json.loads(line) for line in run.spool.events.read_text().splitlines()]
        lines = [line["record"] for line in lines]
        for torn in (b"", b'{"off'):  # by a power cut: all events are delivered again
            (run.spool.folder / "sent.json").write_bytes(torn)
            assert run.spool.sent.offset == 0
    assert lines[-1]["values"] == {"loss": 0.25}
    assert (lines[-1]["step"], lines[-1]["kind"]) == (3, "metrics")
