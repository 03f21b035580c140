"""Tables of the papers' methods: every cell one training and its scores, each a cached stage."""

import logging
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from prefect import flow

from flows.contamination import overlap_with, pools_of_titles
from flows.data_folder import looked_for
from flows.isolate_errors import attempted
from flows.method_table import (
    LITERAL_BM25,
    METHODS,
    OF_OWN_BLOCK,
    OF_TITLES,
    STS,
    UNLEARNT,
    WORDS,
    MethodTable,
    Start,
)
from flows.pipeline import documents_of, encoder_from
from flows.row_steps import RowTexts, Rules, encoder_after
from flows.scoring import System, result_on
from sentemb_core.config.experiments import Corpus
from sentemb_core.config.run import CorpusConfig
from sentemb_core.errors import NoQueriesError
from sentemb_core.formats import counted
from sentemb_core.types import ArtifactRef
from tasks.benchmark import Placed, placed
from tasks.checks import entry_of
from tasks.corpus import draw_validation_pool, require_multi_sentence, tokenise_sentences
from tasks.encode import finished_encoder, pooled_as, word_vectors
from tasks.execution import sub_flow
from tasks.run_monitor import recorded
from tasks.tables.cells import CellsTable, MethodCell
from tasks.train import log_segment_share
from tasks.validate import (
    bm25_scores,
    literal_bm25_scores,
    measure_language,
    random_scores,
    rescored_scores,
    validate_encoder,
)

log = logging.getLogger("sentemb_core.run")

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


class Block(RowTexts):
    """What all cells of a block share: texts, the start encoder, and who judges.

    A row may have a start encoder of its own.
    """

    start: ArtifactRef
    sts: dict[str, Placed]
    """Column -> the set of pairs that judges there, where no titles do."""
    unseen: CorpusConfig
    """Sentences that no method learns from, for a Condenser's loss."""


Tried = tuple[Block | None, str]
"""A block, or the error of what all its cells share."""


@flow(name="reproduce", flow_run_name="methods-small")
def methods_small(table: MethodTable) -> CellsTable:
    """Every method in cells of equal budget; a second run computes only what is missing."""
    return recorded_table(table, cells(table))


def recorded_table(table: MethodTable, cells: Iterator[MethodCell]) -> CellsTable:
    """A recorded table: its cells, each with the seconds of its training, and what that read."""
    made: list[MethodCell] = []
    with recorded(table.title, table.model_dump(mode="json")) as record:
        for cell, used in record.with_uses(cells):
            seconds = sum(one.seconds for one in used if one.stage in TRAINING)
            made.append(cell.model_copy(update={"seconds": seconds if cell.learnt else 0.0}))
            named = f"{cell.method} on {cell.corpus} from {cell.start}"
            labels = f" with {counted(cell.labels, 'label')}" if cell.labels else ""
            log.info("%s%s: %s", named, labels, cell.error or "done")
        return CellsTable(cells=made, overlaps=overlaps_with(table), pools=pools_of(table))


def walked(table: MethodTable, cells: Iterator[MethodCell]) -> None:
    """`recorded_table` for a plan."""
    for _ in cells:
        pass
    overlaps_with(table)
    pools_of(table)


def cells(table: MethodTable) -> Iterator[MethodCell]:
    """Block by block: the fixed rows, then every method."""
    for corpus, start, seed in table.blocks():
        tried = tried_block(table, corpus, start, seed)
        yield from fixed_cells(tried, MethodCell(corpus=corpus, start=start, method="", seed=seed))
        for method in table.methods_on(corpus):
            cell = MethodCell(corpus=corpus, start=start, method=method, seed=seed)
            label = f"{method} on {corpus} from {start}, seed {seed}"
            if method not in METHODS:
                yield cell_or_error(label, cell, tried, partial(untrained_cell, label, cell))
                continue
            steps = {"steps": table.steps_taken(method, start)}
            cell = cell.model_copy(update=table.budget(start) | steps)
            own = tried_row(method, tried, table, corpus, start, seed)
            yield cell_or_error(label, cell, own, partial(trained_cell, label, cell, table, start))


def tried_block(
    table: MethodTable, corpus: Corpus, start: Start, seed: int, method: str = ""
) -> Tried:
    """The block; one bad corpus is the error of its own cells alone."""
    label = f"{method or 'all'} on {corpus} from {start}, seed {seed}"
    return attempted(label, partial(block_of, table, corpus, start, seed, method))


def block_of(
    table: MethodTable, corpus: Corpus, start: Start, seed: int, method: str = ""
) -> Block:
    """Titles look for their documents; a corpus without any is judged by similar sentences.

    With a method it is as that row asks for it.
    """
    titled = looked_for(corpus)
    documents = documents_of(table.corpus(corpus))
    validation_pool = draw_validation_pool(documents, table.pool) if titled else None
    encoder = encoder_from(table.start(start, seed, method), documents)
    return Block(
        start=encoder,
        documents=documents,
        sentences=tokenise_sentences(documents, validation_pool, encoder),
        validation_pool=validation_pool,
        unseen=table.unseen(corpus),
        sts={} if titled else judges_of(table),
    )


def judges_of(table: MethodTable) -> dict[str, Placed]:
    """Column -> the set of pairs that judges there."""
    return {column: placed(task, Path(table.data)) for column, task in STS.items()}


