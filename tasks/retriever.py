"""The stages that make a retriever of a run's encoders, and choose one on the validation pool."""

import logging
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from sentemb_core.types import ArtifactRef, Precision, SearchTask, Value
from tasks.artifacts import (
    EncoderResult,
    RetrieverResult,
    RunResult,
    artifact_path,
    new_artifact,
    save_json,
)
from tasks.execution import is_pending
from tasks.stage import stage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from sentemb_core.corpus.validation_pool import ValidationPool
    from sentemb_core.documents import Documents
    from sentemb_core.retriever.choice import Candidate, Choice
    from sentemb_core.retriever.pool import PoolTexts, Query
    from sentemb_core.retriever.scores import Readings

    PoolReadings = dict[Query, tuple[Readings, Readings]]

log = logging.getLogger("sentemb_core.run")

CORPUS_TABLE = "table"
"""Label of the corpus table among a run's encoders."""


class ReadEncoder(Value):
    """An encoder that retrievers may use, and what it makes of the validation pool."""

    label: str
    encoder: ArtifactRef
    readings: ArtifactRef
    token_map: ArtifactRef | None = None


class ReadEncoders(Value):
    """The encoders of a run's retrievers.

    start: the start encoder as it is.
    semantic: the softly whitened encoder.
    table: the corpus table, if the run has one beside its encoders.
    required: whether every retriever that may be chosen has the semantic encoder.
    whole_texts: whether the semantic encoder has also read whole texts.
    """

    start: ReadEncoder
    semantic: ReadEncoder
    table: ReadEncoder | None = None
    required: bool = False
    whole_texts: bool = False

    @property
    def all(self) -> list[ReadEncoder]:
        return [self.start, self.semantic, *([self.table] if self.table else [])]


class Stored(Value):
    """A tokenised corpus, and its vectors by an encoder that may get a map."""

    encoder: ArtifactRef
    sentences: ArtifactRef
    embeddings: ArtifactRef


@stage("fit_token_map", version=2, numeric=("device",))
def fit_token_map(
    encoder: ArtifactRef, sentences: ArtifactRef, seed: int, dtype: Precision
) -> ArtifactRef:
    """Return the map of token states to token vectors, fitted on sentences not held out."""
    import numpy as np

    from sentemb_core.corpus.tokens import TokenCorpus
    from sentemb_core.encoder.checkpoint import loaded_encoder
    from sentemb_core.retriever.folder import TOKEN_MAP
    from sentemb_core.retriever.tokens import fitted_token_map, token_map_bytes
    from sentemb_core.training.batches import some

    corpus = some(TokenCorpus.open(artifact_path(sentences)), seed)
    trainable = np.flatnonzero(~corpus.held_out[corpus.document_of])
    drawn = np.random.default_rng(seed).permutation(trainable)
    fitted = fitted_token_map(
        loaded_encoder(artifact_path(encoder)), cast("Documents", corpus), drawn, dtype
    )
    with new_artifact("token_map") as draft:
        (draft.path / TOKEN_MAP).write_bytes(token_map_bytes(fitted))
    return draft.ref


@stage("read_pool", version=2, numeric=("device",))
def read_pool(
    encoder: ArtifactRef,
    token_map: ArtifactRef | None,
    documents: ArtifactRef,
    validation_pool: ArtifactRef,
    dtype: Precision,
    stored: Stored | None = None,
    *,
    whole_texts: bool = False,
) -> ArtifactRef:
    """Return what an encoder makes of both sides of the pool: vectors, and tokens with a map.

    Args:
        encoder: The encoder.
        token_map: Its map of token states.
        documents: The documents of the pool.
        validation_pool: The pool.
        dtype: Precision of reading.
        stored: Vectors of the encoder, or of a transformer in front of its map, that spare it to
            read documents again; these are cut as the stored ones are.
        whole_texts: Whether the vectors of whole texts are added.
    """
    from sentemb_core.annotation.embeddings import Embeddings
    from sentemb_core.corpus.tokens import TokenCorpus
    from sentemb_core.corpus.validation_pool import ValidationPool
    from sentemb_core.encoder.checkpoint import loaded_encoder
    from sentemb_core.postprocess.encoder_maps import reads_directions
    from sentemb_core.retriever.folder import TOKEN_MAP
    from sentemb_core.retriever.pool import pool_pairs, stored_documents, write_readings
    from sentemb_core.retriever.tokens import read_token_map
    from tasks.prefect_pages import progress

    reader = loaded_encoder(artifact_path(encoder))
    pool = ValidationPool.open(artifact_path(validation_pool))
    pairs = pool_pairs(artifact_path(documents), pool)
    known = None
    if stored and (stored.encoder == encoder or reads_directions(reader, "soft_whitening")):
        corpus = TokenCorpus.open(artifact_path(stored.sentences))
        known = stored_documents(reader, corpus, Embeddings(artifact_path(stored.embeddings)), pool)
    sides = [pair.texts if known else pair.documents for pair in pairs.values()]
    sentences = sum(len(each) for side in sides for each in side)
    fitted = read_token_map(artifact_path(token_map) / TOKEN_MAP) if token_map else None
    with new_artifact("readings") as draft, progress("read the pool", sentences) as advance:
        write_readings(
            reader,
            fitted,
            pairs,
            draft.path,
            dtype=dtype,
            whole_texts=whole_texts,
            documents=known,
            progress=advance,
        )
    return draft.ref


