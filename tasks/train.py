"""The stage that trains an encoder by any method."""

import logging
from collections import deque
from collections.abc import Mapping
from statistics import fmean
from typing import TYPE_CHECKING, cast

from sentemb_core.config.methods import Condenser, HiCL, MethodSettings
from sentemb_core.config.run import TrainingConfig
from sentemb_core.progress import Update
from sentemb_core.types import ArtifactRef, OnStep
from tasks.artifacts import Trained, artifact_path, new_artifact
from tasks.checks import headless, silent
from tasks.execution import is_dry_run
from tasks.stage import stage, working_folder

if TYPE_CHECKING:
    from sentemb_core.documents import Documents
    from sentemb_core.encoder.card import CardFacts
    from sentemb_core.methods.parts.method import Learner

log = logging.getLogger("sentemb_core.run")

RECENT = 20
"""Number of last steps whose mean loss the progress bar shows."""


@stage(
    "train_encoder",
    version=5,
    ignore=("config.checkpoint_every",),
    numeric=("threads", "device"),
)
def train_encoder(
    encoder: ArtifactRef,
    sentences: ArtifactRef,
    config: TrainingConfig,
    clusters: ArtifactRef | None = None,
    pairs: ArtifactRef | None = None,
    validation_pool: ArtifactRef | None = None,
    judged: ArtifactRef | None = None,
) -> Trained:
    """Return the trained encoder. A killed training continues from its checkpoint, bit for bit.

    Args:
        encoder: Where the training starts.
        sentences: The corpus in the encoder's tokens.
        config: The method and its settings.
        clusters: Of a self-annotation, with its `pairs` (infocse_idc).
        pairs: See `clusters`.
        validation_pool: Validates during the training.
        judged: The corpus of the pool's documents, if it is not `sentences`.
    """
    from sentemb_core.encoder.card import CardFacts
    from sentemb_core.encoder.checkpoint import forget_encoder
    from sentemb_core.store.stages import running, threads
    from sentemb_core.training.inputs import TrainingInputs, train_from
    from sentemb_core.training.state import StepLog
    from sentemb_core.training.torchrun import train_on_devices
    from tasks.prefect_pages import progress

    # the number of threads in the key, whatever OMP_NUM_THREADS or torch is set to
    config = config.model_copy(update={"threads": threads({"config": config})})
    inputs = TrainingInputs(
        encoder=artifact_path(encoder),
        sentences=artifact_path(sentences),
        clusters=clusters and artifact_path(clusters),
        pairs=pairs and artifact_path(pairs),
        validation_pool=validation_pool and artifact_path(validation_pool),
        judged=judged and artifact_path(judged),
    )
    forget_encoder()
    steps = StepLog()
    run = train_from if config.devices == 1 else train_on_devices
    with progress("train_encoder", config.steps) as advance:
        learner, report = run(
            inputs,
            config,
            working_folder(),
            on_step=step_callback(advance),
            on_checkpoint=running().save_seconds,
            steps=steps,
        )
    with new_artifact("training_log") as journal:
        steps.write(journal.path)
        (journal.path / "report.json").write_text(report.model_dump_json(indent=1), "utf-8")
    facts = CardFacts(
        name=f"sentemb {config.method.name}",
        method=config.method.name,
        parent=encoder.digest,
        corpus=sentences.digest,
    )
    return Trained(model=stored_model(learner, config.method, facts), log=journal.ref)


def steps_of(training_log: ArtifactRef) -> int:
    """The number of steps that a training took."""
    from sentemb_core.training.state import TrainingReport

    report = (artifact_path(training_log) / "report.json").read_bytes()
    return TrainingReport.model_validate_json(report).steps


def step_callback(advance: Update) -> OnStep:
    """Return a function that tracks each step and shows the mean loss of the last ones."""
    from tasks.run_monitor import step_logger

    track = step_logger()
    losses: deque[float] = deque(maxlen=RECENT)

    def on_step(step: int, metrics: Mapping[str, float]) -> None:
        track(step, metrics)
        losses.append(metrics["loss"])
        advance(step, f"loss {fmean(losses):.3g}")

    return on_step


def check_documents(config: TrainingConfig, encoder: ArtifactRef, sentences: ArtifactRef) -> None:
    """Refuse, before an initialiser trains, documents that the run's training cannot use.

    Raises RecipeError, EmptyPairsError or NoNegativesError, as the training does. A dry run does
    not check.
    """
    if is_dry_run():
        return
    from sentemb_core.corpus.tokens import TokenCorpus
    from sentemb_core.encoder.checkpoint import loaded_encoder
    from sentemb_core.methods.catalogue import method_for
    from sentemb_core.training.batches import corpus_sampler

    with silent("sentemb_core"):  # the training logs them
        method = method_for(headless(config.method), loaded_encoder(artifact_path(encoder)))
        corpus_sampler(config, method, TokenCorpus.open(artifact_path(sentences)))


def stored_model(learner: "Learner", method: MethodSettings, facts: "CardFacts") -> ArtifactRef:
    """Store the encoder with its card; of further networks, only a Condenser stage's head."""
    from sentemb_core.encoder.card import model_card
    from sentemb_core.encoder.checkpoint import save_encoder
    from sentemb_core.methods.parts.stored_head import HeadShape, write_head
    from sentemb_core.methods.parts.transformer_layers import skip_layer

    with new_artifact("model") as model:
        save_encoder(learner.encoder, model.path, model_card(facts))
        if isinstance(method, Condenser):
            below = skip_layer(learner.encoder, method.skip_from)
            weights = learner.networks["condenser"].state_dict()
            write_head(weights, HeadShape(method.head_layers, below), model.path)
    return model.ref


def log_segment_counts(
    method: MethodSettings, sentences: ArtifactRef, encoder: ArtifactRef
) -> dict[int, float]:
    """Log and return the share of texts with each number of segments (hicl, Table 2).

    If all texts have one segment, HiCL is its base method. Of a corpus larger than memory, some
    shards count. Empty for other methods, in a dry run, and without texts to train on.
    """
    if not isinstance(method, HiCL) or is_dry_run():
        return {}

    from sentemb_core.corpus.tokens import TokenCorpus
    from sentemb_core.encoder.checkpoint import loaded_encoder
    from sentemb_core.methods.hicl import segment_counts
    from sentemb_core.training.batches import some

    start = loaded_encoder(artifact_path(encoder))
    corpus = some(TokenCorpus.open(artifact_path(sentences)), 0)
    counts = segment_counts(method, start, cast("Documents", corpus))
    if not len(counts):
        return {}
    share = float((counts > 1).mean())
    log.info("hicl: %.1f %% of %d texts have more than one segment", 100 * share, len(counts))
    return {int(count): float((counts == count).mean()) for count in sorted({*counts.tolist()})}
