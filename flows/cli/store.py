"""Verbs on what runs saved: report, registry, lineage, vectors, clean-up; and the servers.

What a verb needs is imported when it runs: `--help` loads no settings and no store. `prepare` comes
first, because Prefect reads the environment when it is imported.
"""

import os
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter, validators

from sentemb_core import console
from sentemb_core.formats import counted, size
from sentemb_core.options import (
    DEFAULTS,
    Among,
    By,
    Candidates,
    CorpusOptions,
    IndexFolder,
    Json,
    NoTexts,
    NotNegative,
    Out,
    Overwrite,
    Parts,
    Queries,
    Query,
    Searched,
    Source,
    Top,
    Update,
)
from sentemb_core.types import ArtifactRef

CompletedId = Annotated[str | None, Parameter(help="Id of the run. Default: the last completed.")]
Model = Annotated[
    str,
    Parameter(
        help="models:/NAME@ALIAS, models:/NAME/VERSION, a folder, minilm, a Hugging Face name, or "
        "a file of word vectors."
    ),
]

GARBAGE = {
    "records": "record",
    "objects": "object",
    "drafts": "draft",
    "work": "working folder",
    "quarantined": "quarantined file",
    "locks": "lock",
}
"""Kinds that `gc` removes, as nouns."""


def prepare() -> Path:
    """Prepare the environment, and return the home."""
    from flows import environment

    return environment.prepare()


def lineage(
    model: Annotated[str, Parameter(help="models:/NAME@ALIAS, the id of a run, or a digest.")],
    *,
    json: Json = False,
) -> int:
    """Trace a model back to its corpus, code and parameters."""
    prepare()
    from flows.cli.lineage import lineage_table
    from sentemb_core.store import records
    from sentemb_core.store.objects import Store

    origins = records.lineage(Store.default(), artifact_of(model))
    note = "--json adds all parameters, and digests of keys and code."
    return console.print_result(
        origins.model_dump(mode="json"), lineage_table(origins), note, as_json=json
    )


def artifact_of(model: str) -> ArtifactRef:
    """Artifact of a registered model, of a run by its id, or by the beginning of its digest."""
    from flows.cli.records import outcome_of
    from sentemb_core.store.objects import Store
    from tasks.registry import find_version

    if model.startswith("models:/"):
        return find_version(model).artifact
    if any(character not in "0123456789abcdef" for character in model):
        return outcome_of(model)[1].encoder
    return Store.default().find(model)


def report(run: CompletedId = None, *, json: Json = False) -> int:
    """Write the report of a completed run again, from the store, and print its path."""
    prepare()
    from flows.cli.records import outcome_of
    from flows.cli.settings import checked
    from tasks.report import write_report_of

    record, outcome = outcome_of(run)
    page = write_report_of(outcome, checked(record.config))
    value = {"run": record.id, "report": str(page)}
    return console.print_result(value, f"Report: {page}", as_json=json)


def register(run: CompletedId = None, *, json: Json = False) -> int:
    """Register the best encoder of a run. A repeated call changes nothing."""
    prepare()
    from flows.cli.records import outcome_of
    from flows.cli.settings import checked
    from tasks.gate import registered_version

    record, outcome = outcome_of(run)
    version = registered_version(checked(record.config), outcome)
    value = {"uri": version.uri, "name": version.name, "version": version.version}
    return console.print_result(value, f"Registered: {version.uri}", as_json=json)


def promote(run: CompletedId = None, *, json: Json = False) -> int:
    """Promote a run's encoder to champion if it passes the gate; else challenger (exit 4)."""
    prepare()
    from flows.cli.records import outcome_of
    from flows.cli.settings import checked
    from sentemb_core.errors import GateRefusedError
    from tasks.execution import without_prefect
    from tasks.gate import register_and_gate

    record, outcome = outcome_of(run)
    config = checked(record.config)
    if run is None and not config.register_model:
        console.remark(
            f"Registering the last completed run, {record.id}, although it has "
            "register_model=false. Use `promote ID` for another run."
        )
    with without_prefect():  # one stage is not worth a server
        gate = register_and_gate(config, outcome)
    champion = gate.alias == "champion"
    if json or champion:
        console.print_result(gate.model_dump(mode="json"), gate.text, as_json=json)
    if not champion:
        raise GateRefusedError(gate.text)
    return 0


