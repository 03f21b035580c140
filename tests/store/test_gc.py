"""Garbage: what nobody reaches goes, what anybody may need stays.

Run: pytest tests/store/test_gc.py
"""

import contextlib
import errno
import json
import os
import shutil
import signal
import threading
import time
from contextlib import suppress

import pytest

from sentemb_core.errors import StorageError
from sentemb_core.store import disk, runs
from sentemb_core.store import maintenance as gc
from sentemb_core.store.locks import file_lock, is_locked, remove_unheld
from sentemb_core.store.maintenance import HOUR, WEEK, collect, fsck
from sentemb_core.store.objects import Store
from sentemb_core.store.records import lineage
from sentemb_core.store.stages import Stage
from sentemb_core.types import ArtifactRef


def grow_old(store, seconds: float = 2 * HOUR) -> None:
    """Let everything in the store have been written so long ago."""
    then = time.time() - seconds
    for path in store.root.rglob("*"):
        os.utime(path, (then, then))


def recorded_run(chain, store, name: str, **options):
    with runs.recording(store, name, ["python", "-m", "flows", "run"], {"top_k": 1}):
        return chain.run_chain(**options)


def test_a_run_knows_its_stages_hits_and_artifacts(chain, store):
    recorded_run(chain, store, "first")
    result = recorded_run(chain, store, "second", rate=0.2)
    second, first = runs.last_runs(store)
    assert [(used.stage, used.hit) for used in first.stages] == [
        ("encode", False),
        ("graph", False),
        ("train", False),
    ]
    assert [used.hit for used in second.stages] == [True, True, False]
    assert result.model in second.refs
    assert (second.state, second.command[-1], second.config) == ("completed", "run", {"top_k": 1})


def test_a_run_names_each_artifact_once_that_it_read_made_or_put_out(chain, store):
    edges = chain.put("edges", "of another run")
    with runs.recording(store, "one", [], {}) as log:
        model = chain.TRAIN.run(store, {"edges": edges, "rate": 0.1}).model
        log.update(outputs=[model])
    assert log.run.refs == [model, edges]


def test_what_is_used_after_a_run_is_not_the_runs(chain, store):
    recorded_run(chain, store, "one")
    chain.run_chain(rate=0.3)
    (one,) = runs.last_runs(store)
    assert len(one.stages) == 3


def test_a_stage_that_a_run_computed_is_on_the_disk_itself_as_soon_as_it_is_filed(
    chain, store, monkeypatch
):
    synced: list[str] = []

    def perform(operation, path, *args):
        if operation.__name__ == "sync":
            synced.append(path.name)
        return operation(path, *args)

    monkeypatch.setattr(disk, "perform", perform)
    with runs.recording(store, "one", [], {}):
        chain.ENCODE.run(store, {"text": "a"})
        assert synced[-2:] == ["one.jsonl", "runs"]


def test_a_run_knows_what_was_used_while_a_thing_was_made(chain, store):
    """What was used before the first counts for none; a hit counts as well, and once."""
    with runs.recording(store, "cells", [], {}) as log:
        chain.run_chain(rate=0.1)
        rates = (chain.run_chain(rate=rate) and chain.run_chain(rate=rate) for rate in (0.2, 0.3))
        told = [[one.stage for one in used] for _, used in log.with_uses(rates)]
    assert told == [["encode", "graph", "train"]] * 2


def timed(text: str) -> ArtifactRef:
    """Other bytes at each time, as measured seconds are."""
    with Store.default().writing("seconds") as draft:
        (draft.path / "values.json").write_text(f"{text} {time.perf_counter_ns()}")
    return draft.ref


