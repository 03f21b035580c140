"""Locks: exclusive or shared, released by a kill, and never held on a removed file."""

import errno
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sentemb_core.errors import StorageError
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


def refuse(*_: object) -> None:
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "x").touch()
    return tmp_path / "x"


def test_a_shared_lock_excludes_an_exclusive_one(path: Path):
    found = list[int | None]()
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


def test_a_note_is_locked_from_its_first_moment(tmp_path: Path):
    path = tmp_path / "address"
    before = held_note(path, "one")
    note = held_note(path, "other")
    os.close(before)
    assert path.read_text() == "other"
    assert is_locked(path)
    os.close(note)
    assert not is_locked(path)
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_lock_or_note_closes_its_file(tmp_path: Path, monkeypatch):
    before = open_files()
    with monkeypatch.context() as patched:
        patched.setattr(locks.fcntl, "flock", refuse)
        assert shared_lock(tmp_path / "users") is None
    monkeypatch.setattr(locks.disk, "replace", refuse)
    with pytest.raises(OSError, match=os.strerror(errno.ENOLCK)):
        held_note(tmp_path / "address", "one")
    assert open_files() == before


def test_an_interrupted_wait_holds_nothing(path: Path, monkeypatch):
    flock = locks.fcntl.flock

    def interrupted(descriptor: int, kind: int) -> None:
        if not kind & locks.fcntl.LOCK_NB:
            raise KeyboardInterrupt
        flock(descriptor, kind)

    with file_lock(path):
        before = open_files()
        monkeypatch.setattr(locks.fcntl, "flock", interrupted)
        with pytest.raises(KeyboardInterrupt), file_lock(path):
            pass
        assert open_files() == before


def test_a_lock_file_replaced_meanwhile_is_neither_taken_nor_removed(path: Path, monkeypatch):
    flock = locks.fcntl.flock

    def late(descriptor: int, kind: int) -> None:
        path.unlink()
        path.write_text("the new one")
        flock(descriptor, kind)

    monkeypatch.setattr(locks.fcntl, "flock", late)
    with lock_if_free(path) as free:
        assert not free
    assert not remove_unheld(path)
    assert path.read_text() == "the new one"


def test_a_waiting_process_locks_the_new_file_if_the_old_one_was_removed(path: Path):
    waiting, free = threading.Event(), threading.Event()

    def waits() -> None:
        with file_lock(path):
            waiting.set()
            free.wait(10)

    with file_lock(path):
        other = threading.Thread(target=waits)
        other.start()
        assert not waiting.wait(0.2)
        assert not remove_unheld(path)
        path.unlink()  # as its holder may do
    assert waiting.wait(10)
    assert is_locked(path)
    free.set()
    other.join()
    assert remove_unheld(path)
    assert not remove_unheld(path)


def test_several_processes_that_ask_at_once_see_a_free_lock(path: Path):
    def asked(_: int) -> bool:
        return any(is_locked(path) for _ in range(2_000))

    with ThreadPoolExecutor(4) as pool:
        assert not any(pool.map(asked, range(4)))


def test_a_kill_releases_the_lock(python, store):
    source = """
import os, signal
from sentemb_core.store.locks import file_lock
from sentemb_core.store.objects import Store
with file_lock(Store.default().lock("x")):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert python(source).ends() == -signal.SIGKILL
    assert not is_locked(store.lock("x"))
    with file_lock(store.lock("x")):
        assert is_locked(store.lock("x"))
    assert not is_locked(store.lock("x"))


def test_asking_creates_no_lock_file(tmp_path: Path):
    assert not is_locked(tmp_path / "y")
    assert not (tmp_path / "y").exists()


def test_where_nothing_locks_a_path_counts_as_locked_and_work_goes_on(path: Path, monkeypatch):
    """So an active run is not listed as killed, and `gc` keeps its artifacts."""
    monkeypatch.setattr(locks.fcntl, "flock", refuse)
    assert is_locked(path)
    with file_lock(path), lock_if_free(path) as free:
        assert free


def test_asking_works_on_a_read_only_home(path: Path, monkeypatch):
    opened = os.open

    def read_only(path, flags, *mode):
        if flags & (os.O_RDWR | os.O_WRONLY | os.O_CREAT):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return opened(path, flags, *mode)

    monkeypatch.setattr(os, "open", read_only)
    assert not is_locked(path)
    with pytest.raises(StorageError, match=f"{path}.*{os.strerror(errno.EROFS)}") as caught:
        remove_unheld(path)
    assert caught.value.errno == errno.EROFS


def test_a_note_on_a_full_disk_is_a_storage_error_and_no_file(tmp_path, monkeypatch):
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StorageError, match=r"E601 .*server\.url"):
        held_note(tmp_path / "server.url", "http://127.0.0.1:9/api")
    assert list(tmp_path.iterdir()) == []
