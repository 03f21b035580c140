"""Results of a benchmark and of a comparison of two models, as rows."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import mean
from typing import TYPE_CHECKING, NamedTuple

from sentemb_core.config.suite import GROUPS, Group
from sentemb_core.types import ArtifactRef, Value
from tasks.artifact_files import read_json
from tasks.benchmark import (
    ALONE,
    SYSTEMS,
    Placed,
    comparison_of,
    diagnosis_of,
    fusion_of,
    overlaps_of,
    result_of,
)
from tasks.results import (
    ResultRow,
)

if TYPE_CHECKING:
    from sentemb_core.evaluation.comparison import Comparison

FEWEST_MODELS = 3
"""Different models from which on a rank correlation over them is shown."""

TITLES: dict[Group, str] = {
    "retrieval": "Retrieval",
    "sts": "STS",
    "transfer": "Transfer",
    "reviews": "Long reviews",
    "probing": "Probing",
}

FUSED = ("BM25", "encoder", "BM25 + alpha cosine", "rank fusion")
"""Names of `tasks.benchmark.SYSTEMS` in a table."""


class Score(Value):
    """The result of one system on one task, or its error."""

    system: str
    task: str
    result: ArtifactRef | None = None
    error: str = ""


class Winner(Value):
    """The best model on a task or an average, and its difference to each other model."""

    best: str
    over: dict[str, ArtifactRef]

    @property
    def closest(self) -> "tuple[str, Comparison]":
        """The rival with the lowest confidence bound on its difference to the best model."""
        found = {name: comparison_of(ref) for name, ref in self.over.items()}
        return min(found.items(), key=lambda one: one[1].low)

    @property
    def is_significant(self) -> bool:
        """Whether every interval of a difference excludes 0."""
        return self.closest[1].winner == "first"


class Scoreboard(Value):
    """Every system on every task, in the order of the table.

    Attributes:
        models: Name in the table -> the model as it was asked for.
        fixed: Baselines that do not depend on a model.
        scores: On the tasks, and every refusal beside them.
        winners: By task, or by `average_name`.
        diagnoses: By sample of texts, then model.
        overlap: Evaluation text that also occurs in the training corpus, if one was named.
        fusions: By model, then task.
    """

    run: str
    models: dict[str, str]
    encoders: dict[str, ArtifactRef]
    fixed: list[str]
    tasks: list[Placed]
    scores: list[Score]
    winners: dict[str, Winner]
    diagnoses: dict[str, dict[str, ArtifactRef]]
    overlap: ArtifactRef | None = None
    fusions: dict[str, dict[str, ArtifactRef]]

    @property
    def systems(self) -> list[str]:
        return [*self.fixed, *self.models]


def board_rows(board: Scoreboard) -> list[ResultRow]:
    """Return all rows of a benchmark; the factor `part` says which table they belong to."""
    scores = score_rows(board)
    return [
        *scores,
        *(row for group in GROUPS for row in average_rows(board, scores, group)),
        *winner_rows(board),
        *(row for sample in board.diagnoses for row in diagnosis_rows(board, scores, sample)),
        *fusion_rows(board.fusions),
        *overlap_rows(board.overlap),
        *error_rows(board.tasks, board.scores),
    ]


def score_rows(board: Scoreboard) -> list[ResultRow]:
    """Return every measure of every system on every task; the main one has its interval."""
    group_of: dict[str, Group] = {one.task.name: one.task.group for one in board.tasks}
    return [
        row
        for score in board.scores
        if score.result
        for row in measures_of(group_of[score.task], score.system, score.task, score.result)
    ]


def measures_of(group: Group, system: str, task: str, artifact: ArtifactRef) -> Iterator[ResultRow]:
    """Yield the rows of one result: the main measure, then the others."""
    found, interval = result_of(artifact), read_json(artifact, "interval")
    units, key = len(found.units), artifact.digest
    factors = {"part": "scores", "group": group}
    yield ResultRow(
        system=system, task=task, metric=found.main, value=found.value, low=interval["low"],
        high=interval["high"], units=units, key=key, factors=factors,
    )  # fmt: skip
    for metric, value in found.measures.items():
        if metric != found.main:
            yield ResultRow(
                system=system, task=task, metric=metric, value=value, units=units, key=key,
                factors=factors | {"part": "further measures"},
            )  # fmt: skip


def main_scores(rows: Iterable[ResultRow]) -> list[ResultRow]:
    """Return the rows of main measures on tasks."""
    return [row for row in rows if row.factors.get("part") == "scores"]


def average_rows(board: Scoreboard, scores: Sequence[ResultRow], group: Group) -> list[ResultRow]:
    """Return the group's average of every system that has all averaged tasks."""
    names = averaged_tasks(board.tasks, group)
    if len(names) < 2:
        return []
    metric = next((row.metric for row in main_scores(scores) if row.task in names), "")
    factors = {"part": "averages", "group": group}
    return [
        ResultRow(
            system=system,
            task=average_name(group, names),
            metric=metric,
            value=value,
            factors=factors,
        )
        for system, value in averages(board, scores, group).items()
    ]


