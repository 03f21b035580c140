"""python -m flows: run pipelines, look into their store, know the registry."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Group, Parameter, validators

from sentemb_core import console
from sentemb_core.options import DEFAULTS, By, CorpusOptions, Json, Out, Source, Top

app = console.door(
    "python -m flows",
    "Documents in, a better sentence encoder out: runs, their store, the model registry.",
)
RUN = Group("The run", sort_key=2)
Model = Annotated[str, Parameter(help="models:/NAME@ALIAS, models:/NAME/VERSION, or a folder.")]
RunId = Annotated[str | None, Parameter(help="Its id. Default: the last one.")]
FinishedId = Annotated[str | None, Parameter(help="Its id. Default: the last that finished.")]
Config = Annotated[
    Path | None,
    Parameter(
        group=RUN, help="TOML file of settings (or a run's config.json); options and --set win."
    ),
]
Overrides = Annotated[
    list[str] | None,
    Parameter(
        name="--set",
        group=RUN,
        negative="",
        help="Any setting by its path, as in --set training.batch_size=256. Repeatable.",
    ),
]
Count = validators.Number(gte=1)
Names = Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")]


@Parameter(name="*", group=RUN)
@dataclass(frozen=True)
class RunOptions:
    """The settings that a person changes most; `flows.settings.PATHS` says where they belong."""

    name: Annotated[
        str | None, Parameter(help="Of the run and of the registered model. Default: sentemb.")
    ] = None
    encoder: Annotated[
        str | None,
        Parameter(
            help="static, transformer, minilm, a folder or a Hugging Face name. Default: static."
        ),
    ] = None
    method: Annotated[
        str | None,
        Parameter(
            help="What trains (`sentemb methods`): infocse_idc annotates itself in rounds, every "
            "other one trains once. Default: infocse_idc."
        ),
    ] = None
    initialiser: Annotated[
        str | None,
        Parameter(
            help="Method that trains the encoder first (`sentemb methods`), as condenser before "
            "infocse_aux; none: do not. Default: conpono before rounds from random weights."
        ),
    ] = None
    steps: Annotated[
        int | None, Parameter(validator=Count, help="Optimiser steps of each round.")
    ] = None
    rounds: Annotated[int | None, Parameter(validator=Count, help="Rounds at most.")] = None
    seed: Annotated[
        int | None, Parameter(help="Seed of random weights, batches and samples. Default: 42.")
    ] = None


UNCHANGED = RunOptions()


@app.command
def demo(
    *,
    only: Annotated[
        Literal["nothing", "minilm"] | None, Parameter(help="One of the two ways.")
    ] = None,
    json: Json = False,
) -> int:
    """Both ways to begin, on a fixed sample of the shipped corpus: one table and two reports."""
    from flows.commands import demo_command

    return demo_command(only, json)


@app.command
def run(
    source: Source | None = None,
    *,
    corpus: CorpusOptions = DEFAULTS,
    config: Config = None,
    options: RunOptions = UNCHANGED,
    set_: Overrides = None,
    dry_run: Annotated[
        bool, Parameter(group=RUN, negative="", help="Say what would run and why, then stop.")
    ] = False,
    json: Json = False,
) -> int:
    """Self-train on your documents: annotate, train, validate, until validation stops growing."""
    from flows.commands import train_command

    return train_command(
        config, source, corpus.given(), vars(options), set_ or [], dry_run=dry_run, as_json=json
    )


@app.command
def reproduce(
    table: Annotated[Literal["methods-small"], Parameter(help="Which table.")],
    *,
    data: Annotated[
        str | None, Parameter(help="Folder of the corpora and STS files. Default: $SENTEMB_DATA.")
    ] = None,
    corpora: Annotated[
        Names, Parameter(help="Default: blog_usgov news_reuters21578 plain_sentences.")
    ] = None,
    encoders: Annotated[Names, Parameter(help="Default: transformer minilm.")] = None,
    methods: Annotated[Names, Parameter(help="Rows (`sentemb methods`). Default: all.")] = None,
    seeds: Annotated[
        list[int] | None,
        Parameter(consume_multiple=True, negative="", help="Each row is their mean. Default: 42."),
    ] = None,
    steps: Annotated[
        int | None,
        Parameter(validator=Count, help="Of each cell. Default: 1,000; minilm: 200."),
    ] = None,
    batch_size: Annotated[
        int | None, Parameter(validator=Count, help="Of each step. Default: 64.")
    ] = None,
    candidates: Annotated[
        int | None, Parameter(validator=Count, help="Documents in a pool. Default: 1,000.")
    ] = None,
    max_documents: Annotated[
        int | None, Parameter(validator=Count, help="A sample of each corpus. Default: all.")
    ] = None,
    markdown: Annotated[
        Path | None,
        Parameter(help="A file whose text between the table's marks the table replaces."),
    ] = None,
    dry_run: Annotated[
        bool, Parameter(negative="", help="Say what would run and why, then stop.")
    ] = False,
    json: Json = False,
) -> int:
    """Every method in cells of equal budget, from two encoders: one table; repeat it to go on."""
    from flows.commands import reproduce_command

    given = {
        "data": data,
        "corpora": corpora,
        "encoders": encoders,
        "methods": methods,
        "seeds": seeds,
        "steps": steps,
        "batch_size": batch_size,
        "candidates": candidates,
        "max_documents": max_documents,
    }
    return reproduce_command(given, markdown, dry_run=dry_run, as_json=json)


@app.command
def resume(
    run: Annotated[
        str | None, Parameter(help="Its id. Default: the last that did not finish.")
    ] = None,
    *,
    json: Json = False,
) -> int:
    """Go on with a run that was interrupted."""
    from flows.commands import resume_command

    return resume_command(run, json)


@app.command
def status(run: RunId = None, *, json: Json = False) -> int:
    """Say of each stage of a run whether it would hit the cache, run, or wait, and why."""
    from flows.commands import status_command

    return status_command(run, json)


@app.command
def lineage(
    model: Annotated[str, Parameter(help="models:/NAME@ALIAS, a run's id, or a digest.")],
    *,
    json: Json = False,
) -> int:
    """Walk from a model back to corpus, code and parameters."""
    from flows.commands import lineage_command

    return lineage_command(model, json)


@app.command
def report(run: FinishedId = None, *, json: Json = False) -> int:
    """Write the report of a finished run anew from the store, and print where it is."""
    from flows.commands import report_command

    return report_command(run, json)


@app.command
def register(run: FinishedId = None, *, json: Json = False) -> int:
    """Register a run's best encoder; a second time changes nothing."""
    from flows.commands import register_command

    return register_command(run, json)


