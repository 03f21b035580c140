"""Tables, notes, files and page of a benchmark, and of a comparison of two models."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentemb_core.config.suite import GROUPS, Group
from sentemb_core.formats import counted
from sentemb_core.types import Json
from tasks.artifacts import read_json
from tasks.benchmark_rows import (
    FUSED,
    TITLES,
    Scoreboard,
    averaged_tasks,
    main_scores,
    not_run,
    not_scored,
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

if TYPE_CHECKING:
    from rich.table import Table

    from sentemb_core.report.data import Point
    from sentemb_core.report.drawing import Drawing
    from sentemb_core.report.experiment import Mark
    from sentemb_core.report.page import Panel

MANY_TASKS = 10
"""Tasks from which on a comparison gives the expected number of false positives."""

FILES = ("page.html", "table.csv", "table.json", "scores.png", "alpha.png")
"""All that a benchmark may write into its folder."""

OF_PAIRS = "a pair's score is the mean of both directions"
"""How BM25 scores pairs of sentences (`words.word_similarities`)."""

FIELDS: dict[Group, str] = {"retrieval": "title and text as one field", "sts": OF_PAIRS}
"""What BM25 reads of the suite's tasks."""

HALVES = {
    "yes": "A run on this corpus without counterparts or labels holds these documents out of its "
    "training, if it has 1,000 candidates or more (validation.candidates). A model trained with "
    "--counterpart-column has read them.",
    "no": "A model that was trained on this corpus may have read these documents.",
}
"""Whether the halved documents are held out -> what that means."""

TOGETHER = "Words and vectors together"


# --- notes ---


def absences(board: Scoreboard) -> list[str]:
    """Return why numbers are missing, a line for each reason."""
    refused = [one for one in board.scores if one.error]
    systems = grouped(((one.task, one.error), one.label) for one in refused)
    errors = {f"{task}, {', '.join(names)}": error for (task, error), names in systems.items()}
    return [f"{where}: {note}" for where, note in (not_run(board.tasks) | errors).items()]


def max_lengths(board: Scoreboard) -> dict[str, int]:
    """Return model -> the tokens that it reads of a text."""
    return {
        name: read_json(encoder, "tokenizer")["truncation"]["max_length"]
        for name, encoder in board.encoders.items()
    }


def model_notes(board: Scoreboard) -> list[str]:
    """Return which encoder each name stands for, and how many tokens it reads of a text.

    An alias may name another version tomorrow; the digest names the encoder (`lineage`).
    """
    named = [
        f"{name}: {model}, encoder {board.encoders[name].digest[:12]}"
        for name, model in board.models.items()
        if name != model and name in board.encoders
    ]
    parts = [retriever_note(board, label) for label in board.retrievers]
    lengths = ", ".join(f"{name} {length}" for name, length in max_lengths(board).items())
    cut = [f"Tokens read of a text, the rest is cut: {lengths}."] if lengths else []
    return [*named, *parts, *cut]


def retriever_note(board: Scoreboard, label: str) -> str:
    """Return the parts of a retriever, and which tasks score its root encoder or nothing."""
    text = f"{label} is a retriever of {', '.join(board.retrievers[label].parts)}"
    if tasks := not_scored(board).get(label):
        return f"{text}. It has no encoder, so no score on {', '.join(tasks)}."
    run = {one.task.group for one in board.tasks if not one.missing} - {"retrieval"}
    groups = " and ".join(TITLES[group] for group in GROUPS if group in run)
    return f"{text}; {groups}: its root encoder alone." if groups else f"{text}."


def bm25_note(systems: Iterable[str], fields: Iterable[str]) -> list[str]:
    """Return which BM25 was used, if it is among the systems: variants differ by points.

    Args:
        systems: Names in the table.
        fields: What BM25 reads.
    """
    from sentemb_core.retrieval.bm25 import ENGLISH, K3, LUCENE

    if "bm25" not in {name.lower() for name in systems}:
        return []
    words = "lowercased words without stemming (runs of letters and digits)"
    read = ", ".join([*fields, words, f"{len(ENGLISH)} English stop words removed"])
    return [f"BM25: k1 {LUCENE.k1:g}, b {LUCENE.b:g}, k3 {K3:g}; {read}."]


