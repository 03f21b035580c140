"""A store in a fresh home, artifacts, disk faults, and other processes on the same home."""

import errno
import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sentemb_core.store import disk
from sentemb_core.store.objects import Store
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
