"""A benchmark as tables for the terminal, CSV, JSON, and the points of its figure."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sentemb_core.config.suite import GROUPS, Group
from sentemb_core.console import plain, terminal_table
from sentemb_core.formats import counted
from sentemb_core.types import ArtifactRef, Json
from tasks.benchmark import comparison_of, diagnosis_of, overlaps_of
from tasks.fusion import SYSTEMS, fusion_of
from tasks.tables.bm25_note import bm25_note, fields_of
from tasks.tables.scoreboard import (
    Lead,
    Scoreboard,
    ScoreCell,
    agreements,
    average_name,
    averaged_tasks,
    averages,
    averages_notes,
    cells_of,
    lengths_note,
    max_lengths,
    models_told,
    no_agreement,
    not_run,
    refused,
    refused_together,
)
from tasks.tables.scoreboard_lines import (
    TITLES,
    Lines,
    diagnosis_lines,
    further_lines,
    fusion_lines,
    halves_lines,
    leads_told,
    overlap_lines,
    points_of,
)
from tasks.tables.scoreboard_page import write_page

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from sentemb_core.report.data import Point
    from sentemb_core.report.experiment import Mark

COLUMNS = (
    "group",
    "task",
    "system",
    "measure",
    "main",
    "value",
    "low",
    "high",
    "units",
    "max_length",
    "note",
)


FILES = (
    "page.html",
    "table.csv",
    "table.json",
    "scores.json",
    "scores.png",
    "alpha.json",
    "alpha.png",
)
"""All that a benchmark may write into its folder."""


def write_board(board: Scoreboard, folder: Path) -> list[Path]:
    """page.html, table.csv, table.json, scores.json with the figure's data, scores.png if any.

    Where words and vectors are joined, alpha.json and alpha.png, too.

    Returns:
        These files; the folder may have others.
    """
    from sentemb_core.report.drawing import Drawing, png
    from sentemb_core.report.experiment import experiment_figure
    from sentemb_core.report.scores import scores_figure

    folder.mkdir(parents=True, exist_ok=True)
    cells = cells_of(board)
    files = [folder / "table.csv"]
    write_csv(board, cells, files[0])
    points, marks = [*points_of(cells, board.fixed), *fusion_points(board)], alpha_marks(board)
    drawings: dict[str, Drawing] = {}
    if points:
        alt = "Scores of every system, told below"
        drawings["scores"] = Drawing("scores", alt, scores_figure(points))
    if marks:
        figure = experiment_figure(marks, "BM25 + alpha cosine", "alpha")
        drawings["alpha"] = Drawing("alpha", "What BM25 + alpha cosine finds by alpha", figure)
    for name, drawing in drawings.items():
        files.append(folder / f"{name}.png")
        files[-1].write_bytes(png(drawing.figure))
    files.append(write_page(board, cells, drawings, folder))
    told = {"table": board_json(board), "scores": [point.model_dump() for point in points]}
    if marks:
        told["alpha"] = [mark.model_dump() for mark in marks]
    for name, value in told.items():
        files.append(folder / f"{name}.json")
        text = json.dumps(value, indent=1, ensure_ascii=False) + "\n"
        files[-1].write_text(text, encoding="utf-8")
    return files


def write_csv(board: Scoreboard, cells: Sequence[ScoreCell], path: Path) -> None:
    """A line for every measure of every system on every task; shares, not per cent.

    A task that was not run, or a system that it refused, has a line with the reason.
    """
    group_of = {one.task.name: one.task.group for one in board.tasks}
    lengths = max_lengths(board.encoders)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for cell in cells:
            start = (cell.group, cell.task, cell.system)
            end = (cell.units, lengths.get(cell.system, ""), "")
            writer.writerow((*start, cell.measure, 1, cell.value, cell.low, cell.high, *end))
            for measure, value in cell.measures.items():
                if measure != cell.measure:
                    writer.writerow((*start, measure, 0, value, "", "", *end))
        without = [(task, "", note) for task, note in not_run(board.tasks).items()]
        without += [(one.task, one.system, one.error) for one in board.scores if one.error]
        for task, system, note in without:
            writer.writerow((group_of.get(task, ""), task, system, *[""] * 7, note))


def fusion_points(board: Scoreboard) -> "list[Point]":
    """BM25, each model, and both together, on the half of the queries that chose no alpha."""
    from sentemb_core.report.data import Point

    points: dict[tuple[str, str], Point] = {}  # BM25 is the same beside every model
    for model, told in board.fusions.items():
        for task, ref in told.items():
            one = fusion_of(ref)
            for system, name in zip(SYSTEMS, fused_names(model), strict=True):
                found = one.values[system]
                points[task, name] = Point(
                    panel="Words and vectors together, times 100",
                    task=f"{task} ({one.measure}, {counted(one.queries, 'query')})",
                    system=name,
                    fixed=name == "BM25",
                    value=found.value,
                    low=found.low,
                    high=found.high,
                )
    return list(points.values())


def alpha_marks(board: Scoreboard) -> "list[Mark]":
    """The main measure by alpha, times 100, on the queries that choose it; at 0 it is BM25's."""
    from sentemb_core.report.experiment import Mark

    marks: dict[tuple[str, str, float], Mark] = {}  # BM25 is the same beside every model
    for model, told in board.fusions.items():
        for task, ref in told.items():
            one = fusion_of(ref)
            for alpha, value in one.curve.items():
                curve = model if alpha else "BM25"
                marks[task, curve, alpha] = Mark(
                    column=f"{task} ({one.measure})",
                    arm=f"{alpha:g}" if alpha else curve,
                    x=alpha or None,
                    curve=curve,
                    values=[100 * value],
                    paper=None,
                )
    return list(marks.values())


