"""The report of a finished run: its verdict in words, its facts, its page and files."""

import json
import logging
import platform
import subprocess
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from pydantic import ValidationError

from sentemb_core.config.run import AnnotationConfig, CorpusConfig, RunConfig
from sentemb_core.errors import CorruptArtifactError
from sentemb_core.formats import counted, with_interval
from sentemb_core.options import CorpusOptions
from sentemb_core.redaction import redacted
from sentemb_core.store.disk import replacing_in
from sentemb_core.store.objects import Store
from sentemb_core.store.stages import flat
from sentemb_core.types import ArtifactRef, Json, SearchTask, StageTiming, Value
from tasks.artifacts import EncoderResult, RunResult, artifact_path, new_artifact
from tasks.evaluations import evaluation_of
from tasks.gate import GateOutcome
from tasks.run_table import seconds_of
from tasks.served import retriever_report
from tasks.stage import stage
from tasks.validate import recall_at_5
from tasks.verdict import answer_on, hits_at_5, returned_name, verdict_on

if TYPE_CHECKING:
    from sentemb_core.report.collect import RoundFolders
    from sentemb_core.report.data import RunReport

log = logging.getLogger("sentemb_core.run")


class Outcome(Value):
    """A finished run: its rows, the published encoder, the gate's outcome, the report's address."""

    run: str
    training: RunResult
    encoder: ArtifactRef
    report: str
    gate: GateOutcome | None
    timings: list[StageTiming]
    task: SearchTask | None = None


def read_outcome(folder: Path) -> Outcome:
    """Read the artifact of an outcome; E600 if another version of this program wrote it."""
    try:
        return Outcome.model_validate_json((folder / "outcome.json").read_bytes())
    except ValidationError as error:
        raise CorruptArtifactError(
            f"An outcome needs the fields of this version; {folder} has others "
            f"({error.error_count()} errors). Run the pipeline again."
        ) from error


def verdict_of(outcome: Outcome) -> str:
    """Return the verdict in words: the gain, the gate's decision, and what serves now."""
    gain = result_of(outcome)
    return f"{gain} {outcome.gate.text}" if outcome.gate else gain


def result_of(outcome: Outcome) -> str:
    """Return what a run found: whether to use what it returned, and the numbers behind it."""
    if outcome.training.retriever:
        return verdict_on(outcome.training, outcome.task, outcome.gate).text
    head = answer_on(outcome.training, outcome.task, outcome.gate)[1]
    return f"{head} {gain_of(outcome.training)}"


def gain_of(training: RunResult) -> str:
    """Return what was gained on the validation and test splits over the start and BM25."""
    start, best = training.rows[0], training.rows[training.best]
    sentences = [
        f"{best.label!r} ({recall_at_5(best.scores):.3f}) {rank_text(training)} by R@5 on the "
        f"validation split. On the test split, which decides nothing, R@5 is "
        f"{recall_at_5(best.scores, 'test'):.3f}, and {recall_at_5(start.scores, 'test'):.3f} for "
        f"the start encoder{difference_text(best.scores, start.scores)}{bm25_text(training)}."
    ]
    if loss := initialiser_text(training):
        sentences.append(loss)
    kinds = {row.kind for row in training.rows}
    best = training.best_trained
    if best.kind in ("start", "trained") and "round" in kinds:
        sentences.append("No round improved it: it did not learn from self-annotation.")
    elif best.kind in ("start", "trained") and "fine-tuned" in kinds:
        sentences.append("Fine-tuning did not improve it: it learned from no label.")
    elif best.kind == "start" and len(training.rows) > 1:
        sentences.append("No training improved it: it is the start encoder itself.")
    return " ".join(sentences)


def rank_text(training: RunResult) -> str:
    """Return how the returned encoder ranks among all encoders of the run, controls included.

    A better one may not be for choice: a control, the start below an initialiser, or an encoder
    that is not the fine-tuned one.
    """
    rows = [*training.rows, *training.controls]
    own = rows.pop(training.best)
    best = recall_at_5(own.scores)
    first = max(rows, key=lambda row: recall_at_5(row.scores), default=own)
    value, encoders = recall_at_5(first.scores), counted(len(rows) + 1, "encoder")
    if value > best:
        return f"is returned, but {first.label!r} ({value:.3f}) is the best of {encoders}"
    return (
        f"ties for the best of {encoders}"
        if value == best and rows
        else (f"is the best of {encoders}")
    )


