"""What faults come to, in numbers: the table of docs/reliability.md.

    python -m benchmarks.reliability --write

Runs are killed, artifacts are broken, processes meet at one stage; the same things that the tests
of `tests/faults` and `tests/store` do once, as often as is asked for. Ends with 1 where one of them
comes out otherwise than a run that was left alone.
"""

import argparse
import json
import logging
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import copytree, rmtree

from sentemb_core.errors import CorruptArtifactError
from sentemb_core.store import records
from sentemb_core.store.maintenance import fsck
from sentemb_core.store.objects import Store
from sentemb_core.types import ArtifactRef, Json
from tasks.tables.markdown import markdown_table, write_between_marks
from tests.faults.killed_runs import CHECKPOINT, TARGETS
from tests.faults.runs import ROOT, run_of
from tests.flows.corpora import write_corpus
from tests.store.racers import RACER

PAGE = ROOT / "docs" / "reliability.md"
RACERS = (2, 4, 8)
Line = tuple[str, str, str, bool]
"""What was done, how often, what came of it, and whether that is as it should be."""


def killed(source: Path, folder: Path, homes: int, undisturbed: Json) -> Line:
    """Runs that were killed in every stage, held against one that was not."""
    kills, equal = Counter[str](), 0
    for seed in range(homes):
        told = run_of(source, folder / f"killed-{seed}", seed, "killed_runs.py")
        kills += Counter(told["kills"])
        equal += told["survivor"] == undisturbed
    stages = len({*TARGETS} - {CHECKPOINT})
    return (
        f"`kill -9` of a run, {len(TARGETS)} times on its way: at a random moment of each of "
        f"{stages} stages, and {TARGETS.count(CHECKPOINT)} times past a checkpoint of a training",
        f"{homes} runs, {kills.total()} kills",
        f"the same encoders and scores to the last bit: {equal} of {homes}",
        equal == homes and kills.total() == homes * len(TARGETS),
    )


def flipped(content: bytearray, rng: random.Random) -> bytes:
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    return bytes(content)


def cut(content: bytearray, rng: random.Random) -> bytes:
    return bytes(content[: rng.randrange(len(content))])


def grown(content: bytearray, rng: random.Random) -> bytes:
    return bytes(content) + rng.randbytes(rng.randint(1, 64))


def overwritten(content: bytearray, rng: random.Random) -> bytes:
    begin = rng.randrange(len(content))
    some = content[begin : begin + 64]
    content[begin : begin + 64] = bytes(byte ^ 0xFF for byte in some)
    return bytes(content)


Way = Callable[[bytearray, random.Random], bytes]
WAYS: tuple[Way, ...] = (flipped, cut, grown, overwritten)


def change(file: Path, way: Way, rng: random.Random) -> None:
    """Other bytes in a file of the store, which nobody is meant to write to."""
    file.chmod(0o644)
    file.write_bytes(way(bytearray(file.read_bytes()), rng))


def artifacts_by_kind(store: Store) -> dict[str, list[ArtifactRef]]:
    """All that the stages of a home put out."""
    kinds = dict[str, list[ArtifactRef]]()
    for ref in dict.fromkeys(ref for record in records.every(store) for ref in record.outputs):
        kinds.setdefault(ref.kind, []).append(ref)
    return kinds


def broken(store: Store, mutations: int) -> Line:
    """An artifact of each kind, one file of it changed over and over."""
    rng, noticed = random.Random(0), 0
    kinds = artifacts_by_kind(store)
    for ref, *_ in kinds.values():
        folder = store.folder(ref.digest)
        with tempfile.TemporaryDirectory() as kept:
            copytree(folder, Path(kept) / "whole")
            files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
            files = [path for path in files if path.stat().st_size]
            for number in range(mutations):
                change(rng.choice(files), WAYS[number % len(WAYS)], rng)
                noticed += is_refused(store, ref)
                rmtree(folder, ignore_errors=True)
                copytree(Path(kept) / "whole", folder)
    done = len(kinds) * mutations
    return (
        "a file of a finished artifact changed: a bit flipped, its end cut off, bytes added, 64 "
        "bytes others",
        f"{len(kinds)} kinds of artifacts, {mutations} times each",
        f"noticed before anything read it, and set aside: {noticed} of {done}",
        noticed == done,
    )


