"""What a benchmark found: references, as a plan hands them out, and the numbers."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import mean
from typing import TYPE_CHECKING, NamedTuple

from sentemb_core.config.suite import GROUPS, Group
from sentemb_core.types import ArtifactRef, Value
from tasks.artifact_files import read_json
from tasks.benchmark import Placed, comparison_of, diagnosis_of, result_of
from tasks.results import grouped

if TYPE_CHECKING:
    from sentemb_core.evaluation.comparison import Comparison

FEWEST = 3
"""Different models from which a rank correlation over them is shown."""


class Score(Value):
    """One system on one task, or beside the tasks: its result, or the error that it ended in."""

    system: str
    task: str
    result: ArtifactRef | None = None
    error: str = ""


class Lead(Value):
    """The best model on a task or an average, and by each other one how far it is ahead of it."""

    best: str
    over: dict[str, ArtifactRef]

    @property
    def least_sure(self) -> "tuple[str, Comparison]":
        """The other model that the best one is least surely above, and the difference to it."""
        found = {name: comparison_of(ref) for name, ref in self.over.items()}
        return min(found.items(), key=lambda one: one[1].low)

    @property
    def is_sure(self) -> bool:
        """Whether no interval to another model holds 0."""
        return self.least_sure[1].verdict == "first"


class Scoreboard(Value):
    """Every system on every task, in the order of the table.

    models: what was asked for, by its name in the table. scores: of the tasks, and beside them what
    was refused. leads: by task, or `average_name`. diagnoses: by sample of texts, then model.
    fusions: by model, then task.
    """

    run: str
    models: dict[str, str]
    encoders: dict[str, ArtifactRef]
    fixed: list[str]
    tasks: list[Placed]
    scores: list[Score]
    leads: dict[str, Lead]
    diagnoses: dict[str, dict[str, ArtifactRef]]
    overlap: ArtifactRef | None = None
    fusions: dict[str, dict[str, ArtifactRef]]

    @property
    def systems(self) -> list[str]:
        return [*self.fixed, *self.models]


class Agreement(NamedTuple):
    """Over how many different models, and by diagnostic its rank correlation with a score."""

    models: int
    rho: dict[str, float]


class ScoreCell(Value):
    """One number of the table: a share or a correlation with its 95 % interval."""

    group: Group
    task: str
    system: str
    measure: str
    value: float
    low: float
    high: float
    units: int
    measures: dict[str, float]


def cells_of(board: Scoreboard) -> list[ScoreCell]:
    """All that was measured."""
    group_of: dict[str, Group] = {placed.task.name: placed.task.group for placed in board.tasks}
    return [
        cell_of(group_of[score.task], score.task, score.system, score.result)
        for score in board.scores
        if score.result
    ]


def cell_of(group: Group, task: str, system: str, artifact: ArtifactRef) -> ScoreCell:
    found = result_of(artifact)
    return ScoreCell(
        group=group,
        task=task,
        system=system,
        measure=found.main,
        value=found.value,
        units=len(found.units),
        measures=dict(found.measures),
        **read_json(artifact, "interval"),
    )


def max_lengths(encoders: Mapping[str, ArtifactRef]) -> dict[str, int]:
    """Tokens that each model reads of a text; an encoder of ours says so in its tokenizer."""
    return {
        name: read_json(encoder, "tokenizer")["truncation"]["max_length"]
        for name, encoder in encoders.items()
    }


def lengths_note(encoders: Mapping[str, ArtifactRef]) -> str:
    """What stands under a table: a model that reads less of a text is not on equal terms."""
    told = ", ".join(f"{name} {length}" for name, length in max_lengths(encoders).items())
    return f"Tokens read of a text that is encoded, the rest is cut: {told}." if told else ""


def models_told(models: Mapping[str, str], encoders: Mapping[str, ArtifactRef]) -> list[str]:
    """A line for every model whose name in a table is not what was asked for.

    An alias names another version tomorrow: the digest says which encoder it was (`lineage`).
    """
    return [
        f"{name}: {model}, encoder {encoders[name].digest[:12]}"
        for name, model in models.items()
        if name != model and name in encoders
    ]


def not_run(tasks: Iterable[Placed]) -> dict[str, str]:
    """Tasks whose files are absent, and what they want."""
    return {
        one.task.name: f"not run: wants {', '.join(one.missing)}" for one in tasks if one.missing
    }


def refused(scores: Iterable[Score]) -> dict[str, str]:
    """Tasks that refused a system, or were refused, and the error."""
    return {f"{one.task}, {one.system}": one.error for one in scores if one.error}


def refused_together(scores: Iterable[Score]) -> dict[str, str]:
    """As `refused`, the systems that one error of a task befell in one line."""
    systems = grouped(((one.task, one.error), one.system) for one in scores if one.error)
    return {f"{task}, {', '.join(told)}": error for (task, error), told in systems.items()}


def absences(tasks: Iterable[Placed], scores: Iterable[Score]) -> list[str]:
    """Lines on what has no number, and why."""
    notes = not_run(tasks) | refused_together(scores)
    return [f"{where}: {note}" for where, note in notes.items()]


def averaged_tasks(tasks: Iterable[Placed], group: Group) -> list[str]:
    """Names of those that were run and count; all of them where none counts."""
    run = [one.task for one in tasks if one.task.group == group and not one.missing]
    return [task.name for task in run if task.averaged] or [task.name for task in run]


def average_name(group: str, names: Sequence[str]) -> str:
    """What a group's average is called beside its tasks."""
    return f"{group}, average of {len(names)}"


