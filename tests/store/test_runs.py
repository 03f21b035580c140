"""Runs: what they used is on the disk at once, survives kills, and is counted once."""

import contextlib
import signal
import time
from contextlib import suppress

import pytest

from sentemb_core.errors import BrokenFileError, StorageError
from sentemb_core.store import disk, runs
from sentemb_core.store.locks import is_locked
from sentemb_core.store.maintenance import collect, fsck
from sentemb_core.store.objects import Store
from sentemb_core.store.seals import sealed
from sentemb_core.store.stages import Stage
from sentemb_core.types import ArtifactRef

THREE_MISSES = [("encode", False), ("graph", False), ("train", False)]


def record_run(chain, store, name: str, **options):
    with runs.recording(store, name, ["python", "-m", "flows", "run"], {"top_k": 1}):
        return chain.run_chain(**options)


def stages_of(used: list[runs.Used]) -> list[tuple[str, bool]]:
    return [(use.stage, use.hit) for use in used]


def test_a_run_lists_its_stages_hits_and_artifacts(chain, store):
    record_run(chain, store, "first")
    result = record_run(chain, store, "second", rate=0.2)
    chain.run_chain(rate=0.3)  # after the run
    second, first = runs.last_runs(store)
    assert stages_of(first.stages) == THREE_MISSES
    assert [used.hit for used in second.stages] == [True, True, False]
    assert result.model in second.refs
    assert (second.state, second.command[-1], second.config) == ("completed", "run", {"top_k": 1})


def test_a_run_lists_each_artifact_once(chain, store):
    edges = chain.put("edges", "of another run")
    with runs.recording(store, "one", [], {}) as log:
        model = chain.TRAIN.run(store, {"edges": edges, "rate": 0.1}).model
        log.update(outputs=[model])
    assert log.run.refs == [model, edges]


def test_a_computed_stage_is_synced_at_once(chain, store, performed):
    with runs.recording(store, "one", [], {}):
        chain.ENCODE.run(store, {"text": "a"})
        synced = [path.name for operation, path in performed if operation == "sync"]
        assert synced[-2:] == ["one.jsonl", "runs"]


def test_with_uses_lists_each_stage_once_per_item(chain, store):
    with runs.recording(store, "cells", [], {}) as log:
        chain.run_chain(rate=0.1)  # before the first item
        items = (chain.run_chain(rate=rate) and chain.run_chain(rate=rate) for rate in (0.2, 0.3))
        stages = [[use.stage for use in used] for _, used in log.with_uses(items)]
    assert stages == [["encode", "graph", "train"]] * 2


def timed(text: str) -> ArtifactRef:
    """Other bytes at each call, like measured seconds."""
    with Store.default().writing("seconds") as draft:
        (draft.path / "values.json").write_text(f"{text} {time.perf_counter_ns()}")
    return draft.ref


def test_a_recomputed_stage_with_other_outputs_is_listed_again(store, grow_old):
    stage, text = Stage("timed", 1, timed), {"text": "a"}
    with runs.recording(store, "twice", [], {}) as log:
        first, again = stage.run(store, text), stage.run(store, text, refresh=True)
        stage.run(store, text)
    (run,) = runs.last_runs(store)
    assert run.refs == [first, again]
    assert log.used == run.stages
    grow_old()
    assert collect(store, [], keep_runs=1).counts["objects"] == 0