def is_refused(store: Store, ref: ArtifactRef) -> bool:
    """Whether who asks for the artifact is told that it is broken, and it is in quarantine."""
    before = len([*store.quarantine.glob("*")])
    try:
        store.path(ref)
    except CorruptArtifactError:
        return len([*store.quarantine.glob("*")]) == before + 1
    return False


def rebuilt(source: Path, store: Store, undisturbed: Json) -> Line:
    """Runs after all artifacts of a kind were broken."""
    equal, kinds = 0, artifacts_by_kind(store)
    for refs in kinds.values():
        for ref in refs:
            files = [path for path in store.path(ref).rglob("*") if path.is_file()]
            change(max(files, key=lambda path: path.stat().st_size), flipped, random.Random(0))
        told = run_of(source, store.root, 0, "undisturbed_run.py")["survivor"]
        equal += told == undisturbed and not fsck(store).corrupt
    return (
        "a bit of all artifacts of a kind flipped, then the run again",
        f"{len(kinds)} kinds",
        f"what was broken is made anew, the encoders and scores are the same: {equal} of "
        f"{len(kinds)}",
        equal == len(kinds),
    )


def raced(folder: Path, times: int, racers: int, *, locked: bool) -> Line:
    """Processes that want the same stage at the same moment, again and again."""
    ran, well = list[int](), 0
    for number in range(times):
        home = folder / f"race-{racers}-{locked}-{number}"
        home.mkdir(parents=True)
        told = [json.loads(line) for line in race(home, racers, locked=locked)]
        ran.append(sum(made for _, made in told))
        well += len({digest for digest, _ in told}) == 1 and fsck(Store(home)).healthy
    locks = "" if locked else ", where the file system has no locks"
    more = sum(ran) - times
    return (
        f"{racers} processes that want one stage at once{locks}",
        f"{times} times",
        f"one whole artifact for all: {well} of {times}; computed in vain: {more}",
        well == times and (more == 0 or not locked),
    )


def race(home: Path, racers: int, *, locked: bool) -> Iterator[str]:
    """What each of them prints."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "store")])
    asked = {"SENTEMB_HOME": str(home), "RACERS": str(racers), "PYTHONPATH": path}
    asked |= {} if locked else {"NO_LOCKS": "1"}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", RACER],
            env=os.environ | asked,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(racers)
    ]
    for one in started:
        yield one.communicate(timeout=600)[0]


def lines(folder: Path, asked: argparse.Namespace) -> Iterator[Line]:
    """One fault after the other."""
    source, store = write_corpus(folder / "documents.jsonl"), Store(folder / "undisturbed")
    undisturbed = run_of(source, store.root, 0, "undisturbed_run.py")["survivor"]
    yield killed(source, folder, asked.homes, undisturbed)
    yield broken(store, asked.mutations)
    yield rebuilt(source, store, undisturbed)
    for locked in (True, False):
        for racers in RACERS:
            yield raced(folder, asked.races, racers, locked=locked)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--homes", type=int, default=6, help="Runs that are killed.")
    parser.add_argument("--mutations", type=int, default=100, help="Of an artifact of each kind.")
    parser.add_argument("--races", type=int, default=20, help="Of each number of processes.")
    parser.add_argument("--write", action="store_true", help="Into docs/reliability.md.")
    asked = parser.parse_args()
    logging.getLogger("sentemb_core").setLevel(logging.ERROR)  # it tells of each broken artifact
    found: list[Line] = []
    with tempfile.TemporaryDirectory() as folder:
        for line in lines(Path(folder), asked):
            print(*line, sep=" | ", flush=True)
            found.append(line)
    if asked.write:
        head = ["what was done", "how often", "what came of it"]
        write_between_marks(PAGE, "reliability", markdown_table(head, (told for *told, _ in found)))
    return 0 if all(well for *_, well in found) else 1


if __name__ == "__main__":
    raise SystemExit(main())