def test_a_stage_that_came_out_otherwise_when_it_was_made_anew_is_filed_again(store):
    stage, text = Stage("timed", 1, timed), {"text": "a"}
    with runs.recording(store, "twice", [], {}) as log:
        first, again = stage.run(store, text), stage.run(store, text, refresh=True)
        stage.run(store, text)
    (run,) = runs.last_runs(store)
    assert run.refs == [first, again]
    assert log.used == run.stages, "each once"
    grow_old(store)
    assert collect(store, [], keep_runs=1).counts["objects"] == 0


def test_a_run_that_failed_or_was_killed_says_so(chain, store, python):
    with pytest.raises(ZeroDivisionError), runs.recording(store, "bad", [], {}):
        _ = 1 / 0
    child = python(
        "import os, signal; from sentemb_core.store import runs; "
        "from sentemb_core.store.objects import Store\n"
        "with runs.recording(Store.default(), 'dead', [], {}):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert child.ends() == -signal.SIGKILL
    assert {run.id: run.state for run in runs.last_runs(store)} == {
        "bad": "failed",
        "dead": "killed",
    }


def test_why_a_run_failed_is_filed_without_secrets(store, monkeypatch):
    monkeypatch.setenv("ANY_TOKEN", "value-of-it")
    with suppress(OSError), runs.recording(store, "bad", [], {}):
        raise OSError("no answer to value-of-it of redis://:word@h")
    (bad,) = runs.last_runs(store)
    assert bad.error == "no answer to *** of redis://***@h"


def test_a_killed_run_has_all_that_it_used(chain, store, python):
    chain.run_chain()
    child = python(
        "import os, signal, chain; from sentemb_core.store import runs; "
        "from sentemb_core.store.objects import Store\n"
        "with runs.recording(Store.default(), 'dead', [], {}):\n"
        "    chain.run_chain(rate=0.2); chain.run_chain()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert child.ends() == -signal.SIGKILL
    (dead,) = runs.last_runs(store)
    assert [(used.stage, used.hit) for used in dead.stages] == [
        ("encode", True),
        ("graph", True),
        ("train", False),
        ("train", True),
    ]
    grow_old(store)
    assert collect(store, [], keep_runs=1).counts["objects"] == 0
    recorded_run(chain, store, "dead", rate=0.3)
    assert len(runs.read_run(store, "dead").stages) == 3, "a new run of that name is another"


def test_a_run_is_written_whole_as_it_begins_and_ends_and_not_with_each_stage(
    chain, store, monkeypatch
):
    written: list[int] = []
    write_run = runs.write_run
    monkeypatch.setattr(
        runs,
        "write_run",
        lambda store, run: (written.append(len(run.stages)), write_run(store, run)),
    )
    recorded_run(chain, store, "one")
    assert written == [0, 3]
    assert [path.name for path in (store.root / "runs").iterdir()] == ["one.json"]


def test_a_stage_that_a_full_disk_cut_off_takes_no_other_with_it(chain, store, monkeypatch):
    def full(path, content):
        path.write_bytes(content[: len(content) // 2])
        raise StorageError("full")

    with runs.recording(store, "now", [], {}):
        with monkeypatch.context() as disk_full, suppress(StorageError):
            disk_full.setattr(disk, "append", full)
            chain.ENCODE.run(store, {"text": "cut off"})
        chain.ENCODE.run(store, {"text": "a"})
        (now,) = runs.last_runs(store)
        assert [ref for used in now.stages for ref in used.outputs] == [
            chain.ENCODE.look_up(store, chain.ENCODE.key({"text": "a"})).outputs[0]
        ]
        chain.ENCODE.run(store, {"text": "cut off"})
        assert len(runs.read_run(store, "now").stages) == 2, "filed when it is met again"


def test_who_reads_a_run_while_it_is_written_misses_no_stage(chain, store, monkeypatch):
    read = disk.read
    with runs.recording(store, "now", [], {}) as log:
        chain.run_chain()

        def read_then_write(path):
            content = read(path)
            if path.parent.name == "runs":
                log.update()
            return content

        monkeypatch.setattr(disk, "read", read_then_write)
        assert len(runs.read_run(store, "now").stages) == 3


def test_a_record_of_the_first_release_is_read(store):
    """Fields that were added since have defaults."""
    old = {
        "id": "old",
        "command": ["python", "-m", "flows", "run"],
        "config": {},
        "state": "completed",
        "started": 1.0,
        "finished": 2.0,
        "stages": [
            {"stage": "encode", "key": "k", "hit": False, "seconds": 1.0, "inputs": [],
             "outputs": [{"kind": "thing", "digest": "0" * 64, "size": 1}]}
        ],
        "outputs": [],
    }  # fmt: skip
    (store.root / "runs").mkdir(parents=True)
    (store.root / "runs" / "old.json").write_text(json.dumps(old))
    (run,) = runs.last_runs(store)
    assert (run.began, [ref.kind for ref in run.refs]) == (1.0, ["thing"])


def test_a_resumed_run_is_the_same_record_and_what_it_did_before_is_its_own_work(chain, store):
    with suppress(KeyError), runs.recording(store, "mine", [], {}):
        chain.run_chain(rate=0.2)
        raise KeyError
    (failed,) = runs.last_runs(store)
    recorded_run(chain, store, "other", rate=0.3)
    with runs.recording(store, "mine", [], {}, resumed=True) as log:
        assert log.run.stages == failed.stages, "gc keeps them from the first moment"
        assert log.used == []
        chain.run_chain(rate=0.4)
    last, _ = runs.last_runs(store)
    assert (last.id, last.state, last.started) == ("mine", "completed", failed.started)
    assert [(used.stage, used.hit) for used in log.used] == [
        ("encode", False),
        ("graph", False),
        ("train", False),
    ]
    assert last.stages == [*failed.stages, log.used[-1]], "of both rates"


def test_what_roots_reach_stays_with_all_its_ancestors_and_records(chain, store):
    kept = chain.run_chain(text="kept").model
    chain.run_chain(text="lost")
    grow_old(store)
    garbage = collect(store, [kept], keep_runs=0)
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
    made: dict[str, ArtifactRef] = {}
    for name in ("model", "log"):
        with Store.default().writing(name) as draft:
            (draft.path / "values.json").write_text(f"{name} {text}")
        made[name] = draft.ref
    return made


def test_what_a_stage_put_out_beside_a_root_stays_for_its_record_names_it(store):
    model = Stage("both", 1, both).run(store, {"text": "a"})["model"]
    grow_old(store)
    assert set(collect(store, [model], keep_runs=0).counts.values()) == {0}


def test_the_last_runs_keep_what_they_used(chain, store):
    for index in range(3):
        recorded_run(chain, store, f"run-{index}", text=f"text {index}")
    grow_old(store)
    assert collect(store, [], keep_runs=2).counts["objects"] == 3
    chain.RAN.clear()
    chain.run_chain(text="text 1")
    chain.run_chain(text="text 2")
    assert chain.RAN == []


def level(embeddings: ArtifactRef) -> ArtifactRef:
    """Equal bytes of whatever it read, as small artifacts of many runs are."""
    with Store.default().writing("edges") as draft:
        (draft.path / "values.json").write_text("[]")
    return draft.ref


LEVEL = Stage("level", 1, level)


def leveled_run(chain, store, number: int, rate: float) -> ArtifactRef:
    """A run whose middle artifact equals the others', and the encoder that it ended with."""
    with runs.recording(store, f"run-{number}", [], {}) as log:
        read = chain.ENCODE.run(store, {"text": f"text {number}"})
        edges = LEVEL.run(store, {"embeddings": read})
        model = chain.TRAIN.run(store, {"edges": edges, "rate": rate}).model
        log.update(outputs=[model])
    return model


def test_equal_artifacts_of_other_runs_keep_nothing_of_these(chain, store):
    for number in range(3):
        leveled_run(chain, store, number, rate=0.1 + number)
    grow_old(store)
    assert collect(store, [], keep_runs=1).kept_objects == 3
    chain.RAN.clear()
    leveled_run(chain, store, 2, rate=2.1)
    assert chain.RAN == []


@pytest.mark.parametrize("number", range(3))
def test_a_registered_encoder_keeps_the_way_of_its_own_run(chain, store, number: int):
    made = [leveled_run(chain, store, each, rate=0.1 + each) for each in range(3)]
    grow_old(store)
    assert collect(store, [made[number]], keep_runs=0).kept_objects == 3
    assert lineage(store, made[number]).origins[-1].parameters == {"text": f"text {number}"}


def test_of_two_runs_that_ended_with_a_registered_encoder_the_last_ones_way_is_kept(chain, store):
    first, last = (leveled_run(chain, store, number, rate=0.5) for number in range(2))
    assert first == last
    grow_old(store)
    collect(store, [last], keep_runs=0)
    chain.RAN.clear()
    leveled_run(chain, store, 1, rate=0.5)
    assert chain.RAN == []


def test_a_run_that_found_another_ones_encoder_keeps_its_own_sources(chain, store):
    """The training was a hit, since equal edges went in: its record names no embeddings."""
    first = leveled_run(chain, store, 0, rate=0.5)
    assert leveled_run(chain, store, 1, rate=0.5) == first
    grow_old(store)
    collect(store, [], keep_runs=1)
    chain.RAN.clear()
    leveled_run(chain, store, 1, rate=0.5)
    assert chain.RAN == []


def test_a_dry_run_tells_the_same_and_removes_nothing(chain, store):
    chain.run_chain()
    grow_old(store)
    before = sorted(store.root.rglob("*"))
    told = collect(store, [], keep_runs=0, dry_run=True)
    assert sorted(store.root.rglob("*")) == before
    assert collect(store, [], keep_runs=0) == told
    assert told.counts["objects"] == 3
    assert list(store.objects.glob("*/*")) == []


def test_young_artifacts_and_drafts_stay(chain, store):
    chain.run_chain()
    (store.tmp / "young").mkdir()
    assert set(collect(store, [], keep_runs=0).counts.values()) == {0}


def test_a_draft_that_is_written_stays_however_old(store):
    with store.writing("model") as draft:
        (draft.path / "weights").write_text("x")
        grow_old(store)
        assert collect(store, [], keep_runs=0).counts["drafts"] == 0
    assert store.holds(draft.ref)


def test_a_young_checkpoint_deep_in_a_working_folder_keeps_all_of_it(store):
    step = store.work("train-abc") / "step-1"
    step.mkdir()
    (step / "weights").write_text("x")
    grow_old(store, 2 * WEEK)
    os.utime(step / "weights")
    assert collect(store, [], keep_runs=0).counts["work"] == 0


def test_what_is_no_lock_stays_among_the_locks(store):
    kept = store.root / "spool" / "run.jsonl"
    kept.parent.mkdir(parents=True)
    kept.touch()
    grow_old(store, 2 * WEEK)
    assert collect(store, [], keep_runs=0).counts["locks"] == 0
    assert kept.exists()


def test_a_draft_that_nobody_writes_goes_after_an_hour(store):
    (store.tmp / "dead").mkdir(parents=True)
    for age, gone in ((HOUR - 60, 0), (HOUR + 60, 1)):
        grow_old(store, age)
        assert collect(store, [], keep_runs=0).counts["drafts"] == gone


def test_abandoned_drafts_work_folders_and_broken_artifacts_go(store, put):
    ref = put()
    (store.folder(ref.digest) / "data" / "text").write_text("broken")
    assert not store.holds(ref)
    (store.tmp / "dead").mkdir()
    (store.work("train-abc") / "step-1").write_text("x")
    (store.work("train-alive") / "step-1").write_text("x")
    (store.root / "work" / ".nfs 1").mkdir()  # no folder of ours
    grow_old(store, 2 * WEEK)
    with file_lock(store.lock("train-alive")):
        told = collect(store, [], keep_runs=0, dry_run=True).counts
        counts = collect(store, [], keep_runs=0).counts
    nothing = dict.fromkeys(("records", "objects", "locks"), 0)
    assert told == counts == {"drafts": 1, "work": 1, "quarantined": 1} | nothing
    left = sorted(path.name for path in (store.root / "work").iterdir())
    assert left == [".nfs 1", "train-alive"]


def test_a_killed_training_its_lock_and_a_broken_artifact_stay_for_a_week(store, put):
    ref = put()
    (store.folder(ref.digest) / "data" / "text").write_text("broken")
    assert not store.holds(ref)
    (store.work("train-abc") / "step-1").write_text("x")
    with file_lock(store.lock("train-abc")):
        pass
    for age, gone in ((WEEK - HOUR, 0), (WEEK + HOUR, 1)):
        grow_old(store, age)
        counts = collect(store, [], keep_runs=0).counts
        assert [counts[kind] for kind in ("work", "quarantined", "locks")] == [gone] * 3


def test_an_old_artifact_that_is_found_broken_can_be_inspected_for_a_week_from_then(store, put):
    ref = put()
    (store.folder(ref.digest) / "data" / "text").write_text("broken")
    grow_old(store, 2 * WEEK)
    assert not store.holds(ref)
    assert collect(store, [], keep_runs=0).counts["quarantined"] == 0
    grow_old(store, 2 * WEEK)
    assert collect(store, [], keep_runs=0).counts["quarantined"] == 1


@pytest.mark.parametrize("ended", [False, True])
def test_a_training_that_goes_on_while_garbage_is_looked_for_keeps_its_checkpoints(
    store, monkeypatch, ended
):
    """It holds its lock, or was stopped again after a further checkpoint."""
    step = store.work("train-abc") / "step-1"
    step.write_text("x")
    grow_old(store, 2 * WEEK)
    resumed = contextlib.ExitStack()

    def resume(_):
        if ended:
            step.with_name("step-2").touch()
        else:
            resumed.enter_context(file_lock(store.lock("train-abc")))
        return 0

    monkeypatch.setattr(gc, "size", resume)
    with resumed:
        assert collect(store, [], keep_runs=0).counts["work"] == 0
        assert step.exists()


def test_a_run_that_goes_on_keeps_what_it_has_used_and_what_was_made_since(chain, store, put):
    old = chain.run_chain(text="old").model
    grow_old(store)
    with runs.recording(store, "now", [], {}):
        chain.run_chain(text="old")
        made_since = put("loose")
        for dry_run in (True, False):
            assert collect(store, [], keep_runs=0, dry_run=dry_run).counts["objects"] == 0
    assert store.holds(old)
    assert store.holds(made_since)


@pytest.mark.parametrize(("began", "made", "stays"), [(3, 2, True), (3, 4, False), (0, 0.5, True)])
def test_what_was_made_in_the_last_hour_or_since_the_oldest_run_began_stays(
    store, put, began: float, made: float, stays: bool
):
    """Hours ago; a run that has put out an artifact may not have filed it yet."""
    with runs.recording(store, "now", [], {}) as log:
        log.update(started=time.time() - began * HOUR)
        ref = put()
        grow_old(store, made * HOUR)
        collect(store, [], keep_runs=0)
    assert store.holds(ref) == stays


@pytest.mark.parametrize("found", [True, False])
def test_what_a_run_takes_up_while_garbage_is_looked_for_stays(chain, store, monkeypatch, found):
    """It begins when all is listed, and meets the old artifacts as they are, or makes them anew."""
    chain.run_chain()
    grow_old(store)
    begun = contextlib.ExitStack()

    def begin(_):
        if not (store.root / "runs").exists():
            if not found:
                for path in store.root.glob("records/*/*"):
                    path.unlink()
            begun.enter_context(runs.recording(store, "late", [], {}))
            chain.run_chain()
        return 0

    monkeypatch.setattr(gc, "size", begin)
    with begun:
        collect(store, [], keep_runs=0)
        (late,) = runs.last_runs(store)
        assert late.refs
        assert all(map(store.holds, late.refs))
    chain.RAN.clear()
    chain.run_chain()
    assert chain.RAN == [], "its records stay, too"


def test_what_a_run_used_that_ended_while_garbage_was_looked_for_stays(chain, store, monkeypatch):
    chain.run_chain()
    chain.run_chain(text="lost")
    grow_old(store)

    def use(_):
        if not (store.root / "runs").exists():
            recorded_run(chain, store, "short")
        return 0

    monkeypatch.setattr(gc, "size", use)
    assert collect(store, [], keep_runs=0).counts["objects"] == 3
    (short,) = runs.last_runs(store)
    assert all(map(store.holds, short.refs))


def test_what_nobodys_run_makes_anew_while_garbage_is_looked_for_stays(store, put, monkeypatch):
    ref = put()
    grow_old(store)

    def make_anew(_):
        now = time.time()
        while gc.changed(store.folder(ref.digest)) < now:  # the file system's clock may be coarse
            put()
        return 0

    monkeypatch.setattr(gc, "size", make_anew)
    assert collect(store, [], keep_runs=0).counts["objects"] == 0
    assert store.holds(ref)


def test_what_is_made_anew_while_others_are_removed_stays(store, put, monkeypatch):
    texts = {put(text=text).digest: text for text in ("one", "two")}
    grow_old(store)
    remove = gc.remove

    def remove_and_make_the_other_anew(store, path):
        (other,) = texts.keys() - {path.name}
        put(text=texts[other])
        return remove(store, path)

    monkeypatch.setattr(gc, "remove", remove_and_make_the_other_anew)
    assert collect(store, [], keep_runs=0).counts["objects"] == 1
    (left,) = store.objects.glob(gc.ARTIFACTS)
    assert left.name in texts


def test_what_gc_removes_just_as_it_is_met_is_put_in_place_again(store, put, monkeypatch):
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


def test_what_is_made_anew_stays_though_the_file_systems_clock_lags(store, put, monkeypatch):
    ref = put()
    grow_old(store)

    def make_anew(_):
        put()
        grow_old(store, gc.SECOND / 2)
        return 0

    monkeypatch.setattr(gc, "size", make_anew)
    collect(store, [], keep_runs=0)
    assert store.holds(ref)


def test_a_rebuilt_artifact_is_young_again(store, put):
    ref = put()
    grow_old(store)
    assert put() == ref
    assert collect(store, [], keep_runs=0).counts["objects"] == 0


def test_old_locks_go_unless_somebody_holds_them(chain, store):
    chain.run_chain()
    spool = store.root / "spool" / "run.lock"
    spool.parent.mkdir()
    spool.touch()
    with file_lock(store.lock("held")):
        grow_old(store, 2 * WEEK)
        assert collect(store, [], keep_runs=0).counts["locks"] == 4
        assert [path.name for path in store.lock("held").parent.iterdir()] == ["held.lock"]
    assert not spool.exists()


def test_who_waits_for_a_lock_that_is_removed_holds_the_one_that_others_meet(store):
    path, waiting, free = store.lock("x"), threading.Event(), threading.Event()

    def waits() -> None:
        with file_lock(path):
            waiting.set()
            free.wait(10)

    with file_lock(path):
        other = threading.Thread(target=waits)
        other.start()
        assert not waiting.wait(0.2)
        assert not remove_unheld(path)
        path.unlink()  # as one who held it might
    assert waiting.wait(10)
    assert is_locked(path)
    free.set()
    other.join()
    assert remove_unheld(path)
    assert not remove_unheld(path)


def test_a_broken_record_goes(chain, store):
    chain.run_chain()
    (path,) = store.root.glob("records/train/*.json")
    path.write_text("{")
    assert collect(store, [], keep_runs=0).counts["records"] == 1


@pytest.mark.parametrize("folder", ["records", "runs"])
def test_gc_removes_nothing_while_it_cannot_read_what_is_needed(chain, store, monkeypatch, folder):
    recorded_run(chain, store, "one")
    grow_old(store)
    before = sorted(store.root.rglob("*"))

    def perform(operation, path, *args):
        if operation.__name__ == "read" and folder in path.parts:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return operation(path, *args)

    monkeypatch.setattr(disk, "perform", perform)
    with pytest.raises(StorageError, match="Input/output error"):
        collect(store, [], keep_runs=0)
    assert sorted(store.root.rglob("*")) == before


def test_a_run_that_ends_while_it_is_read_was_not_killed(store, monkeypatch):
    ended = contextlib.ExitStack()
    ended.enter_context(runs.recording(store, "one", [], {}))

    def ends_now(path):
        ended.close()
        return is_locked(path)

    monkeypatch.setattr(runs, "is_locked", ends_now)
    assert runs.read_run(store, "one").state == "completed"


def test_a_record_of_what_lies_in_quarantine_goes_and_the_store_is_whole_again(chain, store):
    ref = chain.run_chain().model
    (store.folder(ref.digest) / "data" / "values.json").write_text("broken")
    assert not fsck(store).healthy
    assert fsck(store).missing == [ref]
    told = collect(store, [], keep_runs=0, dry_run=True).counts
    assert (told["records"], told["objects"]) == (1, 0)
    assert collect(store, [], keep_runs=0).counts == told
    assert fsck(store).healthy
    chain.RAN.clear()
    assert chain.run_chain().model == ref
    assert chain.RAN == ["train"]


def test_a_record_whose_result_is_made_anew_while_garbage_is_looked_for_stays(
    chain, store, monkeypatch
):
    ref = chain.run_chain().model
    shutil.rmtree(store.folder(ref.digest))
    monkeypatch.setattr(gc, "size", lambda _: chain.run_chain() and 0)
    assert collect(store, [], keep_runs=0).counts["records"] == 0
    assert fsck(store).healthy


def test_what_another_gc_removes_meanwhile_is_no_failure(chain, store, monkeypatch):
    chain.run_chain()
    grow_old(store)
    found = gc.unreached(store, [], 0)
    assert collect(store, [], keep_runs=0).counts["objects"] == 3
    monkeypatch.setattr(gc, "unreached", lambda *_: found)
    told = collect(store, [], keep_runs=0)
    assert (set(told.counts.values()), told.bytes) == ({0}, 0), "what one spares it does not count"
    assert not [*store.objects.glob("*/*"), *store.tmp.iterdir()]


def test_what_one_gc_is_removing_is_no_draft_to_another(store, put, monkeypatch):
    put()
    grow_old(store)
    remove, others = disk.remove, []

    def remove_while_another_collects(path):
        if not others:
            others.append(None)
            others[:] = [collect(store, [], keep_runs=0)]
        remove(path)

    monkeypatch.setattr(disk, "remove", remove_while_another_collects)
    assert collect(store, [], keep_runs=0).counts["objects"] == 1
    assert set(others[0].counts.values()) == {0}


def test_what_another_removes_at_the_same_time_is_no_failure_and_all_goes(store, monkeypatch):
    folder = store.tmp / "removed"
    for name in ("a", "b/c", "b/d"):
        (folder / name).mkdir(parents=True)
        (folder / name / "values.json").touch()
    unlink = os.unlink

    def quicker(*args, **options):
        unlink(*args, **options)
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), args[0])

    monkeypatch.setattr(os, "unlink", quicker)
    disk.remove(folder)
    assert not folder.exists()
