"""What a column says of an encoder, or of a row that needs none."""

from functools import partial
from pathlib import Path
from typing import NamedTuple

from flows.contamination import overlap_with, pools_of_titles
from flows.experiments.index import Reproduction, folder_of, task_of
from flows.experiments.learning import texts_of
from flows.isolate_errors import attempted
from flows.pipeline import documents_of
from flows.scoring import System, result_on
from sentemb_core.config.experiments import CASE, TITLE, WITHOUT_FILES, Arm, Column, Corpus
from sentemb_core.types import ArtifactRef
from tasks.benchmark import placed, score_case
from tasks.corpus import tokenise_sentences
from tasks.validate import bm25_scores, random_scores, rescored_scores, validate_encoder


class CorpusOverlap(NamedTuple):
    """Overlap of evaluation texts with one training corpus, or the error that prevented it."""

    corpus: str
    overlap: ArtifactRef | None
    error: str


def column_result(
    asked: Reproduction, base: ArtifactRef, arm: Arm, system: System, column: Column, seed: int
) -> ArtifactRef:
    """What the judge of a column says."""
    if column.judge == CASE:
        assert isinstance(system, ArtifactRef), "only encoders group titles"
        return score_case(system)
    if column.judge != TITLE:
        place = placed(task_of(column), Path(asked.data, folder_of(column)))
        return result_on(place, system, seed=seed)
    texts = texts_of(asked, base, column.corpus)
    assert texts.validation_pool is not None, "titles are counterparts"
    if system == "BM25":
        return bm25_scores(texts.documents, texts.validation_pool)
    if not isinstance(system, ArtifactRef):
        return random_scores(texts.sentences, texts.validation_pool, seed)
    sentences = texts.sentences
    if arm.system != "encoder":  # another vocabulary
        sentences = tokenise_sentences(texts.documents, texts.validation_pool, system)
    if arm.alpha is not None:
        alpha = None if arm.alpha == "chosen" else arm.alpha
        return rescored_scores(system, sentences, texts.documents, texts.validation_pool, alpha)
    return validate_encoder(system, sentences, texts.validation_pool)


def overlaps_with(asked: Reproduction) -> list[CorpusOverlap]:
    """What of the judges' texts stands in each corpus that training read.

    Pools of titles are told by `pools_of`. Of BEIR's folders the queries alone are looked for:
    `benchmark --corpus` measures one that is meant with its documents.
    """
    by_judge = {one.judge: one for one in asked.what.columns}
    columns = [one for one in by_judge.values() if one.judge not in WITHOUT_FILES]
    places = [placed(task_of(one), Path(asked.data, folder_of(one))) for one in columns]

    def measured(corpus: Corpus) -> ArtifactRef:
        return overlap_with(documents_of(asked.corpus(corpus)), places, beir_documents=False)

    read = asked.corpora_read if places else []
    found = {one: attempted(f"overlap with {one}", partial(measured, one)) for one in read}
    return [
        CorpusOverlap(corpus=one, overlap=overlap, error=error)
        for one, (overlap, error) in found.items()
    ]


def pools_of(asked: Reproduction) -> dict[str, ArtifactRef]:
    """Column -> the pool of titles that judges it; of several on one corpus the first."""
    columns: dict[Corpus, str] = {}
    for one in asked.what.columns:
        if one.judge == TITLE:
            columns.setdefault(one.corpus, one.label)
    corpora = {label: asked.corpus(corpus) for corpus, label in columns.items()}
    return pools_of_titles(corpora, asked.pool)
