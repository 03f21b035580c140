"""python -m flows: run pipelines, look into their store, know the registry."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter, validators

from flows.cli.run_options import RUN, UNCHANGED, Config, Overrides, RunOptions
from flows.cli.suite_options import THE_USUAL, SuiteOptions
from flows.cli.table_options import AS_THE_TABLE_SAYS, TableOptions
from sentemb_core import console
from sentemb_core.options import (
    CORPUS,
    DEFAULTS,
    By,
    CorpusOptions,
    Json,
    Out,
    Overwrite,
    Searched,
    Source,
    Top,
)

app = console.door(
    "python -m flows",
    "Documents in, a better sentence encoder out: runs, their store, the model registry.",
)
Registered = Annotated[
    str, Parameter(help="models:/NAME@ALIAS, models:/NAME/VERSION, or a folder.")
]
Model = Annotated[
    str,
    Parameter(
        help="models:/NAME@ALIAS, models:/NAME/VERSION, a folder, minilm, a Hugging Face name, or "
        "a file of word vectors."
    ),
]
RunId = Annotated[str | None, Parameter(help="Its id. Default: the last one.")]
FinishedId = Annotated[str | None, Parameter(help="Its id. Default: the last that finished.")]
DryRun = Annotated[bool, Parameter(negative="", help="Say what would run and why, then stop.")]
CorpusFile = Annotated[
    str | None,
    Parameter(
        name="--corpus",
        group=CORPUS,
        help="What the models were trained on: measures the overlap with every task; `benchmark` "
        "looks at the halves of documents that a run on it holds out, too.",
    ),
]


@app.command
def demo(
    *,
    only: Annotated[
        Literal["nothing", "minilm"] | None, Parameter(help="One of the two ways.")
    ] = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> int:
    """Both ways to begin, on a fixed sample of the shipped corpus: one table and two reports."""
    from flows.cli.commands import demo_command

    return demo_command(only, dry_run=dry_run, as_json=json)


@app.command
def run(
    source: Source | None = None,
    *,
    corpus: CorpusOptions = DEFAULTS,
    config: Config = None,
    options: RunOptions = UNCHANGED,
    set_: Overrides = None,
    dry_run: Annotated[DryRun, Parameter(group=RUN)] = False,
    json: Json = False,
) -> int:
    """Self-train on your documents: annotate, train, validate, until validation stops growing."""
    from flows.cli.commands import train_command

    return train_command(
        config, source, corpus.given(), vars(options), set_ or [], dry_run=dry_run, as_json=json
    )


@app.command
def settings(
    path: Annotated[
        str | None, Parameter(help="A setting, or a table of them, as training. Default: all.")
    ] = None,
    *,
    method: Annotated[
        str, Parameter(help="What trains (`sentemb methods`): its settings are told, too.")
    ] = "infocse_idc",
    json: Json = False,
) -> int:
    """Every setting of a run: its path for --set, its default, what it means."""
    from flows.cli.setting_table import settings_command

    return settings_command(path, method, json)


@app.command
def reproduce(
    table: Annotated[
        str,
        Parameter(
            help="A table or figure of a paper by its id (mutual.t1; `list` tells all). "
            "methods-small: every method in cells of equal budget. few-shot: some methods, each "
            "fine-tuned on several numbers of labels, and their curves."
        ),
    ],
    *,
    options: TableOptions = AS_THE_TABLE_SAYS,
    markdown: Annotated[
        Path | None,
        Parameter(help="A file whose text between the table's marks the table replaces."),
    ] = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> int:
    """A table of the papers from our runs, each cell cached; repeat the command to go on."""
    from flows.cli.table_commands import list_experiments, reproduce_command

    if table == "list":
        return list_experiments(vars(options) | {"markdown": markdown}, json)
    return reproduce_command(table, vars(options), markdown, dry_run=dry_run, as_json=json)


@app.command
def benchmark(
    *models: Model,
    options: SuiteOptions = THE_USUAL,
    corpus_file: CorpusFile = None,
    corpus: CorpusOptions = DEFAULTS,
    fusion: Annotated[
        bool,
        Parameter(
            negative="",
            help="Words and vectors together too: BM25 + alpha x cosine, and rank fusion.",
        ),
    ] = False,
    out: Annotated[
        str | None, Parameter(help="Folder of table and figure. Default: one below the home.")
    ] = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> int:
    """Models on the evaluation suite beside BM25 and chance: one table, one figure, diagnostics."""
    from flows.cli.benchmark_commands import benchmark_command, corpus_named

    given = vars(options) | {"models": models, "fusion": fusion, "out": out}
    source = corpus_named(corpus_file, corpus.given())
    return benchmark_command(given, source, dry_run=dry_run, as_json=json)


@app.command
def compare(
    first: Annotated[str, Parameter(help="A model as of benchmark; or BM25, random, constant.")],
    second: Annotated[str, Parameter(help="Another one.")],
    *,
    options: SuiteOptions = THE_USUAL,
    corpus_file: CorpusFile = None,
    corpus: CorpusOptions = DEFAULTS,
    json: Json = False,
) -> int:
    """Say which differences of two models are real: a paired bootstrap on every task."""
    from flows.cli.benchmark_commands import compare_command, corpus_named

    given = vars(options) | {"models": [first, second]}
    return compare_command(given, corpus_named(corpus_file, corpus.given()), as_json=json)


@app.command
def resume(
    run: Annotated[
        str | None, Parameter(help="Its id. Default: the last that did not finish.")
    ] = None,
    *,
    json: Json = False,
) -> int:
    """Go on with a run that was interrupted."""
    from flows.cli.commands import resume_command

    return resume_command(run, json)


@app.command
def status(run: RunId = None, *, json: Json = False) -> int:
    """Say of each stage of a run whether it would hit the cache, run, or wait, and why."""
    from flows.cli.commands import status_command

    return status_command(run, json)


@app.command
def lineage(
    model: Annotated[str, Parameter(help="models:/NAME@ALIAS, a run's id, or a digest.")],
    *,
    json: Json = False,
) -> int:
    """Walk from a model back to corpus, code and parameters."""
    from flows.cli.store_commands import lineage_command

    return lineage_command(model, json)


@app.command
def report(run: FinishedId = None, *, json: Json = False) -> int:
    """Write the report of a finished run anew from the store, and print where it is."""
    from flows.cli.store_commands import report_command

    return report_command(run, json)


@app.command
def register(run: FinishedId = None, *, json: Json = False) -> int:
    """Register a run's best encoder; a second time changes nothing."""
    from flows.cli.store_commands import register_command

    return register_command(run, json)


