"""Shards on the workers of a Dask scheduler, which are other processes on loopback."""

import os
import socket
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from sentemb_core.errors import ClusterError, OtherDeviceError, UsageError
from sentemb_core.store.parts import parts_of
from sentemb_core.store.stages import StageKey
from tasks import cluster, doctor
from tasks.artifacts import artifact_path
from tasks.execution import without_prefect
from tasks.workers import Job, workers_of
from tests.flows.corpora import bodies_run, tiny_run, write_corpus
from tests.tasks.test_workers import four_parts, fragile, vectors_of

SERVE = "--host", "127.0.0.1", "--no-dashboard"


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@pytest.fixture(scope="module")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def scheduler(shared_home: Path) -> Generator[str, None, None]:
    """The address of a scheduler with two workers, which have the home of the tests."""
    from distributed import Client

    address = f"tcp://127.0.0.1:{free_port()}"
    commands = [["scheduler", *SERVE, "--port", address.rpartition(":")[2]]]
    commands += 2 * [["worker", address, *SERVE, "--nthreads", "1", "--no-nanny"]]
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "dask", *command],
            env=os.environ | {"SENTEMB_HOME": str(shared_home)},
            stderr=subprocess.DEVNULL,
        )
        for command in commands
    ]
    try:
        with Client(address, timeout=60, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=120)
        yield address
    finally:
        for process in started:
            process.kill()
            process.wait()


@pytest.fixture(autouse=True)
def own_home(shared_home: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SENTEMB_HOME", str(shared_home))


def test_a_cluster_gives_the_bits_of_one_process(
    scheduler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    source = write_corpus(tmp_path / "documents.jsonl", documents=40)
    with without_prefect():
        there = vectors_of(source, 1, cluster=scheduler)
    monkeypatch.setenv("SENTEMB_HOME", str(tmp_path / "home"))
    assert "encode_sentences" in bodies_run(vectors_of, source, 1)
    with without_prefect():
        assert vectors_of(source, 1) == there


def test_the_shard_of_a_lost_worker_runs_on_another(scheduler: str, tmp_path: Path):
    (tmp_path / "b").write_text("1", "utf-8")  # its worker ends: a test's own process would
    with (
        without_prefect(),
        workers_of(tiny_run(tmp_path, cluster=scheduler)),
    ):
        whole = fragile(four_parts(), str(tmp_path))
    assert len(parts_of(artifact_path(whole))) == 4
    assert (tmp_path / "b").read_text("utf-8") == "0"


@pytest.mark.parametrize(
    ("name", "value"), [("default_device", "tpu"), ("installed", "0.1"), ("store", "file:///x")]
)
def test_another_environment_is_refused(scheduler: str, name: str, value: str, monkeypatch):
    if name == "store":
        monkeypatch.setenv("SENTEMB_STORE", value)
    else:
        monkeypatch.setattr(cluster, name, lambda *_: value)
    with pytest.raises(OtherDeviceError) as refused:
        cluster.Cluster(scheduler)
    assert value in str(refused.value)


def test_the_doctor_compares_the_workers(scheduler: str):
    assert [check.ok for check in doctor.workers(scheduler)] == [True]
    refused = doctor.workers("tcp://192.0.2.1:8786")
    assert [check.found[:4] for check in refused if not check.ok] == ["E001"]


def test_a_scheduler_that_does_not_answer_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cluster, "PATIENCE", 1)
    with pytest.raises(ClusterError):
        cluster.Cluster(f"tcp://127.0.0.1:{free_port()}")


def local_cluster(**settings: Any):
    """A scheduler and a worker of three threads in this process."""
    from distributed import LocalCluster

    settings |= {"n_workers": 1, "threads_per_worker": 3, "processes": False}
    return LocalCluster(**settings, dashboard_address="127.0.0.1:0")


def test_a_scheduler_that_ends_between_stages_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cluster, "PATIENCE", 1)
    with local_cluster(protocol="tcp") as local:
        connected = cluster.Cluster(local.scheduler_address)
    job = Job("absent", "absent", {}, StageKey("", {}), refresh=False)
    for _ in ("while the client tries again", "after it was closed"):
        with pytest.raises(ClusterError):
            connected.record(job)
    connected.stop()


def test_tls_lets_in_only_the_certificate_of_the_cluster(monkeypatch: pytest.MonkeyPatch):
    from distributed import Security, config

    settings = config["distributed"]["comm"]["tls"]

    def threads(certificate: Security) -> int:
        """The threads that a client with this certificate finds."""
        monkeypatch.setitem(settings, "ca-file", certificate.tls_ca_file)
        monkeypatch.setitem(settings["client"], "cert", certificate.tls_client_cert)
        monkeypatch.setitem(settings["client"], "key", certificate.tls_client_key)
        connected = cluster.Cluster(local.scheduler_address)
        connected.stop()
        return connected.in_flight // 2

    own, none, foreign = Security.temporary(), Security(), Security.temporary()
    with local_cluster(protocol="tls", security=own) as local:
        assert threads(own) == 3
        for certificate in (none, foreign):
            with pytest.raises(ClusterError):
                threads(certificate)


@pytest.mark.parametrize(
    "address", ["tcp://192.0.2.1:8786", "tcp://db:8786", "http://localhost:1", "localhost:1"]
)
def test_a_plain_address_off_loopback_is_refused(address: str):
    with pytest.raises(UsageError):
        cluster.Cluster(address)


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "tcp://[::1]:1", "tls://192.0.2.1:1"])
def test_loopback_and_tls_are_accepted(address: str):
    cluster.require_loopback_or_tls(address)
