"""The end of a run: the best encoder with its own card, the report, the registry and the gate."""

import json
import logging
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from sentemb_core.configs import RunConfig
from sentemb_core.formats import change, counted
from sentemb_core.redaction import redacted
from sentemb_core.report.data import Fact, RunReport, StageTiming
from sentemb_core.store.objects import Store, canonical
from sentemb_core.store.stages import flat
from sentemb_core.types import ArtifactRef, Json
from tasks.artifacts import link, markdown
from tasks.caching import stage
from tasks.following import Following, metrics_of
from tasks.gating import Landing, landed
from tasks.rows import Row, SelfTraining, Value
from tasks.storing import opened, written
from tasks.tables.evaluations import evaluation_of
from tasks.tables.run_table import seconds
from tasks.validate import scores_of

if TYPE_CHECKING:
    import numpy as np

    from sentemb_core.corpus.benchmark import Split
    from sentemb_core.encoder.card import Judged
    from sentemb_core.report.folders import RoundFolders

log = logging.getLogger("sentemb_core.run")


class Outcome(Value):
    """A finished run: its id, what the loop made, the published encoder, where the report is."""

    run: str
    training: SelfTraining
    encoder: ArtifactRef
    report: str
    landing: Landing | None
    timings: list[StageTiming]


def published(training: SelfTraining, run: Following) -> Outcome:
    """Publish, register and report a finished loop."""
    config, run_id = run.config, run.record.run.id
    encoder = best_encoder(training, config)
    landing = landed(config, training, encoder) if config.register_model else None
    outcome = Outcome(
        run=run_id,
        training=training,
        encoder=encoder,
        report=str(Store.default().root / "reports" / run_id / "report.html"),
        landing=landing,
        timings=run.timings,
    )
    page = write_report_of(outcome, config)
    with written("outcome") as draft:
        (draft.path / "outcome.json").write_bytes(canonical(outcome.model_dump(mode="json")))
    run.record.update(outputs=[draft.ref, encoder])
    run.tracker.log_artifact(page.parent)
    run.tracker.log_metrics(metrics_of(training.rows[training.best]))
    run.tracker.set_tags(
        {
            "encoder": encoder.digest,
            "documents": training.texts.documents.digest,
            "benchmark": training.texts.benchmark.digest,
            "verdict": verdict_of(outcome),
        }
    )
    if address := run.tracker.url:
        link(f"{run_id}-mlflow", address, "This run in MLflow")
    markdown(f"{run_id}-report", f"{verdict_of(outcome)}\n\nReport: `{page}`")
    log.info("%s", verdict_of(outcome))
    return outcome


def base_of(source: str) -> str:
    """A Hugging Face name as it is; of a file or folder its name alone, for cards travel."""
    return Path(source).name if Path(source).exists() else source


def best_encoder(training: SelfTraining, config: RunConfig) -> ArtifactRef:
    """The encoder that the loop chose, with a card that tells its way there."""
    path = training.path
    return publish_encoder(
        path[-1].encoder,
        path[0].encoder,
        config.name,
        base_of(config.encoder.name),
        config.training.method.name,
        training.texts.documents,
        training.texts.benchmark,
        [row.label for row in path],
        [row.scores for row in path],
        beside=beside(training),
        taught=training.labels if any(row.kind == "fine-tuned" for row in path) else 0,
        counterpart=None if config.labels.source else config.corpus.counterpart_column,
    )


def beside(training: SelfTraining) -> dict[str, ArtifactRef]:
    """Scores to hold those of the best encoder against: words alone, and its control."""
    told = {"BM25": training.bm25}
    if training.controls:
        chosen, control, what = compared(training)
        if chosen == training.rows[training.best]:
            told[f"control: {what}"] = control.scores
    return told


@stage("publish_encoder", version=3, modules=("sentemb_core.encoder.card",))
def publish_encoder(
    encoder: ArtifactRef,
    start: ArtifactRef,
    name: str,
    base: str,
    method: str,
    documents: ArtifactRef,
    benchmark: ArtifactRef,
    labels: list[str],
    scores: list[ArtifactRef],
    *,
    beside: dict[str, ArtifactRef],
    taught: int,
    counterpart: str | None,
) -> ArtifactRef:
    """The same weights under their own card: what taught them, scores per round, how to load."""
    from sentemb_core.encoder.card import CardFacts, model_card
    from sentemb_core.encoder.checkpoint import load_encoder, save_encoder
    from sentemb_core.encoder.modules import is_static
    from sentemb_core.evaluation.scores import read_scores
    from sentemb_core.heads.stored_head import carry_head

    learner = load_encoder(opened(encoder))
    *before, last = labels
    rows = dict(zip([*before, f"{last} (this encoder)"], scores, strict=True)) | beside
    read = {
        label: read_scores(opened(ref))["test"].document_to_counterpart
        for label, ref in rows.items()
    }
    facts = CardFacts(
        name=name,
        registered=name,
        base=base,
        method=way(method, labels[1:]),
        parent=start.digest if labels[1:] else None,
        corpus=corpus_words(opened(documents), documents.digest),
        labels=taught,
        kind="static" if is_static(opened(encoder)) else "transformer",
        max_length=learner.max_length,
        judged=judged_on(opened(benchmark), counterpart),
        scores={
            label: {
                "test R@1": row.recall_at_1,
                "test R@5": row.recall_at_5,
                "test R@10": row.recall_at_10,
            }
            for label, row in read.items()
        },
    )
    with written("model") as draft:
        save_encoder(learner, draft.path, model_card(facts))
        carry_head(opened(encoder), draft.path)
    return draft.ref


