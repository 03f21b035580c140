"""What a training reads: folders of artifacts. From them come learner, batches and validation."""

from collections.abc import Callable
from pathlib import Path

from sentemb_core.annotation.clusters import Clusters
from sentemb_core.annotation.pairs import Pairs, StoredAnnotation
from sentemb_core.config.run import TrainingConfig
from sentemb_core.corpus.tokens import TokenCorpus
from sentemb_core.corpus.validation_pool import ValidationPool
from sentemb_core.encoder.checkpoint import load_encoder
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.evaluation.validation_scores import rank_pool
from sentemb_core.evaluation.vectors import encoder_scorers
from sentemb_core.methods.catalogue import method_for
from sentemb_core.methods.parts.method import Learner, Method
from sentemb_core.methods.parts.stored_head import head_in
from sentemb_core.training.batches import Sampler, corpus_sampler
from sentemb_core.training.distributed import ALONE, Ranks
from sentemb_core.training.loop import Validate, learner_of, train
from sentemb_core.training.state import StepLog, TrainingReport
from sentemb_core.types import OnStep, Value


class TrainingInputs(Value):
    """The folders that a training reads.

    Attributes:
        encoder: Where the training starts.
        sentences: The corpus in the encoder's tokens.
        clusters: Of a self-annotation, with its `pairs`.
        pairs: See `clusters`.
        validation_pool: Validates during the training.
        judged: The corpus of the pool's documents.
    """

    encoder: Path
    sentences: Path
    clusters: Path | None = None
    pairs: Path | None = None
    validation_pool: Path | None = None
    judged: Path | None = None

    def learner(self, config: TrainingConfig) -> tuple[Method, Learner]:
        """Return the method, and the start encoder with fresh parts of the method."""
        start = load_encoder(self.encoder)
        method = method_for(config.method, start, head_in(self.encoder))
        return method, learner_of(method, start, config.seed)

    def sampler(self, config: TrainingConfig, method: Method) -> Sampler:
        """Return the batches of the training."""
        corpus = TokenCorpus.open(self.sentences)
        annotation = None
        if self.clusters and self.pairs:
            annotation = StoredAnnotation(
                corpus, Clusters(self.clusters), Pairs.open(self.pairs, corpus)
            )
        return corpus_sampler(config, method, corpus, annotation)

    def validator(self) -> Validate | None:
        """Return a function: an encoder's Recall@5 on the validation split."""
        if self.validation_pool is None:
            return None
        corpus = TokenCorpus.open(self.judged or self.sentences)
        pool = ValidationPool.open(self.validation_pool).of_split("validation")

        def recall(encoder: Encoder) -> float:
            ranks = rank_pool(pool, encoder_scorers(encoder, corpus, pool), "validation")
            return ranks.scores().document_to_counterpart.recall_at_5

        return recall


def train_from(
    inputs: TrainingInputs,
    config: TrainingConfig,
    work: Path,
    *,
    on_step: OnStep | None,
    on_checkpoint: Callable[[], None],
    steps: StepLog,
    ranks: Ranks = ALONE,
) -> tuple[Learner, TrainingReport]:
    """Train in this process, and return the trained learner and the report of `loop.train`."""
    method, learner = inputs.learner(config)
    report = train(
        learner,
        method,
        inputs.sampler(config, method),
        config,
        work,
        validate=inputs.validator(),
        on_step=on_step,
        on_checkpoint=on_checkpoint,
        steps=steps,
        ranks=ranks,
    )
    return learner, report
