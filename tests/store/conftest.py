"""A store in a fresh home, artifacts, disk faults, and other processes on the same home."""

import errno
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sentemb_core.store import disk
from sentemb_core.store.disk import unique
from sentemb_core.store.objects import Store
from sentemb_core.store.shared import SharedStore, shared_store
from sentemb_core.types import ArtifactRef
from tests.waiting import LONG


@pytest.fixture
def store(home: Path) -> Store:
    return Store(home)


@pytest.fixture
def put(store: Store):
    """Write an artifact of these files (name -> text) and return its reference."""

    def put_artifact(kind: str = "thing", **files: str) -> ArtifactRef:
        with store.writing(kind) as draft:
            for name, text in (files or {"text": "hello"}).items():
                (draft.path / name).write_text(text)
        return draft.ref

    return put_artifact


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """Return the address of an S3 server on loopback."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    yield "http://{}:{}".format(*server.get_host_and_port())
    server.stop()


@pytest.fixture
def bucket(request: pytest.FixtureRequest, monkeypatch) -> str:
    """Set the environment for an S3 server, and return the address of a fresh bucket."""
    from s3fs import S3FileSystem

    for name, value in {
        "AWS_ENDPOINT_URL": request.getfixturevalue("s3_server"),
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "canary-of-an-id",
        "AWS_SECRET_ACCESS_KEY": "canary-of-a-secret",
    }.items():
        monkeypatch.setenv(name, value)
    name = unique("bucket")
    S3FileSystem(skip_instance_cache=True).mkdir(name)
    return f"s3://{name}/team"


@pytest.fixture(params=["memory", "file", "s3"])
def shared(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch) -> SharedStore:
    """Set $SENTEMB_STORE to a fresh store in memory, in a folder and in a bucket."""
    if request.param == "s3":
        url = request.getfixturevalue("bucket")
    else:
        url = f"file://{tmp_path}/shared" if request.param == "file" else f"memory://{tmp_path}"
    monkeypatch.setenv("SENTEMB_STORE", url)
    return shared_store(url)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch):
    """Go on as the machine of this name, and return its store: a home of its own."""

    def switch(name: str) -> Store:
        monkeypatch.setenv("SENTEMB_HOME", str(tmp_path / name))
        return Store.default()

    return switch


@pytest.fixture
def grow_old(store: Store):
    """Set the times of all files in the store to so many seconds ago (two hours)."""

    def set_times(seconds: float = 7_200.0) -> None:
        then = time.time() - seconds
        for path in store.root.rglob("*"):
            os.utime(path, (then, then))

    return set_times


@pytest.fixture
def performed(monkeypatch) -> list[tuple[str, Path]]:
    """List the operations of the store on the disk from now on, with their paths."""
    operations: list[tuple[str, Path]] = []

    def perform(operation, path, *args):
        operations.append((operation.__name__, path))
        return operation(path, *args)

    monkeypatch.setattr(disk, "perform", perform)
    return operations


@pytest.fixture
def broken_disk(monkeypatch):
    """Let the operations fail for which `fails(name, path)` holds."""

    def breaks(fails) -> None:
        def perform(operation, path, *args):
            if fails(operation.__name__, path):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return operation(path, *args)

        monkeypatch.setattr(disk, "perform", perform)

    return breaks


@pytest.fixture
def chain(home: Path):
    """The toy stages of chain.py; no stage has run yet."""
    spec = importlib.util.spec_from_file_location("chain", Path(__file__).with_name("chain.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def python(home: Path):
    """Start another process on the same home; its `.json()` waits for its output."""

    def start(source: str, **environment: str) -> "Child":
        return Child(source, os.environ | {"SENTEMB_HOME": str(home)} | environment)

    return start


class Child:
    def __init__(self, source: str, environment: dict[str, str]) -> None:
        root = Path(__file__).parents[2]
        self.process = subprocess.Popen(
            [sys.executable, "-c", source],
            env=environment | {"PYTHONPATH": f"{root}{os.pathsep}{Path(__file__).parent}"},
            stdout=subprocess.PIPE,
            text=True,
            cwd=environment.get("CWD", root),
        )

    def ends(self) -> int:
        """Wait and return the exit status."""
        self.process.communicate(timeout=LONG)
        return self.process.returncode

    def json(self):
        out, _ = self.process.communicate(timeout=LONG)
        assert self.process.returncode == 0, out
        return json.loads(out)