def initialiser_text(training: RunResult) -> str:
    """Return a sentence if the initialiser lost more than all later training gained, else ""."""
    start, best = training.rows[0], training.rows[training.best]
    parents = {row.parent for row in training.rows}
    first = [row for row in training.rows[1:2] if row.kind == "trained" and row.label in parents]
    lost = recall_at_5(start.scores) > recall_at_5(best.scores)
    if not lost or not first:
        return ""
    return (
        f"The start encoder has a higher R@5 on the validation split "
        f"({recall_at_5(start.scores):.3f}), but all training began {first[0].label}. Without "
        "it (--initialiser none) training begins at the start encoder."
    )


def bm25_text(training: RunResult) -> str:
    """Return a clause if BM25 has a higher R@5 on the test split, else ""."""
    best, bm25 = training.rows[training.best].scores, training.bm25
    if recall_at_5(best, "test") >= recall_at_5(bm25, "test"):
        return ""
    return f"; BM25 has {recall_at_5(bm25, 'test'):.3f}{difference_text(best, bm25)}"


def difference_text(scores: ArtifactRef, baseline: ArtifactRef) -> str:
    """Return the difference in R@5 on the test split with its interval; "" for equal artifacts."""
    from sentemb_core.evaluation.bootstrap import paired_difference

    if scores == baseline:
        return ""
    gain = paired_difference(hits_at_5(scores), hits_at_5(baseline), 0)
    return f", a difference of {with_interval(gain.low, gain.mean, gain.high)}"


def notes_of(training: RunResult, seed: int) -> list[str]:
    """Return what self-annotation itself gained: the difference from its control."""
    from sentemb_core.evaluation.bootstrap import paired_difference

    if not training.controls:
        return []
    row, control, what = row_and_control(training)
    if row.kind == "fine-tuned" and row.encoder == control.encoder:
        return [
            "No round of self-training improved the encoder, so the fine-tuned encoder is its own "
            "control: there is nothing to compare."
        ]
    subject = "Effect of self-annotation"
    if row.kind == "fine-tuned":  # its control had one pass over the labels and no steps before
        subject = "Effect of the cycles, with their additional steps and passes over the labels"
    hits = hits_at_5(row.scores), hits_at_5(control.scores)
    if (hits[0] == hits[1]).all():
        return [
            f"{subject}: none in R@5. {row.label} and its control ({what}) find the same "
            f"{hits[0].sum():.0f} of {counted(len(hits[0]), 'counterpart')} of the test split."
        ]
    gain = paired_difference(*hits, seed)
    significance = "significant" if gain.low > 0 or gain.high < 0 else "not significant"
    better = "; the control is better" if gain.high < 0 else ""
    return [
        f"{subject}: {row.label} reaches R@5 {hits[0].mean():.3f} on the test split, its control "
        f"({what}) {hits[1].mean():.3f}: a difference of "
        f"{with_interval(gain.low, gain.mean, gain.high)}, {significance} with one seed{better}."
    ]


def doubts_of(training: RunResult) -> list[str]:
    """Return warnings about the scores: few queries, or few different counterparts."""
    from sentemb_core.evaluation.pool_size import pool_doubts

    return pool_doubts(artifact_path(training.texts.validation_pool))


def row_and_control(training: RunResult) -> tuple[EncoderResult, EncoderResult, str]:
    """Return the row that has a control, the control, and what the control was trained on."""
    best = training.best_trained
    if best.kind == "fine-tuned":
        return best, training.controls[0], "the same labels once, without self-training"
    rounds = [row for row in training.rows if row.kind == "round"]
    pairs = list(zip(rounds, training.controls, strict=True))
    row, control = next((pair for pair in pairs if pair[0] == best), pairs[-1])
    return row, control, "the same number of steps on plain neighbours"


def write_report_of(outcome: Outcome, config: RunConfig, unregistered: str = "") -> Path:
    """Write the page, its figures and the settings that repeat the run.

    The page of a run without the gate's outcome says why its model is `unregistered`.
    """
    from sentemb_core.report.run_page import write_report

    folder = report_folder(outcome.run)
    log.info("writing the report to %s", folder)
    settings = json.dumps(config.model_dump(mode="json"), indent=1)
    drawn = artifact_path(drawn_report(outcome, config))
    with replacing_in(folder) as draft:
        page = write_report(full_report(outcome, config, unregistered, drawn), draft, drawn)
        (draft / "config.json").write_text(settings, encoding="utf-8")
    return folder / page.name


PANELS = "panels.json"
"""In the artifact of `draw_report`: the data of the panels."""


