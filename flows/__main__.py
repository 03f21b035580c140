"""python -m flows: run pipelines, look into their store, know the registry."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Group, Parameter

from sentemb_core.console import run as run_app

app = App(
    name="python -m flows",
    help="Documents in, a better sentence encoder out: runs, their store, the model registry.",
    version_flags=["--version"],
    result_action="return_value",
)
CORPUS = Group("Your corpus")
RUN = Group("The run")
Json = Annotated[bool, Parameter(name="--json", negative="", help="The result as JSON on stdout.")]
Flag = Parameter(negative="")


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


@app.command(name="run")
def run_command(
    source: Annotated[str | None, Parameter(group=CORPUS)] = None,
    *,
    config: Annotated[Path | None, Parameter(group=RUN)] = None,
    text_column: Annotated[str | None, Parameter(group=CORPUS)] = None,
    sentences_column: Annotated[str | None, Parameter(group=CORPUS)] = None,
    id_column: Annotated[str | None, Parameter(group=CORPUS)] = None,
    counterpart_column: Annotated[str | None, Parameter(group=CORPUS)] = None,
    name: Annotated[str | None, Parameter(group=RUN)] = None,
    encoder: Annotated[str | None, Parameter(group=RUN)] = None,
    initialiser: Annotated[
        Literal["conpono", "simcse", "ict", "none"] | None, Parameter(group=RUN)
    ] = None,
    steps: Annotated[int | None, Parameter(group=RUN)] = None,
    rounds: Annotated[int | None, Parameter(group=RUN)] = None,
    seed: Annotated[int | None, Parameter(group=RUN)] = None,
    set_: Annotated[list[str] | None, Parameter(name="--set", group=RUN, negative="")] = None,
    dry_run: Annotated[bool, Parameter(group=RUN, negative="")] = False,
    json: Json = False,
) -> int:
    """Self-train on your documents: annotate, train, validate, until validation stops growing.

    Parameters
    ----------
    source
        JSONL, JSON, CSV, TSV, Parquet, a folder of .txt/.md files, a `datasets` folder or name.
    config
        A TOML file of settings; options and --set win over it.
    text_column
        Column of running text, to be split into sentences.
    sentences_column
        Column of ready sentence lists.
    id_column
        Column of document ids.
    counterpart_column
        Title, headline or query of each document: validation only, never trained on.
    name
        Name of the run and of the registered model.
    encoder
        static, transformer, minilm, a folder or a Hugging Face name.
    initialiser
        Method that trains the encoder before round 1; none: annotate at once.
    steps
        Optimiser steps of each round.
    rounds
        Rounds at most.
    seed
        Seed of random weights, batches and samples.
    set_
        Any setting by its path, as in --set training.batch_size=256. Repeatable.
    dry_run
        Print what would run and why, then stop.
    """
    from flows.commands import train_command

    options = {
        "corpus.source": source,
        "corpus.text_column": text_column,
        "corpus.sentences_column": sentences_column,
        "corpus.id_column": id_column,
        "corpus.counterpart_column": counterpart_column,
        "name": name,
        "encoder.name": encoder,
        "rounds.max_rounds": rounds,
        "initialiser.method": initialiser,
        "training.steps": steps,
        "training.seed": seed,
        "annotation.seed": seed,
        "encoder.seed": seed,
    }
    return train_command(config, options, set_ or [], dry_run=dry_run, as_json=json)


@app.command
def resume(run: str | None = None, *, json: Json = False) -> int:
    """Go on with a run that was interrupted (the last one if none is named)."""
    from flows.commands import resume_command

    return resume_command(run, json)


@app.command
def status(run: str | None = None, *, json: Json = False) -> int:
    """Say of each stage of a run whether it would hit the cache, run, or wait, and why."""
    from flows.commands import status_command

    return status_command(run, json)


@app.command
def lineage(model: str, *, json: Json = False) -> int:
    """Walk from a model (digest, run or models:/NAME@ALIAS) back to corpus, code and parameters."""
    from flows.commands import lineage_command

    return lineage_command(model, json)


@app.command
def report(run: str | None = None, *, json: Json = False) -> int:
    """Write the report of a finished run anew from the store, and print where it is."""
    from flows.commands import report_command

    return report_command(run, json)


@app.command
def register(run: str | None = None, *, json: Json = False) -> int:
    """Register a run's best encoder; a second time changes nothing."""
    from flows.commands import register_command

    return register_command(run, json)


@app.command
def promote(run: str | None = None, *, json: Json = False) -> int:
    """Ask the gate: champion if the run's encoder beats the champion, else challenger (exit 4)."""
    from flows.commands import promote_command

    return promote_command(run, json)


@app.command
def encode(
    source: str,
    out: Path,
    *,
    model: str,
    text_column: str | None = None,
    sentences_column: str | None = None,
    id_column: str | None = None,
    by: Literal["document", "sentence"] = "document",
    json: Json = False,
) -> int:
    """Encode a corpus with a registered model (or a folder) into a Parquet file."""
    from flows.commands import resolved
    from sentemb_core.cli import encode as encode_with

    return encode_with(
        str(resolved(model)),
        source,
        out,
        text_column=text_column,
        sentences_column=sentences_column,
        id_column=id_column,
        by=by,
        json=json,
    )


@app.command
def search(
    query: str,
    source: str,
    *,
    model: str,
    top: int = 10,
    text_column: str | None = None,
    sentences_column: str | None = None,
    id_column: str | None = None,
    json: Json = False,
) -> int:
    """Find the documents of a corpus nearest to a query, with a registered model (or a folder)."""
    from flows.commands import resolved
    from sentemb_core.cli import search as search_with

    return search_with(
        str(resolved(model)),
        query,
        source,
        top=top,
        text_column=text_column,
        sentences_column=sentences_column,
        id_column=id_column,
        json=json,
    )


@app.command
def where(model: str) -> int:
    """Print the verified folder of a registered model (models:/NAME@champion)."""
    from flows.commands import resolved
    from sentemb_core.console import write_line

    write_line(str(resolved(model)))
    return 0


@app.command
def serve(
    *,
    port: int = 4200,
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
def gc(*, keep_runs: int = 10, dry_run: Annotated[bool, Flag] = False, json: Json = False) -> int:
    """Remove artifacts that neither a registered model nor the last runs reach."""
    from flows.commands import gc_command

    return gc_command(keep_runs, dry_run, json)


@app.command
def fsck(*, json: Json = False) -> int:
    """Re-hash every artifact; quarantine what is not what its name says."""
    from flows.commands import fsck_command

    return fsck_command(json)


if __name__ == "__main__":
    raise SystemExit(run_app(app))