@app.command
def promote(run: FinishedId = None, *, json: Json = False) -> int:
    """Ask the gate: champion if the run's encoder beats the champion, else challenger (exit 4)."""
    from flows.commands import promote_command

    return promote_command(run, json)


@app.command
def encode(
    source: Source,
    out: Out,
    *,
    model: Model,
    by: By = "document",
    corpus: CorpusOptions = DEFAULTS,
    json: Json = False,
) -> int:
    """Encode a corpus with a registered model (or a folder) into a Parquet file."""
    from flows.commands import resolved
    from sentemb_core import cli

    return cli.encode(str(resolved(model)), source, out, by=by, corpus=corpus, json=json)


@app.command
def search(
    query: Annotated[str, Parameter(help="What to look for.")],
    source: Source,
    *,
    model: Model,
    top: Top = 10,
    corpus: CorpusOptions = DEFAULTS,
    json: Json = False,
) -> int:
    """Find the documents of a corpus nearest to a query, with a registered model (or a folder)."""
    from flows.commands import resolved
    from sentemb_core import cli

    return cli.search(str(resolved(model)), query, source, top=top, corpus=corpus, json=json)


@app.command
def where(model: Model) -> int:
    """Print the verified folder of a registered model (models:/NAME@champion)."""
    from flows.commands import resolved

    console.write_line(str(resolved(model)))
    return 0


@app.command
def serve(
    *,
    port: Annotated[
        int,
        Parameter(
            validator=validators.Number(gte=0, lte=65_535),
            help="Of Prefect's pages; 0: any free one.",
        ),
    ] = 4200,
    for_: Annotated[
        float | None, Parameter(name="--for", help="Seconds; none: until Ctrl-C.")
    ] = None,
    mlflow: Annotated[bool, Parameter(negative="", help="MLflow's pages too.")] = False,
) -> int:
    """Prefect server, worker and the nightly schedule, on loopback."""
    from flows.commands import serve_command

    return serve_command(port, for_, mlflow)


@app.command
def doctor(*, json: Json = False) -> int:
    """Versions, devices, disk, known-bad pins, server: what a run needs, checked."""
    from flows.commands import doctor_command

    return doctor_command(json)


@app.command
def gc(
    *,
    keep_runs: Annotated[
        int, Parameter(validator=validators.Number(gte=0), help="Latest runs whose artifacts stay.")
    ] = 10,
    dry_run: Annotated[bool, Parameter(negative="", help="Count, and remove nothing.")] = False,
    json: Json = False,
) -> int:
    """Remove artifacts that neither a registered model nor the last runs reach."""
    from flows.commands import gc_command

    return gc_command(keep_runs, dry_run, json)


@app.command
def fsck(*, json: Json = False) -> int:
    """Re-hash every artifact; quarantine what is not what its name says."""
    from flows.commands import fsck_command

    return fsck_command(json)


if __name__ == "__main__":
    raise SystemExit(
        console.run(app, interrupted="interrupted; `python -m flows resume` goes on from here")
    )
