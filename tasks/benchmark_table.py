"""Tables, notes, files and page of a benchmark, and of a comparison of two models."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sentemb_core.config.suite import GROUPS, Group
from sentemb_core.formats import counted
from sentemb_core.types import ArtifactRef, Json
from tasks.artifact_files import read_json
from tasks.benchmark import Placed, comparison_of, diagnosis_of
from tasks.benchmark_rows import (
    FUSED,
    TITLES,
    ModelComparison,
    Score,
    Scoreboard,
    averaged_tasks,
    board_rows,
    comparison_rows,
    main_scores,
    not_run,
    score_rows,
)
from tasks.results import (
    Pivot,
    ResultRow,
    ResultTable,
    csv_text,
    grouped,
    json_rows,
    panel,
    terminal,
)
from tasks.table_notes import OF_PAIRS, bm25_note

if TYPE_CHECKING:
    from rich.table import Table

    from sentemb_core.evaluation.comparison import Comparison
    from sentemb_core.report.data import Point
    from sentemb_core.report.drawing import Drawing
    from sentemb_core.report.experiment import Mark
    from sentemb_core.report.panels import Panel

MANY_TASKS = 10
"""Tasks from which on a comparison gives the expected number of false positives."""

FILES = ("page.html", "table.csv", "table.json", "scores.png", "alpha.png")
"""All that a benchmark may write into its folder."""

FIELDS: dict[Group, str] = {"retrieval": "title and text as one field", "sts": OF_PAIRS}
"""What BM25 reads of the suite's tasks."""

HALVES = {
    True: "A run on this corpus without counterparts or labels holds these documents out of its "
    "training, if it has 1,000 candidates or more (validation.candidates). A model trained with "
    "--counterpart-column has read them.",
    False: "A model that was trained on this corpus may have read these documents.",
}
"""Whether the halved documents are held out -> what that means."""


def errors(scores: Iterable[Score]) -> dict[str, str]:
    """Return task and systems -> their common error."""
    systems = grouped(((one.task, one.error), one.system) for one in scores if one.error)
    return {f"{task}, {', '.join(names)}": error for (task, error), names in systems.items()}


def absences(tasks: Iterable[Placed], scores: Iterable[Score]) -> list[str]:
    """Return why numbers are missing, a line for each reason."""
    return [f"{where}: {note}" for where, note in (not_run(tasks) | errors(scores)).items()]


def max_lengths(encoders: Mapping[str, ArtifactRef]) -> dict[str, int]:
    """Return model -> the tokens that it reads of a text."""
    return {
        name: read_json(encoder, "tokenizer")["truncation"]["max_length"]
        for name, encoder in encoders.items()
    }


def model_notes(models: Mapping[str, str], encoders: Mapping[str, ArtifactRef]) -> list[str]:
    """Return which encoder each name stands for, and how many tokens it reads of a text.

    An alias may name another version tomorrow; the digest names the encoder (`lineage`).
    """
    named = [
        f"{name}: {model}, encoder {encoders[name].digest[:12]}"
        for name, model in models.items()
        if name != model and name in encoders
    ]
    lengths = ", ".join(f"{name} {length}" for name, length in max_lengths(encoders).items())
    return [*named, *([f"Tokens read of a text, the rest is cut: {lengths}."] if lengths else [])]


def bm25_notes(systems: Iterable[str], tasks: Iterable[Placed]) -> list[str]:
    groups = {one.task.group for one in tasks if not one.missing}
    return bm25_note(systems, [text for group, text in FIELDS.items() if group in groups])


def board_notes(board: Scoreboard, scores: Sequence[ResultRow]) -> list[str]:
    """Return what a reader must know about a benchmark's scores."""
    from sentemb_core.evaluation.bootstrap import FEWEST

    notes = [
        *model_notes(board.models, board.encoders),
        *bm25_notes(board.fixed, board.tasks),
        *absences(board.tasks, board.scores),
    ]
    for group in GROUPS:
        run = [one.task.name for one in board.tasks if one.task.group == group and not one.missing]
        names = averaged_tasks(board.tasks, group)
        metrics = {row.metric for row in main_scores(scores) if row.task in names}
        if len(metrics) > 1:
            notes.append(f"No average of {group}: the measures are {', '.join(sorted(metrics))}.")
        elif 1 < len(names) < len(run):
            notes.append(f"The average of {group} is over {', '.join(names)}.")
    units = {row.task: row.units or 0 for row in main_scores(scores)}
    few = [f"{task} {number}" for task, number in units.items() if number < FEWEST]
    if few:
        notes.append(f"Too few units for an interval: {', '.join(few)}.")
    if board.winners:
        significant = sum(one.is_significant for one in board.winners.values())
        notes.append(
            "*: significantly better than every other model (baselines apart), by a paired "
            f"bootstrap; {significant} of {counted(len(board.winners), 'line')}."
        )
    if not board.overlap and all(score.task != "overlap" for score in board.scores):
        notes.append("--corpus measures how much evaluation text the training corpus has.")
    return notes


