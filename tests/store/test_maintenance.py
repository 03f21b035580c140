"""Maintenance: gc removes unreachable artifacts only, fsck finds every broken byte."""

import contextlib
import errno
import os
import shutil
import time

import pytest

from sentemb_core.errors import StorageError
from sentemb_core.store import disk, maintenance, runs
from sentemb_core.store.locks import file_lock
from sentemb_core.store.maintenance import ARTIFACTS, HOUR, SECOND, WEEK, collect, fsck
from sentemb_core.store.objects import SETTLED, Store, verified
from sentemb_core.store.records import lineage
from sentemb_core.store.stages import Stage
from sentemb_core.types import ArtifactRef


def record_run(chain, store, name: str, **options):
    with runs.recording(store, name, [], {}):
        return chain.run_chain(**options)


def break_artifact(store, ref: ArtifactRef) -> None:
    (path,) = (store.folder(ref.digest) / "data").iterdir()
    path.write_text("broken")
    assert not store.holds(ref)


def test_roots_keep_all_their_ancestors_and_records(chain, store, grow_old):
    kept = chain.run_chain(text="kept").model
    chain.run_chain(text="lost")
    grow_old()
    before = sorted(store.root.rglob("*"))
    dry = collect(store, [kept], keep_runs=0, dry_run=True)
    assert sorted(store.root.rglob("*")) == before
    garbage = collect(store, [kept], keep_runs=0)
    assert garbage == dry
    others = dict.fromkeys(("drafts", "work", "quarantined", "locks"), 0)
    assert garbage.counts == {"records": 3, "objects": 3} | others
    assert garbage.kept_objects == 3
    assert garbage.bytes > 0
    chain.RAN.clear()
    chain.run_chain(text="kept")
    assert chain.RAN == []
    chain.run_chain(text="lost")
    assert chain.RAN == ["encode", "graph", "train"]


def both(text: str) -> dict[str, ArtifactRef]:
    """Two artifacts of one record."""
    refs: dict[str, ArtifactRef] = {}
    for name in ("model", "log"):
        with Store.default().writing(name) as draft:
            (draft.path / "values.json").write_text(f"{name} {text}")
        refs[name] = draft.ref
    return refs


def test_the_other_outputs_of_a_roots_record_stay(store, grow_old):
    model = Stage("both", 1, both).run(store, {"text": "a"})["model"]
    grow_old()
    assert set(collect(store, [model], keep_runs=0).counts.values()) == {0}


def test_the_last_runs_keep_what_they_used(chain, store, grow_old):
    for index in range(3):
        record_run(chain, store, f"run-{index}", text=f"text {index}")
    grow_old()
    assert collect(store, [], keep_runs=2).counts["objects"] == 3
    chain.RAN.clear()
    chain.run_chain(text="text 1")
    chain.run_chain(text="text 2")
    assert chain.RAN == []


def level(embeddings: ArtifactRef) -> ArtifactRef:
    """Equal bytes for any input, as small artifacts of several runs have."""
    with Store.default().writing("edges") as draft:
        (draft.path / "values.json").write_text("[]")
    return draft.ref


LEVEL = Stage("level", 1, level)


def level_run(chain, store, number: int, rate: float) -> ArtifactRef:
    """Run with a middle artifact that equals the other runs'; return its model."""
    with runs.recording(store, f"run-{number}", [], {}) as log:
        read = chain.ENCODE.run(store, {"text": f"text {number}"})
        edges = LEVEL.run(store, {"embeddings": read})
        model = chain.TRAIN.run(store, {"edges": edges, "rate": rate}).model
        log.update(outputs=[model])
    return model


def test_equal_artifacts_of_other_runs_keep_no_more(chain, store, grow_old):
    for number in range(3):
        level_run(chain, store, number, rate=0.1 + number)
    grow_old()
    assert collect(store, [], keep_runs=1).kept_objects == 3
    chain.RAN.clear()
    level_run(chain, store, 2, rate=2.1)
    assert chain.RAN == []


@pytest.mark.parametrize("number", range(3))
def test_a_registered_encoder_keeps_the_lineage_of_its_own_run(chain, store, number: int, grow_old):
    models = [level_run(chain, store, each, rate=0.1 + each) for each in range(3)]
    grow_old()
    assert collect(store, [models[number]], keep_runs=0).kept_objects == 3
    assert lineage(store, models[number]).origins[-1].parameters == {"text": f"text {number}"}