def way(method: str, labels: list[str]) -> str | None:
    """A method and the trainings behind its encoder, said once where it has but one of its name."""
    steps = [label.removeprefix("after ") for label in labels]
    if not steps:
        return None
    return method if steps == [method] else f"{method}: {', then '.join(steps)}"


def corpus_words(documents: Path, digest: str) -> str:
    """A corpus by its size and its digest: a file of another name gives the same encoder."""
    told = json.loads((documents / "report.json").read_text("utf-8"))
    return (
        f"{told['documents']:,} documents, {told['sentences']:,} sentences "
        f"(documents:{digest[:12]})"
    )


def judged_on(benchmark: Path, counterpart: str | None) -> "Judged":
    """The test split of a benchmark; a column of counterparts lends them its name."""
    from sentemb_core.corpus.benchmark import SIDES, BenchmarkReport
    from sentemb_core.encoder.card import Judged

    told = BenchmarkReport.model_validate_json((benchmark / "benchmark.json").read_bytes())
    query, candidate = SIDES[told.kind]
    return Judged(
        query=query,
        candidate=(counterpart if told.kind == "counterpart" else None) or candidate,
        queries=told.n_queries["test"],
        candidates=told.n_candidates,
    )


def write_report_of(outcome: Outcome, config: RunConfig) -> Path:
    """The page, its figures and the settings that repeat the run, as files."""
    from sentemb_core.report.write import write_report

    folder = Path(outcome.report).parent
    log.info("writing the report to %s", folder)
    page = write_report(full_report(outcome, config), folder)
    settings = json.dumps(settings_of(config), indent=1)
    (folder / "config.json").write_text(settings, encoding="utf-8")
    return page


def settings_of(config: RunConfig) -> Json:
    return config.model_dump(mode="json")


def full_report(outcome: Outcome, config: RunConfig) -> RunReport:
    """Words and facts of the run, and every panel its artifacts can fill."""
    from sentemb_core.report.collect import report_of
    from sentemb_core.report.folders import RunFolders

    training = outcome.training
    fixed = {"BM25": training.bm25, "random encoder": training.random}
    folders = RunFolders(
        documents=opened(training.texts.documents),
        benchmark=opened(training.texts.benchmark),
        sentences=opened(training.texts.sentences),
        rounds=[
            folders_of(row, seconds(outcome.timings, row.label))
            for row in (*training.rows, *training.controls)
        ],
        fixed={label: opened(ref) for label, ref in fixed.items()},
        best=training.best,
        annotation=config.annotation,
    )
    model = outcome.landing.uri if outcome.landing else Store.default().path(outcome.encoder)
    words = RunReport(
        title=config.name,
        verdict=verdict_of(outcome),
        notes=notes_of(training, config.training.seed),
        command=f"python -m flows run --config {Path(outcome.report).parent / 'config.json'}",
        facts=facts_of(outcome, config),
        settings={path: redacted(str(value)) for path, value in flat(settings_of(config)).items()},
        timings=outcome.timings,
        evaluation=evaluation_of(outcome.encoder),
        evaluate=[f"python -m flows benchmark {model}", f"python -m flows report {outcome.run}"],
    )
    return report_of(folders, words)


def folders_of(row: Row, cost: float) -> "RoundFolders":
    """A row's artifacts, opened."""
    from sentemb_core.report.folders import RoundFolders

    assert row.kind != "annotator", "a foreign annotator is no row of the run"
    annotation = row.annotation
    return RoundFolders(
        label=row.label,
        kind=row.kind,
        encoder=opened(row.encoder),
        scores=opened(row.scores),
        embeddings=opened(row.embeddings) if row.embeddings else None,
        log=opened(row.log) if row.log else None,
        clusters=opened(annotation.clusters) if annotation else None,
        pairs=opened(annotation.pairs) if annotation else None,
        diagnostics=opened(row.diagnostics) if row.diagnostics else None,
        seconds=cost,
    )


def recall(scores: ArtifactRef, split: "Split") -> float:
    """Recall@5, document to counterpart."""
    return scores_of(scores)[split].document_to_counterpart.recall_at_5


def verdict_of(outcome: Outcome) -> str:
    """What was gained, what the gate said, and what serves now."""
    gained = gain_of(outcome.training)
    return f"{gained} {outcome.landing.told}" if outcome.landing else gained