def board_notes(board: Scoreboard) -> list[str]:
    """Return what a reader must know about a benchmark's scores, or a comparison's verdict."""
    from sentemb_core.evaluation.bootstrap import FEWEST

    scores = main_scores(board.rows)
    groups = {one.task.group for one in board.tasks if not one.missing}
    fields = [text for group, text in FIELDS.items() if group in groups]
    baselines = [name for name in board.columns if name not in board.encoders]
    notes = [*model_notes(board), *bm25_note(baselines, fields), *absences(board)]
    for group in GROUPS:
        run = [one.task.name for one in board.tasks if one.task.group == group and not one.missing]
        names = averaged_tasks(board.tasks, group)
        metrics = {row.metric for row in scores if row.task in names}
        if len(metrics) > 1:
            notes.append(f"No average of {group}: the measures are {', '.join(sorted(metrics))}.")
        elif 1 < len(names) < len(run):
            notes.append(f"The average of {group} is over {', '.join(names)}.")
    units = {row.task: row.units or 0 for row in scores}
    if few := [f"{task} {number}" for task, number in units.items() if number < FEWEST]:
        notes.append(f"Too few units for an interval: {', '.join(few)}.")
    if board.compared:
        return notes + comparison_notes(board, board.rows)
    if lines := {one.task for one, _ in board.found("differences")}:
        notes.append(
            "*: significantly better than every other model (baselines apart), by a paired "
            f"bootstrap; {len(board.significant_winners())} of {counted(len(lines), 'line')}."
        )
    if all(score.part != "overlap" for score in board.scores):
        notes.append("--corpus measures how much evaluation text the training corpus has.")
    return notes


def comparison_notes(board: Scoreboard, rows: Iterable[ResultRow]) -> list[str]:
    """Return the tasks that a baseline cannot do, and the verdict over all others."""
    first, second = board.models
    baselines = [label for label in board.models if label not in board.encoders]
    notes: list[str] = []
    if board.left_out:
        have = "has" if len(baselines) == 1 else "have"
        have_none = f"a probe needs vectors, {' and '.join(baselines)} {have} none."
        notes.append(f"{', '.join(board.left_out)}: {have_none}")
    same_parts = board.retrievers.get(first) == board.retrievers.get(second)
    if not baselines and same_parts and board.encoders[first] == board.encoders[second]:
        return [*notes, f"{first} and {second} are one encoder."]
    return [*notes, *conclusion(board, rows)]


def conclusion(board: Scoreboard, rows: Iterable[ResultRow]) -> list[str]:
    """Return how many differences are significant, and how many would be by chance.

    It counts the tasks that averages cover: a part of a task is not counted beside the whole.
    """
    first, second = board.models
    tasks = {one.task.name for one in board.tasks}
    differences = [row for row in rows if row.baseline and row.task in tasks]
    if not differences:
        return []
    counting = {name for group in GROUPS for name in averaged_tasks(board.tasks, group)}
    verdicts = [row.factors["verdict"] for row in differences if row.task in counting]
    text = (
        f"{first} is significantly better on {verdicts.count(first)} of "
        f"{counted(len(verdicts), 'task')}, {second} on {verdicts.count(second)}; not decided: "
        f"{verdicts.count('not decided')}."
    )
    if len(verdicts) >= MANY_TASKS:
        text += f" By chance, {len(verdicts) / 20:.1f} of so many would be significant."
    return [text]


# --- tables ---


def percent(*rows: str, columns: tuple[str, ...] = (), **more: Any) -> Pivot:
    """Return a layout whose numbers are times 100, with one decimal."""
    layout = {"rows": rows, "columns": columns, "scale": 100, "places": 1}
    return Pivot.model_validate(layout | more)


