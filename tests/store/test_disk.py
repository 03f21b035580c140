"""Writing and removing: nothing half done in place, nothing left beside it."""

import errno
import os
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from sentemb_core.errors import StorageError
from sentemb_core.store import disk


def refuse(*_: object) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def break_off(writing: AbstractContextManager[Path], failure: Exception) -> None:
    """Half of a file `table`, then the failure."""
    with writing as draft:
        (draft / "table" if draft.is_dir() else draft).write_text("half")
        raise failure


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*"))


def test_a_file_that_fails_is_as_it_was_with_nothing_beside_it(tmp_path: Path):
    (tmp_path / "table").write_text("old")
    for failure in (OSError(errno.EIO, "no"), ValueError("no")):
        with pytest.raises((StorageError, ValueError)):
            break_off(disk.replacing(tmp_path / "table"), failure)
    assert (names(tmp_path), (tmp_path / "table").read_text()) == (["table"], "old")


def test_files_that_fail_are_as_they_were_with_nothing_beside_them(tmp_path: Path):
    (tmp_path / "table").write_text("old")
    with pytest.raises(ValueError, match="no"):
        break_off(disk.replacing_in(tmp_path), ValueError("no"))
    assert (names(tmp_path), (tmp_path / "table").read_text()) == (["table"], "old")


def test_new_files_take_their_places_at_any_depth(tmp_path: Path):
    with disk.replacing_in(tmp_path) as draft:
        (draft / "deep").mkdir()
        (draft / "deep" / "table").write_text("new")
    assert names(tmp_path) == ["deep", "table"]


def test_a_disk_that_refuses_one_of_several_files_is_told_as_such(tmp_path: Path):
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(StorageError, match="write below"):
        break_off(disk.replacing_in(tmp_path), full)


def test_what_fails_says_so_in_its_own_words(tmp_path: Path):
    """Some of our errors are kinds of OSError."""
    failure = disk.storage_error("write", tmp_path, OSError(errno.EIO, "no"))
    with pytest.raises(StorageError) as told, disk.replacing(tmp_path / "table"):
        raise failure
    assert told.value is failure


def test_what_cannot_take_its_place_leaves_no_draft(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(disk, "replace", refuse)
    with pytest.raises(OSError, match="Input/output error"):
        disk.write_atomically(tmp_path / "record", b"x", tmp_path / "tmp")
    assert names(tmp_path) == ["tmp"]


def test_a_new_file_is_never_written_over_another(tmp_path: Path):
    disk.write(tmp_path / "one", b"old")
    with pytest.raises(StorageError, match="exists"):
        disk.write(tmp_path / "one", b"new")
    assert (tmp_path / "one").read_bytes() == b"old"


def test_of_a_link_the_link_alone_is_removed(tmp_path: Path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "kept").touch()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    disk.remove(tmp_path / "link")
    assert names(tmp_path) == ["folder", "kept"]


def test_what_cannot_be_removed_is_told_and_what_is_gone_is_not(tmp_path: Path, monkeypatch):
    (tmp_path / "folder").mkdir()
    for number, fails in ((errno.EIO, True), (errno.ENOENT, False)):
        failure = OSError(number, os.strerror(number))

        def rmtree(path: Path, onerror, failure: OSError = failure) -> None:
            onerror(os.unlink, str(path), (type(failure), failure, None))

        monkeypatch.setattr(disk.shutil, "rmtree", rmtree)
        if fails:
            with pytest.raises(StorageError, match="could not remove"):
                disk.remove(tmp_path / "folder")
        else:
            disk.remove(tmp_path / "folder")


def test_no_file_stays_open_behind_a_sync(tmp_path: Path):
    before = len(list(Path("/proc/self/fd").iterdir()))
    disk.sync(tmp_path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