def rollback(
    name: Annotated[str, Parameter(help="Name of the registered model.")], *, json: Json = False
) -> int:
    """Make the previous champion the champion again. The gate keeps the other version out."""
    prepare()
    from tasks import promotion

    restored, before = promotion.rollback(name)
    value = {"uri": restored.uri, "before": before.uri if before else None}
    taken = (
        f"; {before.uri} is taken down, and the gate does not promote it again" if before else ""
    )
    return console.print_result(
        value, f"{restored.uri} is the champion again{taken}.", as_json=json
    )


def encode(
    source: Source,
    out: Out,
    *,
    model: Model,
    by: By = "document",
    overwrite: Overwrite = False,
    corpus: CorpusOptions = DEFAULTS,
    json: Json = False,
) -> int:
    """Encode a corpus with a registered model, or any other encoder, into a Parquet file."""
    from sentemb_core import cli
    from sentemb_core.cli_inputs import require_free

    require_free(source, out, overwrite=overwrite)
    encoder = local_encoder(model)
    return cli.encode(encoder, source, out, by=by, overwrite=overwrite, corpus=corpus, json=json)


def index(
    source: Source,
    folder: IndexFolder,
    *,
    model: Annotated[
        str | None,
        Parameter(help="A folder or models:/NAME@ALIAS. Default with --update: that of the index."),
    ] = None,
    update: Update = False,
    no_texts: NoTexts = False,
    corpus: CorpusOptions = DEFAULTS,
    json: Json = False,
) -> int:
    """Write the index of a corpus, with a registered model or any other, for `search`."""
    from sentemb_core.cli_search import index_command, updating_model

    model = model or updating_model(folder, update=update)
    local = local_encoder(model)
    from tasks.registered_encoders import pinned_name

    return index_command(
        local,
        source,
        folder,
        update=update,
        texts=not no_texts,
        corpus=corpus,
        name=pinned_name(model),
        json=json,
    )


def search(
    query: Query,
    source: Searched = None,
    *,
    model: Annotated[
        str | None,
        Parameter(help="A folder or models:/NAME@ALIAS. Default: the model that wrote the index."),
    ] = None,
    queries: Queries = None,
    by: Parts = "hybrid",
    among: Among = None,
    top: Top = 10,
    corpus: CorpusOptions = DEFAULTS,
    json: Json = False,
) -> int:
    """Find the documents that fit a query best, in an index or in a corpus."""
    from sentemb_core.cli_inputs import require_order
    from sentemb_core.cli_search import search_command, searching_model

    if source is not None:
        require_order("QUERY SOURCE", query, source)
    return search_command(
        local_encoder(model or searching_model(source or query)),
        query,
        source,
        queries=queries,
        by=by,
        among=among,
        top=top,
        corpus=corpus,
        json=json,
    )


def evaluate(
    source: Source,
    *,
    model: Model,
    candidates: Candidates = 3000,
    corpus: CorpusOptions = DEFAULTS,
    json: Json = False,
) -> int:
    """Recall and MRR of a registered model, or any other, and of BM25 on documents and titles."""
    from sentemb_core import cli

    return cli.evaluate(
        local_encoder(model), source, candidates=candidates, corpus=corpus, json=json
    )


def local_encoder(model: str) -> str:
    """The name under which `sentemb` finds an encoder: the folder of a registered one."""
    prepare()
    from tasks.registered_encoders import local_name

    return local_name(model)


def canary(
    index: Annotated[
        Path,
        Parameter(help="A Parquet file of `encode --by sentence`, or a folder with an encoder."),
    ],
    *,
    model: Annotated[str, Parameter(help="models:/NAME@ALIAS or models:/NAME/VERSION.")],
    json: Json = False,
) -> int:
    """Check that an index or a folder belongs to a registered version (else exit 3).

    It compares the vectors that were stored at registration. The encoder is loaded only if the
    index has none of those sentences.
    """
    prepare()
    from sentemb_core.cli import show_match
    from tasks.registered_encoders import check_comparable, compare_with
    from tasks.registry import find_version

    check_comparable(index)
    version = find_version(model).uri  # an alias may move later
    return show_match(compare_with(version, index), index, version, json=json)