@pytest.mark.parametrize("registered", [True, False])
def test_of_two_runs_with_one_encoder_the_last_keeps_its_sources(
    chain, store, registered, grow_old
):
    """The second training was a hit: its record names the first run's inputs only."""
    first, last = (level_run(chain, store, number, rate=0.5) for number in range(2))
    assert first == last
    grow_old()
    collect(store, [last] if registered else [], keep_runs=0 if registered else 1)
    chain.RAN.clear()
    level_run(chain, store, 1, rate=0.5)
    assert chain.RAN == []


def test_young_artifacts_drafts_and_checkpoints_stay(chain, store, grow_old):
    chain.run_chain()
    (store.tmp / "young").mkdir()
    assert set(collect(store, [], keep_runs=0).counts.values()) == {0}
    step = store.work("train-abc") / "step-1"
    step.mkdir()
    (step / "weights").write_text("x")
    grow_old(2 * WEEK)
    os.utime(step / "weights")
    assert collect(store, [], keep_runs=0).counts["work"] == 0


def test_an_old_draft_that_is_being_written_stays(store, grow_old):
    with store.writing("model") as draft:
        (draft.path / "weights").write_text("x")
        grow_old()
        assert collect(store, [], keep_runs=0).counts["drafts"] == 0
    assert store.holds(draft.ref)


def test_an_abandoned_draft_goes_after_an_hour(store, grow_old):
    (store.tmp / "dead").mkdir(parents=True)
    for age, removed in ((HOUR - 60, 0), (HOUR + 60, 1)):
        grow_old(age)
        assert collect(store, [], keep_runs=0).counts["drafts"] == removed


def test_work_locks_and_quarantine_go_after_a_week(store, put, grow_old):
    break_artifact(store, put())
    (store.work("train-abc") / "step-1").write_text("x")
    (store.work("train-alive") / "step-1").write_text("x")
    foreign = [store.root / "work" / ".nfs 1", store.root / "spool" / "run.jsonl"]
    foreign[0].mkdir()
    foreign[1].parent.mkdir()
    foreign[1].touch()
    with file_lock(store.lock("train-abc")), file_lock(store.root / "spool" / "run.lock"):
        pass
    with file_lock(store.lock("train-alive")):
        for age, removed in ((WEEK - HOUR, 0), (WEEK + HOUR, 1)):
            grow_old(age)
            dry = collect(store, [], keep_runs=0, dry_run=True).counts
            counts = collect(store, [], keep_runs=0).counts
            nothing = dict.fromkeys(("records", "objects", "drafts"), 0)
            wanted = {"work": removed, "quarantined": removed, "locks": 2 * removed} | nothing
            assert dry == counts == wanted
    assert (store.root / "work" / "train-alive").exists()
    assert store.lock("train-alive").exists()
    assert not (store.root / "spool" / "run.lock").exists()
    assert all(path.exists() for path in foreign)


def test_a_broken_artifact_stays_for_a_week_from_its_discovery(store, put, grow_old):
    ref = put()
    grow_old(2 * WEEK)
    break_artifact(store, ref)
    assert collect(store, [], keep_runs=0).counts["quarantined"] == 0
    grow_old(2 * WEEK)
    assert collect(store, [], keep_runs=0).counts["quarantined"] == 1


@pytest.mark.parametrize("ended", [False, True])
def test_a_training_resumed_during_gc_keeps_its_checkpoints(store, monkeypatch, ended, grow_old):
    """It holds its lock, or has ended again with another checkpoint."""
    step = store.work("train-abc") / "step-1"
    step.write_text("x")
    grow_old(2 * WEEK)
    resumed = contextlib.ExitStack()

    def resume(_):
        if ended:
            step.with_name("step-2").touch()
        else:
            resumed.enter_context(file_lock(store.lock("train-abc")))
        return 0

    monkeypatch.setattr(maintenance, "_size", resume)
    with resumed:
        assert collect(store, [], keep_runs=0).counts["work"] == 0
        assert step.exists()


def test_an_active_run_keeps_its_artifacts_and_all_newer_ones(chain, store, put, grow_old):
    old = chain.run_chain(text="old").model
    grow_old()
    with runs.recording(store, "now", [], {}):
        chain.run_chain(text="old")
        newer = put("loose")
        for dry_run in (True, False):
            assert collect(store, [], keep_runs=0, dry_run=dry_run).counts["objects"] == 0
    assert store.holds(old)
    assert store.holds(newer)