@stage(
    "draw_report",
    version=1,
    modules=(
        "sentemb_core.report.collect",
        "sentemb_core.report.data",
        "sentemb_core.report.drawing",
        "sentemb_core.report.run_figures",
        "sentemb_core.report.run_page",
        "sentemb_core.report.scores",
        "sentemb_core.annotation.clusters",
        "sentemb_core.annotation.pruning",
        "sentemb_core.evaluation.round_diagnostics",
        "sentemb_core.evaluation.vectors",
        "sentemb_core.training.state",
    ),
    numeric=("device",),
    libraries=("matplotlib",),
)
def draw_report(
    training: RunResult,
    returned: str,
    annotation: AnnotationConfig,
    costs: dict[str, float],
    seconds: dict[str, float],
    evaluation: Json | None,
) -> ArtifactRef:
    """Return the figures of a run's report, and the data of its panels.

    Args:
        training: What the run found.
        returned: Name of what it returns.
        annotation: How its rounds annotate.
        costs: Seconds of each row.
        seconds: Seconds of each stage.
        evaluation: Results of the evaluation suite.
    """
    from sentemb_core.report.data import RunReport
    from sentemb_core.report.run_page import write_drawings

    timings = [StageTiming(stage=name, seconds=each, hit=False) for name, each in seconds.items()]
    words: Json = {"title": "", "verdict": "", "command": "", "timings": timings}
    panels = panels_of_run(training, returned, annotation, costs)
    report = RunReport.model_validate(words | panels | {"evaluation": evaluation})
    with new_artifact("report") as draft:
        write_drawings(report, draft.path)
        content = report.model_dump_json(include={*panels})
        (draft.path / PANELS).write_text(content, encoding="utf-8")
    return draft.ref


def panels_of_run(
    training: RunResult, returned: str, annotation: AnnotationConfig, costs: dict[str, float]
) -> "dict[str, object]":
    """Return the data of the panels of a run's report; the arguments are those of `draw_report`."""
    from sentemb_core.report.collect import RunFolders, panels_of

    texts = training.texts
    fixed = {"BM25": training.bm25, "random encoder": training.random}
    folders = RunFolders(
        documents=artifact_path(texts.documents),
        validation_pool=artifact_path(texts.validation_pool),
        sentences=artifact_path(texts.sentences),
        rounds=[folders_of(row, costs[row.label]) for row in (*training.rows, *training.controls)],
        fixed={label: artifact_path(ref) for label, ref in fixed.items()},
        best=training.best,
        returned=returned,
        served=artifact_path(training.retriever.scores) if training.retriever else None,
        annotation=annotation,
    )
    return panels_of(folders)


def drawn_report(outcome: Outcome, config: RunConfig) -> ArtifactRef:
    """Return the figures and panels of a run's report; drawn only if their content is new."""
    from sentemb_core.report.data import seconds_by_stage

    evaluation = evaluation_of(outcome.encoder)
    arguments = {
        "training": outcome.training,
        "returned": returned_name(outcome.training),
        "annotation": config.annotation,
        "costs": costs_of(outcome),
        "seconds": seconds_by_stage(outcome.timings),
        "evaluation": evaluation.model_dump(mode="json") if evaluation else None,
    }
    return draw_report.stage.run(Store.default(), arguments)


def costs_of(outcome: Outcome) -> dict[str, float]:
    """Return the seconds of each row and control by its label."""
    rows = (*outcome.training.rows, *outcome.training.controls)
    return {row.label: seconds_of(outcome.timings, row.label) for row in rows}


def report_folder(run: str) -> Path:
    """Return the folder of a run's page, in the home as it is now (it may have moved)."""
    return Store.default().root / "reports" / run