# --- tables ---

PERCENT = Pivot(scale=100, places=1)


def board_tables(board: Scoreboard, *, intervals: bool = False) -> list[ResultTable]:
    """Return the tables of a benchmark: scores by group, winners, diagnostics, fusion, overlap.

    Args:
        board: The benchmark.
        intervals: Show the 95 % interval of every score.
    """
    rows = board_rows(board)
    parts = grouped((row.factors["part"], row) for row in rows)
    tables = [
        *(group_table(board, rows, group, intervals=intervals) for group in GROUPS),
        further_table(board, parts.get("further measures", [])),
        ResultTable(
            id="winners",
            title="Best models",
            rows=tuple(parts.get("winners", ())),
            pivot=PERCENT.model_copy(
                update={"rows": ("task", "metric", "system", "baseline"), "columns": ()}
            ),
            question="The best model minus the closest other one, times 100, with the 95 % "
            "interval of a paired bootstrap",
        ),
        *(diagnosis_table(board, sample, parts) for sample in board.diagnoses),
        ResultTable(
            id="fusion",
            title="Words and vectors together",
            rows=tuple(parts.get("fusion", ())),
            pivot=PERCENT.model_copy(
                update={
                    "rows": ("task", "metric", "model", "system", "alpha"),
                    "columns": (),
                    "intervals": "all",
                }
            ),
            question="Main measures, times 100, with 95 % intervals, on the half of the queries "
            "that did not choose alpha",
        ),
        overlap_table(parts.get("overlap", ())),
    ]
    return [table for table in tables if table.rows]


def overlap_table(rows: Iterable[ResultRow]) -> ResultTable:
    """Return how much evaluation text the training corpus has."""
    pivot = PERCENT.model_copy(update={"rows": ("task", "units"), "columns": ("metric",)})
    return ResultTable(
        id="overlap",
        title="Overlap with the training corpus",
        rows=tuple(rows),
        pivot=pivot.model_copy(update={"places": 2, "corner": "texts"}),
        question="Share of a set's different texts, and of their runs of 8 words, in %",
    )


def group_table(
    board: Scoreboard, rows: Sequence[ResultRow], group: Group, *, intervals: bool
) -> ResultTable:
    """Return tasks as lines and systems as columns; a star marks a significant winner."""
    own = [
        row
        for row in rows
        if row.factors.get("group") == group and row.factors["part"] in ("scores", "averages")
    ]
    best = {task: one.best for task, one in board.winners.items() if one.is_significant}
    starred = [
        row.model_copy(update={"note": "*"}) if best.get(row.task) == row.system else row
        for row in own
    ]
    order = {name: place for place, name in enumerate(dict.fromkeys(row.task for row in own))}
    pivot = PERCENT.model_copy(
        update={
            "rows": ("task", "metric", "units"),
            "columns": ("system",),
            "headings": tuple(board.systems),
            "intervals": "all" if intervals else "differences",
        }
    )
    return ResultTable(
        id=group,
        title=TITLES[group],
        rows=tuple(sorted(starred, key=lambda row: order[row.task])),
        pivot=pivot,
        question="Main measures, times 100" + (", with their 95 % intervals" if intervals else ""),
    )


def further_table(board: Scoreboard, rows: Sequence[ResultRow]) -> ResultTable:
    """Return SentEval's means over subsets where a task has them, and P@10 of product sets."""
    scores = {(row.system, row.task): row for row in main_scores(score_rows(board))}

    def is_shown(row: ResultRow) -> bool:
        main = scores[row.system, row.task]
        if row.factors["group"] == "sts":
            means = [one for one in rows if (one.task, one.metric) == (row.task, "mean")]
            varied = any(one.value != scores[one.system, one.task].value for one in means)
            return row.metric in ("mean", "wmean") and varied
        return main.metric == "R_cap@10" and row.metric == "P@10"

    pivot = PERCENT.model_copy(update={"rows": ("task", "metric"), "columns": ("system",)})
    shown = tuple(filter(is_shown, rows))
    return ResultTable(id="further", title="Further measures", rows=shown, pivot=pivot)


