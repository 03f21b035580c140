"""Few-shot curves (seed 000, Table 2): what some labels add to what each method learnt without."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from typing import Annotated, ClassVar

from prefect import flow
from pydantic import Field, field_validator

from flows.attempt import attempted
from flows.fine_tune import training_on_labels
from flows.method_table import CORPORA, METHODS, MethodTable, Seeds, Start, looked_for
from flows.presets import SMALL_EPOCHS, labelled_preset
from flows.reproduce import (
    Block,
    Tried,
    cell_or_error,
    fixed_cells,
    halved,
    learnt_encoder,
    scored_cell,
    self_annotated,
    timed,
    tried_block,
    tried_row,
)
from flows.subflow import sub_flow
from sentemb_core.configs import LabelsConfig, TrainingConfig, ValidationConfig
from sentemb_core.experiments import Corpus
from sentemb_core.formats import counted
from sentemb_core.types import ArtifactRef
from tasks.labels import draw_labels
from tasks.rows import Labelled
from tasks.tables.cells import CellsTable, MethodCell
from tasks.validate import recall_at_5

NOTHING = "no method"
"""The row whose start encoder meets the labels as it is."""

PLUS = "infocse_plus"
"""Two cycles of infocse_idc and fine-tuning."""


class FewShotTable(MethodTable):
    """Some methods of the table of methods, each fine-tuned on several numbers of labels."""

    title: ClassVar[str] = "few-shot"
    rows: ClassVar[tuple[str, ...]] = tuple(METHODS)

    corpora: tuple[Corpus, ...] = ("blog_usgov",)
    encoders: tuple[Start, ...] = ("static",)
    methods: tuple[str, ...] = ("conpono", "infocse_idc")
    seeds: Seeds = Field(default=(42, 43, 44), min_length=1)
    counts: tuple[Annotated[int, Field(ge=2)], ...] = Field(
        default=(100, 250, 1_000), min_length=1, description="Labels, ascending."
    )
    labels: LabelsConfig = SMALL_EPOCHS

    @field_validator("corpora")
    @classmethod
    def _have_labels(cls, corpora: tuple[Corpus, ...]) -> tuple[Corpus, ...]:
        for name in corpora:
            if not looked_for(name):
                known = ", ".join(filter(looked_for, CORPORA))
                raise ValueError(f"labels are titles, and {name} has none; these have: {known}")
        return corpora

    @property
    def pool(self) -> ValidationConfig:
        return ValidationConfig(candidates=self.candidates, label_share=0.5)

    def points(self, counts: Sequence[int]) -> Iterator[tuple[str, int]]:
        """Method and number of labels; what a start encoder has without labels is a fixed row."""
        plus = (PLUS,) if "infocse_idc" in self.methods else ()
        yield from product((NOTHING, *plus), counts)
        yield from product(self.methods, (0, *counts))

    def training(self, method: str, start: Start, seed: int) -> TrainingConfig:
        """Of one cycle."""
        if method == PLUS:
            return halved(super().training("infocse_idc", start, seed))
        return super().training(method, start, seed)

    def fine_tuning(self, start: Start, seed: int) -> TrainingConfig:
        """The preset of the start encoder."""
        preset = labelled_preset(start, "training")["training"]
        return TrainingConfig.model_validate(preset | {"seed": seed})


@flow(name="reproduce", flow_run_name="few-shot")
def few_shot(table: FewShotTable) -> CellsTable:
    """Every method and number of labels in a cell; a second run computes only what is missing."""
    return timed(table, few_shot_cells(table))


def few_shot_cells(table: FewShotTable) -> Iterator[MethodCell]:
    """Block by block: the fixed rows, then method by method its curve, from no label on."""
    for corpus, start, seed in table.blocks():
        tried = tried_block(table, corpus, start, seed)
        blank = MethodCell(corpus=corpus, start=start, method="", seed=seed)
        yield from fixed_cells(tried, blank)
        counts, tried = tried_counts(table, tried)
        tuning = table.fine_tuning(start, seed)
        for method, count in table.points(counts):
            training = table.training(method, start, seed) if method != NOTHING else None
            steps = {"steps": training.steps, "batch_size": training.batch_size} if training else {}
            row = {"method": method, "labels": count, "cycles": 2 if method == PLUS else 1}
            cell = blank.model_copy(update=row | steps)
            label = f"{method} on {corpus} from {start}, {counted(count, 'label')}, seed {seed}"
            own = tried_row(method, tried, table, corpus, start, seed)
            make = partial(tuned_cell, label, cell, training, tuning, table)
            yield cell_or_error(label, cell, own, make)


def tried_counts(table: FewShotTable, tried: Tried) -> tuple[Sequence[int], Tried]:
    """`counts_of` the block; where there is none, those asked for, and the error of all cells."""
    block, error = tried
    counts = None
    if block:
        counts, error = attempted("labels", partial(counts_of, table, block))
    return counts or table.counts, (None if error else block, error)


def counts_of(table: FewShotTable, block: Block) -> list[int]:
    """The numbers of labels that were asked for, none above what the corpus has."""
    drawn = [labels_of(table, block, count).count for count in table.counts]
    return list(dict.fromkeys(drawn))


def labels_of(table: FewShotTable, block: Block, count: int) -> Labelled:
    """The first labels by hash."""
    assert block.benchmark is not None, "labels are counterparts"
    return draw_labels(block.documents, block.benchmark, table.pool.label_share, count)


@sub_flow(name="cell", flow_run_name="{label}")
def tuned_cell(
    label: str,
    cell: MethodCell,
    training: TrainingConfig | None,
    tuning: TrainingConfig,
    table: FewShotTable,
    block: Block,
) -> MethodCell:
    """Learn without labels, fine-tune with them, judge; of InfoCSE++ the better cycle."""
    encoder = learnt_encoder(training, cell.start, block) if training else block.start
    if cell.labels:
        encoder = tuned_encoder(encoder, cell.labels, tuning, table, block)
    first = scored_cell(encoder, block, cell)
    if cell.method != PLUS:
        return first
    assert training is not None, "InfoCSE++ trains"
    encoder = self_annotated(training, encoder, block)
    encoder = tuned_encoder(encoder, cell.labels, tuning, table, block)
    return max(first, scored_cell(encoder, block, cell), key=validated)


def validated(cell: MethodCell) -> float:
    """R@5 of the validation split: no other may choose a cycle (seed 000, section 3.3)."""
    assert cell.scores is not None, "titles judge it"
    return recall_at_5(cell.scores)


def tuned_encoder(
    encoder: ArtifactRef, count: int, tuning: TrainingConfig, table: FewShotTable, block: Block
) -> ArtifactRef:
    """The encoder of the best epoch on `count` labels."""
    labels = labels_of(table, block, count)
    assert block.benchmark is not None, "labels are titles"
    return training_on_labels(
        labels, encoder, tuning, table.labels, block.benchmark, block.sentences
    ).model
