"""The files that this process has mapped, read from /proc."""

from pathlib import Path

from tests.waiting import soon


def mapped_files(folder: Path, count: int) -> set[str]:
    """The mapped files below `folder`, as soon as there are `count`.

    A thread of Arrow that read a file may hold it a few milliseconds longer than its reader.
    """
    return soon(lambda: _mapped(folder), lambda files: len(files) == count)


def _mapped(folder: Path) -> set[str]:
    lines = Path("/proc/self/maps").read_text().splitlines()
    return {line.split(maxsplit=5)[-1] for line in lines if f"{folder}/" in line}