def fused_names(model: str) -> tuple[str, str, str, str]:
    """What stands for `SYSTEMS` in a legend."""
    return "BM25", model, f"BM25 + alpha {model}", f"ranks of BM25 and {model}"


def board_json(board: Scoreboard) -> Json:
    """Everything, as shares and correlations."""
    cells, lengths = cells_of(board), max_lengths(board.encoders)
    return {
        "run": board.run,
        "values": "shares and correlations; low and high bound the 95 % interval over the units",
        "models": {
            label: {
                "model": model,
                "encoder": board.encoders[label].digest,
                "max_length": lengths[label],
            }
            for label, model in board.models.items()
        },
        "scores": [cell.model_dump() for cell in cells],
        "leads": {name: lead_json(one) for name, one in board.leads.items()},
        "averages": {group: averages(board, cells, group) for group in GROUPS},
        "averaged": {group: averaged_tasks(board.tasks, group) for group in GROUPS},
        "not_run": not_run(board.tasks),
        "refused": refused(board.scores),
        "diagnostics": {
            sample: {
                "models": {name: diagnosis_of(ref).model_dump() for name, ref in found.items()},
                "agreement": {
                    group: one._asdict() for group, one in agreements(board, cells, sample).items()
                },
                "no_agreement": no_agreement(board, cells),
            }
            for sample, found in board.diagnoses.items()
        },
        "fusions": {
            model: {task: fusion_of(ref).model_dump(mode="json") for task, ref in told.items()}
            for model, told in board.fusions.items()
        },
        "overlap": overlap_json(board.overlap),
    }


def lead_json(lead: Lead) -> Json:
    """What the best model has more than each other one."""
    kept = {"measure", "difference", "low", "high", "units"}
    over = {name: comparison_of(ref).model_dump(include=kept) for name, ref in lead.over.items()}
    return {"best": lead.best, "sure": lead.is_sure, "over": over}


def overlap_json(overlap: ArtifactRef | None) -> Json:
    """What a training corpus has of each set of texts, as shares; empty without a corpus."""
    return {name: one.model_dump() for name, one in overlaps_of(overlap).items()} if overlap else {}


