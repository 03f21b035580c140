"""A store in a fresh home, a way to add artifacts, and other processes on the same home."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

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