def full_report(
    outcome: Outcome, config: RunConfig, unregistered: str = "", drawn: Path | None = None
) -> "RunReport":
    """Return words and facts of the run, with every panel that its artifacts fill.

    `drawn` is the folder of `draw_report`; without it, nothing is drawn or stored.
    """
    from sentemb_core.report.counts import corpus_counts
    from sentemb_core.report.data import RunReport

    training, settings = outcome.training, config.model_dump(mode="json")
    if drawn:
        panels = json.loads((drawn / PANELS).read_text("utf-8"))
    else:
        returned, costs = returned_name(training), costs_of(outcome)
        panels = panels_of_run(training, returned, config.annotation, costs)
    texts = training.texts
    counts = corpus_counts(artifact_path(texts.documents), artifact_path(texts.sentences))
    config_file = report_folder(outcome.run) / "config.json"
    model = model_of(outcome)
    retriever = None
    if training.retriever:
        verdict = verdict_on(training, config.task, outcome.gate)
        column = counterpart_of(config)
        retriever = retriever_report(training, verdict, commands_of(outcome, config), column)
    answer, head = answer_on(training, outcome.task, outcome.gate)
    words = RunReport(
        title=config.name,
        answer=head,
        serve=answer in ("serve", "start is enough"),
        verdict=result_of(outcome) if retriever else gain_of(training),
        retriever=retriever,
        registry=outcome.gate.text if outcome.gate else unregistered,
        use=search_command(model, config.corpus),
        notes=[
            *([] if retriever else doubts_of(training)),
            *notes_of(training, config.training.seed),
        ],
        command=f"python -m flows run --config {quote(str(config_file))}",
        facts=facts_of(outcome, config),
        settings={path: redacted(str(value)) for path, value in flat(settings).items()},
        timings=outcome.timings,
        evaluation=evaluation_of(outcome.encoder),
        evaluate=[
            f"python -m flows benchmark {quote(model)}",
            f"python -m flows report {outcome.run}",
        ],
    )
    return RunReport.model_validate(dict(words) | panels | counts)


def search_command(model: str, corpus: CorpusConfig) -> str:
    """Return the command that searches documents like the run's, with the same options."""
    options = corpus_options(corpus)
    return f"python -m flows search WORDS SOURCE --model {quote(model)}{options}"


def counterpart_of(config: RunConfig) -> str | None:
    """Return the name of the counterparts' column; None where a file of labels has them."""
    return None if config.labels.source else config.corpus.counterpart_column


def commands_of(outcome: Outcome, config: RunConfig) -> list[str]:
    """Return the commands that index the run's source with its model, and search it.

    A run of a sample indexes the whole source.
    """
    index, source = f"{config.name}-index", redacted(config.corpus.source)
    return [
        f"python -m flows index {quote(source)} {index} --model {quote(model_of(outcome))}"
        f"{corpus_options(config.corpus)}",
        f'python -m flows search "some words" {index}',
    ]


def model_of(outcome: Outcome) -> str:
    """Return the address of the run's model: its registered version, or else its folder."""
    return outcome.gate.uri if outcome.gate else str(Store.default().path(outcome.encoder))


def corpus_options(corpus: CorpusConfig) -> str:
    """Return the options that read documents as the run did."""
    usual = CorpusConfig(source=corpus.source)
    values = {field.name: getattr(corpus, field.name) for field in fields(CorpusOptions)}
    return "".join(
        f" --{name.replace('_', '-')} {quote(value)}"
        for name, value in values.items()
        if value != getattr(usual, name)
    )


def folders_of(row: EncoderResult, cost: float) -> "RoundFolders":
    """Return the folders of a row's artifacts."""
    from sentemb_core.report.collect import RoundFolders

    assert row.kind != "annotator", "a foreign annotator is no row of the run"
    annotation = row.annotation
    return RoundFolders(
        label=row.label,
        kind=row.kind,
        encoder=artifact_path(row.encoder),
        scores=artifact_path(row.scores),
        embeddings=artifact_path(row.embeddings) if row.embeddings else None,
        log=artifact_path(row.log) if row.log else None,
        clusters=artifact_path(annotation.clusters) if annotation else None,
        pairs=artifact_path(annotation.pairs) if annotation else None,
        diagnostics=artifact_path(row.diagnostics) if row.diagnostics else None,
        seconds=cost,
    )


def facts_of(outcome: Outcome, config: RunConfig) -> dict[str, str]:
    """Return the digests, seed, commit and versions that a repetition needs."""
    texts = outcome.training.texts
    facts = {
        "run": outcome.run,
        "encoder": outcome.encoder.digest,
        "documents": texts.documents.digest,
        "validation pool": texts.validation_pool.digest,
        "seed": str(config.training.seed),
        "commit": commit(),
        "versions": ", ".join(
            f"{name} {version(name)}" for name in ("torch", "transformers", "tokenizers", "prefect")
        ),
        "machine": f"Python {platform.python_version()}, {platform.machine()}",
    }
    if outcome.gate:
        facts["registered as"] = f"{outcome.gate.uri} ({outcome.gate.alias})"
    return facts


def commit() -> str:
    """Return the checkout's git commit and whether files differ from it, if git is installed."""
    try:
        result = subprocess.run(
            ["git", "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty= and changes"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return "unknown"
    return result.stdout.strip() or "unknown"
