"""Inject faults and count the outcomes: the table of docs/reliability.md.

    python -m benchmarks.reliability --write

Kills runs, corrupts artifacts, and lets processes race for one stage. The tests of `tests/faults`
and `tests/store` do the same once. The exit code is 1 if an outcome differs from an undisturbed
run.
"""

import argparse
import json
import logging
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import copytree, rmtree

from sentemb_core.errors import CorruptArtifactError
from sentemb_core.formats import counted
from sentemb_core.store import records
from sentemb_core.store.disk import replacing
from sentemb_core.store.maintenance import fsck
from sentemb_core.store.objects import Store
from sentemb_core.termination import STATUS
from sentemb_core.types import ArtifactRef, Json
from tests.faults.killed_runs import CHECKPOINT, TARGETS
from tests.faults.runs import ROOT, run_of
from tests.faults.sealed_files import sealed_files
from tests.flows.corpora import tiny_run, write_corpus
from tests.store.racers import RACER

PAGE = ROOT / "docs" / "reliability.md"
BEGIN, END = ("<!-- reliability:begin -->", "<!-- reliability:end -->")
RACERS = (2, 4, 8)
TOGETHER = 5
"""Runs that share a home, and with it the servers of Prefect and MLflow."""

SECONDS = 15.0
"""Most seconds from a SIGTERM to the exit."""

LONGEST_RUN = 40.0
"""Seconds of `python -m flows run` on the test corpus, start included, on a busy machine."""

Line = tuple[str, str, str, bool]
"""The fault, how often it was injected, the outcome, and whether the outcome is right."""


def killed(source: Path, folder: Path, homes: int, undisturbed: Json) -> Line:
    """Kill runs in every stage; compare their results with an undisturbed run."""
    kills, equal = Counter[str](), 0
    for seed in range(homes):
        result = run_of(source, folder / f"killed-{seed}", seed, "killed_runs.py")
        kills += Counter(result["kills"])
        equal += result["survivor"] == undisturbed
    stages = len({*TARGETS} - {CHECKPOINT})
    return (
        f"`kill -9` of a run, {len(TARGETS)} times: at a random moment of each of {stages} stages, "
        f"and {TARGETS.count(CHECKPOINT)} times after a checkpoint of a training",
        f"{homes} runs, {kills.total()} kills",
        f"equal encoders and scores to the last bit: {equal} of {homes}",
        equal == homes and kills.total() == homes * len(TARGETS),
    )


def terminated(source: Path, folder: Path, signals: int, undisturbed: Json) -> Line:
    """Send SIGTERM to runs at random moments; compare the survivor with an undisturbed run."""
    found = run_of(source, folder / "terminated", 0, "terminated_runs.py", str(signals))
    ended, slowest = Counter(found["statuses"])[STATUS], max(found["seconds"])
    unhandled = Counter(found["statuses"])[-signal.SIGTERM]  # in the first milliseconds
    equal = found["survivor"] == undisturbed
    return (
        "SIGTERM at a random moment of a run, then resume",
        f"{signals} signals",
        f"exit 143: {ended + unhandled} of {signals}, the slowest in {slowest:.1f} s; equal "
        f"encoders and scores at the end: {'yes' if equal else 'no'}",
        ended + unhandled == signals and slowest < SECONDS and equal,
    )


