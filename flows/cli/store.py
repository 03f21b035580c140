"""Verbs on what runs saved: report, registry, lineage, clean-up; and the servers."""

import os
import sys
from pathlib import Path

from flows.cli.records import outcome_of
from flows.cli.settings import checked
from flows.environment import prepare
from sentemb_core.console import (
    debugging,
    emit,
    print_result,
    remark,
    show,
    terminal_table,
)
from sentemb_core.errors import GateRefusedError
from sentemb_core.formats import counted
from sentemb_core.types import ArtifactRef
from tasks.registered_encoders import check_comparable, compare_with, find_encoder, local_name

GARBAGE = {
    "records": "record",
    "objects": "object",
    "drafts": "draft",
    "work": "working folder",
    "quarantined": "quarantined file",
    "locks": "lock",
}
"""Kinds that `gc` removes, as nouns."""


def lineage_command(model: str, as_json: bool) -> int:
    prepare()
    from flows.cli.lineage import lineage_table
    from sentemb_core.store.objects import Store
    from sentemb_core.store.records import lineage

    origins = lineage(Store.default(), artifact_of(model))
    note = "--json adds all parameters, and digests of keys and code."
    return print_result(
        origins.model_dump(mode="json"), lineage_table(origins), note, as_json=as_json
    )


def artifact_of(model: str) -> ArtifactRef:
    """Artifact of a registered model, of a run by its id, or by the beginning of its digest."""
    from sentemb_core.store.objects import Store

    if model.startswith("models:/"):
        from tasks.registry import find_version

        return find_version(model).artifact
    if any(character not in "0123456789abcdef" for character in model):
        return outcome_of(model)[1].encoder
    return Store.default().find(model)


def report_command(run: str | None, as_json: bool) -> int:
    prepare()
    from tasks.report import write_report_of

    record, outcome = outcome_of(run)
    page = write_report_of(outcome, checked(record.config))
    value = {"run": record.id, "report": str(page)}
    return print_result(value, f"Report: {page}", as_json=as_json)


def register_command(run: str | None, as_json: bool) -> int:
    prepare()
    from tasks.gate import registered_version

    record, outcome = outcome_of(run)
    config = checked(record.config)
    version = registered_version(config, outcome.training, outcome.encoder, outcome.run)
    value = {"uri": version.uri, "name": version.name, "version": version.version}
    return print_result(value, f"Registered: {version.uri}", as_json=as_json)


def promote_command(run: str | None, as_json: bool) -> int:
    prepare()
    from sentemb_core.store.objects import Store
    from tasks.execution import without_prefect
    from tasks.gate import register_and_gate

    record, outcome = outcome_of(run)
    config = checked(record.config)
    if run is None and not config.register_model:
        remark(
            f"Registering the last completed run, {record.id}, although it has "
            "register_model=false. Use `promote ID` for another run."
        )
    with without_prefect(Store.default()):  # one stage is not worth a server
        gate = register_and_gate(config, outcome.training, outcome.encoder, outcome.run)
    if as_json:
        emit(gate.model_dump(mode="json"))
    elif gate.alias == "champion":
        show(gate.text)
    if gate.alias != "champion":
        raise GateRefusedError(gate.text)
    return 0


def canary_command(index: Path, model: str, as_json: bool) -> int:
    prepare()
    from sentemb_core.cli import show_match
    from tasks.registry import find_version

    check_comparable(index)
    version = find_version(model).uri  # an alias may move later
    return show_match(compare_with(version, index), index, version, json=as_json)


def verified_folder(model: str) -> Path:
    """Verified folder of a registered model; of a folder, itself."""
    prepare()
    return find_encoder(model)


def local_encoder(model: str) -> str:
    """The name under which `sentemb` finds an encoder: the folder of a registered one."""
    prepare()
    return local_name(model)


def serve_command(port: int, seconds: float | None, mlflow: bool) -> int:
    """Replace this process by the deployments: flows must not import them."""
    prepare()
    pages = ", and MLflow's pages" if mlflow else ""
    remark(f"Starting Prefect's server and worker{pages}. This takes up to a minute.")
    command = [sys.executable, "-m", "deployments", "--port", str(port)]
    command += ["--for", str(seconds)] if seconds is not None else []
    flags = {"--mlflow": mlflow, "--debug": debugging()}
    os.execv(sys.executable, [*command, *(flag for flag, given in flags.items() if given)])


def doctor_command(as_json: bool) -> int:
    folder = prepare()
    from tasks.doctor import machine_checks

    checks = machine_checks(folder)
    rows = [("ok" if check.ok else "BAD", check.what, check.found) for check in checks]
    table = terminal_table(("", "what", "found"), rows)
    print_result([check.__dict__ for check in checks], table, as_json=as_json)
    return 0 if all(check.ok for check in checks) else 5


def gc_command(keep_runs: int, dry_run: bool, as_json: bool) -> int:
    prepare()
    from sentemb_core.store.maintenance import collect
    from sentemb_core.store.objects import Store
    from tasks.registry import registered_artifacts

    garbage = collect(Store.default(), registered_artifacts(), keep_runs, dry_run=dry_run)
    removed = [counted(n, GARBAGE[kind]) for kind, n in garbage.counts.items() if n]
    what = ", ".join(removed) or "nothing"
    kept = counted(garbage.kept_objects, "artifact")
    text = (
        f"{'Would remove' if dry_run else 'Removed'} {what}: {garbage.bytes / 1e6:,.1f} MB; "
        f"{kept} kept. Files younger than an hour are always kept."
    )
    return print_result(garbage.model_dump(mode="json"), text, as_json=as_json)


def fsck_command(as_json: bool) -> int:
    prepare()
    from sentemb_core.store.maintenance import fsck
    from sentemb_core.store.objects import Store

    result = fsck(Store.default())
    lines = [f"intact: {counted(result.ok, 'artifact')} ({result.bytes / 1e6:,.1f} MB)"]
    lines += [f"corrupt, moved to quarantine: {line}" for line in result.corrupt]
    lines += [f"missing: {ref}" for ref in result.missing]
    if result.missing:
        lines.append(
            "`python -m flows gc` removes the records of missing artifacts; the next run rebuilds "
            "them."
        )
    lines += [f"stray: {path}" for path in result.stray]
    print_result(result.model_dump(mode="json"), *lines, as_json=as_json)
    return 0 if result.healthy else 5
