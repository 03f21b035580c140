"""The gate: register a candidate, compare it with the champion on the gate split, promote it."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from sentemb_core.config.run import RunConfig
from sentemb_core.errors import UnsafeModelError
from sentemb_core.types import ArtifactRef, SearchTask, Value
from tasks.artifacts import RunResult, Texts, artifact_path
from tasks.corpus import tokenise_sentences
from tasks.promotion import VERDICT, Promotion, promote
from tasks.registered_encoders import find_encoder, local_name
from tasks.registry import (
    ModelVersion,
    fingerprint_of,
    model_ref,
    register,
    versions,
)
from tasks.retriever import path_of_published, validate_retriever
from tasks.validate import scores_of, validate_encoder
from tasks.verdict import answer_on, returned_name, served_scores

if TYPE_CHECKING:
    import numpy as np

    from sentemb_core.evaluation.gate import GateDecision, Queries
    from tasks.report import Outcome

log = logging.getLogger("sentemb_core.run")

FILE_LOCATIONS = {part: {"source"} for part in ("corpus", "labels")} | {
    part: {"name"} for part in ("encoder", "annotator")
}
"""Settings that name files: the fingerprint has the digests of the files instead."""

LABEL_SHARE = "label_share"
"""Tag of a version: the share of all documents, drawn by a hash, whose labels it learned from."""


class GateOutcome(Value):
    """What the registry and the gate did with an encoder: its alias, why, and what serves now."""

    uri: str
    alias: str
    reason: str
    serving: str

    @property
    def text(self) -> str:
        return f"{self.serving} {self.reason}"


def register_and_gate(config: RunConfig, outcome: "Outcome") -> GateOutcome:
    """Register a run's encoder, and promote it to champion or make it the challenger."""
    log.info("registering the model as %s and comparing it with the champion", config.name)
    version = registered_version(config, outcome)
    promotion = promote(
        version,
        lambda champion: gate_decision(config, outcome.training, outcome.encoder, champion),
    )
    return GateOutcome(
        uri=version.uri,
        alias=promotion.alias,
        reason=promotion.reason,
        serving=serving_text(promotion),
    )


def serving_text(promotion: Promotion) -> str:
    """Return a sentence on what the version is now, and which version serves."""
    uri, before = promotion.version.uri, promotion.before
    match promotion.alias:
        case "champion" if before == promotion.version:
            return f"{uri} is already the champion; nothing changes."
        case "champion" if before:
            return f"{uri} is now the champion; the previous champion {before.uri} is @previous."
        case "champion":
            return f"{uri} is now the champion, the first of its name."
        case "challenger" if before:
            return f"{uri} is registered as the challenger; {before.uri} stays the champion."
        case "challenger":
            return f"{uri} is registered as the challenger; this name has no champion yet."


def registered_version(config: RunConfig, outcome: "Outcome") -> ModelVersion:
    """Return the version of a run's encoder; register it if its fingerprint is new."""
    from sentemb_core.corpus.tokens import TokenCorpus
    from sentemb_core.evaluation.canary import drawn_sentences

    training = outcome.training
    start, best = training.rows[0], training.rows[training.best]
    test = scores_of(served_scores(training))["test"].document_to_counterpart
    return register(
        artifact_path(outcome.encoder),
        config.name,
        fingerprint=fingerprint_of(
            training.texts.documents.digest,
            start.encoder.digest,
            config.model_dump(mode="json", exclude=FILE_LOCATIONS),
            training.best,
            (outcome.encoder if training.retriever else best.encoder).digest,
        ),
        metrics={"test R@5": test.recall_at_5, "test MRR@10": test.mrr_at_10},
        tags={
            "run": outcome.run,
            "parent": start.encoder.digest,
            "returned": returned_name(training),
            VERDICT: answer_on(training, config.task)[1],
            "documents": training.texts.documents.digest,
            LABEL_SHARE: learned_share(config, training),
        },
        canaries=drawn_sentences(TokenCorpus.open(artifact_path(training.texts.sentences))),
    )


def gate_decision(
    config: RunConfig, training: RunResult, encoder: ArtifactRef, champion: ModelVersion | None
) -> "GateDecision":
    """Compare what would be served: the run's model with the champion, or else with the start.

    An encoder alone is compared as its rounds were chosen: documents look for counterparts.
    """
    from sentemb_core.evaluation.gate import gate, other_width

    rules = config.gate
    if champion and not rules.new_width and training.retriever:
        widths = width_of(encoder), width_of(opened(champion))
        if widths[0] != widths[1]:
            return other_width(*widths)
    before = start_share(config)
    if before > config.validation.label_share:
        log.warning(
            "the start encoder learned from the labels of %.0f %% of all documents (registry tag); "
            "the gate leaves them out, validation and test do not. Set validation.label_share=%g "
            "to leave them out everywhere",
            100 * before,
            before,
        )
    share = max(before, tagged_share(champion))
    task = config.task or (None if training.retriever else "titles")
    unseen, queries = unseen_queries(share, training.texts, task)

    def ranks(scores: ArtifactRef) -> "np.ndarray":
        return gate_ranks(scores, task)[unseen]

    start = ranks(training.rows[0].scores)
    floors = dict[str, "np.ndarray"]()
    if training.retriever and "bm25" in rules.floors:
        floors["BM25"] = ranks(training.bm25)
    if training.retriever and "start" in rules.floors:
        floors["the start encoder"] = start
    return gate(
        ranks(served_scores(training)),
        ranks(champion_scores(champion, training.texts)) if champion else None,
        start,
        collapsed=has_collapsed(training, config.validation.candidates),
        seed=config.training.seed,
        queries=queries,
        rules=rules,
        floors=floors,
    )


