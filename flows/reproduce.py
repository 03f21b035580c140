"""Tables of the papers' methods: every cell one training and its scores, each a cached stage."""

import logging
from collections.abc import Callable, Iterator
from functools import partial

from prefect import flow

from flows.annotation import annotation_of
from flows.attempt import attempted
from flows.method_table import (
    ANNOTATIONS,
    LITERAL_BM25,
    METHODS,
    OF_OWN_GROUND,
    OF_TITLES,
    STS,
    UNLEARNT,
    WORDS,
    MethodTable,
    Start,
    looked_for,
)
from flows.steps import documents_of, encoder_from
from flows.subflow import sub_flow
from sentemb_core.configs import AnnotationConfig, CorpusConfig, TrainingConfig
from sentemb_core.errors import NoQueriesError
from sentemb_core.experiments import Corpus
from sentemb_core.formats import counted
from sentemb_core.method_settings import (
    CONPONO,
    RTDMLM,
    Condenser,
    DiffCSE,
    InfoCSEAux,
    InfoCSEIDCPairs,
)
from sentemb_core.store.objects import file_digest
from sentemb_core.types import ArtifactRef
from tasks.corpus import check_company, draw_benchmark, tokenise_sentences
from tasks.encode import finished_encoder, pooled_as, word_vectors
from tasks.following import recorded
from tasks.rows import Value
from tasks.segments import segmented_share
from tasks.tables.cells import MethodCell
from tasks.train import train_encoder
from tasks.validate import (
    bm25_scores,
    bm25_sts,
    literal_bm25_scores,
    measure_language,
    random_scores,
    random_sts,
    rescored_scores,
    score_sts,
    validate_encoder,
)

log = logging.getLogger("sentemb_core.run")

AFTER_CONDENSER = (InfoCSEAux, DiffCSE, RTDMLM)

TRAINING = {
    "train_encoder",
    "encode_sentences",
    "build_graph",
    "encode_and_build_graph",
    "prune_graph",
    "add_related",
    "cluster_sentences",
    "cluster_by_kmeans",
    "export_pairs",
}
"""Stages of a cell that its training consists of, annotation included."""


class Ground(Value):
    """What all cells of a block share: texts, the start encoder, and who judges.

    A row may have an annotation, or a start encoder's similarity, of its own.
    """

    start: ArtifactRef
    documents: ArtifactRef
    sentences: ArtifactRef
    benchmark: ArtifactRef | None
    sts: dict[str, tuple[str, str]]
    """Set -> (file, SHA-256 of its bytes)."""
    unseen: CorpusConfig
    """Sentences that no method learns from, for a Condenser's loss."""
    annotation: AnnotationConfig = AnnotationConfig()


@flow(name="reproduce", flow_run_name="methods-small")
def methods_small(table: MethodTable) -> list[MethodCell]:
    """Every method in cells of equal budget; a second run computes only what is missing."""
    return timed(table, cells(table))


def timed(table: MethodTable, cells: Iterator[MethodCell]) -> list[MethodCell]:
    """The cells of a recorded table, each with the seconds that its training took."""
    made: list[MethodCell] = []
    with recorded(table.title, table.model_dump(mode="json")) as record:
        known = 0
        for cell in cells:
            fresh, known = {used.key: used for used in record.uses[known:]}, len(record.uses)
            seconds = sum(used.seconds for used in fresh.values() if used.stage in TRAINING)
            made.append(cell.model_copy(update={"seconds": seconds if cell.steps else 0.0}))
            named = f"{cell.method} on {cell.corpus} from {cell.start}"
            labels = f" with {counted(cell.labels, 'label')}" if cell.labels else ""
            log.info("%s%s: %s", named, labels, cell.error or "done")
    return made


def cells(table: MethodTable) -> Iterator[MethodCell]:
    """Block by block: the fixed rows, then every method."""
    for corpus, start, seed in table.blocks():
        ground = ground_of(table, corpus, start, seed)
        yield from fixed_cells(ground, MethodCell(corpus=corpus, start=start, method="", seed=seed))
        for method in table.methods_on(corpus):
            cell = MethodCell(corpus=corpus, start=start, method=method, seed=seed)
            label = f"{method} on {corpus} from {start}, seed {seed}"
            if method not in METHODS:
                yield tried(label, cell, partial(unlearnt, label, cell, ground))
                continue
            training = table.training(method, start, seed)
            budget = {"steps": training.steps, "batch_size": training.batch_size}
            cell = cell.model_copy(update=budget)
            own = ground_of_row(method, ground, table, corpus, start, seed)
            yield tried(label, cell, partial(finished, label, cell, training, own))


def ground_of(
    table: MethodTable, corpus: Corpus, start: Start, seed: int, method: str = ""
) -> Ground:
    """Titles look for their documents; a corpus without any is judged by similar sentences.

    With a method it is as that row asks for it.
    """
    titled = looked_for(corpus)
    documents = documents_of(table.corpus(corpus))
    benchmark = draw_benchmark(documents, table.pool) if titled else None
    encoder = encoder_from(table.start(start, seed, method), documents)
    files = {} if titled else {name: table.file(file) for name, file in STS.items()}
    return Ground(
        start=encoder,
        documents=documents,
        sentences=tokenise_sentences(documents, benchmark, encoder),
        benchmark=benchmark,
        unseen=table.unseen(corpus),
        sts={name: (str(file), file_digest(file)) for name, file in files.items()},
        annotation=ANNOTATIONS.get(method, AnnotationConfig()),
    )


def ground_of_row(
    method: str, block: Ground, table: MethodTable, corpus: Corpus, start: Start, seed: int
) -> Ground:
    """The block's, unless the row asks for one of its own."""
    return ground_of(table, corpus, start, seed, method) if method in OF_OWN_GROUND else block


