"""Failing disks, kills and races: an artifact and a record are whole or absent, always.

The n-th file-system operation fails, for n = 1, 2, 3 ... until a run gets through (SQLite's way).
Run: pytest tests/store/test_faults.py
"""

import contextlib
import errno
import itertools
import os
import random
import signal
import stat
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sentemb_core.errors import StorageError
from sentemb_core.store import disk, locks
from sentemb_core.store.locks import file_lock, is_locked, lock_if_free, remove_unheld
from sentemb_core.store.maintenance import fsck
from sentemb_core.store.objects import Store
from sentemb_core.store.stages import Stage
from tests.store.racers import RACER


class Faulty:
    """Carries out operations until the n-th, which fails; a write fails half way."""

    def __init__(self, fail_at: int, number: int) -> None:
        self.fail_at, self.number = fail_at, number
        self.done: list[tuple[str, Path]] = []

    def __call__(self, operation, path, *args):
        self.done.append((operation.__name__, path))
        if len(self.done) == self.fail_at:
            if operation.__name__ == "write":
                path.write_bytes(args[0][: len(args[0]) // 2])
            raise OSError(self.number, os.strerror(self.number))
        return operation(path, *args)


def attempts(number: int, monkeypatch, tmp_path: Path) -> Iterator[Faulty]:
    """Fresh homes with an ever later fault; ends when the caller's run met none."""
    for fail_at in itertools.count(1):
        monkeypatch.setenv("SENTEMB_HOME", str(tmp_path / f"home-{fail_at}"))
        faulty = Faulty(fail_at, number)
        monkeypatch.setattr(disk, "perform", faulty)
        yield faulty
        monkeypatch.undo()
        if len(faulty.done) < fail_at:
            return


def carried_out(operation, *args):
    return operation(*args)


def assert_whole_or_absent() -> None:
    health = fsck(Store.default())
    assert (health.corrupt, health.missing, health.stray) == ([], [], [])


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EMFILE])
def test_the_nth_operation_fails_by_name_and_nothing_partial_is_seen(
    chain, monkeypatch, tmp_path, number
):
    expected = chain.ENCODE.run(Store.default(), {"text": "a"})
    told: list[str] = []
    for faulty in attempts(number, monkeypatch, tmp_path):
        try:
            assert chain.ENCODE.run(Store.default(), {"text": "a"}) == expected
        except StorageError as error:
            operation, path = faulty.done[faulty.fail_at - 1]
            named = (operation.replace("_", " ").strip(), str(path), os.strerror(number))
            told.append(str([part in str(error) for part in named]))
        monkeypatch.setattr(disk, "perform", carried_out)
        assert_whole_or_absent()
        assert chain.ENCODE.run(Store.default(), {"text": "a"}) == expected
    assert len(told) > 15
    assert set(told) == {"[True, True, True]"}


def test_the_nth_operation_of_a_warm_run_fails_and_nothing_is_lost(chain, store, monkeypatch):
    expected = chain.run_chain().model
    for fail_at in range(1, 15):
        monkeypatch.setattr(disk, "perform", Faulty(fail_at, errno.EIO))
        # an unreadable record is a miss, and then the disk may refuse to rebuild
        with contextlib.suppress(StorageError):
            assert chain.run_chain().model == expected
        monkeypatch.setattr(disk, "perform", carried_out)
        assert_whole_or_absent()


class PowerCut:
    """Knows what an fsync has brought to the disk: bytes of files, and names in folders."""

    def __init__(self, objects: Path) -> None:
        self.objects = objects
        self.files: set[int] = set()
        self.names: set[tuple[int, str]] = set()

    def fsync(self, descriptor: int) -> None:
        found = os.fstat(descriptor)
        if stat.S_ISDIR(found.st_mode):
            self.names |= {(found.st_ino, name) for name in os.listdir(descriptor)}
        else:
            self.files.add(found.st_ino)

    def survives(self, path: Path) -> bool:
        """Whether a file's bytes, or all in a folder with their names, are on the disk."""
        if path.is_dir():
            inside = [((path.stat().st_ino, one.name) in self.names, one) for one in path.iterdir()]
            return all(named and self.survives(one) for named, one in inside)
        return path.stat().st_ino in self.files

    def __call__(self, operation, path, *args):
        """Nothing gets its name before it would survive, a record not before its artifacts."""
        if operation.__name__ in ("rename_to", "replace"):
            assert self.survives(path), path
            there = self.objects.glob("*/*")
            assert all((one.parent.stat().st_ino, one.name) in self.names for one in there)
        return operation(path, *args)


def test_what_a_power_cut_would_lose_has_no_name_yet(chain, store, monkeypatch):
    power = PowerCut(store.objects)
    monkeypatch.setattr(os, "fsync", power.fsync)
    monkeypatch.setattr(disk, "perform", power)
    chain.run_chain()
    kept = [*store.objects.glob("*/*"), *store.root.glob("records/*/*")]
    assert len(kept) == 3 + 3
    kept += store.objects.glob("*")  # two letters each
    assert all((path.parent.stat().st_ino, path.name) in power.names for path in kept)


