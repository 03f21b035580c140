"""The stages that validate: scores of encoders and fixed rows on the pool, and diagnostics."""

import logging
from typing import TYPE_CHECKING, cast

from sentemb_core.config.run import AnnotationConfig, RunConfig
from sentemb_core.types import ArtifactRef
from tasks.artifacts import (
    Annotation,
    EncoderResult,
    artifact_path,
    new_artifact,
    read_json,
    save_json,
)
from tasks.checks import learns_from_labels
from tasks.execution import is_dry_run, is_pending
from tasks.stage import stage

if TYPE_CHECKING:
    from sentemb_core.corpus.validation_pool import Split, ValidationPool
    from sentemb_core.documents import Documents
    from sentemb_core.evaluation.masked_language import MaskedLanguage
    from sentemb_core.evaluation.validation_scores import Scorers, Scores
    from sentemb_core.retrieval.bm25 import Form

log = logging.getLogger("sentemb_core.run")


def check_validation_pool(validation_pool: ArtifactRef, config: RunConfig) -> None:
    """Refuse a pool with too few queries (E502), and log one with few. A dry run does not check."""
    from sentemb_core.evaluation.pool_size import (
        counterparts,
        few_gate_queries,
        pool_doubts,
        require_queries,
    )
    from sentemb_core.retriever.choice import unchosen

    if not is_pending(validation_pool):
        pool = artifact_path(validation_pool)
        require_queries(
            pool,
            config.validation,
            gated=config.register_model,
            unlabelled=judging_unlabelled(config),
        )
        few = pool_doubts(pool)
        few += [few_gate_queries(pool)] if config.register_model else []
        if config.returns == "retriever":
            few.append(unchosen(counterparts(pool, "validation")))
        if not is_dry_run():
            for warning in filter(None, few):
                log.warning("%s", warning)


def judging_unlabelled(config: RunConfig) -> str:
    """What would validate the run without its file of labels; empty if it has none or needs it."""
    column = config.corpus.counterpart_column
    if not config.labels.source or (learns_from_labels(config) and not column):
        return ""
    return f"the texts of column {column!r}" if column else "halves of documents"


@stage("validate_encoder", version=1, numeric=("device",))
def validate_encoder(
    encoder: ArtifactRef,
    sentences: ArtifactRef,
    validation_pool: ArtifactRef,
    embeddings: ArtifactRef | None = None,
) -> ArtifactRef:
    """Return recalls on every split, from document to counterpart and reverse, and the ranks."""
    from sentemb_core.annotation.embeddings import Embeddings
    from sentemb_core.corpus.tokens import TokenCorpus
    from sentemb_core.corpus.validation_pool import ValidationPool
    from sentemb_core.encoder.checkpoint import loaded_encoder
    from sentemb_core.evaluation.vectors import encoder_scorers

    pool = ValidationPool.open(artifact_path(validation_pool))
    stored = Embeddings(artifact_path(embeddings)) if embeddings else None
    corpus = TokenCorpus.open(artifact_path(sentences))
    scorers = encoder_scorers(loaded_encoder(artifact_path(encoder)), corpus, pool, stored)
    return save_scores(pool, scorers)


@stage("bm25_scores", version=2, libraries=("bm25s",))
def bm25_scores(documents: ArtifactRef, validation_pool: ArtifactRef) -> ArtifactRef:
    """Return the scores of BM25."""
    from sentemb_core.retrieval.bm25 import LUCENE

    return word_scores(documents, validation_pool, LUCENE)


@stage("literal_bm25_scores", version=2, libraries=("bm25s",))
def literal_bm25_scores(documents: ArtifactRef, validation_pool: ArtifactRef) -> ArtifactRef:
    """Return the scores of BM25 by the formula that product_thesis prints, without stop words."""
    from sentemb_core.retrieval.bm25 import PRODUCT_THESIS

    return word_scores(documents, validation_pool, PRODUCT_THESIS)


