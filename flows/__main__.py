"""python -m flows: run pipelines, inspect their store, use the model registry."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter, validators

from flows.cli.options import (
    DEFAULT_SUITE,
    NO_RUN_OPTIONS,
    NO_TABLE_OPTIONS,
    RUN,
    Config,
    NotNegative,
    Overrides,
    RunOptions,
    SuiteOptions,
    TableOptions,
)
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

app = console.command_line(
    "python -m flows",
    "Train a sentence encoder on your documents: runs, their store, the model registry.",
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
RunId = Annotated[str | None, Parameter(help="Id of the run. Default: the last run.")]
CompletedId = Annotated[str | None, Parameter(help="Id of the run. Default: the last completed.")]
DryRun = Annotated[bool, Parameter(negative="", help="Show what would run and why, then stop.")]
CorpusFile = Annotated[
    str | None,
    Parameter(
        name="--corpus",
        group=CORPUS,
        help="Training corpus of the models: measures its overlap with every task. `benchmark` "
        "also measures retrieval between halves of its held-out documents.",
    ),
]


@app.command
def demo(
    *,
    only: Annotated[
        Literal["nothing", "minilm"] | None, Parameter(help="Only one of the two starts.")
    ] = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> int:
    """Train from random weights and from MiniLM on the shipped corpus: a table and two reports."""
    from flows.cli.run import demo_command

    return demo_command(only, dry_run=dry_run, as_json=json)


@app.command
def run(
    source: Source | None = None,
    *,
    corpus: CorpusOptions = DEFAULTS,
    config: Config = None,
    options: RunOptions = NO_RUN_OPTIONS,
    set_: Overrides = None,
    dry_run: Annotated[DryRun, Parameter(group=RUN)] = False,
    json: Json = False,
) -> int:
    """Train on your documents: annotate, train and validate until validation stops improving."""
    from flows.cli.run import run_command

    return run_command(
        config, source, corpus.given(), vars(options), set_ or [], dry_run=dry_run, as_json=json
    )


@app.command
def settings(
    path: Annotated[
        str | None, Parameter(help="A setting or a table, for example training. Default: all.")
    ] = None,
    *,
    config: Config = None,
    options: RunOptions = NO_RUN_OPTIONS,
    set_: Overrides = None,
    json: Json = False,
) -> int:
    """List every setting of a run with these options: path for --set, value, meaning."""
    from flows.cli.settings_list import settings_command

    return settings_command(path, vars(options), config, set_ or [], json)


@app.command
def reproduce(
    table: Annotated[
        str,
        Parameter(
            help="Id of a paper's table or figure (mutual.t1); list: show all ids. "
            "methods-small: every method on equal budgets. few-shot: methods fine-tuned on "
            "several label counts, with curves."
        ),
    ],
    *,
    options: TableOptions = NO_TABLE_OPTIONS,
    dry_run: DryRun = False,
    json: Json = False,
) -> int:
    """Make a table of the papers from our runs. Cells are cached: repeat to continue."""
    from flows.cli.reproduce import list_experiments, reproduce_command

    if table == "list":
        return list_experiments(vars(options), json)
    return reproduce_command(table, vars(options), dry_run=dry_run, as_json=json)


@app.command
def benchmark(
    *models: Model,
    options: SuiteOptions = DEFAULT_SUITE,
    corpus_file: CorpusFile = None,
    corpus: CorpusOptions = DEFAULTS,
    fusion: Annotated[
        bool,
        Parameter(
            negative="",
            help="Also combine BM25 and vectors: BM25 + alpha x cosine, and rank fusion.",
        ),
    ] = False,
    out: Annotated[
        str | None, Parameter(help="Folder for table and figure. Default: one in the home.")
    ] = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> int:
    """Evaluate models on the evaluation suite, beside BM25 and random baselines."""
    from flows.cli.evaluate import benchmark_command, corpus_settings

    given = vars(options) | {"models": models, "fusion": fusion, "out": out}
    source = corpus_settings(corpus_file, corpus.given())
    return benchmark_command(given, source, dry_run=dry_run, as_json=json)


@app.command
def compare(
    first: Annotated[
        str, Parameter(help="A model as in `benchmark`, or a baseline: BM25, random, constant.")
    ],
    second: Annotated[str, Parameter(help="Another model or baseline.")],
    *,
    options: SuiteOptions = DEFAULT_SUITE,
    corpus_file: CorpusFile = None,
    corpus: CorpusOptions = DEFAULTS,
    json: Json = False,
) -> int:
    """Test which differences between two models are significant: paired bootstrap per task."""
    from flows.cli.evaluate import compare_command, corpus_settings

    given = vars(options) | {"models": [first, second]}
    return compare_command(given, corpus_settings(corpus_file, corpus.given()), as_json=json)


@app.command
def resume(
    run: Annotated[
        str | None, Parameter(help="Id of the run. Default: the last unfinished run.")
    ] = None,
    *,
    json: Json = False,
) -> int:
    """Continue an interrupted or failed run."""
    from flows.cli.run import resume_command

    return resume_command(run, json)


@app.command
def status(run: RunId = None, *, json: Json = False) -> int:
    """Show for each stage of a run whether it is cached, would run, or waits, and why."""
    from flows.cli.run import status_command

    return status_command(run, json)


@app.command
def lineage(
    model: Annotated[str, Parameter(help="models:/NAME@ALIAS, the id of a run, or a digest.")],
    *,
    json: Json = False,
) -> int:
    """Trace a model back to its corpus, code and parameters."""
    from flows.cli.store import lineage_command

    return lineage_command(model, json)


@app.command
def report(run: CompletedId = None, *, json: Json = False) -> int:
    """Write the report of a completed run again, from the store, and print its path."""
    from flows.cli.store import report_command

    return report_command(run, json)


@app.command
def register(run: CompletedId = None, *, json: Json = False) -> int:
    """Register the best encoder of a run. A repeated call changes nothing."""
    from flows.cli.store import register_command

    return register_command(run, json)


@app.command
def promote(run: CompletedId = None, *, json: Json = False) -> int:
    """Promote a run's encoder to champion if it passes the gate; else challenger (exit 4)."""
    from flows.cli.store import promote_command

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
    """Encode a corpus with a registered model, or any other encoder, into a Parquet file."""
    from flows.cli.store import local_encoder
    from sentemb_core import cli
    from sentemb_core.cli_arguments import require_free

    require_free(source, out, overwrite=overwrite)
    encoder = local_encoder(model)
    return cli.encode(encoder, source, out, by=by, overwrite=overwrite, corpus=corpus, json=json)