def board_tables(board: Scoreboard, *, intervals: bool = False) -> list[ResultTable]:
    """Return the tables of a benchmark: scores by group, winners, diagnostics, fusion, overlap.

    Args:
        board: The benchmark.
        intervals: Show the 95 % interval of every score.
    """
    stars = {} if board.compared else board.significant_winners()
    parts = grouped((row.factors["part"], row) for row in board.rows)
    samples = grouped((row.task, row) for row in parts.get("diagnostics", []))
    tables = [
        *(group_table(board, group, stars, intervals=intervals) for group in GROUPS),
        ResultTable(
            id="winners",
            title="Best models",
            rows=() if board.compared else tuple(parts.get("winners", ())),
            pivot=percent("task", "metric", "system", "baseline"),
            question="The best model minus the closest other one, times 100, with the 95 % "
            "interval of a paired bootstrap",
        ),
        ResultTable(
            id="baselines",
            title="Retrievers against their baselines",
            rows=tuple(parts.get("baselines", ())),
            pivot=percent("task", "metric", "system", "baseline", "verdict"),
            question="The retriever minus BM25 or its vectors alone, times 100, with the 95 % "
            "interval of a paired bootstrap",
        ),
        *(diagnosis_table(sample, of_sample) for sample, of_sample in samples.items()),
        ResultTable(
            id="fusion",
            title=TOGETHER,
            rows=tuple(parts.get("fusion", ())),
            pivot=percent("task", "metric", "model", "system", "alpha", intervals="all"),
            question="Main measures, times 100, with 95 % intervals, on the half of the queries "
            "that did not choose alpha",
        ),
        ResultTable(
            id="overlap",
            title="Overlap with the training corpus",
            rows=tuple(parts.get("overlap", ())),
            pivot=percent("task", "units", columns=("metric",), places=2, corner="texts"),
            question="Share of a set's different texts, and of their runs of 8 words, in %",
        ),
    ]
    return [table for table in tables if table.rows]


def group_table(
    board: Scoreboard, group: Group, winners: Mapping[str, str], *, intervals: bool
) -> ResultTable:
    """Return tasks as lines and systems as columns.

    A star marks a significant winner. Two compared models have their difference beside them.

    Args:
        board: The benchmark.
        group: The group of the tasks.
        winners: Task or average -> the system with a star.
        intervals: Show the 95 % interval of every score.
    """
    own = [
        row
        for row in board.rows
        if row.factors.get("group") == group and row.factors["part"] in ("scores", "averages")
    ]
    if board.compared:
        lines = {row.task for row in own}
        own += [row for row in board.rows if row.factors["part"] == "winners" and row.task in lines]
    return ResultTable(
        id=group,
        title=TITLES[group],
        rows=tuple(
            row.model_copy(update={"note": "*"}) if winners.get(row.task) == row.system else row
            for row in own
        ),
        pivot=percent(
            "task",
            "metric",
            "units",
            columns=("system",),
            intervals="all" if intervals else "differences",
        ),
        question="Main measures, times 100" + (", with their 95 % intervals" if intervals else ""),
    )


def diagnosis_table(sample: str, rows: Sequence[ResultRow]) -> ResultTable:
    """Return diagnostics as lines, models as columns, then rank correlations with the scores."""
    held_out = {row.factors.get("held out") for row in rows}
    return ResultTable(
        id=f"diagnostics, {sample}",
        title=f"Without labels, on {sample}",
        rows=tuple(rows),
        pivot=Pivot(rows=("metric",), columns=("system",), corner="diagnostic"),
        question="Properties of the vectors; rho is the rank correlation over models with the "
        "group's average",
        notes=tuple(text for held, text in HALVES.items() if held in held_out),
    )


# --- terminal and files ---


def board_terminal(board: Scoreboard) -> "list[Table | str]":
    """Return every table for the terminal, each after its question and notes, then the notes."""
    shown: list[Table | str] = []
    for table in board_tables(board):
        shown += [" ".join([f"{table.question}.", *table.notes]), terminal(table)]
    return [*shown, *board_notes(board)]