def word_scores(documents: ArtifactRef, validation_pool: ArtifactRef, form: "Form") -> ArtifactRef:
    """Return the scores of a form of BM25."""
    from sentemb_core.corpus.validation_pool import ValidationPool
    from sentemb_core.evaluation.bm25_scores import bm25_scorers, pool_texts

    pool = ValidationPool.open(artifact_path(validation_pool))
    return save_scores(pool, bm25_scorers(*pool_texts(artifact_path(documents), pool), form))


@stage("random_scores", version=1)
def random_scores(sentences: ArtifactRef, validation_pool: ArtifactRef, seed: int) -> ArtifactRef:
    """Return the scores of chance: a random direction for every text."""
    from sentemb_core.corpus.tokens import TokenCorpus
    from sentemb_core.corpus.validation_pool import ValidationPool
    from sentemb_core.evaluation.random_encoder import random_scorers

    pool = ValidationPool.open(artifact_path(validation_pool))
    corpus = TokenCorpus.open(artifact_path(sentences))
    return save_scores(pool, random_scorers(corpus, pool, seed))


@stage("rescored_scores", version=2, numeric=("device",), libraries=("bm25s",))
def rescored_scores(
    encoder: ArtifactRef,
    sentences: ArtifactRef,
    documents: ArtifactRef,
    validation_pool: ArtifactRef,
    alpha: float | None,
) -> ArtifactRef:
    """Return scores of BM25's first 1,000 by BM25 + alpha x cosine; validation chooses None."""
    from sentemb_core.corpus.tokens import TokenCorpus
    from sentemb_core.corpus.validation_pool import ValidationPool
    from sentemb_core.encoder.checkpoint import loaded_encoder
    from sentemb_core.evaluation.bm25_scores import bm25_scorers, pool_texts
    from sentemb_core.evaluation.rescoring import alpha_sweep, best_alpha, rescored_scorers
    from sentemb_core.evaluation.vectors import encoder_scorers

    pool = ValidationPool.open(artifact_path(validation_pool))
    words = bm25_scorers(*pool_texts(artifact_path(documents), pool))
    corpus = TokenCorpus.open(artifact_path(sentences))
    vectors = encoder_scorers(
        loaded_encoder(artifact_path(encoder)), corpus, pool, similarity="cosine"
    )
    if alpha is None:
        alpha = best_alpha(alpha_sweep(pool, words, vectors))
    return save_scores(pool, rescored_scorers(words, vectors, alpha))


def save_scores(pool: "ValidationPool", scorers: "Scorers") -> ArtifactRef:
    """Store the scores of a system, for `scores_of`."""
    from sentemb_core.evaluation.validation_scores import write_scores

    with new_artifact("scores") as draft:
        write_scores(pool, scorers, draft.path)
    return draft.ref


@stage("measure_language", version=2, numeric=("device",))
def measure_language(
    model: ArtifactRef, sentences: ArtifactRef, unseen: ArtifactRef
) -> ArtifactRef:
    """Return how well a Condenser stage predicts masked tokens of sentences new to it."""
    import numpy as np

    from sentemb_core.corpus.tokens import TokenCorpus
    from sentemb_core.encoder.checkpoint import loaded_encoder
    from sentemb_core.evaluation.masked_language import masked_language
    from sentemb_core.methods.parts.stored_head import head_in, head_shape

    folder = artifact_path(model)
    encoder, head, shape = loaded_encoder(folder), head_in(folder), head_shape(folder)
    assert head, "a Condenser stage stores its head"
    assert shape, "and the shape of it"
    corpus, other = (TokenCorpus.open(artifact_path(one)) for one in (sentences, unseen))
    read = np.concatenate(corpus.tokens(np.arange(len(corpus))))
    counts = np.bincount(read, minlength=encoder.tokenizer.get_vocab_size())
    found = masked_language(encoder, head, shape, cast("Documents", other), counts)
    return save_json("language", found.model_dump())