def averages_notes(board: Scoreboard, cells: Sequence[ScoreCell]) -> list[str]:
    """Which tasks make a group's average, if there is one and others of it were run, too."""
    notes: list[str] = []
    for group in GROUPS:
        run = [one.task.name for one in board.tasks if one.task.group == group and not one.missing]
        names = averaged_tasks(board.tasks, group)
        if 1 < len(names) < len(run) and averages(board, cells, group):
            notes.append(f"The average of {group} is of {', '.join(names)}.")
    return notes


def mixed_measures(board: Scoreboard, cells: Sequence[ScoreCell]) -> dict[Group, list[str]]:
    """Groups whose tasks would be averaged, were they not of several measures, and which."""
    found: dict[Group, list[str]] = {}
    for group in GROUPS:
        wanted = averaged_tasks(board.tasks, group)
        measures = dict.fromkeys(cell.measure for cell in cells if cell.task in wanted)
        if len(measures) > 1:
            found[group] = list(measures)
    return found


def no_agreement(board: Scoreboard, cells: Sequence[ScoreCell]) -> list[str]:
    """Why diagnostics of enough models have no rank correlation with a group's scores."""
    if len({encoder.digest for encoder in board.encoders.values()}) < FEWEST:
        return []
    return [
        f"No rho with {group}: of {' and '.join(measures)} there is no average."
        for group, measures in mixed_measures(board, cells).items()
    ]


def averages(board: Scoreboard, cells: Sequence[ScoreCell], group: Group) -> dict[str, float]:
    """Plain mean over a group's averaged tasks, of the systems that have them all.

    Empty where these are of several measures: a correlation and a share have no mean.
    """
    wanted = averaged_tasks(board.tasks, group)
    if group in mixed_measures(board, cells):
        return {}
    values = {(cell.system, cell.task): cell.value for cell in cells}
    return {
        system: mean(values[system, task] for task in wanted)
        for system in board.systems
        if wanted and all((system, task) in values for task in wanted)
    }


def agreements(
    board: Scoreboard, cells: Sequence[ScoreCell], sample: str
) -> dict[Group, Agreement]:
    """Rank correlation over models of each diagnostic with each group's average.

    Names of one encoder are one model. Empty with fewer than three; what is the same for all of
    them goes with nothing.
    """
    from sentemb_core.evaluation.label_free import MEASURES, agreement

    told = {name: diagnosis_of(ref).model_dump() for name, ref in board.diagnoses[sample].items()}
    found: dict[Group, Agreement] = {}
    for group in GROUPS:
        scores = averages(board, cells, group)
        both = {board.encoders[name].digest: name for name in told if name in scores}.values()
        if len(both) >= FEWEST and len({scores[name] for name in both}) > 1:
            varying = [one for one in MEASURES if len({told[name][one] for name in both}) > 1]
            rho = {
                measure: agreement(
                    [told[name][measure] for name in both], [scores[name] for name in both]
                )
                for measure in varying
            }
            found[group] = Agreement(len(both), rho)
    return found