def width_of(model: ArtifactRef) -> int:
    """Return the width of a model's document vectors; 0 for words alone."""
    from sentemb_core.retriever.folder import load_retriever

    return load_retriever(artifact_path(model)).dim


def opened(version: ModelVersion) -> ArtifactRef:
    """Return the artifact of a version, after copying it into the store if it is missing."""
    find_encoder(version.uri)
    return version.artifact


def learned_share(config: RunConfig, training: RunResult) -> float:
    """Return the share of documents whose labels the best encoder, or its ancestors, learned from.

    A hash draws the documents, so the larger of two shares contains the smaller.
    """
    fine_tuned = any(row.kind == "fine-tuned" for row in training.path)
    return max(config.validation.label_share if fine_tuned else 0.0, start_share(config))


def start_share(config: RunConfig) -> float:
    """Return the share of the start encoder; 0 if it is not a registered version."""
    folder = Path(local_name(config.encoder.name))
    if not folder.is_dir():
        return 0.0
    try:
        artifact = model_ref(folder)
    except UnsafeModelError:  # links or hidden files, which no version has
        return 0.0
    same = [version for version in versions() if version.artifact == artifact]
    return max(map(tagged_share, same), default=0.0)


def tagged_share(version: ModelVersion | None) -> float:
    return float(version.tags.get(LABEL_SHARE, 0.0)) if version else 0.0


def unseen_queries(
    share: float, texts: Texts, task: SearchTask | None
) -> "tuple[np.ndarray, Queries]":
    """Return a mask of the gate queries outside this share of labels, and these queries.

    An encoder that was fine-tuned on a label knows the answer to its query, in both directions.
    """
    import numpy as np

    from sentemb_core.corpus.validation_pool import ValidationPool
    from sentemb_core.evaluation.gate import Queries
    from sentemb_core.retriever.choice import direction_units

    pool = ValidationPool.open(artifact_path(texts.validation_pool))
    own, *_ = direction_units(pool, "gate", "titles")
    learned = own[~pool.of_split("gate").outside_labels(share)]
    units = direction_units(pool, "gate", task)
    unit = np.concatenate(units)
    way = np.repeat(np.arange(len(units)), [len(each) for each in units])
    unseen = ~np.isin(unit, learned)
    return unseen, Queries(unit[unseen], way[unseen])


def champion_scores(champion: ModelVersion, texts: Texts) -> ArtifactRef:
    """Return the champion's scores on this run's pool, read with its own tokenizer."""
    from sentemb_core.retriever.folder import retriever_file

    artifact = opened(champion)
    if retriever_file(artifact_path(artifact)):
        return validate_retriever(artifact, texts.documents, texts.validation_pool)
    sentences = tokenise_sentences(texts.documents, texts.validation_pool, champion.artifact)
    return validate_encoder(champion.artifact, sentences, texts.validation_pool)


def gate_ranks(scores: ArtifactRef, task: SearchTask | None) -> "np.ndarray":
    """Return the first rank of an answer to every gate query, in the directions that count."""
    import numpy as np

    from sentemb_core.evaluation.validation_scores import read_ranks
    from sentemb_core.retriever.choice import directions_of

    return np.concatenate(
        [read_ranks(artifact_path(scores), "gate", way) for way in directions_of(task)]
    )


def has_collapsed(training: RunResult, count: int) -> bool:
    """Return whether vectors of the published encoder have collapsed (`diagnostics.shape_of`).

    A retriever's encoder is looked at without its whitening.
    """
    from sentemb_core.annotation.embeddings import Embeddings
    from sentemb_core.corpus.tokens import TokenCorpus
    from sentemb_core.encoder.batching import encode
    from sentemb_core.encoder.checkpoint import loaded_encoder
    from sentemb_core.evaluation.diagnostics import shape_of, spread

    row = path_of_published(training)[-1]
    corpus = TokenCorpus.open(artifact_path(row.sentences))
    sample = spread(len(corpus), count)
    if row.embeddings:
        vectors = Embeddings(artifact_path(row.embeddings)).rows(sample)
    else:
        vectors = encode(loaded_encoder(artifact_path(row.encoder)), corpus.tokens(sample))
    return shape_of(vectors, 0).collapsed