def fixed_cells(ground: Ground, cell: MethodCell) -> Iterator[MethodCell]:
    """Rows that no method moves: chance, words alone, and the start."""
    if ground.benchmark:
        random = {"scores": random_scores(ground.sentences, ground.benchmark, cell.seed)}
        bm25 = {"scores": bm25_scores(ground.documents, ground.benchmark)}
    else:
        sets = {name: ([place], [digest]) for name, (place, digest) in ground.sts.items()}
        random = {"sts": {name: random_sts(*files, cell.seed) for name, files in sets.items()}}
        bm25 = {"sts": {name: bm25_sts(*files) for name, files in sets.items()}}
    yield cell.model_copy(update={"method": "random vectors", **random})
    yield cell.model_copy(update={"method": "BM25", **bm25})
    yield judged(ground.start, ground, cell.model_copy(update={"method": "start encoder"}))


def tried(label: str, cell: MethodCell, make: Callable[[], MethodCell]) -> MethodCell:
    """The cell as it is made; one that is refused or fails says why, and the others go on."""
    made, error = attempted(label, make)
    return made or cell.model_copy(update={"error": error})


@sub_flow(name="cell", flow_run_name="{label}")
def unlearnt(label: str, cell: MethodCell, ground: Ground) -> MethodCell:
    """Judge what takes no gradient; word vectors have a vocabulary of their own."""
    if cell.method == WORDS:
        words = word_vectors(ground.documents, ground.benchmark, cell.seed)
        sentences = tokenise_sentences(ground.documents, ground.benchmark, words)
        return judged(words, ground.model_copy(update={"sentences": sentences}), cell)
    if cell.method in OF_TITLES:
        return of_titles(cell, ground)
    row = UNLEARNT[cell.method]
    encoder = pooled_as(ground.start, row.pooling)
    if row.map:
        encoder = finished_encoder(encoder, ground.sentences, row.map, cell.seed)
    return judged(encoder, ground, cell)


@sub_flow(name="cell", flow_run_name="{label}")
def finished(label: str, cell: MethodCell, training: TrainingConfig, ground: Ground) -> MethodCell:
    """Train and judge."""
    check_company(ground.documents, (training,))
    share = segmented_share(training.method, ground.sentences, ground.start)
    trained = learnt(training, cell.start, ground)
    language = None
    if isinstance(training.method, AFTER_CONDENSER):
        unseen = tokenise_sentences(documents_of(ground.unseen), None, ground.start)
        language = measure_language(condenser_stage(training, ground), ground.sentences, unseen)
    return judged(
        trained, ground, cell.model_copy(update={"segmented": share, "language": language})
    )


def of_titles(cell: MethodCell, ground: Ground) -> MethodCell:
    """Words otherwise weighted, or rescored by the start encoder: validation chooses alpha."""
    if not ground.benchmark:
        raise NoQueriesError(
            f"{cell.method} is of what titles find, and {cell.corpus} has none: leave it out."
        )
    if cell.method == LITERAL_BM25:
        found = literal_bm25_scores(ground.documents, ground.benchmark)
    else:
        found = rescored_scores(
            ground.start, ground.sentences, ground.documents, ground.benchmark, None
        )
    return cell.model_copy(update={"scores": found})


def judged(encoder: ArtifactRef, ground: Ground, cell: MethodCell) -> MethodCell:
    """The cell with the scores of its encoder."""
    if ground.benchmark:
        scores = validate_encoder(encoder, ground.sentences, ground.benchmark)
        return cell.model_copy(update={"scores": scores})
    sts = {
        name: score_sts([place], [digest], encoder) for name, (place, digest) in ground.sts.items()
    }
    return cell.model_copy(update={"sts": sts})


def learnt(training: TrainingConfig, start: str, ground: Ground) -> ArtifactRef:
    """What a method makes of the start encoder."""
    match training.method:
        case InfoCSEIDCPairs(temperature=temperature):
            return initialised(training, CONPONO(temperature=temperature), start, ground)
        case method if isinstance(method, AFTER_CONDENSER):
            return condensed(training, ground)
        case _:
            return train_encoder(ground.start, ground.sentences, training).model


def condensed(training: TrainingConfig, ground: Ground) -> ArtifactRef:
    """Half of the steps on a Condenser stage, the rest with the head that it leaves (seed 001).

    The ablation goes on from the same encoder, beside a head of random weights.
    """
    stage = condenser_stage(training, ground)
    return train_encoder(stage, ground.sentences, halved(training)).model


def condenser_stage(training: TrainingConfig, ground: Ground) -> ArtifactRef:
    """What the first half of such a training leaves."""
    stage = halved(training).model_copy(update={"method": Condenser()})
    return train_encoder(ground.start, ground.sentences, stage).model


def halved(training: TrainingConfig) -> TrainingConfig:
    return training.model_copy(update={"steps": max(1, training.steps // 2)})


def initialised(
    training: TrainingConfig, first: CONPONO, start: str, ground: Ground
) -> ArtifactRef:
    """One round; random weights learn from neighbours in the first half of the steps (seed 000)."""
    if start == "minilm":
        return self_annotated(training, ground.start, ground)
    half = halved(training)
    neighbours = half.model_copy(update={"method": first})
    annotator = train_encoder(ground.start, ground.sentences, neighbours).model
    return self_annotated(half, annotator, ground)


def self_annotated(training: TrainingConfig, annotator: ArtifactRef, ground: Ground) -> ArtifactRef:
    """One round of Algorithm 1."""
    found = annotation_of(annotator, ground.sentences, ground.annotation)
    return train_encoder(
        annotator, ground.sentences, training, clusters=found.clusters, pairs=found.pairs
    ).model