def overlaps_with(table: MethodTable) -> list[ArtifactRef]:
    """What of the STS judges' texts stands in each corpus that they judge, which has no titles.

    Of a corpus that is refused nothing is told here, nor of its pool: its cells say why.
    """

    def measured(corpus: Corpus) -> ArtifactRef:
        return overlap_with(documents_of(table.corpus(corpus)), list(judges_of(table).values()))

    found = [
        attempted(f"overlap with {one}", partial(measured, one))[0]
        for one in table.corpora_read
        if not looked_for(one)
    ]
    return [one for one in found if one]


def pools_of(table: MethodTable) -> dict[str, ArtifactRef]:
    """Corpus -> its pool of titles."""
    titled = {one: table.corpus(one) for one in table.corpora_read if looked_for(one)}
    return pools_of_titles(titled, table.pool)


def tried_row(
    method: str, tried: Tried, table: MethodTable, corpus: Corpus, start: Start, seed: int
) -> Tried:
    """The block's, unless the row asks for one of its own."""
    own = tried[0] and method in OF_OWN_BLOCK
    return tried_block(table, corpus, start, seed, method) if own else tried


def fixed_cells(tried: Tried, blank: MethodCell) -> Iterator[MethodCell]:
    """Rows that no method moves: chance, words alone, and the start."""
    rows = {"random vectors": random_cell, "BM25": bm25_cell, "start encoder": start_cell}
    for method, make in rows.items():
        cell = blank.model_copy(update={"method": method})
        label = f"{method} on {cell.corpus} from {cell.start}, seed {cell.seed}"
        yield cell_or_error(label, cell, tried, partial(make, cell))


def random_cell(cell: MethodCell, block: Block) -> MethodCell:
    if block.validation_pool:
        scores = random_scores(block.sentences, block.validation_pool, cell.seed)
        return cell.model_copy(update={"scores": scores})
    return on_pairs("random", block, cell)


def bm25_cell(cell: MethodCell, block: Block) -> MethodCell:
    if block.validation_pool:
        scores = bm25_scores(block.documents, block.validation_pool)
        return cell.model_copy(update={"scores": scores})
    return on_pairs("BM25", block, cell)


def start_cell(cell: MethodCell, block: Block) -> MethodCell:
    return scored_cell(block.start, block, cell)


def cell_or_error(
    label: str, cell: MethodCell, tried: Tried, make: Callable[[Block], MethodCell]
) -> MethodCell:
    """The cell as its block makes it; what is refused or fails says why, and the others go on."""
    block, error = tried
    made = None
    if block:
        made, error = attempted(label, partial(make, block))
    return made or cell.model_copy(update={"error": error})


@sub_flow(name="cell", flow_run_name="{label}")
def untrained_cell(label: str, cell: MethodCell, block: Block) -> MethodCell:
    """Judge what takes no gradient; word vectors have a vocabulary of their own."""
    if cell.method == WORDS:
        words = word_vectors(block.documents, block.validation_pool, cell.seed)
        sentences = tokenise_sentences(block.documents, block.validation_pool, words)
        return scored_cell(words, block.model_copy(update={"sentences": sentences}), cell)
    if cell.method in OF_TITLES:
        return retrieved_cell(cell, block)
    row = UNLEARNT[cell.method]
    encoder = pooled_as(block.start, row.pooling)
    if row.map:
        encoder = finished_encoder(encoder, block.sentences, row.map, cell.seed)
    return scored_cell(encoder, block, cell)


@sub_flow(name="cell", flow_run_name="{label}")
def trained_cell(
    label: str, cell: MethodCell, table: MethodTable, start: Start, block: Block
) -> MethodCell:
    """Train and judge."""
    method, steps = table.method_of(cell.method), table.steps_of(cell.method, start)
    rules = Rules(partial(table.training_of, start=start, seed=cell.seed), cell.seed)
    require_multi_sentence(block.documents, [method])
    share = log_segment_share(method, block.sentences, block.start)
    trained = encoder_after(steps, block.start, block, rules)
    language = None
    if entry_of(method.name).continues:
        unseen = tokenise_sentences(documents_of(block.unseen), None, block.start)
        stage = encoder_after(steps[:1], block.start, block, rules)
        language = measure_language(stage, block.sentences, unseen)
    return scored_cell(
        trained, block, cell.model_copy(update={"segmented": share, "language": language})
    )


def retrieved_cell(cell: MethodCell, block: Block) -> MethodCell:
    """Words otherwise weighted, or rescored by the start encoder: validation chooses alpha."""
    if not block.validation_pool:
        raise NoQueriesError(
            f"{cell.method} is of what titles find, and {cell.corpus} has none: leave it out."
        )
    if cell.method == LITERAL_BM25:
        found = literal_bm25_scores(block.documents, block.validation_pool)
    else:
        found = rescored_scores(
            block.start, block.sentences, block.documents, block.validation_pool, None
        )
    return cell.model_copy(update={"scores": found})


def scored_cell(encoder: ArtifactRef, block: Block, cell: MethodCell) -> MethodCell:
    """The cell with the scores of its encoder."""
    if block.validation_pool:
        scores = validate_encoder(encoder, block.sentences, block.validation_pool)
        return cell.model_copy(update={"scores": scores})
    return on_pairs(encoder, block, cell)


def on_pairs(system: System, block: Block, cell: MethodCell) -> MethodCell:
    """The cell with what a system has on the sets of pairs."""
    found = {name: result_on(place, system, seed=cell.seed) for name, place in block.sts.items()}
    return cell.model_copy(update={"sts": found})
