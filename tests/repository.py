"""The tracked files of the repository."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def repository_files() -> list[Path]:
    """Return the files that git tracks, relative to the root; skip the test outside a checkout."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("Not a git checkout: the list of tracked files is unknown.")
    listed = subprocess.run([git, "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    paths = [Path(os.fsdecode(name)) for name in listed.stdout.split(b"\0") if name]
    return [path for path in paths if (ROOT / path).is_file()]


def repository_texts() -> Iterator[str]:
    """Yield the content of every tracked text file."""
    for path in repository_files():
        try:
            yield (ROOT / path).read_text("utf-8")
        except UnicodeDecodeError:
            continue
