"""python -m flows: run pipelines, inspect their store, use the model registry."""

from typing import Annotated, Literal

from cyclopts import Parameter

from flows.cli import store
from flows.cli.options import (
    DEFAULT_SUITE,
    NO_RUN_OPTIONS,
    NO_TABLE_OPTIONS,
    RUN,
    Config,
    Overrides,
    RunOptions,
    SuiteOptions,
    TableOptions,
)
from sentemb_core import console
from sentemb_core.options import CORPUS, DEFAULTS, CorpusOptions, Json, Source

app = console.command_line(
    "python -m flows",
    "Train a sentence encoder on your documents: runs, their store, the model registry.",
)
RunId = Annotated[str | None, Parameter(help="Id of the run. Default: the last run.")]
DryRun = Annotated[bool, Parameter(help="Show what would run and why, then stop.")]
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
    """Run from random weights and from MiniLM on the shipped corpus: reports, and a verdict."""
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
    *models: store.Model,
    options: SuiteOptions = DEFAULT_SUITE,
    corpus_file: CorpusFile = None,
    corpus: CorpusOptions = DEFAULTS,
    fusion: Annotated[
        bool,
        Parameter(
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


for verb in (
    store.lineage,
    store.report,
    store.register,
    store.promote,
    store.rollback,
    store.encode,
    store.index,
    store.search,
    store.evaluate,
    store.canary,
    store.where,
    store.serve,
    store.doctor,
    store.gc,
    store.fsck,
):
    app.command(verb)


if __name__ == "__main__":
    console.main(app)
