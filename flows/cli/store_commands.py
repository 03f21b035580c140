"""The verbs around what runs left: reports, registry, lineage, clean-up; and the servers."""

import os
import sys
from pathlib import Path

from flows.cli.records import outcome_of
from flows.cli.settings import checked, place_of
from flows.environment import prepare
from sentemb_core.console import debugging, emit, remark, show, terminal_table
from sentemb_core.errors import GateRefusedError
from sentemb_core.formats import are, counted
from sentemb_core.types import ArtifactRef

GARBAGE = {
    "records": "record",
    "objects": "object",
    "drafts": "draft",
    "work": "working folder",
    "quarantined": "quarantined file",
    "locks": "lock",
}
"""What one of each kind that `gc` removes is called."""

WAY_OUT = (
    "`python -m flows gc` removes the records of what is missing; the next run that needs it "
    "makes it anew."
)


def lineage_command(model: str, as_json: bool) -> int:
    prepare()
    from flows.cli.lineage_table import lineage_table
    from sentemb_core.store.objects import Store
    from sentemb_core.store.records import lineage

    found = lineage(Store.default(), artifact_of(model))
    if as_json:
        emit(found.model_dump(mode="json"))
    else:
        show(lineage_table(found), "--json has every parameter, and the digests of keys and code.")
    return 0


def artifact_of(model: str) -> ArtifactRef:
    """From a registered model, a run's id, or the beginning of a digest."""
    from sentemb_core.store.objects import Store

    if model.startswith("models:/"):
        from tasks.model_versions import find_version

        return find_version(model).artifact
    if any(character not in "0123456789abcdef" for character in model):
        return outcome_of(model)[1].encoder
    return Store.default().find(model)


def report_command(run: str | None, as_json: bool) -> int:
    prepare()
    from tasks.run_report import write_report_of

    found, outcome = outcome_of(run)
    page = write_report_of(outcome, checked(found.config))
    if as_json:
        emit({"run": found.id, "report": str(page)})
    else:
        show(f"Report: {page}")
    return 0


def register_command(run: str | None, as_json: bool) -> int:
    prepare()
    from tasks.gate import registered

    found, outcome = outcome_of(run)
    version = registered(checked(found.config), outcome.training, outcome.encoder, outcome.run)
    if as_json:
        emit({"uri": version.uri, "name": version.name, "version": version.version})
    else:
        show(f"Registered: {version.uri}")
    return 0


def promote_command(run: str | None, as_json: bool) -> int:
    prepare()
    from sentemb_core.store.objects import Store
    from tasks.execution import without_prefect
    from tasks.gate import landed

    found, outcome = outcome_of(run)
    config = checked(found.config)
    if run is None and not config.register_model:
        remark(
            f"Run {found.id}, the last that finished, was made with register_model=false: it is "
            "registered now. `promote ID` takes another."
        )
    with without_prefect(Store.default()):  # one question is not worth a server
        landing = landed(config, outcome.training, outcome.encoder, outcome.run)
    if as_json:
        emit(landing.model_dump(mode="json"))
    elif landing.alias == "champion":
        show(landing.told)
    if landing.alias != "champion":
        raise GateRefusedError(landing.told)
    return 0


def canary_command(index: Path, model: str, as_json: bool) -> int:
    prepare()
    from sentemb_core.cli import tell_match
    from tasks.model_versions import find_version
    from tasks.registered_encoders import check_comparable, compare_with

    check_comparable(index)
    version = find_version(model).uri  # an alias may have moved by the time that this is read
    return tell_match(compare_with(version, index), index, version, json=as_json)


def resolved(model: str) -> Path:
    """The folder of a registered model (verified), or the folder itself."""
    prepare()
    from tasks.registered_encoders import resolve

    return resolve(model)


def named(model: str) -> str:
    """What `sentemb` calls a model: a registered one's verified folder, others as they are."""
    prepare()
    return place_of(model)


def serve_command(port: int, seconds: float | None, mlflow: bool) -> int:
    """The roof stands on the flows, so it is started as a program of its own."""
    prepare()
    pages = ", and MLflow's pages" if mlflow else ""
    remark(f"Starting Prefect's server and its worker{pages}: up to a minute.")
    command = [sys.executable, "-m", "deployments", "--port", str(port)]
    command += ["--for", str(seconds)] if seconds is not None else []
    flags = {"--mlflow": mlflow, "--debug": debugging()}
    os.execv(sys.executable, [*command, *(flag for flag, given in flags.items() if given)])


def doctor_command(as_json: bool) -> int:
    folder = prepare()
    from tasks.doctor import findings

    told = findings(folder)
    if as_json:
        emit([finding.__dict__ for finding in told])
    else:
        rows = [("ok" if one.ok else "BAD", one.what, one.found) for one in told]
        show(terminal_table(("", "what", "found"), rows))
    return 0 if all(finding.ok for finding in told) else 5


def gc_command(keep_runs: int, dry_run: bool, as_json: bool) -> int:
    prepare()
    from sentemb_core.store.maintenance import collect
    from sentemb_core.store.objects import Store
    from tasks.model_versions import registered_artifacts

    garbage = collect(Store.default(), registered_artifacts(), keep_runs, dry_run=dry_run)
    if as_json:
        emit(garbage.model_dump(mode="json"))
    else:
        removed = [counted(n, GARBAGE[kind]) for kind, n in garbage.counts.items() if n]
        what = ", ".join(removed) or "nothing"
        kept = counted(garbage.kept_objects, "artifact")
        show(
            f"{'Would remove' if dry_run else 'Removed'} {what}: {garbage.bytes / 1e6:,.1f} MB; "
            f"{kept} kept. What is younger than an hour always is."
        )
    return 0


def fsck_command(as_json: bool) -> int:
    prepare()
    from sentemb_core.store.maintenance import fsck
    from sentemb_core.store.objects import Store

    found = fsck(Store.default())
    if as_json:
        emit(found.model_dump(mode="json"))
    else:
        size = f"{found.bytes / 1e6:,.1f} MB"
        lines = [f"{counted(found.ok, 'artifact')} {are(found.ok)} whole ({size})."]
        lines += [f"corrupt, now in quarantine: {line}" for line in found.corrupt]
        lines += [f"missing: {ref}" for ref in found.missing]
        lines += [WAY_OUT] * bool(found.missing)
        lines += [f"stray: {path}" for path in found.stray]
        show("\n".join(lines))
    return 0 if found.healthy else 5