@app.command
def search(
    query: Annotated[str, Parameter(help="Text to search for.")],
    source: Searched,
    *,
    model: Model,
    top: Top = 10,
    corpus: CorpusOptions = DEFAULTS,
    json: Json = False,
) -> int:
    """Find the documents nearest to a query, in a corpus or in an index that `encode` wrote."""
    from flows.cli.store import local_encoder
    from sentemb_core import cli
    from sentemb_core.cli_arguments import require_order

    require_order("QUERY SOURCE", query, source)
    return cli.search(local_encoder(model), query, source, top=top, corpus=corpus, json=json)


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
    """Check that an index or a folder belongs to a registered version (else exit 3).

    It compares the vectors that were stored at registration. The encoder is loaded only if the
    index has none of those sentences.
    """
    from flows.cli.store import canary_command

    return canary_command(index, model, json)


@app.command
def where(model: Registered) -> int:
    """Print the verified folder of a registered model (models:/NAME@champion)."""
    from flows.cli.store import verified_folder

    console.write_line(str(verified_folder(model)))
    return 0


@app.command
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
    mlflow: Annotated[bool, Parameter(negative="", help="Also serve the MLflow UI.")] = False,
) -> int:
    """Serve Prefect, a worker and the nightly schedule on loopback."""
    from flows.cli.store import serve_command

    return serve_command(port, for_, mlflow)


@app.command
def doctor(*, json: Json = False) -> int:
    """Check what a run needs: versions, devices, disk, incompatible packages, server."""
    from flows.cli.store import doctor_command

    return doctor_command(json)


@app.command
def gc(
    *,
    keep_runs: Annotated[
        int, Parameter(validator=NotNegative, help="Keep the artifacts of this many last runs.")
    ] = 10,
    dry_run: Annotated[bool, Parameter(negative="", help="Count, and remove nothing.")] = False,
    json: Json = False,
) -> int:
    """Remove artifacts older than an hour that no registered model and no recent run needs."""
    from flows.cli.store import gc_command

    return gc_command(keep_runs, dry_run, json)


@app.command
def fsck(*, json: Json = False) -> int:
    """Verify the digest of every artifact; move corrupt artifacts to quarantine."""
    from flows.cli.store import fsck_command

    return fsck_command(json)


if __name__ == "__main__":
    raise SystemExit(console.run(app))
