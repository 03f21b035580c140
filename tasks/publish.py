"""The end of a run: its best encoder published with a card, registered, gated and reported."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from sentemb_core.config.run import RunConfig
from sentemb_core.encoder.card import base_of
from sentemb_core.errors import SentembError
from sentemb_core.store.runs import RunLog
from sentemb_core.types import ArtifactRef, Value
from tasks.artifacts import RunResult, artifact_path, new_artifact, read_json, save_json
from tasks.gate import register_and_gate
from tasks.prefect_pages import link, markdown, rounds_table
from tasks.report import (
    Outcome,
    counterpart_of,
    report_folder,
    row_and_control,
    verdict_of,
    write_report_of,
)
from tasks.results import markdown as markdown_table
from tasks.retriever import CORPUS_TABLE, choice_of, path_of_published, semantic_encoder
from tasks.run_monitor import RunMonitor, metrics_of
from tasks.served import candidate_lines, served_table
from tasks.stage import stage
from tasks.tracking import TrackedRun
from tasks.verdict import answer_on, returned_name, served_scores, verdict_on

if TYPE_CHECKING:
    from sentemb_core.encoder.card import CardFacts, RetrievalTask
    from sentemb_core.encoder.encoder import Encoder

log = logging.getLogger("sentemb_core.run")

ENCODERS = (
    "Encoders on the validation split, each beside words: the first that is level with the best is "
    "a part of the retrievers."
)
CANDIDATES = (
    "Retrievers on the validation split: the cheapest that is not measurably worse than the best "
    "is returned."
)


class Card(Value):
    """What an encoder's card states: its training, its scores, and those to compare them with."""

    name: str
    start: ArtifactRef
    base: str
    method: str
    steps: list[str]  # labels of its trainings, in order
    documents: ArtifactRef
    labels: int
    validation_pool: ArtifactRef
    counterpart: str | None
    rows: dict[str, ArtifactRef]  # label -> scores


def finish_run(training: RunResult, run: RunMonitor) -> Outcome:
    """Publish, register and report a finished loop."""
    config, run_id = run.config, run.record.run.id
    outcome = Outcome(
        run=run_id,
        training=training,
        encoder=published_model(training, config),
        report=str(report_folder(run_id) / "report.html"),
        gate=None,
        timings=run.timings,
        task=config.task,
    )
    if config.register_model:
        outcome = gated_or_reported(outcome, config, run.record)
    page = stored_and_reported(outcome, config, run.record)
    track_outcome(outcome, page, run.tracker)
    show_outcome(outcome, page, config, run.tracker.url)
    log.info("%s", verdict_of(outcome))
    return outcome


def track_outcome(outcome: Outcome, page: Path, tracker: TrackedRun) -> None:
    """Log the report, the scores and the verdict to MLflow."""
    training, verdict = outcome.training, verdict_of(outcome)
    tracker.log_artifact(page.parent)
    tracker.log_metrics(metrics_of(served_scores(training)))
    if training.retriever:
        comparisons = verdict_on(training, outcome.task, outcome.gate).comparisons
        gains = {f"test/gain over {each.baseline.name}": each.gain for each in comparisons}
        tracker.log_metrics(gains)
    tracker.set_tags(
        {
            "encoder": outcome.encoder.digest,
            "documents": training.texts.documents.digest,
            "validation_pool": training.texts.validation_pool.digest,
            "verdict": verdict,
            "mlflow.note.content": verdict,  # the description of the run on MLflow's pages
            "returned": returned_name(training),
            "serve": answer_on(training, outcome.task, outcome.gate)[0],
        }
    )


def show_outcome(outcome: Outcome, page: Path, config: RunConfig, address: str | None) -> None:
    """Show the verdict, the retrievers and the place of the report on Prefect's page.

    `address`: of the run in MLflow.
    """
    run, training = outcome.run, outcome.training
    note = [verdict_of(outcome)]
    if training.retriever:
        verdict = verdict_on(training, outcome.task, outcome.gate)
        table = served_table(training, verdict, counterpart_of(config))
        note.append(markdown_table(table))
        candidates = candidate_lines(choice_of(training.retriever.choice))
        rounds_table(f"{run}-retrievers", candidates, CANDIDATES)
        if compared := training.retriever.compared:
            rounds_table(f"{run}-encoders", candidate_lines(choice_of(compared)), ENCODERS)
    if address:
        link(f"{run}-mlflow", address, "This run in MLflow")
    text = "\n\n".join([*note, f"Report: `{page}`"])
    markdown(f"{run}-report", text, "Verdict of the run")


def gated_or_reported(outcome: Outcome, config: RunConfig, record: RunLog) -> Outcome:
    """Return the outcome with the gate's; if the registry fails, store and report it without.

    `resume` tries again and then adds the gate's outcome to the report.
    """
    try:
        gate = register_and_gate(config, outcome)
    except SentembError:
        stored_and_reported(outcome, config, record, how_to_register(outcome))
        raise
    return outcome.model_copy(update={"gate": gate})


def stored_and_reported(
    outcome: Outcome, config: RunConfig, record: RunLog, unregistered: str = ""
) -> Path:
    """Write the report, name the outcome in the run's record, and return the page."""
    page = write_report_of(outcome, config, unregistered)
    stored = save_json("outcome", outcome.model_dump(mode="json"))
    record.update(outputs=[stored, outcome.encoder])
    return page


def how_to_register(outcome: Outcome) -> str:
    """Return how to continue after an error of the registry."""
    return (
        "An error interrupted the registration: the encoder is not registered, or not compared "
        f"with the champion. `python -m flows resume {outcome.run}` continues."
    )