def board_json(board: Scoreboard) -> Json:
    """Return every row as shares and correlations, the models, and the notes."""
    lengths = max_lengths(board)
    models: Json = {label: {"model": model} for label, model in board.models.items()}
    for label, encoder in board.encoders.items():
        models[label] |= {"encoder": encoder.digest, "max_length": lengths[label]}
    for label, one in board.retrievers.items():
        models[label] |= {"retriever": one.retriever.digest, "parts": list(one.parts)}
    return {
        "run": board.run,
        "models": models,
        "rows": json_rows(board.rows),
        "notes": board_notes(board),
        "left_out": list(board.left_out),
    }


def write_board(board: Scoreboard, folder: Path) -> list[Path]:
    """Write table.csv, table.json, page.html, scores.png, and alpha.png for a fusion.

    Returns:
        These files; the folder may have others.
    """
    from sentemb_core.report.drawing import Drawing, png
    from sentemb_core.report.experiment import experiment_figure
    from sentemb_core.report.scores import scores_figure

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "table.csv").write_text(csv_text(board.rows), encoding="utf-8")
    text = json.dumps(board_json(board), indent=1, ensure_ascii=False) + "\n"
    (folder / "table.json").write_text(text, encoding="utf-8")
    drawings: dict[str, Drawing] = {}
    if points := points_of(board.rows, board.fixed):
        drawings["scores"] = Drawing("scores", "Scores of every system", scores_figure(points))
    if marks := alpha_marks(board.rows):
        figure = experiment_figure(marks, "BM25 + alpha cosine", "alpha")
        drawings["alpha"] = Drawing("alpha", "The main measure by alpha", figure)
    for name, drawing in drawings.items():
        (folder / f"{name}.png").write_bytes(png(drawing.figure))
    write_page(board, drawings, folder)
    names = ["table.csv", "table.json", "page.html", *(f"{name}.png" for name in drawings)]
    return [folder / name for name in names]


def points_of(rows: Iterable[ResultRow], fixed: Sequence[str]) -> "list[Point]":
    """Return what the figure of all scores shows: the groups' tasks, then the fusions.

    A score without a known group, as another program may write it, has no point.
    """
    from sentemb_core.report.data import Point

    points: dict[tuple[str, str, str], Point] = {}  # BM25 is the same beside every model
    order = [*(TITLES[group] for group in GROUPS), TOGETHER]
    for row in rows:
        task, system, title = f"{row.task} ({row.metric})", row.system, ""
        if row.factors["part"] == "fusion" and not row.baseline:
            task = f"{row.task} ({row.metric}, {counted(row.units or 0, 'query')})"
            system, title = fused_name(row.system, row.factors["model"]), TOGETHER
        elif row.factors["part"] == "scores":
            title = TITLES.get(row.factors.get("group", ""), "")
        if not title:
            continue
        points[title, task, system] = Point(
            panel=f"{title}, times 100",
            task=task,
            system=system,
            fixed=system in fixed,
            value=row.value or 0.0,
            low=row.low or 0.0,
            high=row.high or 0.0,
        )
    return [points[key] for key in sorted(points, key=lambda key: order.index(key[0]))]


def fused_name(system: str, model: str) -> str:
    """Return the legend of a fusion's system."""
    names = ("BM25", model, f"BM25 + alpha {model}", f"ranks of BM25 and {model}")
    return dict(zip(FUSED.values(), names, strict=True))[system]


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
    from sentemb_core.report.page import Panel, write_panels

    def shown(table: ResultTable) -> "Panel":
        if table.id == "fusion":
            return panel(table, drawings.get("alpha"), "Queries that choose alpha; dashed is BM25.")
        made = panel(table)
        return replace(made, legend=DIAGNOSES) if table.id.startswith("diagnostics") else made

    panels = [
        Panel("At a glance", board_notes(board), drawings.get("scores"), READ_SCORES),
        *map(shown, board_tables(board, intervals=True)),
    ]
    return write_panels(board.run, "A benchmark of sentemb", panels, folder)