@pytest.mark.parametrize(("began", "age", "stays"), [(3, 2, True), (3, 4, False), (0, 0.5, True)])
def test_artifacts_of_the_last_hour_or_of_an_active_runs_time_stay(
    store, put, began: float, age: float, stays: bool, grow_old
):
    """Times are hours ago. A run may not have recorded an artifact yet."""
    with runs.recording(store, "now", [], {}) as log:
        log.update(started=time.time() - began * HOUR)
        ref = put()
        grow_old(age * HOUR)
        collect(store, [], keep_runs=0)
    assert store.holds(ref) == stays


@pytest.mark.parametrize("hit", [True, False])
def test_artifacts_that_a_run_uses_during_gc_stay(chain, store, monkeypatch, hit, grow_old):
    """The run starts after the listing and uses the old artifacts, or makes them again."""
    chain.run_chain()
    grow_old()
    begun = contextlib.ExitStack()

    def begin(_):
        if not (store.root / "runs").exists():
            if not hit:
                for path in store.root.glob("records/*/*"):
                    path.unlink()
            begun.enter_context(runs.recording(store, "late", [], {}))
            chain.run_chain()
        return 0

    monkeypatch.setattr(maintenance, "_size", begin)
    with begun:
        collect(store, [], keep_runs=0)
        (late,) = runs.last_runs(store)
        assert late.refs
        assert all(map(store.holds, late.refs))
    chain.RAN.clear()
    chain.run_chain()
    assert chain.RAN == [], "its records stay, too"


def test_artifacts_of_a_run_that_ended_during_gc_stay(chain, store, monkeypatch, grow_old):
    chain.run_chain()
    chain.run_chain(text="lost")
    grow_old()

    def use(_):
        if not (store.root / "runs").exists():
            record_run(chain, store, "short")
        return 0

    monkeypatch.setattr(maintenance, "_size", use)
    assert collect(store, [], keep_runs=0).counts["objects"] == 3
    (short,) = runs.last_runs(store)
    assert all(map(store.holds, short.refs))


def test_a_rewritten_artifact_is_young_again(store, put, grow_old):
    ref = put()
    grow_old()
    assert put() == ref
    assert collect(store, [], keep_runs=0).counts["objects"] == 0


@pytest.mark.parametrize("lags", [False, True])
def test_an_artifact_rewritten_during_gc_stays(store, put, monkeypatch, lags: bool, grow_old):
    """Also if the file system's clock lags behind."""
    ref = put()
    grow_old()

    def rewrite(_):
        now = time.time()
        put()
        while not lags and maintenance._last_change(store.folder(ref.digest)) < now:
            put()  # the clock of a file system may be coarse
        if lags:
            grow_old(SECOND / 2)
        return 0

    monkeypatch.setattr(maintenance, "_size", rewrite)
    assert collect(store, [], keep_runs=0).counts["objects"] == 0
    assert store.holds(ref)


def test_an_artifact_rewritten_while_another_is_removed_stays(store, put, monkeypatch, grow_old):
    texts = {put(text=text).digest: text for text in ("one", "two")}
    grow_old()
    remove = maintenance._remove

    def remove_and_rewrite_the_other(store, path):
        (other,) = texts.keys() - {path.name}
        put(text=texts[other])
        return remove(store, path)

    monkeypatch.setattr(maintenance, "_remove", remove_and_rewrite_the_other)
    assert collect(store, [], keep_runs=0).counts["objects"] == 1
    (left,) = store.objects.glob(ARTIFACTS)
    assert left.name in texts


def test_a_writer_replaces_an_artifact_that_gc_just_removed(store, put, monkeypatch):
    ref, touch = put(), disk.touch

    def remove_first(path):
        if path == store.folder(ref.digest) and not removed:
            removed.append(path)
            shutil.rmtree(path)
        touch(path)

    removed: list[object] = []
    monkeypatch.setattr(disk, "touch", remove_first)
    assert put() == ref
    assert removed
    assert store.holds(ref)


@pytest.mark.parametrize("folder", ["records", "runs"])
def test_gc_removes_nothing_if_records_or_runs_are_unreadable(
    chain, store, broken_disk, folder, grow_old
):
    record_run(chain, store, "one")
    grow_old()
    before = sorted(store.root.rglob("*"))
    broken_disk(lambda operation, path: operation == "read" and folder in path.parts)
    with pytest.raises(StorageError) as caught:
        collect(store, [], keep_runs=0)
    assert caught.value.errno == errno.EIO
    assert sorted(store.root.rglob("*")) == before