def published_model(training: RunResult, config: RunConfig) -> ArtifactRef:
    """Return the chosen retriever, or else the best encoder, under a card with its scores."""
    if training.retriever is None:
        return publish_encoder(training.rows[training.best].encoder, card_of(training, config))
    chosen = training.retriever
    return publish_retriever(
        chosen.choice, chosen.encoders, chosen.token_maps, card_of(training, config)
    )


def card_of(training: RunResult, config: RunConfig) -> Card:
    """Return the card of what a run publishes: the trainings behind it, and its scores."""
    *before, _ = path = path_of_published(training)
    steps, base = [row.label for row in path[1:]], base_of(config.encoder.name)
    if training.retriever and semantic_encoder(training.retriever) == CORPUS_TABLE:
        steps, base = ["corpus table"], "static"
    rows = {row.label: row.scores for row in (path if training.retriever else before)}
    rows[f"{returned_name(training)} (this model)"] = served_scores(training)
    return Card(
        name=config.name,
        start=path[0].encoder,
        base=base,
        method=config.training.method.name,
        steps=steps,
        documents=training.texts.documents,
        labels=training.labels if any(row.kind == "fine-tuned" for row in path) else 0,
        validation_pool=training.texts.validation_pool,
        counterpart=counterpart_of(config),
        rows=rows | baseline_scores(training),
    )


def baseline_scores(training: RunResult) -> dict[str, ArtifactRef]:
    """Return the scores to compare the best encoder with: BM25, and its control if it has one."""
    scores = {"BM25": training.bm25}
    if training.controls:
        row, control, what = row_and_control(training)
        if row == training.rows[training.best]:
            scores[f"control: {what}"] = control.scores
    return scores


@stage("publish_retriever", version=1, modules=("sentemb_core.encoder.card",))
def publish_retriever(
    choice: ArtifactRef,
    encoders: dict[str, ArtifactRef],
    token_maps: dict[str, ArtifactRef],
    card: Card,
) -> ArtifactRef:
    """Write the chosen retriever as one folder, with a card."""
    from sentemb_core.encoder.card import model_card
    from sentemb_core.encoder.checkpoint import load_encoder
    from sentemb_core.retriever.folder import TOKEN_MAP, save_retriever
    from sentemb_core.retriever.retriever import assembled
    from sentemb_core.retriever.tokens import read_token_map

    spec = choice_of(choice).spec
    used = {
        each.folder: load_encoder(artifact_path(encoders[each.folder])) for each in spec.vectors
    }
    token_map = None
    if spec.tokens:
        file = artifact_path(token_maps[spec.vectors[0].folder]) / TOKEN_MAP
        token_map = read_token_map(file)
    retriever = assembled(spec, used, token_map)
    facts = facts_of(card, next(iter(used.values()), None)).model_copy(
        update={"parts": retriever.spec.described()}
    )
    with new_artifact("model") as draft:
        save_retriever(retriever, draft.path, model_card(facts))
    return draft.ref


@stage("publish_encoder", version=3, modules=("sentemb_core.encoder.card",))
def publish_encoder(encoder: ArtifactRef, card: Card) -> ArtifactRef:
    """Write the same weights with a card: training, scores of each row, how to load them."""
    from sentemb_core.encoder.card import model_card
    from sentemb_core.encoder.checkpoint import load_encoder, save_encoder

    learner = load_encoder(artifact_path(encoder))
    with new_artifact("model") as draft:
        text = model_card(facts_of(card, learner))
        save_encoder(learner, draft.path, text, head_from=artifact_path(encoder))
    return draft.ref


def facts_of(card: Card, learner: "Encoder | None") -> "CardFacts":
    """Return the facts of a card; `learner` is the semantic encoder, if there is one."""
    from sentemb_core.encoder.card import CardFacts
    from sentemb_core.evaluation.validation_scores import read_scores

    scores = {
        label: read_scores(artifact_path(ref))["test"].document_to_counterpart
        for label, ref in card.rows.items()
    }
    return CardFacts(
        name=card.name,
        registered=card.name,
        base=card.base,
        method=method_text(card.method, card.steps),
        parent=card.start.digest if card.steps else None,
        corpus=corpus_text(card.documents),
        labels=card.labels,
        kind=learner.kind if learner else None,
        max_length=learner.max_length if learner else None,
        text_length=learner.text_length if learner else None,
        task=judged_split(artifact_path(card.validation_pool), card.counterpart),
        scores={
            label: {
                "test R@1": row.recall_at_1,
                "test R@5": row.recall_at_5,
                "test R@10": row.recall_at_10,
            }
            for label, row in scores.items()
        },
    )


def method_text(method: str, labels: list[str]) -> str | None:
    """Return the method with its trainings; a single one of the same name is left out."""
    steps = [label.removeprefix("after ") for label in labels]
    if not steps:
        return None
    return method if steps == [method] else f"{method}: {', then '.join(steps)}"


def corpus_text(documents: ArtifactRef) -> str:
    """Return the size and digest of a corpus; the name of its file plays no part."""
    report = read_json(documents, "report")
    return (
        f"{report['documents']:,} documents, {report['sentences']:,} sentences "
        f"(documents:{documents.digest[:12]})"
    )


def judged_split(pool: Path, counterpart: str | None) -> "RetrievalTask":
    """Return sides and size of a pool's test split; a counterpart column names the candidates."""
    from sentemb_core.corpus.validation_pool import SIDES, read_report
    from sentemb_core.encoder.card import RetrievalTask

    report = read_report(pool)
    query, candidate = SIDES[report.kind]
    return RetrievalTask(
        query=query,
        candidate=(counterpart if report.kind == "counterpart" else None) or candidate,
        queries=report.n_queries["test"],
        candidates=report.n_candidates,
    )
