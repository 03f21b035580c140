"""Recorded runs, found by id or the last of a kind; and records that Python passes as a corpus."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentemb_core.config.run import RunConfig
from sentemb_core.errors import UsageError
from sentemb_core.store.disk import replacing
from sentemb_core.store.objects import Store
from sentemb_core.store.records import all_records
from sentemb_core.store.runs import Run, last_runs
from sentemb_core.types import Json

if TYPE_CHECKING:
    from tasks.report import Outcome

NO_RUNS = (
    "Start one: `python -m flows run documents.jsonl`, or `python -m flows demo`. Or set "
    "SENTEMB_HOME to the home that has runs."
)

FAILS_AGAIN = re.compile(r"E(001|[1235]\d\d|402) (?!.*The network broke off)")
"""Errors of settings, data or models: the same run fails with them again."""

TABLES = {"models", "experiment", "compare"}
"""Keys in the settings of a table, which returns no encoder."""


def find_run(run: str | None, *, completed: bool = False) -> Run:
    """Return the run of this id; without an id the last one, or the last that has an outcome.

    Raises:
        UsageError: there is no such run.
    """
    known = last_runs(Store.default())
    if run:
        matching = [record for record in known if record.id == run]
    else:
        matching = [record for record in known if not completed or has_outcome(record)]
    if not matching:
        asked = f"run {run!r}" if run else "completed run" if completed else "run"
        raise UsageError(f"{Store.default().root} has no {asked}. {suggestions(known, run)}")
    return matching[0]


def has_outcome(run: Run) -> bool:
    return run.state == "completed" and any(ref.kind == "outcome" for ref in run.outputs)


def suggestions(known: list[Run], asked: str | None) -> str:
    """Ids of the runs of a model's name, else of the last five."""
    if not known:
        return NO_RUNS
    name = re.fullmatch(r"(?:models:/)?([\w-]+)(?:[@/][\w-]+)?", asked or "")
    named = [run for run in known if name and run.config.get("name") == name[1]]
    listed = ", ".join(f"{run.id} ({run.state})" for run in (named or known)[:5])
    if name and named:
        return f"Use the id of a run, not its name. Runs of {name[1]!r}: {listed}."
    return f"Last runs: {listed}."


def waiting_runs() -> list[Run]:
    """Failed or killed runs whose settings no later run finished.

    `resume` continues the first: the last run that somebody ended or that lacked something outside.
    Runs that would fail again because of their data or settings come last.
    """
    ended: list[Json] = []
    waiting: list[Run] = []
    for run in last_runs(Store.default()):
        if run.state in ("failed", "killed") and run.config not in ended:
            waiting.append(run)
        if run.state != "running":
            ended.append(run.config)
    return sorted(waiting, key=lambda run: bool(FAILS_AGAIN.match(run.error)))


def unfinished_run(run: str | None) -> Run:
    """Return the run of this id, else the first of `waiting_runs`.

    Raises:
        UsageError: there is none, or it is completed or running.
    """
    record = find_run(run) if run else next(iter(waiting_runs()), None)
    if record is None:
        store = Store.default()
        raise UsageError(
            f"There is no failed or killed run to resume in {store.root}. "
            f"{suggestions(last_runs(store), None)}"
        )
    if record.state == "completed":
        raise UsageError(
            f"Run {record.id} is completed. `python -m flows status {record.id}` shows whether "
            "anything would run again."
        )
    if record.state == "running":
        raise UsageError(f"Run {record.id} is running in another process. Wait for its end.")
    return record


def require_same_corpus(run: Run, config: RunConfig) -> None:
    """Check that the source still has the bytes that the run read.

    Raises:
        UsageError: it has changed.
    """
    from tasks.sources import digest_of_corpus

    keys = {stage.key for stage in run.stages if stage.stage == "read_corpus"}
    read = {
        record.parts["arguments.config.source"]
        for record in all_records(Store.default(), "read_corpus")
        if record.key in keys
    }
    if read and digest_of_corpus(config.corpus) not in read:
        raise UsageError(
            f"{config.corpus.source} has changed since run {run.id} read it, and a run has one "
            "corpus. Restore the file, or start a new run: it reuses every stage that the change "
            "does not affect."
        )


def outcome_of(run: str | None) -> "tuple[Run, Outcome]":
    """Return a run (without an id the last completed one) and its outcome.

    Raises:
        UsageError: there is no such run, or it has no outcome.
    """
    record = find_run(run, completed=True)
    if TABLES & record.config.keys():
        raise UsageError(f"Run {record.id} is a table and returns no encoder. Name another run.")
    outcome = stored_outcome(record)
    if outcome is None:
        raise UsageError(
            f"Run {record.id} has no outcome yet ({record.state}). Finish it with "
            f"`python -m flows resume {record.id}`."
        )
    return record, outcome


def stored_outcome(run: Run) -> "Outcome | None":
    """Return the outcome of a run; None if it has none.

    A run that failed in the registry has one: its encoder is trained, validated and reported.
    """
    from tasks.report import read_outcome

    refs = [ref for ref in run.outputs if ref.kind == "outcome"]
    return read_outcome(Store.default().path(refs[0])) if refs else None


def stored_records(records: Iterable[Mapping[str, Any]]) -> tuple[Path, dict[str, str]]:
    """Write records to a file of the home, named by its bytes; return it and its columns.

    The columns are those of the first record: id, text or sentences, title.

    Raises:
        UsageError: no record, or one that is not JSON.
    """
    rows = list(records)
    if not rows:
        raise UsageError("A run needs documents; found no record. Pass records, or a file.")
    try:
        content = "".join(json.dumps(dict(row)) + "\n" for row in rows).encode()
    except (TypeError, ValueError) as error:
        raise UsageError(f"A record holds texts and lists of texts: {error}.") from error
    folder = Store.default().root / "inputs"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{hashlib.sha256(content).hexdigest()[:16]}.jsonl"
    with replacing(file) as draft:
        draft.write_bytes(content)
    named = {"id_column": "id", "counterpart_column": "title"}
    named |= {f"{name}_column": name for name in ("text", "sentences")}
    return file, {option: name for option, name in named.items() if name in rows[0]}