@app.command
def promote(run: FinishedId = None, *, json: Json = False) -> int:
    """Ask the gate: champion if the run's encoder beats the champion, else challenger (exit 4)."""
    from flows.cli.store_commands import promote_command

    return promote_command(run, json)


@app.command
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
    """Encode a corpus with a registered model, or with any other, into a Parquet file."""
    from flows.cli.store_commands import named
    from sentemb_core import cli
    from sentemb_core.cli_arguments import require_free

    require_free(source, out, overwrite=overwrite)
    return cli.encode(
        named(model), source, out, by=by, overwrite=overwrite, corpus=corpus, json=json
    )


@app.command
def search(
    query: Annotated[str, Parameter(help="What to look for.")],
    source: Searched,
    *,
    model: Model,
    top: Top = 10,
    corpus: CorpusOptions = DEFAULTS,
    json: Json = False,
) -> int:
    """Find the documents nearest to a query, in a corpus or in what `encode` wrote of it."""
    from flows.cli.store_commands import named
    from sentemb_core import cli
    from sentemb_core.cli_arguments import require_order

    require_order("QUERY SOURCE", query, source)
    return cli.search(named(model), query, source, top=top, corpus=corpus, json=json)


@app.command
def canary(
    index: Annotated[
        Path,
        Parameter(help="A Parquet file of `encode --by sentence`, or a folder with an encoder."),
    ],
    *,
    model: Annotated[str, Parameter(help="models:/NAME@ALIAS or models:/NAME/VERSION.")],
    json: Json = False,
) -> int:
    """Whether an index (or a folder) is of this version, by the vectors kept with it (else exit 3).

    For an index nothing is encoded, and no encoder loaded, unless it has none of those sentences.
    """
    from flows.cli.store_commands import canary_command

    return canary_command(index, model, json)


@app.command
def where(model: Registered) -> int:
    """Print the verified folder of a registered model (models:/NAME@champion)."""
    from flows.cli.store_commands import resolved

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
    from flows.cli.store_commands import serve_command

    return serve_command(port, for_, mlflow)


@app.command
def doctor(*, json: Json = False) -> int:
    """Versions, devices, disk, known-bad pins, server: what a run needs, checked."""
    from flows.cli.store_commands import doctor_command

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
    """Remove artifacts that neither a registered model nor the last runs reach, an hour later."""
    from flows.cli.store_commands import gc_command

    return gc_command(keep_runs, dry_run, json)


@app.command
def fsck(*, json: Json = False) -> int:
    """Re-hash every artifact; quarantine what is not what its name says."""
    from flows.cli.store_commands import fsck_command

    return fsck_command(json)


if __name__ == "__main__":
    raise SystemExit(console.run(app))
