"""Failing disks, kills and races: artifacts and records are always whole or absent.

The n-th file-system operation fails, for n = 1, 2, 3 ... until a run succeeds (SQLite's method).
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
from pathlib import Path

import pytest

from sentemb_core.errors import StorageError
from sentemb_core.store import disk
from sentemb_core.store.maintenance import fsck
from sentemb_core.store.objects import Store
from sentemb_core.store.stages import Stage
from tests.store.racers import RACER


class Faulty:
    """Carries out operations until the n-th, which fails; a failing write writes half."""

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
    """Yield fresh homes with an ever later fault; end when the caller's run met no fault."""
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
def test_a_failure_of_any_operation_leaves_nothing_partial(chain, monkeypatch, tmp_path, number):
    expected = chain.ENCODE.run(Store.default(), {"text": "a"})
    named: list[bool] = []
    for faulty in attempts(number, monkeypatch, tmp_path):
        try:
            assert chain.ENCODE.run(Store.default(), {"text": "a"}) == expected
        except StorageError as error:
            operation, path = faulty.done[faulty.fail_at - 1]
            parts = (operation.replace("_", " ").strip(), str(path), os.strerror(number))
            named.append(all(part in str(error) for part in parts))
        monkeypatch.setattr(disk, "perform", carried_out)
        assert_whole_or_absent()
        assert chain.ENCODE.run(Store.default(), {"text": "a"}) == expected
    assert len(named) > 15
    assert all(named)


def test_a_failure_of_any_operation_of_a_warm_run_loses_nothing(chain, store, monkeypatch):
    expected = chain.run_chain().model
    for fail_at in range(1, 15):
        monkeypatch.setattr(disk, "perform", Faulty(fail_at, errno.EIO))
        # an unreadable record is a miss; then the disk may refuse to rebuild
        with contextlib.suppress(StorageError):
            assert chain.run_chain().model == expected
        monkeypatch.setattr(disk, "perform", carried_out)
        assert_whole_or_absent()


class PowerCut:
    """Records what an fsync has brought to the disk: bytes of files, and names in folders."""

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
        """Return whether a file's bytes, or a whole folder with its names, are on the disk."""
        if path.is_dir():
            folder = path.stat().st_ino
            entries = list(path.iterdir())
            return all((folder, entry.name) in self.names for entry in entries) and all(
                map(self.survives, entries)
            )
        return path.stat().st_ino in self.files

    def is_named(self, path: Path) -> bool:
        return (path.parent.stat().st_ino, path.name) in self.names

    def __call__(self, operation, path, *args):
        """Check that a path would survive before it is renamed; artifacts before records."""
        if operation.__name__ in ("rename_to", "replace"):
            assert self.survives(path), path
            assert all(map(self.is_named, self.objects.glob("*/*")))
        return operation(path, *args)


def test_only_synced_files_get_their_name(chain, store, monkeypatch):
    power = PowerCut(store.objects)
    monkeypatch.setattr(os, "fsync", power.fsync)
    monkeypatch.setattr(disk, "perform", power)
    chain.run_chain()
    kept = [*store.objects.glob("*/*"), *store.root.glob("records/*/*")]
    assert len(kept) == 3 + 3
    kept += store.objects.glob("*")  # two letters each
    assert all(map(power.is_named, kept))


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


def test_a_kill_at_any_operation_leaves_old_or_new_content(python):
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


def test_a_kill_at_any_moment_leaves_only_whole_artifacts(python, store):
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
def test_three_processes_compute_one_key_once(python, store, no_locks):
    store.root.mkdir(parents=True)
    racers = [python(RACER, NO_LOCKS=no_locks, RACERS="3") for _ in range(3)]
    results = [racer.json() for racer in racers]
    assert len({digest for digest, _ in results}) == 1
    computed = sum(ran for _, ran in results)
    assert computed == 1 if not no_locks else computed >= 1
    health = fsck(store)
    assert health.healthy
    assert len(list(store.root.glob("records/slow/*.json"))) == 1
    assert list(store.tmp.iterdir()) == []


FULL = ("ENOSPC", "EDQUOT", "EFBIG", "EROFS", "EMFILE", "ENFILE")


@pytest.mark.parametrize("number", [getattr(errno, name) for name in FULL], ids=FULL)
def test_a_stage_on_a_full_disk_raises_e601(store, number):
    """A library's write counts as well, not only the store's own operations."""

    def write(number: int) -> int:
        raise OSError(number, os.strerror(number))

    with pytest.raises(StorageError, match=rf"^E601 .*{os.strerror(number)}") as caught:
        Stage("write", 1, write).run(store, {"number": number})
    assert caught.value.errno == number


def test_a_home_moved_from_a_full_disk_keeps_finished_stages(chain, store, monkeypatch, tmp_path):
    chain.run_chain()
    monkeypatch.setattr(disk, "perform", Faulty(1, errno.ENOSPC))
    with pytest.raises(StorageError, match="SENTEMB_HOME"):
        chain.put("edges", 1)
    monkeypatch.setattr(disk, "perform", carried_out)
    chain.RAN.clear()
    monkeypatch.setenv("SENTEMB_HOME", str(store.root.rename(tmp_path / "larger")))
    chain.run_chain()
    assert chain.RAN == []
