"""Runs that are on record, by name or the last of a kind."""

import re
from typing import TYPE_CHECKING

from sentemb_core.config.run import RunConfig
from sentemb_core.errors import UsageError
from sentemb_core.types import Json

if TYPE_CHECKING:
    from sentemb_core.store.runs import Run, State
    from tasks.publish import Outcome


FIRST = (
    "None was begun with this home ($SENTEMB_HOME): `python -m flows run documents.jsonl` begins "
    "one of your documents, `python -m flows demo` one of a shipped sample."
)

REFUSED = re.compile(r"E(001|[1235]\d\d|402) (?!.*The network broke off)")
"""How errors of settings, data or models begin: the same run meets them again."""


def found_run(run: str | None, *states: "State", made: str = "") -> "Run":
    """The named run, else the last one (of those in these states, which made such an artifact)."""
    from sentemb_core.store.objects import Store
    from sentemb_core.store.runs import last_runs

    known = last_runs(Store.default())
    wanted = [
        one
        for one in known
        if (one.id == run if run else not states or one.state in states)
        and (run or not made or made in {ref.kind for ref in one.outputs})
    ]
    if not wanted:
        asked = repr(run) if run else f"that is {' or '.join(states) or 'recorded'}"
        raise UsageError(
            f"There is no run {asked} in {Store.default().root}. {there_are(known, run)}"
        )
    return wanted[0]


def there_are(known: "list[Run]", asked: str | None) -> str:
    """Which runs a person may have meant: those of a name, else the last."""
    if not known:
        return FIRST
    name = re.fullmatch(r"(?:models:/)?([\w-]+)(?:[@/][\w-]+)?", asked or "")
    named = [one for one in known if name and one.config.get("name") == name[1]]
    listed = ", ".join(f"{one.id} ({one.state})" for one in (named or known)[:5])
    rule = "A run is named by its id, not by its model or its name. " if named else ""
    return f"{rule}{f'Those of {name[1]!r}' if name and named else 'The last'}: {listed}."


def waiting_runs() -> "list[Run]":
    """Runs that failed or were killed, and that no later one with their settings made up for.

    `resume` goes on with the first, however many others came after it: the last that was ended or
    lacked something outside, before all that would fail again for their data or settings.
    """
    from sentemb_core.store.objects import Store
    from sentemb_core.store.runs import last_runs

    ended: list[Json] = []
    waiting: list[Run] = []
    for run in last_runs(Store.default()):
        if run.state in ("failed", "killed") and run.config not in ended:
            waiting.append(run)
        if run.state != "running":
            ended.append(run.config)
    return sorted(waiting, key=lambda run: bool(REFUSED.match(run.error)))


def unfinished_run(run: str | None) -> "Run":
    """The named run, else the first that waits (`waiting_runs`)."""
    found = found_run(run) if run else next(iter(waiting_runs()), None)
    if found is None:
        from sentemb_core.store.objects import Store
        from sentemb_core.store.runs import last_runs

        known = last_runs(Store.default())
        raise UsageError(
            "There is no run that is failed or killed, and that none made up for later, in "
            f"{Store.default().root}. {there_are(known, None)}"
        )
    match found.state:
        case "completed":
            raise UsageError(
                f"Run {found.id} is finished, there is nothing to go on with: `python -m flows "
                f"status {found.id}` says whether anything would run again."
            )
        case "running":
            raise UsageError(
                f"Run {found.id} is running in another process, which has to end first."
            )
        case _:
            return found


def require_its_documents(run: "Run", config: RunConfig) -> None:
    """That the source is what the run read: one record has the numbers of one corpus.

    Raises:
        UsageError: it has become another.
    """
    from sentemb_core.store import records
    from sentemb_core.store.objects import Store
    from tasks.sources import digest_of_corpus

    keys = {used.key for used in run.stages if used.stage == "read_corpus"}
    read = {
        record.parts["arguments.config.source"]
        for record in records.all_records(Store.default(), "read_corpus")
        if record.key in keys
    }
    if read and digest_of_corpus(config.corpus) not in read:
        raise UsageError(
            f"A run is of one corpus, and {config.corpus.source} has changed since run {run.id} "
            "read it. Put the file back that it was, or begin a new run: stages that the change "
            "does not concern are kept."
        )


def outcome_of(run: str | None) -> "tuple[Run, Outcome]":
    """A finished run (the last one if none is named) and its outcome."""
    from sentemb_core.store.objects import Store
    from tasks.publish import read_outcome

    found = found_run(run, "completed", made="outcome")
    if {"corpora", "models", "experiment", "compare"} & found.config.keys():
        raise UsageError(f"Run {found.id} is a table, which returns no encoder: name another run.")
    refs = [ref for ref in found.outputs if ref.kind == "outcome"]
    if not refs:
        raise UsageError(
            f"Run {found.id} has no outcome yet (it is {found.state}): "
            f"`python -m flows resume {found.id}` finishes it."
        )
    return found, read_outcome(Store.default().path(refs[0]))