@stage("choose_encoder", version=1, libraries=("bm25s",))
def choose_encoder(
    encoders: list[ReadEncoder],
    documents: ArtifactRef,
    validation_pool: ArtifactRef,
    task: SearchTask | None,
    seed: int,
) -> ArtifactRef:
    """Return the first of the encoders that is level with the best, each beside words."""
    from sentemb_core.corpus.validation_pool import ValidationPool
    from sentemb_core.encoder.folder_files import is_static
    from sentemb_core.retriever.choice import with_words

    pool = ValidationPool.open(artifact_path(validation_pool))
    readings = readings_of(encoders, documents, validation_pool)
    static = {each.label: is_static(artifact_path(each.encoder)) for each in encoders}
    found = with_words(static, widths_of(readings))
    return save_choice(found, readings, pool, task, None, seed)


@stage("choose_retriever", version=4, libraries=("bm25s",))
def choose_retriever(
    encoders: ReadEncoders,
    documents: ArtifactRef,
    validation_pool: ArtifactRef,
    task: SearchTask | None,
    seed: int,
) -> ArtifactRef:
    """Return the cheapest retriever that is level with the best on the validation split."""
    from sentemb_core.corpus.validation_pool import ValidationPool
    from sentemb_core.encoder.folder_files import is_static
    from sentemb_core.retriever.choice import candidates

    pool = ValidationPool.open(artifact_path(validation_pool))
    readings = readings_of(encoders.all, documents, validation_pool)
    semantic = encoders.semantic
    found = candidates(
        encoders.start.label,
        semantic.label,
        widths_of(readings),
        encoders.table.label if encoders.table else None,
        static=is_static(artifact_path(semantic.encoder)),
        whole_texts=encoders.whole_texts,
    )
    required = semantic.label if encoders.required else None
    return save_choice(found, readings, pool, task, required, seed)


def save_choice(
    found: "Sequence[Candidate]",
    readings: "PoolReadings",
    pool: "ValidationPool",
    task: SearchTask | None,
    required: str | None,
    seed: int,
) -> ArtifactRef:
    """Let the candidates rank the validation split, and return the stored choice."""
    from sentemb_core.evaluation.validation_scores import rank_pool
    from sentemb_core.retriever.choice import choice, direction_units, direction_values
    from sentemb_core.retriever.pool import pool_scorers

    values = {
        each.label: direction_values(
            [
                rank_pool(pool, pool_scorers(each.spec, texts, whole, kind), "validation")
                for kind, (texts, whole) in readings.items()
            ],
            task,
        )
        for each in found
    }
    chosen = choice(found, values, direction_units(pool, "validation", task), required, seed)
    return save_json("choice", chosen.model_dump(mode="json"))


def widths_of(readings: "PoolReadings") -> dict[str, int]:
    """Return the dimensions of each encoder's vectors."""
    _, documents = next(iter(readings.values()))
    return {name: side.vectors.shape[1] for name, side in documents.vectors.items()}