def diagnosis_table(
    board: Scoreboard, sample: str, parts: Mapping[str, Sequence[ResultRow]]
) -> ResultTable:
    """Return diagnostics as lines, models as columns, then rank correlations with the scores."""
    held_out = {diagnosis_of(ref).held_out for ref in board.diagnoses[sample].values()}
    return ResultTable(
        id=f"diagnostics, {sample}",
        title=f"Without labels, on {sample}",
        rows=tuple(parts.get(f"diagnostics, {sample}", ())),
        pivot=Pivot(rows=("metric",), columns=("system",), corner="diagnostic"),
        question="Properties of the vectors; rho is the rank correlation over models with the "
        "group's average",
        notes=tuple(text for held, text in HALVES.items() if held in held_out),
    )


def shown_tables(tables: Iterable[ResultTable]) -> "list[Table | str]":
    """Return tables for the terminal, each after its question and notes."""
    shown: list[Table | str] = []
    for table in tables:
        text = " ".join([f"{table.question}.", *table.notes]) if table.question else ""
        shown += [*filter(None, [text]), terminal(table)]
    return shown


def board_terminal(board: Scoreboard) -> "list[Table | str]":
    """Return what `benchmark` shows."""
    return [*shown_tables(board_tables(board)), *board_notes(board, score_rows(board))]


def board_json(board: Scoreboard) -> Json:
    """Return every row as shares and correlations, the models, and the notes."""
    lengths = max_lengths(board.encoders)
    return {
        "run": board.run,
        "models": {
            label: {
                "model": model,
                "encoder": board.encoders[label].digest,
                "max_length": lengths[label],
            }
            for label, model in board.models.items()
        },
        "rows": json_rows(board_rows(board)),
        "notes": board_notes(board, score_rows(board)),
    }


# --- files ---


def write_board(board: Scoreboard, folder: Path) -> list[Path]:
    """Write table.csv, table.json, page.html, scores.png, and alpha.png for a fusion.

    Returns:
        These files; the folder may have others.
    """
    from sentemb_core.report.drawing import Drawing, png
    from sentemb_core.report.experiment import experiment_figure
    from sentemb_core.report.scores import scores_figure

    folder.mkdir(parents=True, exist_ok=True)
    rows = board_rows(board)
    (folder / "table.csv").write_text(csv_text(rows), encoding="utf-8")
    text = json.dumps(board_json(board), indent=1, ensure_ascii=False) + "\n"
    (folder / "table.json").write_text(text, encoding="utf-8")
    drawings: dict[str, Drawing] = {}
    if points := points_of(rows, board.fixed):
        drawings["scores"] = Drawing("scores", "Scores of every system", scores_figure(points))
    if marks := alpha_marks(rows):
        figure = experiment_figure(marks, "BM25 + alpha cosine", "alpha")
        drawings["alpha"] = Drawing("alpha", "The main measure by alpha", figure)
    for name, drawing in drawings.items():
        (folder / f"{name}.png").write_bytes(png(drawing.figure))
    write_page(board, drawings, folder)
    names = ["table.csv", "table.json", "page.html", *(f"{name}.png" for name in drawings)]
    return [folder / name for name in names]


def points_of(rows: Iterable[ResultRow], fixed: Sequence[str]) -> "list[Point]":
    """Return what the figure of all scores shows: the groups' tasks, then the fusions."""
    from sentemb_core.report.data import Point

    points: dict[tuple[str, str, str], Point] = {}  # BM25 is the same beside every model
    for row in rows:
        part = row.factors["part"]
        if part not in ("scores", "fusion") or row.baseline:
            continue
        task, system = f"{row.task} ({row.metric})", row.system
        title = next((TITLES[group] for group in GROUPS if group == row.factors.get("group")), "")
        if part == "fusion":
            title = "Words and vectors together"
            task = f"{row.task} ({row.metric}, {counted(row.units or 0, 'query')})"
            system = fused_name(row.system, row.factors["model"])
        points[title, task, system] = Point(
            panel=f"{title}, times 100",
            task=task,
            system=system,
            fixed=system in fixed,
            value=row.value or 0.0,
            low=row.low or 0.0,
            high=row.high or 0.0,
        )
    order = [*(TITLES[group] for group in GROUPS), "Words and vectors together"]
    return [point for title in order for place, point in points.items() if place[0] == title]


def fused_name(system: str, model: str) -> str:
    """Return the legend of a fusion's system."""
    names = ("BM25", model, f"BM25 + alpha {model}", f"ranks of BM25 and {model}")
    return names[FUSED.index(system)]


