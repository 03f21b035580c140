"""Locks that are shared, told by a note, or removed just as they are taken."""

import errno
import os
import threading
from pathlib import Path

import pytest

from sentemb_core.store import locks
from sentemb_core.store.locks import (
    file_lock,
    held_note,
    is_locked,
    is_shared,
    lock_if_free,
    remove_unheld,
    shared_lock,
)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_several_share_a_lock_which_nobody_then_has_alone(tmp_path: Path):
    path, found = tmp_path / "users", list[int | None]()
    one = shared_lock(path)
    joining = threading.Thread(target=lambda: found.append(shared_lock(path)), daemon=True)
    joining.start()
    joining.join(10)
    (other,) = found
    assert is_shared(path)
    assert not is_locked(path)
    with lock_if_free(path) as free:
        assert not free
    os.close(one)
    assert is_shared(path)
    os.close(other)
    assert not is_shared(path)


def test_a_note_is_locked_whoever_holds_the_one_before(tmp_path: Path):
    path = tmp_path / "address"
    before = held_note(path, "one")
    note = held_note(path, "other")
    os.close(before)
    assert path.read_text() == "other"
    assert is_locked(path)
    os.close(note)
    assert not is_locked(path)
    assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_locked_or_put_in_place_is_closed_again(tmp_path: Path, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    before = open_files()
    with monkeypatch.context() as patched:
        patched.setattr(locks.fcntl, "flock", refuse)
        assert shared_lock(tmp_path / "users") is None
    monkeypatch.setattr(locks.disk, "replace", refuse)
    with pytest.raises(OSError, match="locks"):
        held_note(tmp_path / "address", "one")
    assert open_files() == before


def test_who_ends_the_waiting_holds_nothing(tmp_path: Path, monkeypatch):
    """With Ctrl+C, say."""
    path, taken = tmp_path / "x", locks.fcntl.flock

    def interrupted(descriptor: int, kind: int) -> None:
        if not kind & locks.fcntl.LOCK_NB:
            raise KeyboardInterrupt
        taken(descriptor, kind)

    with file_lock(path):
        before = open_files()
        monkeypatch.setattr(locks.fcntl, "flock", interrupted)
        with pytest.raises(KeyboardInterrupt), file_lock(path):
            pass
        assert open_files() == before


def test_a_lock_that_another_makes_anew_just_now_is_neither_taken_nor_removed(
    tmp_path: Path, monkeypatch
):
    path, taken = tmp_path / "x", locks.fcntl.flock
    path.touch()

    def late(descriptor: int, kind: int) -> None:
        path.unlink()
        path.write_text("the new one")
        taken(descriptor, kind)

    monkeypatch.setattr(locks.fcntl, "flock", late)
    with lock_if_free(path) as free:
        assert not free
    assert not remove_unheld(path)
    assert path.read_text() == "the new one"
