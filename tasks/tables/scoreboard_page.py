"""A benchmark as a page: the picture, then group by group its numbers, diagnostics and overlap."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sentemb_core.config.suite import GROUPS, Group
from sentemb_core.types import ArtifactRef
from tasks.tables.bm25_note import bm25_note, fields_of
from tasks.tables.scoreboard import (
    Scoreboard,
    ScoreCell,
    absences,
    agreements,
    average_name,
    averaged_tasks,
    averages,
    averages_notes,
    lengths_note,
    no_agreement,
)
from tasks.tables.scoreboard_lines import (
    TITLES,
    diagnosis_lines,
    further_lines,
    fusion_lines,
    halves_lines,
    lead_told,
    overlap_lines,
    with_interval,
)

if TYPE_CHECKING:
    from sentemb_core.report.drawing import Drawing
    from sentemb_core.report.panels import Panel


def write_page(
    board: Scoreboard, cells: Sequence[ScoreCell], drawings: "Mapping[str, Drawing]", folder: Path
) -> Path:
    """page.html: no script, no address it loads from."""
    from sentemb_core.report.legends import READ_SCORES
    from sentemb_core.report.panels import Panel, write_panels

    groups: list[Group] = [group for group in GROUPS if any(cell.group == group for cell in cells)]
    models = ", ".join(
        f"{label} ({model}, encoder {board.encoders[label].digest[:12]})"
        for label, model in board.models.items()
    )
    panels = [
        Panel(
            "At a glance",
            [
                f"Models: {models}.",
                lengths_note(board.encoders),
                *bm25_note(board.fixed, fields_of(board.tasks)),
                *averages_notes(board, cells),
                *absences(board.tasks, board.scores),
            ],
            drawings.get("scores"),
            READ_SCORES,
        ),
        *(group_panel(board, cells, group) for group in groups),
        *(diagnosis_panel(board, cells, sample) for sample in board.diagnoses),
        *([fusion_panel(board, drawings.get("alpha"))] if board.fusions else []),
        *([overlap_panel(board.overlap)] if board.overlap else []),
    ]
    return write_panels(board.run, "A benchmark of sentemb", panels, folder)


def group_panel(board: Scoreboard, cells: Sequence[ScoreCell], group: Group) -> "Panel":
    """Tasks down, systems across: the value and its 95 % interval, times 100; who leads."""
    from sentemb_core.report.panels import Panel

    own = [cell for cell in cells if cell.group == group]
    systems = [name for name in board.systems if any(cell.system == name for cell in own)]
    told = {(cell.task, cell.system): cell for cell in own}

    def lead(line: str) -> list[str]:
        return [lead_told(board.leads.get(line))] if board.leads else []

    rows = [
        [
            task,
            next(cell.measure for cell in own if cell.task == task),
            *(with_interval(told.get((task, system))) for system in systems),
            *lead(task),
        ]
        for task in dict.fromkeys(cell.task for cell in own)
    ]
    means, names = averages(board, cells, group), averaged_tasks(board.tasks, group)
    shown = (f"{100 * means[system]:.1f}" if system in means else "" for system in systems)
    if len(names) > 1 and means:
        rows.append(["average", "", *shown, *lead(average_name(group, names))])
    return Panel(
        TITLES[group],
        further_lines(own),
        head=[
            "task",
            "measure",
            *systems,
            *(["of the models the best, less the least surely worse"] if board.leads else []),
        ],
        rows=rows,
        caption="Times 100, with the 95 % interval over the task's units",
    )


def diagnosis_panel(board: Scoreboard, cells: Sequence[ScoreCell], sample: str) -> "Panel":
    """What needs no label, and how it goes with the scores from three models on."""
    from sentemb_core.report.legends import DIAGNOSES
    from sentemb_core.report.panels import Panel

    agreed = agreements(board, cells, sample)
    head, *rows = diagnosis_lines(board.diagnoses[sample], agreed)
    return Panel(
        f"Without labels, on {sample}",
        [*no_agreement(board, cells), *halves_lines(board.diagnoses[sample])],
        head=head,
        rows=rows,
        caption="rho: rank correlation over different models with the group's average"
        if agreed
        else "What the vectors are like, without any score",
        legend=DIAGNOSES,
    )


def fusion_panel(board: Scoreboard, drawing: "Drawing | None") -> "Panel":
    """What joining words and vectors gives."""
    from sentemb_core.report.panels import Panel

    head, *rows = fusion_lines(board.fusions)
    return Panel(
        "Words and vectors together",
        [
            "By BM25 + alpha cosine, or by rank fusion. Half of a task's queries choose alpha; the "
            "others are told here."
        ],
        drawing,
        "A line is a model's measure by alpha, times 100, on the queries that choose it; dashed is "
        "BM25 alone.",
        head=head,
        rows=rows,
        caption="Main measures, times 100, with the 95 % intervals of the gains",
    )


def overlap_panel(overlap: ArtifactRef) -> "Panel":
    """What the training corpus has of each task's texts."""
    from sentemb_core.report.panels import Panel

    head, *rows = overlap_lines(overlap)
    return Panel(
        "Overlap with the training corpus",
        head=head,
        rows=rows,
        caption="Of a task's different texts, and of its runs of 8 words",
    )