KILLED_AT_EVERY_OPERATION = """
import itertools, json, os, pathlib, signal
import chain
from sentemb_core.store import disk
from sentemb_core.store.maintenance import fsck
from sentemb_core.store.objects import Store

base = pathlib.Path(os.environ["SENTEMB_HOME"])
def run():
    return chain.ENCODE.run(Store.default(), {"text": "a"}).digest
expected = run()
reports = []
for fatal in itertools.count(1):
    os.environ["SENTEMB_HOME"] = str(base / f"home-{fatal}")
    if not (child := os.fork()):
        count = itertools.count(1)
        def perform(operation, path, *args):
            if next(count) == fatal:
                if operation.__name__ == "write":
                    path.write_bytes(args[0][:7])
                os.kill(os.getpid(), signal.SIGKILL)
            return operation(path, *args)
        disk.perform = perform
        run()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    health = fsck(Store.default())
    again = run()
    reports.append([os.WIFSIGNALED(status), health.corrupt + health.stray, again == expected])
    if not os.WIFSIGNALED(status):
        break
print(json.dumps(reports))
"""


def test_a_kill_at_any_operation_leaves_old_or_new_and_a_rerun_ends_the_same(python):
    reports = python(KILLED_AT_EVERY_OPERATION).json()
    assert len(reports) > 15
    assert reports[-1][0] is False
    for _, broken, same in reports:
        assert broken == []
        assert same


WRITES_FOR_EVER = """
import itertools, os
from sentemb_core.store.objects import Store
for number in itertools.count():
    with Store.default().writing("thing") as draft:
        for name in "abcdef":
            (draft.path / name).write_bytes(str(number).encode() * 10_000)
    if not number:
        print("ready", flush=True)
"""


def test_a_kill_at_any_moment_leaves_whole_artifacts_alone(python, store):
    rng = random.Random(0)
    for _ in range(4):
        child = python(WRITES_FOR_EVER)
        assert child.process.stdout.readline() == "ready\n"
        time.sleep(rng.uniform(0.02, 0.2))
        child.process.send_signal(signal.SIGKILL)
        assert child.ends() == -signal.SIGKILL
    health = fsck(store)
    assert health.ok > 0
    assert health.corrupt == health.stray == []


@pytest.mark.parametrize("no_locks", ["", "1"])
def test_three_processes_on_one_key(python, store, no_locks):
    store.root.mkdir(parents=True)
    racers = [python(RACER, NO_LOCKS=no_locks, RACERS="3") for _ in range(3)]
    told = [racer.json() for racer in racers]
    assert len({digest for digest, _ in told}) == 1
    computed = sum(ran for _, ran in told)
    assert computed == 1 if not no_locks else computed >= 1
    health = fsck(store)
    assert health.healthy
    assert len(list(store.root.glob("records/slow/*.json"))) == 1
    assert list(store.tmp.iterdir()) == []


def test_a_lock_that_several_ask_about_at_once_is_free(store):
    store.lock("x").parent.mkdir(parents=True)
    store.lock("x").touch()

    def asked(_: int) -> bool:
        return any(is_locked(store.lock("x")) for _ in range(2_000))

    with ThreadPoolExecutor(4) as pool:
        assert not any(pool.map(asked, range(4)))


def test_a_lock_is_free_again_after_its_holder_was_killed(python, store):
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


def test_to_ask_whether_somebody_holds_a_lock_makes_none(store):
    assert not is_locked(store.lock("y"))
    assert not store.lock("y").exists()


def test_where_nothing_locks_whoever_may_be_at_it_is(store, monkeypatch):
    """A run that goes on is not told as killed, and `gc` leaves it what it uses."""
    store.lock("x").parent.mkdir(parents=True)
    store.lock("x").touch()

    def refuse(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(locks.fcntl, "flock", refuse)
    assert is_locked(store.lock("x"))
    with file_lock(store.lock("x")), lock_if_free(store.lock("x")) as free:
        assert free


def test_to_ask_whether_somebody_holds_a_lock_needs_no_leave_to_write(store, monkeypatch):
    store.lock("x").parent.mkdir(parents=True)
    store.lock("x").touch()
    opened = os.open

    def on_read_only(path, flags, *mode):
        if flags & (os.O_RDWR | os.O_WRONLY | os.O_CREAT):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return opened(path, flags, *mode)

    monkeypatch.setattr(os, "open", on_read_only)
    assert not is_locked(store.lock("x"))
    with pytest.raises(StorageError, match=r"could not open .*x\.lock: Read-only file system"):
        remove_unheld(store.lock("x"))


FULL = ("ENOSPC", "EDQUOT", "EFBIG", "EROFS", "EMFILE", "ENFILE")


@pytest.mark.parametrize("number", [getattr(errno, name) for name in FULL], ids=FULL)
def test_a_disk_that_refuses_whatever_a_stage_writes_is_told_as_such(store, number):
    """Not the store's own operations alone: logs, tables, what a library writes."""

    def written(number: int) -> int:
        raise OSError(number, os.strerror(number))

    with pytest.raises(StorageError, match=rf"^E601 .*{os.strerror(number)}"):
        Stage("written", 1, written).run(store, {"number": number})


def test_a_full_disk_tells_to_move_the_home_which_keeps_what_is_finished(
    chain, store, monkeypatch, tmp_path
):
    chain.run_chain()
    monkeypatch.setattr(disk, "perform", Faulty(1, errno.ENOSPC))
    with pytest.raises(StorageError, match="move the home to a larger disk and set SENTEMB_HOME"):
        chain.put("edges", 1)
    monkeypatch.setattr(disk, "perform", carried_out)
    chain.RAN.clear()
    monkeypatch.setenv("SENTEMB_HOME", str(store.root.rename(tmp_path / "larger")))
    chain.run_chain()
    assert chain.RAN == []