def test_the_state_of_a_failed_and_of_a_killed_run(store, python, monkeypatch):
    monkeypatch.setenv("ANY_TOKEN", "value-of-it")
    with suppress(OSError), runs.recording(store, "bad", [], {}):
        raise OSError("no answer to value-of-it of redis://:word@h")
    child = python(
        "import os, signal; from sentemb_core.store import runs; "
        "from sentemb_core.store.objects import Store\n"
        "with runs.recording(Store.default(), 'dead', [], {}):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert child.ends() == -signal.SIGKILL
    dead, bad = runs.last_runs(store)
    assert (bad.state, dead.state) == ("failed", "killed")
    assert bad.error == "no answer to *** of redis://***@h", "secrets are removed"


def test_a_killed_run_keeps_everything_that_it_used(chain, store, python, grow_old):
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
    hits = [("encode", True), ("graph", True), ("train", False), ("train", True)]
    assert stages_of(dead.stages) == hits
    grow_old()
    assert collect(store, [], keep_runs=1).counts["objects"] == 0
    record_run(chain, store, "dead", rate=0.3)
    assert len(runs.read_run(store, "dead").stages) == 3, "a new run of that name starts empty"


def test_the_whole_run_is_written_at_start_and_end_only(chain, store, monkeypatch):
    written: list[int] = []
    write_run = runs.write_run
    monkeypatch.setattr(
        runs,
        "write_run",
        lambda store, run: (written.append(len(run.stages)), write_run(store, run)),
    )
    record_run(chain, store, "one")
    assert written == [0, 3]
    assert [path.name for path in (store.root / "runs").iterdir()] == ["one.json"]


def test_a_line_truncated_by_a_full_disk_loses_no_other_line(chain, store, monkeypatch):
    def full(path, content):
        path.write_bytes(content[: len(content) // 2])
        raise StorageError("full")

    with runs.recording(store, "now", [], {}):
        with monkeypatch.context() as disk_full, suppress(StorageError):
            disk_full.setattr(disk, "append", full)
            chain.ENCODE.run(store, {"text": "truncated"})
        chain.ENCODE.run(store, {"text": "a"})
        (now,) = runs.last_runs(store)
        assert [ref for used in now.stages for ref in used.outputs] == [
            chain.ENCODE.look_up(store, chain.ENCODE.key({"text": "a"})).outputs[0]
        ]
        chain.ENCODE.run(store, {"text": "truncated"})
        assert len(runs.read_run(store, "now").stages) == 2, "added at its next use"


def test_a_reader_during_a_write_misses_no_stage(chain, store, monkeypatch):
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


def unsealed(run: runs.Run) -> bytes:
    return run.model_dump_json().encode()


def renamed(run: runs.Run) -> bytes:
    return sealed(run.model_copy(update={"id": "other"}).model_dump(mode="json"))


@pytest.mark.parametrize(
    "content", [lambda _: b"", lambda _: sealed({"id": "broken"}), unsealed, renamed]
)
def test_a_broken_or_unsealed_run_is_refused_and_named_until_fsck(chain, store, content, caplog):
    for name in ("whole", "broken"):
        record_run(chain, store, name)
    file = store.root / "runs" / "broken.json"
    file.write_bytes(content(runs.read_run(store, "broken")))
    with pytest.raises(BrokenFileError, match=f"E605 .*{file}"):
        runs.read_run(store, "broken")
    with pytest.raises(BrokenFileError), runs.recording(store, "broken", [], {}, resumed=True):
        raise AssertionError("it is not resumed")
    with pytest.raises(BrokenFileError):  # it cannot know what the run used
        collect(store, [], keep_runs=1)
    caplog.clear()
    assert [run.id for run in runs.last_runs(store)] == ["whole"]
    assert str(file) in caplog.text
    assert len(fsck(store).corrupt) == 1
    assert [path.name.partition("-")[0] for path in store.quarantine.iterdir()] == ["broken.json"]
    assert collect(store, [], keep_runs=1).counts["objects"] == 0


def test_a_resumed_run_keeps_its_start_and_its_own_misses(chain, store):
    with suppress(KeyError), runs.recording(store, "mine", [], {}):
        chain.run_chain(rate=0.2)
        raise KeyError
    (failed,) = runs.last_runs(store)
    record_run(chain, store, "other", rate=0.3)
    with runs.recording(store, "mine", [], {}, resumed=True) as log:
        assert log.run.stages == failed.stages, "gc keeps them from the start"
        assert log.used == []
        chain.run_chain(rate=0.4)
    last, _ = runs.last_runs(store)
    assert (last.id, last.state, last.started) == ("mine", "completed", failed.started)
    assert stages_of(log.used) == THREE_MISSES
    assert last.stages == [*failed.stages, log.used[-1]]


def test_a_run_that_ends_during_the_read_was_not_killed(store, monkeypatch):
    ended = contextlib.ExitStack()
    ended.enter_context(runs.recording(store, "one", [], {}))

    def ends_now(path):
        ended.close()
        return is_locked(path)

    monkeypatch.setattr(runs, "is_locked", ends_now)
    assert runs.read_run(store, "one").state == "completed"


NOW = 1_900_000_000.0


def set_clock(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    monkeypatch.setattr(time, "time", lambda: seconds)
    monkeypatch.setattr(time, "time_ns", lambda: int(seconds * 1e9))


def test_runs_of_one_second_have_one_order(chain, store, monkeypatch):
    set_clock(monkeypatch, NOW)
    for name in ("b", "a", "c"):
        record_run(chain, store, name)
    assert [run.id for run in runs.last_runs(store)] == ["c", "b", "a"]


@pytest.mark.parametrize("leap", [-86_400, 86_400, -20 * 365 * 86_400])
def test_a_leap_of_the_clock_recomputes_and_removes_nothing(chain, store, monkeypatch, leap):
    machine = time.time()
    set_clock(monkeypatch, machine)
    first = record_run(chain, store, "before")
    chain.RAN.clear()
    with runs.recording(store, "active", [], {}):
        set_clock(monkeypatch, machine + leap)
        assert chain.run_chain() == first
        assert collect(store, [], keep_runs=0).counts["objects"] == 0
    assert chain.RAN == []
    assert {run.state for run in runs.last_runs(store)} == {"completed"}