def scoreboard_tables(board: Scoreboard) -> "list[Table | Text | str]":
    """The scores, what has no number, the diagnostics, the overlap."""
    from rich.text import Text

    cells = cells_of(board)
    told: list[Table | Text | str] = [
        "Main measures, times 100; CSV and JSON have shares, intervals and every measure, JSON all "
        "other tables, too.",
        scores_table(board, cells),
        *leads_told(board.leads),
        *averages_notes(board, cells),
        *(Text(line, style="dim") for line in further_lines(cells)),
        *models_told(board.models, board.encoders),
        lengths_note(board.encoders),
        *bm25_note(board.fixed, fields_of(board.tasks)),
        *(f"{where}: {error}" for where, error in refused_together(board.scores).items()),
    ]
    for sample in board.diagnoses:
        agreed = agreements(board, cells, sample)
        rho = "; rho: rank correlation over different models with the group's average"
        lines = diagnosis_lines(board.diagnoses[sample], agreed)
        notes = [*no_agreement(board, cells), *halves_lines(board.diagnoses[sample])]
        read = " ".join(["", *notes])
        told += [f"Without labels, on {sample}{rho if agreed else ''}.{read}", lines_table(lines)]
    if board.fusions:
        told += [
            "Words and vectors together, by BM25 + alpha cosine or by rank fusion, on the half of "
            "the queries that did not choose alpha; gains have their 95 % intervals.",
            lines_table(fusion_lines(board.fusions), words=4),
        ]
    if not board.overlap and all(score.task != "overlap" for score in board.scores):
        told.append(
            "What of these texts training read is measured where its corpus is named: --corpus."
        )
    return [*told, *overlap_tables(board.overlap)]


def overlap_tables(overlap: ArtifactRef | None) -> "list[Table | str]":
    """What a training corpus has of the tasks' texts, for people; none without a corpus."""
    if not overlap:
        return []
    return [
        "Overlap with the training corpus: of a task's different texts, and of its runs of 8 "
        "words.",
        lines_table(overlap_lines(overlap)),
    ]


def scores_table(board: Scoreboard, cells: Sequence[ScoreCell]) -> "Table":
    """Tasks down, systems across; the best model of a line in bold where that is sure."""
    table = terminal_table(("task", "measure", "units"), numbers=(2,))
    for system in board.systems:
        table.add_column(plain(system), justify="right", overflow="fold")
    for group in GROUPS:
        lines = lines_of(board, cells, group)
        if lines:
            table.add_row(f"[bold]{TITLES[group]}[/]")
        for line in lines:
            table.add_row(*line)
    return table


def lines_of(board: Scoreboard, cells: Sequence[ScoreCell], group: Group) -> list[list[str]]:
    """A group's tasks, run or not, and of several the average."""
    absent = not_run(board.tasks)
    found: list[list[str]] = []
    for name in (one.task.name for one in board.tasks if one.task.group == group):
        own = {cell.system: cell for cell in cells if cell.task == name}
        values = {system: cell.value for system, cell in own.items()}
        one = next(iter(own.values()), None)
        about = [one.measure, f"{one.units:,}"] if one else [absent.get(name, ""), ""]
        found.append([plain(name), *about, *shown(board, values, board.leads.get(name))])
    names = averaged_tasks(board.tasks, group)
    if len(names) > 1 and (means := averages(board, cells, group)):
        lead = board.leads.get(average_name(group, names))
        found.append(["average", f"of {len(names)}", "", *shown(board, means, lead)])
    return found


def shown(board: Scoreboard, values: dict[str, float], lead: Lead | None) -> list[str]:
    """Times 100 with one decimal; a lead that is sure with a star, and bold."""
    best = lead.best if lead and lead.is_sure else None
    texts = {system: f"{100 * value:.1f}" for system, value in values.items()}
    return [
        f"[bold]* {texts[system]}[/]" if system == best else texts.get(system, "")
        for system in board.systems
    ]


def lines_table(lines: Lines, words: int = 1) -> "Table":
    """The head and what stands under it; numbers, on the right, follow columns of words."""
    head, *rows = lines
    return terminal_table(head, rows, range(words, len(head)), folded=True)
