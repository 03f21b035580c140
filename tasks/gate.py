"""A candidate before the gate: registered, compared on the gate's own split, promoted or not."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from sentemb_core.cli_arguments import is_folder
from sentemb_core.config.run import RunConfig
from sentemb_core.errors import UnsafeModelError
from sentemb_core.types import ArtifactRef, Value
from tasks.artifact_files import artifact_path
from tasks.corpus import tokenise_sentences
from tasks.mlflow_model import model_ref
from tasks.model_versions import ModelVersion, versions
from tasks.registered_encoders import encoder_at, resolve
from tasks.registry import Promotion, fingerprint_of, promote, register
from tasks.run_result import EncoderResult, RunResult, Texts
from tasks.validate import scores_of, validate_encoder

if TYPE_CHECKING:
    import numpy as np

    from sentemb_core.evaluation.gate import GateDecision


log = logging.getLogger("sentemb_core.run")

WHERE_FILES_LIE = {part: {"source"} for part in ("corpus", "labels")} | {
    part: {"name"} for part in ("encoder", "annotator")
}
"""Settings that say where files lie; what these hold is told by digests."""

LATER = ("postprocess",)
"""Settings that older versions did not know: unset, they make no other version of an encoder."""

LABEL_SHARE = "label_share"
"""Tag of a version: the share of all documents, drawn by a hash, whose labels it learnt from."""


class GateOutcome(Value):
    """What became of a registered encoder, in words: why, and which version serves now."""

    uri: str
    alias: str
    reason: str
    standing: str = ""  # not in the outcomes of older versions

    @property
    def told(self) -> str:
        """Both, for a person."""
        return f"{self.standing} {self.reason}".strip()


def landed(config: RunConfig, training: RunResult, encoder: ArtifactRef, run: str) -> GateOutcome:
    """Register the encoder and ask the gate: champion, or challenger."""
    log.info("registering the encoder as %s and asking the gate", config.name)
    version = registered(config, training, encoder, run)
    promotion = promote(version, lambda champion: gate_verdict(config, training, champion))
    return GateOutcome(
        uri=version.uri,
        alias=promotion.alias,
        reason=promotion.reason,
        standing=standing_words(promotion),
    )


def standing_words(promotion: Promotion) -> str:
    """What the version is now, and what serves: the gate's verdict alone does not say it."""
    uri, before = promotion.version.uri, promotion.before
    match promotion.alias:
        case "champion" if before == promotion.version:
            return f"{uri} is the champion already, and nothing changes."
        case "champion" if before:
            return f"{uri} is the champion now; {before.uri}, which was, is @previous."
        case "champion":
            return f"{uri} is the champion now, the first of its name."
        case "challenger" if before:
            return f"{uri} is registered as the challenger; {before.uri} stays the champion."
        case "challenger":
            return f"{uri} is registered as the challenger; there is no champion of this name yet."


def registered(
    config: RunConfig, training: RunResult, encoder: ArtifactRef, run: str
) -> ModelVersion:
    """The version of this encoder, made if there is none of its fingerprint yet."""
    from sentemb_core.corpus.tokens import TokenCorpus
    from sentemb_core.evaluation.canary import drawn_sentences

    start, best = training.rows[0], training.rows[training.best]
    settings = config.model_dump(mode="json", exclude=WHERE_FILES_LIE)
    test = scores_of(best.scores)["test"].document_to_counterpart
    return register(
        artifact_path(encoder),
        config.name,
        fingerprint=fingerprint_of(
            training.texts.documents.digest,
            start.encoder.digest,
            {name: told for name, told in settings.items() if name not in LATER or told},
            training.best,
            best.encoder.digest,
        ),
        metrics={"test R@5": test.recall_at_5, "test MRR@10": test.mrr_at_10},
        tags={
            "run": run,
            "parent": start.encoder.digest,
            "round": best.label,
            "documents": training.texts.documents.digest,
            LABEL_SHARE: share_learnt(config, training),
        },
        canaries=drawn_sentences(TokenCorpus.open(artifact_path(training.texts.sentences))),
    )