def gain_of(training: SelfTraining) -> str:
    """What was gained on which split, over what."""
    start, best = training.rows[0], training.rows[training.best]
    said = [
        f"{best.label[0].upper()}{best.label[1:]} {standing(training)} "
        f"{counted(len(training.rows), 'encoder')} "
        f"(R@5 {recall(best.scores, 'validation'):.3f} on the validation split). On the "
        f"test split, never decided on, R@5 was {recall(start.scores, 'test'):.3f} at the start "
        f"and is {recall(best.scores, 'test'):.3f} now{below_words(training)}."
    ]
    kinds = {row.kind for row in training.rows}
    if best.kind in ("start", "trained") and "round" in kinds:
        said.append("No round grew over it: what is returned did not learn from self-annotation.")
    elif best.kind in ("start", "trained") and "fine-tuned" in kinds:
        said.append("Fine-tuning did not grow over it: what is returned learnt from no label.")
    elif best.kind == "start" and len(training.rows) > 1:
        said.append("No training grew over it: what is returned is the start encoder itself.")
    return " ".join(said)


def standing(training: SelfTraining) -> str:
    """How the returned encoder lies among all: a fine-tuned one is returned, better or not."""
    values = [recall(row.scores, "validation") for row in training.rows]
    best = values.pop(training.best)
    if any(value > best for value in values):
        return "is returned, which is not the best of"
    return "is the best of" if best not in values else "is as good as the best of"


def below_words(training: SelfTraining) -> str:
    """A clause that says so if words alone (BM25) find more of the test split; else nothing."""
    words, best = (
        recall(scores, "test") for scores in (training.bm25, training.rows[training.best].scores)
    )
    return f", below BM25's {words:.3f}" if words > best else ""


def notes_of(training: SelfTraining, seed: int) -> list[str]:
    """What the control says about self-annotation: more training is not better annotation."""
    from sentemb_core.evaluation.bootstrap import paired_difference

    if not training.controls:
        return []
    chosen, control, what = compared(training)
    if chosen.kind == "fine-tuned" and chosen.encoder == control.encoder:
        return [
            "No round of self-training grew, so the fine-tuned encoder is the control itself: "
            "nothing to compare."
        ]
    hits = hits_at_5(chosen), hits_at_5(control)
    if (hits[0] == hits[1]).all():
        return [
            f"What self-annotation itself was worth: nothing that R@5 sees; {chosen.label} and its "
            f"control, {what}, find the same {hits[0].sum():.0f} of "
            f"{counted(len(hits[0]), 'counterpart')} of the test split."
        ]
    gain = paired_difference(*hits, seed)
    meaning = "" if gain.low > 0 else ", which may be chance"
    if gain.high < 0:
        meaning = ": here the control's way is the better one"
    return [
        f"What self-annotation itself was worth: {chosen.label} reaches R@5 {hits[0].mean():.3f} "
        f"on the test split, its control, {what}, {hits[1].mean():.3f}; a difference of "
        f"{change(gain.mean)} ({change(gain.low)} to {change(gain.high)} with 95 % confidence)"
        f"{meaning}."
    ]


def compared(training: SelfTraining) -> tuple[Row, Row, str]:
    """The row that a control speaks of, the control, and what that is."""
    best = training.rows[training.best]
    if best.kind == "fine-tuned":
        return best, training.controls[0], "the same labels without self-training"
    rounds = [row for row in training.rows if row.kind == "round"]
    pairs = list(zip(rounds, training.controls, strict=True))
    chosen, control = next((pair for pair in pairs if pair[0] == best), pairs[-1])
    return chosen, control, "the same number of steps on plain neighbours"


def hits_at_5(row: Row) -> "np.ndarray":
    """1 for every test document that finds its counterpart among five, else 0."""
    from sentemb_core.evaluation.scores import read_ranks

    return (read_ranks(opened(row.scores), "test") <= 5).astype("float64")


def facts_of(outcome: Outcome, config: RunConfig) -> list[Fact]:
    """What someone needs to repeat the run or to doubt it."""
    texts = outcome.training.texts
    told = {
        "run": outcome.run,
        "encoder": outcome.encoder.digest,
        "documents": texts.documents.digest,
        "benchmark": texts.benchmark.digest,
        "seed": str(config.training.seed),
        "commit": commit(),
        "versions": ", ".join(
            f"{name} {version(name)}" for name in ("torch", "transformers", "tokenizers", "prefect")
        ),
        "machine": f"Python {platform.python_version()}, {platform.machine()}",
    }
    if outcome.landing:
        told["registered as"] = f"{outcome.landing.uri} ({outcome.landing.alias})"
    return [Fact(label=label, value=value) for label, value in told.items()]


def commit() -> str:
    """The checkout's git commit, if it is one and git is there to ask."""
    try:
        done = subprocess.run(
            ["git", "rev-parse", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"


def read_outcome(folder: Path) -> Outcome:
    """What `published` wrote into its artifact."""
    return Outcome.model_validate_json((folder / "outcome.json").read_bytes())