def where(
    model: Annotated[str, Parameter(help="models:/NAME@ALIAS, models:/NAME/VERSION, or a folder.")],
) -> int:
    """Print the verified folder of a registered model (models:/NAME@champion)."""
    prepare()
    from tasks.registered_encoders import find_encoder

    console.write_line(str(find_encoder(model)))
    return 0


def serve(
    *,
    port: Annotated[
        int,
        Parameter(
            validator=validators.Number(gte=0, lte=65_535),
            help="Port of the Prefect UI; 0: any free port.",
        ),
    ] = 4200,
    for_: Annotated[
        float | None, Parameter(name="--for", help="Seconds to serve. Default: until Ctrl-C.")
    ] = None,
    mlflow: Annotated[bool, Parameter(help="Also serve the MLflow UI.")] = False,
) -> int:
    """Serve Prefect, a worker and the nightly schedule on loopback."""
    prepare()
    pages = ", and MLflow's pages" if mlflow else ""
    console.remark(f"Starting Prefect's server and worker{pages}. This takes up to a minute.")
    command = [sys.executable, "-m", "deployments", "--port", str(port)]
    command += ["--for", str(for_)] if for_ is not None else []
    flags = {"--mlflow": mlflow, "--debug": console.debugging()}
    # a new process: flows must not import deployments
    os.execv(sys.executable, [*command, *(flag for flag, given in flags.items() if given)])


def doctor(
    *,
    cluster: Annotated[
        str | None, Parameter(help="Also compare the workers of this Dask scheduler with here.")
    ] = None,
    json: Json = False,
) -> int:
    """Check what a run, or a worker, needs: versions, devices, disk, packages, stores, servers."""
    folder = prepare()
    from tasks.doctor import machine_checks

    checks = machine_checks(folder, cluster)
    rows = [("ok" if check.ok else "BAD", check.what, check.found) for check in checks]
    table = console.terminal_table(("", "what", "found"), rows)
    console.print_result([check.__dict__ for check in checks], table, as_json=json)
    return 0 if all(check.ok for check in checks) else 5


def gc(
    *,
    keep_runs: Annotated[
        int, Parameter(validator=NotNegative, help="Keep the artifacts of this many last runs.")
    ] = 10,
    dry_run: Annotated[bool, Parameter(help="Count, and remove nothing.")] = False,
    json: Json = False,
) -> int:
    """Remove artifacts older than an hour that no registered model and no recent run needs."""
    prepare()
    from sentemb_core.store.maintenance import collect
    from sentemb_core.store.objects import Store
    from tasks.registry import registered_artifacts

    garbage = collect(Store.default(), registered_artifacts(), keep_runs, dry_run=dry_run)
    removed = [counted(n, GARBAGE[kind]) for kind, n in garbage.counts.items() if n]
    what = ", ".join(removed) or "nothing"
    kept = counted(garbage.kept_objects, "artifact")
    text = (
        f"{'Would remove' if dry_run else 'Removed'} {what}: {size(garbage.bytes)}; "
        f"{kept} kept. Files younger than an hour are always kept."
    )
    return console.print_result(garbage.model_dump(mode="json"), text, as_json=json)


def fsck(*, json: Json = False) -> int:
    """Verify the digest of every artifact; move corrupt artifacts to quarantine."""
    prepare()
    from sentemb_core.store import maintenance
    from sentemb_core.store.objects import Store

    result = maintenance.fsck(Store.default())
    lines = [f"intact: {counted(result.ok, 'artifact')} ({size(result.bytes)})"]
    lines += [f"corrupt, moved to quarantine: {line}" for line in result.corrupt]
    lines += [f"missing: {ref}" for ref in result.missing]
    if result.missing:
        lines.append(
            "`python -m flows gc` removes the records of missing artifacts; the next run rebuilds "
            "them."
        )
    lines += [f"stray: {path}" for path in result.stray]
    console.print_result(result.model_dump(mode="json"), *lines, as_json=json)
    return 0 if result.healthy else 5
