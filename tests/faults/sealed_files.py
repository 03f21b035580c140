"""A home with one file of each sealed kind, and the values that its readers accept."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from sentemb_core.errors import SentembError
from sentemb_core.store import records, runs
from sentemb_core.store.objects import Store
from sentemb_core.store.stages import Running
from sentemb_core.training.checkpoint import Checkpoint, last_checkpoint, save_checkpoint
from sentemb_core.types import ArtifactRef
from tasks.delivery import Event, Sent, Spool, digest_of
from tasks.servers import known_registries, note_registry

KINDS = (
    "record of a stage",
    "run",
    "stages of a running run",
    "seconds of a training",
    "manifest of a checkpoint",
    "checkpoint",
    "events of a spool",
    "marks of a spool",
    "kept file of a spool",
    "list of registries",
)


@dataclass(frozen=True)
class Sealed:
    """A file, and what its reader accepts of it; a refused file or line gives nothing."""

    file: Path
    values: Callable[[], Sequence[Any]]

    def accepted_after(self, bit: int) -> Sequence[Any]:
        """Flip a bit of the file, read it, and restore the file."""
        content = self.file.read_bytes()
        changed = bytearray(content)
        changed[bit // 8 % len(content)] ^= 1 << bit % 8
        self.file.write_bytes(changed)
        try:
            return self.values()
        except SentembError:
            return []
        finally:
            self.file.write_bytes(content)


def sealed_files(home: Path) -> dict[str, Sealed]:
    """Write one file of each kind and return them by kind."""
    store = Store(home)
    files = [*_of_stages(store), *_of_a_training(store), *_of_mlflow(home)]
    made = dict(zip(KINDS, files, strict=True))
    assert all(each.values() for each in made.values()), "an unbroken file is accepted"
    return made


def _of_stages(store: Store) -> Iterator[Sealed]:
    ref = ArtifactRef(kind="model", digest="a" * 64, size=7)
    record = records.Record(
        stage="train",
        key="b" * 64,
        parts={"arguments.rate": 0.1},
        inputs=[],
        outputs=[ref],
        result={"model": ref.model_dump()},
        seconds=1.5,
        created=2.5,
    )
    records.write(store, record)
    yield Sealed(store.root / f"records/train/{'b' * 64}.json", lambda: records.all_records(store))

    config = {"name": "blog", "training": {"steps": 500, "rate": 5e-05}}
    with runs.recording(store, "ended", ["python", "-m", "flows", "resume", "ended"], config):
        runs.note(record, hit=False)
    yield Sealed(store.root / "runs/ended.json", lambda: [runs.read_run(store, "ended")])

    log = runs.RunLog(store, runs.Run(**runs.read_run(store, "ended").model_dump() | {"id": "on"}))
    log.update(stages=[])
    for number in range(3):
        used = record.model_copy(update={"key": f"{number}" * 64})
        log.add(runs.Used(hit=False, **used.model_dump(include=runs.Used.model_fields.keys())))
    known = runs.read_run(store, "on").stages
    assert len(known) == 3
    yield Sealed(store.root / "runs/on.jsonl", lambda: runs.read_run(store, "on").stages)


def _of_a_training(store: Store) -> Iterator[Sealed]:
    Running(store, "train", "key", began=0.0).save_seconds()
    folder = store.root / "work" / "train-key"
    yield Sealed(
        folder / "seconds",
        lambda: [spent for spent in [Running(store, "train", "key").earlier_seconds] if spent],
    )
    save_checkpoint(folder, 10, Checkpoint({"weight": torch.arange(8.0)}, "facts"))

    def restored() -> list[Any]:
        found = last_checkpoint(folder)
        return [(found.facts, found.tensors["weight"].tolist())] if found else []

    yield Sealed(folder / "step-00000010.json", restored)
    yield Sealed(folder / "step-00000010.safetensors", restored)


def _of_mlflow(home: Path) -> Iterator[Sealed]:
    spool = Spool(home / "spool" / "ended")
    spool.folder.mkdir(parents=True)
    report = home / "report.html"
    report.write_text("<p>recall .476</p>")
    kept = spool.keep(report)
    spool.append(Event(run="", kind="start", values={"name": "blog"}))
    spool.append(Event(run="round-1", kind="metrics", values={"loss": 0.25}, step=3))
    spool.append(Event(run="", kind="artifact", values=kept))
    events = [event for _, event in spool.after(0)]
    yield Sealed(
        spool.events,
        lambda: [event for _, event in spool.after(0) if event.kind != "broken"],
    )
    assert [event.kind for event in events] == ["start", "metrics", "artifact"]
    spool.mark(Sent(tracker="http://127.0.0.1:9", offset=12, experiment="1", ids={"": "c" * 32}))
    yield Sealed(
        spool.folder / "sent.json", lambda: [sent for sent in [spool.sent] if sent != Sent()]
    )
    copy = spool.folder / str(kept["file"])
    yield Sealed(copy, lambda: [digest for digest in [digest_of(copy)] if digest == kept["sha256"]])
    note_registry(home)
    yield Sealed(home / "registries.txt", lambda: known_registries(home))
