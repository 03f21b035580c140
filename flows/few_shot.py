"""Few-shot curves (mutual, Table 2): what some labels add to what each method learnt without."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from typing import Annotated, ClassVar

from prefect import flow
from pydantic import Field, field_validator

from flows.data_folder import CORPORA, Seeds, looked_for
from flows.isolate_errors import attempted
from flows.method_cells import (
    Block,
    Tried,
    cell_or_error,
    fixed_cells,
    recorded_table,
    scored_cell,
    tried_block,
    tried_row,
)
from flows.method_table import METHODS, MethodTable, Start
from flows.presets import SMALL_EPOCHS
from flows.row_steps import Rules, encoder_after, labels_of
from sentemb_core.config.experiments import Corpus, Finish, Label, SelfTrain, Step
from sentemb_core.config.run import LabelsConfig, ValidationConfig
from sentemb_core.formats import counted
from sentemb_core.types import Json
from tasks.execution import sub_flow
from tasks.tables.cells import CellsTable, MethodCell

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

    def point_steps(self, method: str, count: int, start: Start) -> tuple[Step, ...]:
        """What makes a point of a curve: learning without labels, then with them."""
        labels = (Label(count=count),) if count else ()
        if method == NOTHING:
            return labels
        if method == PLUS:
            first = map(halved, self.steps_of("infocse_idc", start))
            return *first, *labels, SelfTrain(times=0.5), *labels
        return self.steps_of(method, start, *labels)

    def cost(self, method: str, start: Start) -> Json:
        """Of a row before its labels: cycles, and the steps of each."""
        budget = {} if method == NOTHING else self.budget(start)
        if method == PLUS:
            budget |= {"cycles": 2, "steps": max(1, round(budget["steps"] * 0.5))}
        return budget


def halved(step: Step) -> Step:
    """With half of its steps, where the budget counts them."""
    if isinstance(step, Label | Finish):
        return step
    return step.model_copy(update={"times": step.times / 2})


@flow(name="reproduce", flow_run_name="few-shot")
def few_shot(table: FewShotTable) -> CellsTable:
    """Every method and number of labels in a cell; a second run computes only what is missing."""
    return recorded_table(table, few_shot_cells(table))


def few_shot_cells(table: FewShotTable) -> Iterator[MethodCell]:
    """Block by block: the fixed rows, then method by method its curve, from no label on."""
    for corpus, start, seed in table.blocks():
        tried = tried_block(table, corpus, start, seed)
        blank = MethodCell(corpus=corpus, start=start, method="", seed=seed)
        yield from fixed_cells(tried, blank)
        counts, tried = tried_counts(table, tried)
        for method, count in table.points(counts):
            row = {"method": method, "labels": count} | table.cost(method, start)
            cell = blank.model_copy(update=row)
            label = f"{method} on {corpus} from {start}, {counted(count, 'label')}, seed {seed}"
            own = tried_row(method, tried, table, corpus, start, seed)
            yield cell_or_error(label, cell, own, partial(tuned_cell, label, cell, table, start))


def tried_counts(table: FewShotTable, tried: Tried) -> tuple[Sequence[int], Tried]:
    """`counts_of` the block; where there is none, those asked for, and the error of all cells."""
    block, error = tried
    counts = None
    if block:
        counts, error = attempted("labels", partial(counts_of, table, block))
    return counts or table.counts, (None if error else block, error)


def counts_of(table: FewShotTable, block: Block) -> list[int]:
    """The numbers of labels that were asked for, none above what the corpus has."""
    share = table.pool.label_share
    drawn = [labels_of(block, share, count).count for count in table.counts]
    return list(dict.fromkeys(drawn))


@sub_flow(name="cell", flow_run_name="{label}")
def tuned_cell(
    label: str, cell: MethodCell, table: FewShotTable, start: Start, block: Block
) -> MethodCell:
    """Learn without labels, fine-tune with them, judge; of InfoCSE++ the better cycle."""
    training_of = partial(table.training_of, start=start, seed=cell.seed)
    rules = Rules(training_of, cell.seed, table.labels, table.pool.label_share)
    steps = table.point_steps(cell.method, cell.labels, start)
    return scored_cell(encoder_after(steps, block.start, block, rules), block, cell)
