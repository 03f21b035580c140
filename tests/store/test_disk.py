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


@pytest.mark.parametrize("failure", [OSError(errno.EIO, "no"), ValueError("no")])
@pytest.mark.parametrize("several", [False, True])
def test_a_failed_write_keeps_the_old_content(tmp_path: Path, several: bool, failure: Exception):
    (tmp_path / "table").write_text("old")
    writing = disk.replacing_in(tmp_path) if several else disk.replacing(tmp_path / "table")
    with pytest.raises((OSError if several else StorageError, ValueError)):
        break_off(writing, failure)
    assert (names(tmp_path), (tmp_path / "table").read_text()) == (["table"], "old")


def test_new_files_move_into_place_at_any_depth(tmp_path: Path):
    with disk.replacing_in(tmp_path) as draft:
        (draft / "deep").mkdir()
        (draft / "deep" / "table").write_text("new")
    assert names(tmp_path) == ["deep", "table"]


def test_a_full_disk_is_a_storage_error_and_our_own_errors_pass(tmp_path: Path):
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(StorageError) as caught:
        break_off(disk.replacing_in(tmp_path), full)
    assert caught.value.errno == errno.ENOSPC
    assert str(tmp_path) in str(caught.value)
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