def terminated_programs(source: Path, folder: Path, signals: int) -> Line:
    """Send SIGTERM to `python -m flows run` and `resume`, from their start on."""
    home, rng, ended, seconds = folder / "programs", random.Random(0), 0, [0.0]
    config = folder / "programs.json"
    config.write_text(tiny_run(source, register_model=False).model_dump_json())
    while len(seconds) <= signals:
        begun = any(home.glob("runs/*.json"))
        verb = ["resume"] if begun else ["run", "--config", str(config)]
        process = subprocess.Popen(
            [sys.executable, "-m", "flows", *verb],
            cwd=ROOT,
            env=os.environ | {"SENTEMB_HOME": str(home), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            process.wait(rng.uniform(0.0, LONGEST_RUN))
        except subprocess.TimeoutExpired:
            began = time.monotonic()
            process.terminate()
            ended += process.wait() in (STATUS, -signal.SIGTERM)
            seconds.append(time.monotonic() - began)
        else:  # it ended first
            rmtree(home)
    return (
        "SIGTERM at a random moment of `python -m flows run` or `resume`, start-up included",
        f"{signals} signals",
        f"exit 143: {ended} of {signals}, the slowest in {max(seconds):.1f} s",
        ended == signals and max(seconds) < SECONDS,
    )


def together(source: Path, folder: Path, homes: int, undisturbed: Json) -> Line:
    """Start several `python -m flows run` at once in one home; compare each with `undisturbed`."""
    config, failed, equal, log = folder / "together.json", 0, 0, ""
    config.write_text(tiny_run(source).model_dump_json())
    for number in range(homes):
        home = folder / f"together-{number}"
        started = [
            subprocess.Popen(
                [sys.executable, "-m", "flows", "run", "--config", str(config), "--json"],
                cwd=ROOT,
                env=os.environ | {"SENTEMB_HOME": str(home), "OMP_NUM_THREADS": "1"},
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            for _ in range(TOGETHER)
        ]
        for process in started:
            output, _ = process.communicate()
            failed += process.returncode != 0
            outcome = json.loads(output or "{}")
            equal += all(outcome.get(key) == value for key, value in undisturbed.items())
        log += "".join(file.read_text("utf-8") for file in sorted((home / "logs").glob("*.log")))
    runs = homes * TOGETHER
    refused = sum(log.count(words) for words in ("database is locked", "503 Service Unavailable"))
    return (
        f"{TOGETHER} `python -m flows run` at once in one home",
        counted(homes, "time"),
        f"exit 0: {runs - failed} of {runs}; equal encoders and scores: {equal} of {runs}; "
        f"refusals of a busy database in the logs: {refused}",
        not failed and equal == runs,
    )


def unnoticed(home: Path, flips: int) -> Line:
    """Flip bits of every sealed file that is read back; count accepted changes."""
    rng, accepted = random.Random(0), 0
    files = sealed_files(home)
    for each in files.values():
        written = list(each.values())
        for _ in range(flips):
            found = each.accepted_after(rng.randrange(1 << 20))
            accepted += any(value not in written for value in found)
    return (
        f"flip a bit in a file of the home that is read back: {', '.join(kind for kind in files)}",
        f"{len(files)} kinds, {flips} times each",
        f"a changed value accepted: {accepted} of {len(files) * flips}",
        accepted == 0,
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
    """Write other bytes into a read-only file of the store."""
    file.chmod(0o644)
    file.write_bytes(way(bytearray(file.read_bytes()), rng))


def artifacts_by_kind(store: Store) -> dict[str, list[ArtifactRef]]:
    """Return the outputs of all stages, by kind."""
    kinds = dict[str, list[ArtifactRef]]()
    outputs = (ref for record in records.all_records(store) for ref in record.outputs)
    for ref in dict.fromkeys(outputs):
        kinds.setdefault(ref.kind, []).append(ref)
    return kinds


def broken(store: Store, mutations: int) -> Line:
    """Change one file of an artifact of each kind, again and again."""
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
        "change a file of a finished artifact: flip a bit, truncate, append bytes, overwrite 64 "
        "bytes",
        f"{len(kinds)} kinds of artifacts, {mutations} times each",
        f"detected before any read, and quarantined: {noticed} of {done}",
        noticed == done,
    )


def is_refused(store: Store, ref: ArtifactRef) -> bool:
    """Return whether a read raises CorruptArtifactError and quarantines the artifact."""
    before = len([*store.quarantine.glob("*")])
    try:
        store.path(ref)
    except CorruptArtifactError:
        return len([*store.quarantine.glob("*")]) == before + 1
    return False


def rebuilt(source: Path, store: Store, undisturbed: Json) -> Line:
    """Corrupt all artifacts of a kind, then repeat the run."""
    equal, kinds = 0, artifacts_by_kind(store)
    for refs in kinds.values():
        for ref in refs:
            files = [path for path in store.path(ref).rglob("*") if path.is_file()]
            change(max(files, key=lambda path: path.stat().st_size), flipped, random.Random(0))
        survivor = run_of(source, store.root, 0, "undisturbed_run.py")["survivor"]
        equal += survivor == undisturbed and not fsck(store).corrupt
    return (
        "flip a bit in all artifacts of a kind, then repeat the run",
        f"{len(kinds)} kinds",
        f"corrupt artifacts are computed again, equal encoders and scores: {equal} of {len(kinds)}",
        equal == len(kinds),
    )


def raced(folder: Path, times: int, racers: int, *, locked: bool) -> Line:
    """Let processes request the same stage at the same moment, several times."""
    ran, well = list[int](), 0
    for number in range(times):
        home = folder / f"race-{racers}-{locked}-{number}"
        home.mkdir(parents=True)
        outputs = [json.loads(line) for line in race(home, racers, locked=locked)]
        ran.append(sum(made for _, made in outputs))
        well += len({digest for digest, _ in outputs}) == 1 and fsck(Store(home)).healthy
    locks = "" if locked else ", on a file system without locks"
    more = sum(ran) - times
    return (
        f"{racers} processes request one stage at once{locks}",
        f"{times} times",
        f"one complete artifact for all: {well} of {times}; redundant computations: {more}",
        well == times and (more == 0 or not locked),
    )


def race(home: Path, racers: int, *, locked: bool) -> Iterator[str]:
    """Start the processes and yield the output of each."""
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


def lines(folder: Path, options: argparse.Namespace) -> Iterator[Line]:
    """Yield a line for each kind of fault."""
    source, store = write_corpus(folder / "documents.jsonl"), Store(folder / "undisturbed")
    undisturbed = run_of(source, store.root, 0, "undisturbed_run.py")["survivor"]
    yield killed(source, folder, options.homes, undisturbed)
    yield terminated(source, folder, options.signals, undisturbed)
    yield terminated_programs(source, folder, options.programs)
    yield together(source, folder, options.crowds, undisturbed)
    yield unnoticed(folder / "sealed", options.flips)
    yield broken(store, options.mutations)
    yield rebuilt(source, store, undisturbed)
    for locked in (True, False):
        for racers in RACERS:
            yield raced(folder, options.races, racers, locked=locked)


def around_table() -> tuple[str, str]:
    """Return the page before the table and behind it, each with its mark."""
    before, begin, rest = PAGE.read_text("utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    assert (begin, end) == (BEGIN, END), f"{PAGE} needs {BEGIN} and {END} around its table"
    return before + begin, end + after


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--homes", type=int, default=6, help="Runs to kill.")
    parser.add_argument("--mutations", type=int, default=100, help="Changes a kind of artifact.")
    parser.add_argument("--signals", type=int, default=200, help="SIGTERMs to forked runs.")
    parser.add_argument("--programs", type=int, default=20, help="SIGTERMs to programs.")
    parser.add_argument("--crowds", type=int, default=4, help="Times that runs share a home.")
    parser.add_argument("--flips", type=int, default=1000, help="Flipped bits a kind of file.")
    parser.add_argument("--races", type=int, default=20, help="Races for each number of processes.")
    parser.add_argument("--write", action="store_true", help="Into docs/reliability.md.")
    options = parser.parse_args()
    logging.getLogger("sentemb_core").setLevel(logging.ERROR)  # not a line an artifact
    if options.write:
        around_table()  # the run takes hours: fail before it
    found: list[Line] = []
    with tempfile.TemporaryDirectory() as folder:
        for line in lines(Path(folder), options):
            print(*line, sep=" | ", flush=True)
            found.append(line)
    if options.write:
        table = [("fault", "how often", "outcome"), ("---", "---", "---")]
        table += [(fault, times, outcome) for fault, times, outcome, _ in found]
        text = "\n".join(f"| {' | '.join(cells)} |" for cells in table)
        before, after = around_table()
        with replacing(PAGE) as draft:
            draft.write_text(f"{before}\n{text}\n{after}", encoding="utf-8")
    return 0 if all(well for *_, well in found) else 1


if __name__ == "__main__":
    raise SystemExit(main())