def gate_verdict(
    config: RunConfig, training: RunResult, champion: ModelVersion | None
) -> "GateDecision":
    """The gate's words on the best row, against the champion or, at first, the start encoder."""
    from sentemb_core.evaluation.gate import gate

    best = training.rows[training.best]
    before = share_before(config)
    if before > config.validation.label_share:
        log.warning(
            "the start encoder has learnt from the labels of %.0f %% of all documents, as the "
            "registry says: the gate leaves them out, validation and test ask them, too; with "
            "--set validation.label_share=%g all ask the others alone",
            100 * before,
            before,
        )
    fair = never_learnt(max(before, share_of(champion)), training.texts)
    return gate(
        gate_ranks(best.scores)[fair],
        champion_ranks(champion, training.texts)[fair] if champion else None,
        gate_ranks(training.rows[0].scores)[fair],
        collapsed=collapsed(best, config.validation.candidates),
        seed=config.training.seed,
    )


def share_learnt(config: RunConfig, training: RunResult) -> float:
    """The share of all documents whose labels the best encoder, or one before it, learnt from.

    A hash draws them, so that the greater of two shares holds the other.
    """
    own = config.validation.label_share if learnt_labels(training) else 0.0
    return max(own, share_before(config))


def share_before(config: RunConfig) -> float:
    """That of the start encoder: 0 where it is no folder of a registered version."""
    place = encoder_at(config.encoder.name)
    if not is_folder(place):
        return 0.0
    try:
        start = model_ref(Path(place))
    except UnsafeModelError:  # links, hidden files: no version has any
        return 0.0
    same = [version for version in versions() if version.artifact == start]
    return max(map(share_of, same), default=0.0)


def share_of(version: ModelVersion | None) -> float:
    """What the version's tag says; older versions have none."""
    return float(version.tags.get(LABEL_SHARE, 0.0)) if version else 0.0


def learnt_labels(training: RunResult) -> bool:
    """Whether the best row, or one before it on its path, was fine-tuned."""
    return any(row.kind == "fine-tuned" for row in training.path)


def never_learnt(share: float, texts: Texts) -> "np.ndarray":
    """Gate queries outside this share of labels: whoever was fine-tuned on them knows them."""
    from sentemb_core.corpus.validation_pool import ValidationPool

    return (
        ValidationPool.open(artifact_path(texts.validation_pool))
        .of_split("gate")
        .outside_labels(share)
    )


def champion_ranks(champion: ModelVersion, texts: Texts) -> "np.ndarray":
    """Of the present champion on this run's benchmark, read with its own tokens."""
    resolve(champion.uri)  # brings it into the store if it is not there
    sentences = tokenise_sentences(texts.documents, texts.validation_pool, champion.artifact)
    return gate_ranks(validate_encoder(champion.artifact, sentences, texts.validation_pool))


def gate_ranks(scores: ArtifactRef) -> "np.ndarray":
    """Rank of every gate document's counterpart."""
    from sentemb_core.evaluation.validation_scores import read_ranks

    return read_ranks(artifact_path(scores), "gate")


def collapsed(row: EncoderResult, count: int) -> bool:
    """Whether the row's sentence vectors have fallen into one another; kept ones are looked at."""
    from sentemb_core.annotation.embeddings import Embeddings
    from sentemb_core.corpus.tokens import TokenCorpus
    from sentemb_core.encoder.batching import encode
    from sentemb_core.encoder.checkpoint import load_encoder
    from sentemb_core.evaluation.diagnostics import shape_of, spread

    corpus = TokenCorpus.open(artifact_path(row.sentences))
    some = spread(len(corpus), count)
    if row.embeddings:
        vectors = Embeddings(artifact_path(row.embeddings)).rows(some)
    else:
        vectors = encode(load_encoder(artifact_path(row.encoder)), corpus.tokens(some))
    return shape_of(vectors, 0).collapsed