@stage("retriever_scores", version=1, libraries=("bm25s",))
def retriever_scores(
    encoders: ReadEncoders,
    chosen: ArtifactRef,
    documents: ArtifactRef,
    validation_pool: ArtifactRef,
    *,
    pretrained: bool = True,
) -> ArtifactRef:
    """Return the scores of the chosen retriever, or of the one without a pretrained encoder."""
    from sentemb_core.corpus.validation_pool import ValidationPool
    from sentemb_core.evaluation.validation_scores import write_scores
    from sentemb_core.retriever.choice import without_encoder
    from sentemb_core.retriever.pool import pool_scorers

    pool = ValidationPool.open(artifact_path(validation_pool))
    kind, (texts, whole) = next(iter(readings_of(encoders.all, documents, validation_pool).items()))
    if pretrained:
        spec = choice_of(chosen).spec
    else:
        assert encoders.table, "the run has a corpus table"
        spec = without_encoder(encoders.table.label)
    with new_artifact("scores") as draft:
        write_scores(pool, pool_scorers(spec, texts, whole, kind), draft.path)
    return draft.ref


@stage("validate_retriever", version=1, numeric=("device",), libraries=("bm25s",))
def validate_retriever(
    retriever: ArtifactRef, documents: ArtifactRef, validation_pool: ArtifactRef
) -> ArtifactRef:
    """Return the scores of a saved retriever on a pool."""
    from sentemb_core.corpus.validation_pool import ValidationPool
    from sentemb_core.evaluation.validation_scores import write_scores
    from sentemb_core.retriever.folder import load_retriever
    from sentemb_core.retriever.pool import pool_pairs, pool_scorers

    pool = ValidationPool.open(artifact_path(validation_pool))
    opened = load_retriever(artifact_path(retriever))
    kind, pair = next(iter(pool_pairs(artifact_path(documents), pool).items()))
    texts = opened.read_sentences(pair.texts, documents=False)
    whole = opened.read_documents(pair.documents)
    with new_artifact("scores") as draft:
        write_scores(pool, pool_scorers(opened.spec, texts, whole, kind), draft.path)
    return draft.ref


def readings_of(
    encoders: "Iterable[ReadEncoder]", documents: ArtifactRef, validation_pool: ArtifactRef
) -> "PoolReadings":
    """Return both sides of the pool as these encoders read them."""
    from sentemb_core.retriever.pool import read_readings

    kinds, words = _words_of(artifact_path(documents), artifact_path(validation_pool))
    return read_readings(
        kinds, words, {each.label: artifact_path(each.readings) for each in encoders}
    )


@lru_cache(maxsize=1)
def _words_of(documents: "Path", validation_pool: "Path") -> "tuple[list[Query], PoolTexts]":
    """Return the pool's kinds of query and texts: the stages of a choice count their words once."""
    from sentemb_core.corpus.validation_pool import ValidationPool
    from sentemb_core.retriever.pool import pool_pairs, pool_texts

    pairs = pool_pairs(documents, ValidationPool.open(validation_pool))
    return [*pairs], pool_texts(pairs)


def used_by(chosen: ArtifactRef, encoders: ReadEncoders) -> list[ReadEncoder]:
    """Return the encoders of the chosen retriever; all, if the choice is pending."""
    if is_pending(chosen):
        return encoders.all
    used = {each.folder for each in choice_of(chosen).spec.vectors}
    return [each for each in encoders.all if each.label in used]


def is_static(encoder: ArtifactRef) -> bool:
    """Return whether an encoder is a static table, which has no token states; False if pending."""
    from sentemb_core.encoder.folder_files import is_static as static_folder

    return not is_pending(encoder) and static_folder(artifact_path(encoder))


def has_held_out(validation_pool: ArtifactRef) -> bool:
    """Return whether documents of the pool are held out of training; False if it is pending."""
    from sentemb_core.corpus.validation_pool import read_report

    return not is_pending(validation_pool) and (
        read_report(artifact_path(validation_pool)).kind == "halves"
    )


def choice_of(chosen: ArtifactRef) -> "Choice":
    """Return what `choose_retriever` stored."""
    from sentemb_core.retriever.choice import Choice
    from tasks.artifacts import read_json

    return Choice.model_validate(read_json(chosen, "choice"))


def path_of_published(training: RunResult) -> list[EncoderResult]:
    """Return the encoders behind what is published, from the start on.

    A retriever of the whitened start has learnt nothing, whatever the rounds have learnt.
    """
    if training.retriever is None:
        return training.path
    base = training.retriever.bases.get(semantic_encoder(training.retriever))
    rows = (*training.rows, *training.controls)
    return next((training.path_to(row) for row in rows if row.label == base), training.rows[:1])


def semantic_encoder(retriever: RetrieverResult) -> str:
    """Return the name of a chosen retriever's first encoder; empty for words alone."""
    vectors = choice_of(retriever.choice).spec.vectors
    return vectors[0].folder if vectors else ""
