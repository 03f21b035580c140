"""The files of the repository, in a checkout and in an unpacked archive."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[1]


def repository_files(root: Path = ROOT) -> list[Path]:
    """What git tracks; without git, or outside a checkout, what .gitignore does not name.

    The paths are relative to `root`.
    """
    files = _tracked(root) or sorted(_unignored(root))
    assert Path("pyproject.toml") in files, f"the repository is not at {root}: {files[:5]}"
    return files


def _tracked(root: Path) -> list[Path]:
    """None where git is not installed, or refuses; a folder above may be another repository."""
    git = shutil.which("git")
    if git is None or not (root / ".git").exists():
        return []
    listed = subprocess.run([git, "ls-files", "-z"], cwd=root, capture_output=True, check=False)
    return [Path(os.fsdecode(name)) for name in listed.stdout.split(b"\0") if name]


def _unignored(root: Path) -> Iterator[Path]:
    """Files below `root` but for those of git and of virtual environments, whatever their name."""
    patterns = (root / ".gitignore").read_text("utf-8").split()
    for place, folders, files in os.walk(root):
        here = Path(place)
        folders[:] = [
            name
            for name in folders
            if not _is_named(f"{name}/", patterns) and not (here / name / "pyvenv.cfg").exists()
        ]
        yield from (
            (here / name).relative_to(root) for name in files if not _is_named(name, patterns)
        )


def _is_named(name: str, patterns: list[str]) -> bool:
    """By a pattern of a plain .gitignore: globs of names, a slash behind those of folders."""
    return name.strip("/") == ".git" or any(
        fnmatch(name, pattern) or fnmatch(name.strip("/"), pattern) for pattern in patterns
    )