def test_the_record_of_a_quarantined_artifact_goes_and_the_store_is_healthy(chain, store):
    ref = chain.run_chain().model
    (store.folder(ref.digest) / "data" / "values.json").write_text("broken")
    assert not fsck(store).healthy
    assert fsck(store).missing == [ref]
    dry = collect(store, [], keep_runs=0, dry_run=True).counts
    assert (dry["records"], dry["objects"]) == (1, 0)
    assert collect(store, [], keep_runs=0).counts == dry
    assert fsck(store).healthy
    chain.RAN.clear()
    assert chain.run_chain().model == ref
    assert chain.RAN == ["train"]
    (path,) = store.root.glob("records/train/*.json")
    path.write_text("{")
    assert collect(store, [], keep_runs=0).counts["records"] == 1


def test_a_record_whose_result_is_rebuilt_during_gc_stays(chain, store, monkeypatch):
    ref = chain.run_chain().model
    shutil.rmtree(store.folder(ref.digest))
    monkeypatch.setattr(maintenance, "_size", lambda _: chain.run_chain() and 0)
    assert collect(store, [], keep_runs=0).counts["records"] == 0
    assert fsck(store).healthy


def test_paths_removed_by_another_gc_are_no_failure(chain, store, monkeypatch, grow_old):
    chain.run_chain()
    grow_old()
    listed = maintenance._unreachable(store, [], 0)
    assert collect(store, [], keep_runs=0).counts["objects"] == 3
    monkeypatch.setattr(maintenance, "_unreachable", lambda *_: listed)
    again = collect(store, [], keep_runs=0)
    assert (set(again.counts.values()), again.bytes) == ({0}, 0)
    assert not [*store.objects.glob("*/*"), *store.tmp.iterdir()]


def test_two_collections_at_once_remove_each_path_once(store, put, monkeypatch, grow_old):
    put()
    grow_old()
    remove, others = disk.remove, []

    def remove_while_another_collects(path):
        if not others:
            others.append(None)
            others[:] = [collect(store, [], keep_runs=0)]
        remove(path)

    monkeypatch.setattr(disk, "remove", remove_while_another_collects)
    assert collect(store, [], keep_runs=0).counts["objects"] == 1
    assert set(others[0].counts.values()) == {0}


def test_fsck_hashes_again_sets_aside_and_lists(store, put, performed):
    good, bad = put(text="good"), put(text="bad")
    time.sleep(2 * SETTLED / 1e9)
    assert store.holds(good)  # its hash is cached now
    (store.folder(bad.digest) / "data" / "text").write_text("baD")
    (store.objects / "zz").mkdir()
    strays = [store.objects / "zz" / name for name in ("notes.txt", "zz-top", good.digest)]
    for path in strays:
        path.write_text("x")
    performed.clear()
    health = fsck(store)
    assert ("sha256", store.folder(good.digest) / "data" / "text") in performed
    assert (health.ok, health.bytes) == (1, good.size)
    assert len(health.corrupt) == 1
    assert verified(store.folder(good.digest), deep=True).ref == good
    assert health.stray == sorted(map(str, strays))
    assert not health.healthy
    assert not store.folder(bad.digest).exists()


def test_an_artifact_removed_during_fsck_is_not_corrupt(store, put, monkeypatch):
    gone, kept = put(text="gone"), put(text="kept")

    def read(folder, *, deep):
        if folder.name == gone.digest:
            disk.remove(folder)
        return verified(folder, deep=deep)

    monkeypatch.setattr(maintenance, "verified", read)
    health = fsck(store)
    assert (health.ok, health.bytes, health.corrupt) == (1, kept.size, [])
    assert health.healthy


def test_an_unreadable_artifact_is_reported_kept_and_replaceable(store, put, broken_disk):
    """A bad sector: only another copy of the file helps."""
    ref, other = put(), put(text="other")
    bad = (store.folder(ref.digest) / "manifest.json").stat().st_ino
    broken_disk(lambda operation, path: operation == "read" and path.stat().st_ino == bad)
    health = fsck(store)
    assert health.bytes == other.size
    assert len(health.corrupt) == 1
    assert os.strerror(errno.EIO) in health.corrupt[0]
    assert store.folder(ref.digest).exists(), "the error may be temporary"
    assert put() == ref
    assert store.holds(ref)
    assert len(list(store.quarantine.iterdir())) == 1