def averages(board: Scoreboard, scores: Sequence[ResultRow], group: Group) -> dict[str, float]:
    """Return the mean over a group's averaged tasks, of the systems that have them all.

    Empty if these tasks have several measures: a correlation and a share have no mean.
    """
    wanted = averaged_tasks(board.tasks, group)
    main = [row for row in main_scores(scores) if row.task in wanted]
    if len({row.metric for row in main}) != 1:
        return {}
    values = {(row.system, row.task): row.value or 0.0 for row in main}
    return {
        system: mean(values[system, task] for task in wanted)
        for system in board.systems
        if all((system, task) in values for task in wanted)
    }


def averaged_tasks(tasks: Iterable[Placed], group: Group) -> list[str]:
    """Return the names of the group's tasks that were run and count; all if none counts."""
    run = [one.task for one in tasks if one.task.group == group and not one.missing]
    return [task.name for task in run if task.averaged] or [task.name for task in run]


def average_name(group: str, names: Sequence[str]) -> str:
    """Return the name of a group's average beside its tasks."""
    return f"{group}, average of {len(names)}"


def winner_rows(board: Scoreboard) -> Iterator[ResultRow]:
    """Yield the difference of the best model to each other one, closest first."""
    for task, winner in board.winners.items():
        found = {name: comparison_of(ref) for name, ref in winner.over.items()}
        for place, (name, one) in enumerate(sorted(found.items(), key=lambda pair: pair[1].low)):
            part = "other differences" if place else "winners"
            yield difference_row(one, winner.best, name, part).model_copy(update={"task": task})


def difference_row(found: "Comparison", first: str, second: str, part: str) -> ResultRow:
    """Return a paired difference as a row."""
    return ResultRow(
        system=first, baseline=second, task=found.task, metric=found.measure,
        value=found.difference, low=found.low, high=found.high, units=found.units,
        factors={"part": part},
    )  # fmt: skip


class Agreement(NamedTuple):
    """Number of different models, and each diagnostic's rank correlation with a group's score."""

    models: int
    rho: dict[str, float]


def diagnosis_rows(
    board: Scoreboard, scores: Sequence[ResultRow], sample: str
) -> Iterator[ResultRow]:
    """Yield every diagnostic of every model, then its rank correlation with the scores."""
    from sentemb_core.evaluation.label_free import MEASURES

    factors = {"part": f"diagnostics, {sample}"}
    for model, ref in board.diagnoses[sample].items():
        found = diagnosis_of(ref).model_dump()
        for metric in MEASURES:
            yield ResultRow(
                system=model, task=sample, metric=metric, value=found[metric], key=ref.digest,
                factors=factors,
            )  # fmt: skip
    for group, agreed in agreements(board, scores, sample).items():
        for metric, rho in agreed.rho.items():
            yield ResultRow(
                system=f"rho {TITLES[group]}, {agreed.models} models", task=sample, metric=metric,
                value=rho, units=agreed.models, factors=factors,
            )  # fmt: skip


def agreements(
    board: Scoreboard, scores: Sequence[ResultRow], sample: str
) -> dict[Group, Agreement]:
    """Return each group's rank correlations over models.

    Names of one encoder count as one model. Empty with fewer than three models. A diagnostic that
    is equal for all models has no correlation.
    """
    from sentemb_core.evaluation.label_free import MEASURES, agreement

    values = {name: diagnosis_of(ref).model_dump() for name, ref in board.diagnoses[sample].items()}
    found: dict[Group, Agreement] = {}
    for group in GROUPS:
        means = averages(board, scores, group)
        both = {board.encoders[name].digest: name for name in values if name in means}.values()
        if len(both) >= FEWEST_MODELS and len({means[name] for name in both}) > 1:
            rho = {
                metric: agreement(
                    [values[name][metric] for name in both], [means[name] for name in both]
                )
                for metric in MEASURES
                if len({values[name][metric] for name in both}) > 1
            }
            found[group] = Agreement(len(both), rho)
    return found


