"""What a column says of an encoder, or of a row that needs none."""

from functools import partial
from pathlib import Path

from flows.attempt import attempted
from flows.experiments.index import Reproduction, folder_of, task_of
from flows.experiments.learning import Made, texts_of
from flows.scoring import System, result_on
from flows.steps import documents_of
from sentemb_core.experiments import CASE, TITLE, WITHOUT_FILES, Arm, Column, Corpus
from sentemb_core.types import ArtifactRef
from tasks.benchmark import measure_overlap, measure_query_overlap, placed, score_case
from tasks.corpus import draw_benchmark, tokenise_sentences
from tasks.tables.findings import Read
from tasks.validate import bm25_scores, random_scores, rescored_scores, validate_encoder


def column_result(
    asked: Reproduction, base: Made, arm: Arm, system: System, column: Column, seed: int
) -> ArtifactRef:
    """What the judge of a column says."""
    if column.judge == CASE:
        assert isinstance(system, ArtifactRef), "only encoders group titles"
        return score_case(system)
    if column.judge != TITLE:
        place = placed(task_of(column), Path(asked.data, folder_of(column)))
        return result_on(place, system, seed=seed)
    texts = texts_of(asked, base, column.corpus)
    assert texts.benchmark is not None, "titles are counterparts"
    if system == "BM25":
        return bm25_scores(texts.documents, texts.benchmark)
    if not isinstance(system, ArtifactRef):
        return random_scores(texts.sentences, texts.benchmark, seed)
    sentences = texts.sentences
    if arm.system != "encoder":  # another vocabulary
        sentences = tokenise_sentences(texts.documents, texts.benchmark, system)
    if arm.alpha is not None:
        alpha = None if arm.alpha == "chosen" else arm.alpha
        return rescored_scores(system, sentences, texts.documents, texts.benchmark, alpha)
    return validate_encoder(system, sentences, texts.benchmark)


def overlaps_with(asked: Reproduction) -> list[Read]:
    """What of the judges' texts stands in each corpus that training read.

    Pools of titles are told by `pools_of`. Of BEIR's folders the queries alone are looked for:
    `benchmark --corpus` measures one that is meant with its documents.
    """
    by_judge = {one.judge: one for one in asked.what.columns}
    columns = [one for one in by_judge.values() if one.judge not in WITHOUT_FILES]
    places = [(one, placed(task_of(one), Path(asked.data, folder_of(one)))) for one in columns]
    beir = [place for one, place in places if folder_of(one)]
    suite = [place for one, place in places if not folder_of(one)]

    def measured(corpus: Corpus) -> list[ArtifactRef]:
        documents = documents_of(asked.corpus(corpus))
        return [
            measure(
                documents,
                [one.task for one in found],
                [one.digests for one in found],
                [one.folder for one in found],
            )
            for measure, found in ((measure_overlap, suite), (measure_query_overlap, beir))
            if found
        ]

    read = asked.corpora_read if places else []
    found = {one: attempted(f"overlap with {one}", partial(measured, one)) for one in read}
    return [
        Read(corpus=one, overlaps=tuple(overlaps or ()), error=error)
        for one, (overlaps, error) in found.items()
    ]


def pools_of(asked: Reproduction) -> dict[str, ArtifactRef]:
    """Column -> the pool of titles that judges it; of several on one corpus the first.

    A corpus that is refused has none: the cells on it tell why.
    """
    columns: dict[Corpus, str] = {}
    for one in asked.what.columns:
        if one.judge == TITLE:
            columns.setdefault(one.corpus, one.label)

    def drawn(corpus: Corpus) -> ArtifactRef:
        return draw_benchmark(documents_of(asked.corpus(corpus)), asked.pool)

    pools = {
        label: attempted(f"pool of {label}", partial(drawn, corpus))[0]
        for corpus, label in columns.items()
    }
    return {label: pool for label, pool in pools.items() if pool}