def alpha_marks(rows: Iterable[ResultRow]) -> "list[Mark]":
    """Return the main measure by alpha, times 100; at alpha 0 it is BM25's."""
    from sentemb_core.report.experiment import Mark

    marks: dict[tuple[str, str, float], Mark] = {}  # BM25 is the same beside every model
    for row in rows:
        if row.factors["part"] == "fusion by alpha":
            alpha = float(row.factors["alpha"])
            curve = row.factors["model"] if alpha else "BM25"
            marks[row.task, curve, alpha] = Mark(
                column=f"{row.task} ({row.metric})",
                arm=f"{alpha:g}" if alpha else curve,
                x=alpha or None,
                curve=curve,
                values=[100 * (row.value or 0.0)],
                paper=None,
            )
    return list(marks.values())


def write_page(board: Scoreboard, drawings: "Mapping[str, Drawing]", folder: Path) -> Path:
    """Write page.html: figures, then every table with its intervals."""
    from sentemb_core.report.legends import DIAGNOSES, READ_SCORES
    from sentemb_core.report.panels import Panel, write_panels

    def shown(table: ResultTable) -> "Panel":
        if table.id == "fusion":
            return panel(table, drawings.get("alpha"), "Queries that choose alpha; dashed is BM25.")
        made = panel(table)
        return replace(made, legend=DIAGNOSES) if table.id.startswith("diagnostics") else made

    models = ", ".join(
        f"{label} ({model}, encoder {board.encoders[label].digest[:12]})"
        for label, model in board.models.items()
    )
    notes = [f"Models: {models}.", *board_notes(board, score_rows(board))]
    panels = [
        Panel("At a glance", notes, drawings.get("scores"), READ_SCORES),
        *map(shown, board_tables(board, intervals=True)),
    ]
    return write_panels(board.run, "A benchmark of sentemb", panels, folder)


def comparison_tables(compared: ModelComparison) -> list[ResultTable]:
    """Return the differences, and the overlap with a training corpus."""
    rows = grouped((row.factors["part"], row) for row in comparison_rows(compared))
    pivot = PERCENT.model_copy(update={"rows": ("task", "metric", "units"), "columns": ("system",)})
    first, second = compared.models
    tables = [
        ResultTable(
            id="comparison",
            title="",
            rows=tuple(rows.get("comparison", ())),
            pivot=pivot,
            question=f"{first} minus {second}, times 100, with the 95 % interval of the difference",
        ),
        overlap_table(rows.get("overlap", ())),
    ]
    return [table for table in tables if table.rows]


def comparison_notes(compared: ModelComparison) -> list[str]:
    """Return the verdict over all tasks, and what a reader must know."""
    first, second = compared.models
    same = len({one.digest for one in compared.encoders.values()}) < len(compared.encoders)
    found = [comparison_of(ref) for ref in compared.differences]
    verdict = conclusion(found, compared.tasks, first, second)
    baselines = [label for label in compared.models if label not in compared.encoders]
    left_out = f"{', '.join(compared.left_out)}: a probe needs vectors, {' and '.join(baselines)} "
    return [
        *absences(compared.tasks, compared.scores),
        *([f"{left_out}has none."] if compared.left_out else []),
        *([f"{first} and {second} are one encoder."] if same else [verdict] if found else []),
        *model_notes(compared.models, compared.encoders),
        *bm25_notes(baselines, compared.tasks),
    ]


def comparison_terminal(compared: ModelComparison) -> "list[Table | str]":
    """Return what `compare` shows."""
    return [*shown_tables(comparison_tables(compared)), *comparison_notes(compared)]


def comparison_json(compared: ModelComparison) -> Json:
    """Return every row as shares and correlations, the models, and the notes."""
    return {
        "models": compared.models,
        "encoders": {name: encoder.digest for name, encoder in compared.encoders.items()},
        "max_length": max_lengths(compared.encoders),
        "rows": json_rows(comparison_rows(compared)),
        "left_out": compared.left_out,
        "notes": comparison_notes(compared),
    }


def conclusion(
    found: "Sequence[Comparison]", tasks: Sequence[Placed], first: str, second: str
) -> str:
    """Return how many differences are significant, and how many would be by chance.

    It counts the tasks that averages cover: a part of a task is not counted beside the whole.
    """
    counting = {name for group in GROUPS for name in averaged_tasks(tasks, group)}
    counted_ones = [one for one in found if one.task in counting]
    won = {side: sum(one.winner == side for one in counted_ones) for side in ("first", "second")}
    undecided = len(counted_ones) - sum(won.values())
    text = (
        f"{first} is significantly better on {won['first']} of "
        f"{counted(len(counted_ones), 'task')}, {second} on {won['second']}; not decided: "
        f"{undecided}."
    )
    if len(counted_ones) < MANY_TASKS:
        return text
    return f"{text} By chance, {len(counted_ones) / 20:.1f} of so many would be significant."