@stage("diagnose_round", version=6, numeric=("device",))
def diagnose_round(
    annotator: ArtifactRef,
    sentences: ArtifactRef,
    annotation: Annotation,
    before: ArtifactRef | None,
    after: ArtifactRef | None,
    previous: Annotation | None,
    config: AnnotationConfig,
) -> ArtifactRef:
    """Return the diagnostics of a round: churn of the pairs, similarities, shape of the vectors.

    `sentences` is the corpus in the annotator's tokens. `before` and `after` are the vectors of
    the annotator and of the trained encoder. `previous` is the annotation of the round before.
    """
    from sentemb_core.annotation.clusters import Clusters
    from sentemb_core.annotation.drift import pair_drift
    from sentemb_core.annotation.embeddings import Embeddings
    from sentemb_core.annotation.graph import PrunedGraph
    from sentemb_core.annotation.pairs import Pairs
    from sentemb_core.corpus.tokens import TokenCorpus
    from sentemb_core.encoder.checkpoint import loaded_encoder
    from sentemb_core.evaluation.round_diagnostics import diagnostics
    from sentemb_core.evaluation.round_values import write_diagnostics

    corpus = TokenCorpus.open(artifact_path(sentences))
    annotated = Clusters(artifact_path(annotation.clusters))
    last = None
    if previous:
        last = (
            Clusters(artifact_path(previous.clusters)),
            Pairs.open(artifact_path(previous.pairs), corpus),
        )
    result = diagnostics(
        corpus,
        Pairs.open(artifact_path(annotation.pairs), corpus),
        annotated,
        last,
        Embeddings(artifact_path(before)) if before else None,
        Embeddings(artifact_path(after)) if after else None,
        config.seed,
    )
    if config.dtype == "bfloat16" and config.clustering == "partition":
        edges = annotation.edges
        alone = PrunedGraph(artifact_path(edges), corpus) if edges else annotated
        drift = pair_drift(loaded_encoder(artifact_path(annotator)), corpus, alone, config)
        result = result.model_copy(update={"drift": drift})
    with new_artifact("diagnostics") as draft:
        write_diagnostics(result, draft.path)
    return draft.ref


def numbers_of_annotation(row: EncoderResult) -> dict[str, float]:
    """The numbers of a round's annotation; empty for encoders without one."""
    from sentemb_core.evaluation.round_values import annotation_numbers, read_diagnostics

    if not (row.annotation and row.diagnostics):
        return {}
    diagnosed = read_diagnostics(artifact_path(row.diagnostics))
    return annotation_numbers(artifact_path(row.annotation.pairs), diagnosed)


def scores_of(artifact: ArtifactRef) -> "Scores":
    """The scores that `save_scores` stored."""
    from sentemb_core.evaluation.validation_scores import read_scores

    return read_scores(artifact_path(artifact))


def language_of(artifact: ArtifactRef) -> "MaskedLanguage":
    """The scores that `measure_language` stored."""
    from sentemb_core.evaluation.masked_language import MaskedLanguage

    return MaskedLanguage.model_validate(read_json(artifact, "language"))


def recall_at_5(artifact: ArtifactRef, split: "Split" = "validation") -> float:
    """Recall@5 from document to counterpart; on validation it chooses the best encoder (mutual)."""
    return scores_of(artifact)[split].document_to_counterpart.recall_at_5


def falls_below(scores: ArtifactRef, start: ArtifactRef) -> bool:
    """Return whether R@5 on validation is below the start's with 95 % confidence."""
    from sentemb_core.evaluation.bootstrap import paired_difference
    from sentemb_core.evaluation.validation_scores import read_hits

    if is_dry_run():
        return False
    after, before = (read_hits(artifact_path(each), "validation") for each in (scores, start))
    return paired_difference(after, before, seed=0).high < 0
