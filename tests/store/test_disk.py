"""Writing and removing: no half-written file in place, no draft left beside it."""

import errno
import os
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from sentemb_core.errors import StorageError
from sentemb_core.store import disk


def refuse(*_: object, **__: object) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def break_off(writing: AbstractContextManager[Path], failure: Exception) -> None:
    """Write half of a file `table`, then fail."""
    with writing as draft:
        (draft / "table" if draft.is_dir() else draft).write_text("half")
        raise failure


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*"))


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, None])
@pytest.mark.parametrize("several", [False, True])
def test_a_failed_write_keeps_the_old_content(tmp_path: Path, several: bool, number: int | None):
    (tmp_path / "table").write_text("old")
    writing = disk.replacing_in(tmp_path) if several else disk.replacing(tmp_path / "table")
    failure = OSError(number, os.strerror(number)) if number else ValueError("no")
    ours = number == errno.ENOSPC or (number and not several)
    with pytest.raises(StorageError if ours else type(failure)) as caught:
        break_off(writing, failure)
    assert (names(tmp_path), (tmp_path / "table").read_text()) == (["table"], "old")
    if ours:
        assert caught.value.errno == (number if several else None)
        assert str(caught.value).startswith("E601 ")
        assert os.strerror(number) in str(caught.value)
        assert str(tmp_path) in str(caught.value)


def test_files_of_a_folder_are_replaced_together_at_any_depth(tmp_path: Path):
    (tmp_path / "table").write_text("old")
    with disk.replacing_in(tmp_path) as draft:
        (draft / "deep").mkdir()
        for name in ("table", "deep/figure"):
            (draft / name).write_text("new")
    assert names(tmp_path) == ["deep", "figure", "table"]
    assert (tmp_path / "table").read_text() == (tmp_path / "deep" / "figure").read_text() == "new"


def test_an_absent_folder_or_a_disk_that_is_too_small_is_e601(tmp_path: Path):
    absent = tmp_path / "absent" / "vectors.parquet"
    with pytest.raises(StorageError, match=f"E601 {absent}"), disk.replacing(absent) as draft:
        draft.write_bytes(b"")
    with pytest.raises(StorageError, match=r"E601 .*1,152,921,504\.6 GB.* [kMG]B are free at "):
        disk.require_free(tmp_path, 1 << 60, "The vectors of 9 sentences")


def test_our_own_errors_pass(tmp_path: Path):
    failure = disk.storage_error("write", tmp_path, OSError(errno.EIO, "no"))
    with pytest.raises(StorageError) as passed, disk.replacing(tmp_path / "table"):
        raise failure
    assert passed.value is failure


def test_a_new_file_never_overwrites_another(tmp_path: Path):
    disk.write(tmp_path / "one", b"old")
    with pytest.raises(StorageError) as caught:
        disk.write(tmp_path / "one", b"new")
    assert caught.value.errno == errno.EEXIST
    assert (tmp_path / "one").read_bytes() == b"old"


def test_removing_a_link_keeps_its_target(tmp_path: Path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "kept").touch()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    disk.remove(tmp_path / "link")
    assert names(tmp_path) == ["folder", "kept"]


def test_a_path_that_another_process_removes_first_is_no_failure(tmp_path: Path, monkeypatch):
    for name in ("a", "b/c", "b/d"):
        (tmp_path / "folder" / name).mkdir(parents=True)
        (tmp_path / "folder" / name / "values.json").touch()
    unlink = os.unlink

    def quicker(*args, **options):
        unlink(*args, **options)
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), args[0])

    monkeypatch.setattr(os, "unlink", quicker)
    disk.remove(tmp_path / "folder")
    assert names(tmp_path) == []
    (tmp_path / "folder").mkdir()
    monkeypatch.setattr(os, "rmdir", refuse)
    with pytest.raises(
        StorageError, match=f"{tmp_path / 'folder'}.*{os.strerror(errno.EIO)}"
    ) as caught:
        disk.remove(tmp_path / "folder")
    assert caught.value.errno == errno.EIO


def test_a_failed_rename_leaves_no_draft(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(disk, "replace", refuse)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        disk.write_atomically(tmp_path / "record", b"x", tmp_path / "tmp")
    assert names(tmp_path) == ["tmp"]


def test_a_sync_leaves_no_file_open(tmp_path: Path):
    before = len(list(Path("/proc/self/fd").iterdir()))
    disk.sync(tmp_path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
