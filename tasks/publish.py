"""What a finished run leaves in the store: its best encoder under its own card, and its outcome."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from sentemb_core.config.run import RunConfig
from sentemb_core.encoder.card import base_of
from sentemb_core.report.data import StageTiming
from sentemb_core.store.objects import canonical
from sentemb_core.types import ArtifactRef, Json, Value
from tasks.artifact_files import artifact_path, new_artifact
from tasks.gate import GateOutcome
from tasks.run_result import EncoderResult, RunResult
from tasks.stage import stage

if TYPE_CHECKING:
    from sentemb_core.encoder.card import Judged


class Outcome(Value):
    """A finished run: its id, what the loop made, the published encoder, where the report is."""

    run: str
    training: RunResult
    encoder: ArtifactRef
    report: str
    landing: GateOutcome | None
    timings: list[StageTiming]


def stored_outcome(outcome: Outcome) -> ArtifactRef:
    """The outcome as an artifact, for `read_outcome`."""
    told: Json = outcome.model_dump(mode="json")
    with new_artifact("outcome") as draft:
        (draft.path / "outcome.json").write_bytes(canonical(told))
    return draft.ref


def read_outcome(folder: Path) -> Outcome:
    """What `stored_outcome` wrote."""
    return Outcome.model_validate_json((folder / "outcome.json").read_bytes())


def best_encoder(training: RunResult, config: RunConfig) -> ArtifactRef:
    """The encoder that the loop chose, with a card that tells its way there."""
    *before, best = path = training.path
    taught = TrainingCard(
        start=path[0].encoder,
        base=base_of(config.encoder.name),
        method=config.training.method.name,
        steps=[row.label for row in path[1:]],
        documents=training.texts.documents,
        labels=training.labels if any(row.kind == "fine-tuned" for row in path) else 0,
    )
    scored = ScoreCard(
        benchmark=training.texts.validation_pool,
        counterpart=None if config.labels.source else config.corpus.counterpart_column,
        rows={row.label: row.scores for row in before}
        | {f"{best.label} (this encoder)": best.scores}
        | beside(training),
    )
    return publish_encoder(best.encoder, config.name, taught, scored)


def beside(training: RunResult) -> dict[str, ArtifactRef]:
    """Scores to hold those of the best encoder against: words alone, and its control."""
    told = {"BM25": training.bm25}
    if training.controls:
        chosen, control, what = compared(training)
        if chosen == training.rows[training.best]:
            told[f"control: {what}"] = control.scores
    return told


class TrainingCard(Value):
    """What an encoder learnt from: the part of its card on training."""

    start: ArtifactRef
    base: str
    method: str
    steps: list[str]  # labels of its trainings, the first one first
    documents: ArtifactRef
    labels: int


class ScoreCard(Value):
    """What an encoder was judged on: the part of its card on scores."""

    benchmark: ArtifactRef
    counterpart: str | None
    rows: dict[str, ArtifactRef]  # label -> scores: its own, and those to hold them against


@stage("publish_encoder", version=3, modules=("sentemb_core.encoder.card",))
def publish_encoder(
    encoder: ArtifactRef, name: str, taught: TrainingCard, scored: ScoreCard
) -> ArtifactRef:
    """The same weights under their own card: what taught them, scores per round, how to load."""
    from sentemb_core.encoder.card import CardFacts, model_card
    from sentemb_core.encoder.checkpoint import load_encoder, save_encoder
    from sentemb_core.evaluation.validation_scores import read_scores

    learner = load_encoder(artifact_path(encoder))
    read = {
        label: read_scores(artifact_path(ref))["test"].document_to_counterpart
        for label, ref in scored.rows.items()
    }
    facts = CardFacts(
        name=name,
        registered=name,
        base=taught.base,
        method=way(taught.method, taught.steps),
        parent=taught.start.digest if taught.steps else None,
        corpus=corpus_words(artifact_path(taught.documents), taught.documents.digest),
        labels=taught.labels,
        kind=learner.kind,
        max_length=learner.max_length,
        judged=judged_on(artifact_path(scored.benchmark), scored.counterpart),
        scores={
            label: {
                "test R@1": row.recall_at_1,
                "test R@5": row.recall_at_5,
                "test R@10": row.recall_at_10,
            }
            for label, row in read.items()
        },
    )
    with new_artifact("model") as draft:
        save_encoder(learner, draft.path, model_card(facts), head_from=artifact_path(encoder))
    return draft.ref


def way(method: str, labels: list[str]) -> str | None:
    """The method and the trainings behind its encoder; a lone one of the same name is left out."""
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
    from sentemb_core.corpus.validation_pool import SIDES, PoolReport
    from sentemb_core.encoder.card import Judged

    told = PoolReport.model_validate_json((benchmark / "pool.json").read_bytes())
    query, candidate = SIDES[told.kind]
    return Judged(
        query=query,
        candidate=(counterpart if told.kind == "counterpart" else None) or candidate,
        queries=told.n_queries["test"],
        candidates=told.n_candidates,
    )


def compared(training: RunResult) -> tuple[EncoderResult, EncoderResult, str]:
    """The row that a control speaks of, the control, and what that is."""
    best = training.learnt
    if best.kind == "fine-tuned":
        return best, training.controls[0], "the same labels once, without self-training"
    rounds = [row for row in training.rows if row.kind == "round"]
    pairs = list(zip(rounds, training.controls, strict=True))
    chosen, control = next((pair for pair in pairs if pair[0] == best), pairs[-1])
    return chosen, control, "the same number of steps on plain neighbours"