def fusion_rows(fusions: Mapping[str, Mapping[str, ArtifactRef]]) -> Iterator[ResultRow]:
    """Yield BM25, each model and both together, their gains, and the main measure by alpha."""
    names = dict(zip(SYSTEMS, FUSED, strict=True))
    for model, of_tasks in fusions.items():
        for task, ref in of_tasks.items():
            found = fusion_of(ref)
            for system, name in names.items():
                one = found.values[system]
                alpha = {"alpha": f"{found.alpha:g}"} if system == "rescored" else {}
                factors = {"part": "fusion", "model": model} | alpha
                row = ResultRow(
                    system=name, task=task, metric=found.measure, value=one.value, low=one.low,
                    high=one.high, units=found.queries, key=ref.digest, factors=factors,
                )  # fmt: skip
                yield row
                for alone in ALONE if system in found.gains else ():
                    gain = found.gains[system][alone].model_dump()
                    yield row.model_copy(update=gain | {"baseline": names[alone]})
            for alpha, value in found.curve.items():
                factors = {"part": "fusion by alpha", "model": model, "alpha": f"{alpha:g}"}
                yield ResultRow(
                    system=names["rescored"], task=task, metric=found.measure, value=value,
                    factors=factors,
                )  # fmt: skip


def overlap_rows(overlap: ArtifactRef | None) -> Iterator[ResultRow]:
    """Yield the share of each set's texts, and of their runs of 8 words, in the training corpus."""
    for task, one in (overlaps_of(overlap) if overlap else {}).items():
        for metric, share in (("whole texts", one.exact), ("runs of 8 words", one.runs)):
            if share is not None:
                yield ResultRow(
                    system="training corpus", task=task, metric=metric, value=share,
                    units=one.texts, factors={"part": "overlap"},
                )  # fmt: skip


def not_run(tasks: Iterable[Placed]) -> dict[str, str]:
    """Return task -> the files that it lacks."""
    return {
        one.task.name: f"not run: wants {', '.join(one.missing)}" for one in tasks if one.missing
    }


def error_rows(tasks: Iterable[Placed], scores: Iterable[Score]) -> Iterator[ResultRow]:
    """Yield the tasks without files, and every refusal with its error."""
    tasks = list(tasks)
    groups = {one.task.name: one.task.group for one in tasks}
    for task, note in not_run(tasks).items():
        factors = {"part": "errors", "group": groups[task]}
        yield ResultRow(system="", task=task, metric="", note=note, factors=factors)
    for one in scores:
        if one.error:
            factors = {"part": "errors"}
            yield ResultRow(
                system=one.system, task=one.task, metric="", note=one.error, factors=factors
            )


class ModelComparison(Value):
    """Paired differences of two models on the tasks that both can do.

    Attributes:
        encoders: Encoders of those models that are no baseline.
        tasks: Tasks that both can do.
        left_out: Tasks that a baseline cannot do.
        differences: Of each task.
        averages: Of each group's average.
        overlap: Evaluation text that also occurs in the training corpus, if one was named.
    """

    models: dict[str, str]
    encoders: dict[str, ArtifactRef]
    tasks: list[Placed]
    left_out: list[str]
    scores: list[Score]
    differences: list[ArtifactRef]
    averages: list[ArtifactRef]
    overlap: ArtifactRef | None = None


def comparison_rows(compared: ModelComparison) -> list[ResultRow]:
    """Return both scores and their difference on every task and average, overlap and errors."""
    first, second = compared.models
    rows: list[ResultRow] = []
    for ref in (*compared.differences, *compared.averages):
        found = comparison_of(ref)
        row = difference_row(found, first, second, "comparison")
        for system, value in ((first, found.first), (second, found.second)):
            update = {"system": system, "baseline": "", "value": value, "low": None, "high": None}
            rows.append(row.model_copy(update=update))
        better = {"first": first, "second": second, "undecided": "not decided"}[found.winner]
        factors = row.factors | {"verdict": better}
        rows.append(row.model_copy(update={"factors": factors, "key": ref.digest}))
    errors = error_rows(compared.tasks, compared.scores)
    return [*rows, *overlap_rows(compared.overlap), *errors]
