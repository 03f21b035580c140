"""Results of a benchmark, or of a comparison of two models, as rows."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from statistics import mean
from typing import Literal

from sentemb_core.config.suite import GROUPS, Group
from sentemb_core.types import ArtifactRef, Value
from tasks.artifacts import read_json
from tasks.benchmark import Placed, comparison_of, diagnosis_of, overlaps_of, result_of
from tasks.results import ResultRow, grouped
from tasks.retriever_systems import RetrieverSystem, System, vectors_label

FEWEST_MODELS = 3
"""Different models from which on a rank correlation over them is shown."""

TITLES: dict[str, str] = {
    "retrieval": "Retrieval",
    "sts": "STS",
    "transfer": "Transfer",
    "reviews": "Long reviews",
    "probing": "Probing",
}

NO_ENCODER = "not run: the task compares vectors, and a retriever of words alone has none"

FUSED = {
    "bm25": "BM25",
    "encoder": "encoder",
    "rescored": "BM25 + alpha cosine",
    "fused": "rank fusion",
}
"""System of `tasks.benchmark.score_fusion` -> its name in a table."""

Part = Literal["scores", "differences", "baselines", "diagnostics", "fusion", "overlap"]
"""`differences` are between models; `baselines` from a retriever to BM25 and to its vectors."""


class Score(Value):
    """One result of a benchmark, or its error.

    Attributes:
        part: What was computed.
        task: A task, an average, or a sample of texts.
        baseline: What a difference is to, or what a fusion is with.
    """

    part: Part
    system: str
    task: str
    baseline: str = ""
    result: ArtifactRef | None = None
    error: str = ""

    @property
    def label(self) -> str:
        """The system as errors and dry runs name it: `one minus two`, `one with BM25`."""
        link = "with" if self.part == "fusion" else "minus"
        return f"{self.system} {link} {self.baseline}" if self.baseline else self.system


class Scoreboard(Value):
    """Results of models and baselines, or of two compared models, in the order of the table.

    Attributes:
        models: Name in the table -> the model as it was asked for.
        systems: Name in the table -> what the model is.
        fixed: Baselines that do not depend on a model.
        compared: Whether the second model is compared with the first, and not all with the best.
        left_out: Tasks that a compared baseline cannot do.
    """

    run: str
    models: dict[str, str]
    systems: dict[str, System]
    fixed: list[str]
    tasks: list[Placed]
    scores: list[Score]
    compared: bool = False
    left_out: tuple[str, ...] = ()

    @property
    def encoders(self) -> dict[str, ArtifactRef]:
        """Encoders of those models that have one; of a retriever the root encoder."""
        roots = {label: one.encoder for label, one in self.retrievers.items()}
        found = (self.systems | roots).items()
        return {label: one for label, one in found if isinstance(one, ArtifactRef)}

    @property
    def retrievers(self) -> dict[str, RetrieverSystem]:
        """Those models that are retrievers."""
        found = self.systems.items()
        return {label: one for label, one in found if isinstance(one, RetrieverSystem)}

    @property
    def columns(self) -> list[str]:
        """Names of the columns: baselines, then models; a retriever's vectors stand beside it."""
        beside = {
            label: [vectors_label(label)] * one.has_vectors_alone
            for label, one in self.retrievers.items()
        }
        of_models = (name for label in self.models for name in (label, *beside.get(label, ())))
        return [*self.fixed, *of_models]

    @cached_property
    def rows(self) -> list[ResultRow]:
        """The rows of `board_rows`, which reads all results, computed once."""
        return board_rows(self)

    def found(self, part: Part) -> Iterator[tuple[Score, ArtifactRef]]:
        """Yield the scores of a part that have a result, and these results."""
        for score in self.scores:
            if score.part == part and score.result:
                yield score, score.result

    def significant_winners(self) -> dict[str, str]:
        """Return task or average -> the model that is significantly better than every other one."""
        lines = grouped((one.task, one) for one in self.scores if one.part == "differences")
        return {
            task: differences[0].system
            for task, differences in lines.items()
            if all(
                one.result and comparison_of(one.result).winner == "first" for one in differences
            )
        }


def board_rows(board: Scoreboard) -> list[ResultRow]:
    """Return all rows of a benchmark; the factor `part` says which table they belong to."""
    scores = score_rows(board)
    diagnostics = diagnosis_rows(board)
    return [
        *scores,
        *(row for group in GROUPS for row in average_rows(board, scores, group)),
        *difference_rows(board),
        *compared_rows(board, "baselines"),
        *diagnostics,
        *agreement_rows(board, scores, diagnostics),
        *fusion_rows(board),
        *overlap_rows(board),
        *error_rows(board),
    ]


def score_rows(board: Scoreboard) -> list[ResultRow]:
    """Return every measure of every system on every task; the main one has its interval."""
    groups = {one.task.name: one.task.group for one in board.tasks}
    rows: list[ResultRow] = []
    for score, ref in board.found("scores"):
        found = result_of(ref)
        for metric, value in {found.main: found.value, **found.measures}.items():
            is_main = metric == found.main
            row = ResultRow(
                system=score.system, task=score.task, metric=metric, value=value,
                units=len(found.units), key=ref.digest,
                factors={
                    "part": "scores" if is_main else "further measures",
                    "group": groups[score.task],
                },
            )  # fmt: skip
            rows.append(row.model_copy(update=read_json(ref, "interval")) if is_main else row)
    return rows


def main_scores(rows: Iterable[ResultRow]) -> list[ResultRow]:
    """Return the rows of main measures on tasks."""
    return [row for row in rows if row.factors.get("part") == "scores"]


def average_rows(
    board: Scoreboard, scores: Iterable[ResultRow], group: Group
) -> Iterator[ResultRow]:
    """Yield the average of a group with several tasks, of every system that has them all."""
    names = averaged_tasks(board.tasks, group)
    main = [row for row in main_scores(scores) if row.task in names]
    units = sum({row.task: row.units or 0 for row in main}.values())
    for system, value in averages(board, main, group).items() if len(names) > 1 else ():
        yield ResultRow(
            system=system, task=average_name(group, names), metric="average", value=value,
            units=units, factors={"part": "averages", "group": group},
        )  # fmt: skip


def averages(board: Scoreboard, scores: Iterable[ResultRow], group: Group) -> dict[str, float]:
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
        for system in board.columns
        if all((system, task) in values for task in wanted)
    }


def averaged_tasks(tasks: Iterable[Placed], group: Group) -> list[str]:
    """Return the names of the group's tasks that were run and count; all if none counts."""
    run = [one.task for one in tasks if one.task.group == group and not one.missing]
    return [task.name for task in run if task.averaged] or [task.name for task in run]


def average_name(group: str, names: Sequence[str]) -> str:
    """Return the name of a group's average beside its tasks."""
    return f"{group}, average of {len(names)}"


def compared_rows(board: Scoreboard, part: Part) -> Iterator[ResultRow]:
    """Yield the paired differences between models, or of each retriever to its baselines."""
    for score, ref in board.found(part):
        found = comparison_of(ref)
        better = {"first": score.system, "second": score.baseline}
        yield ResultRow(
            system=score.system, baseline=score.baseline, task=score.task,
            metric=found.measure, value=found.difference, low=found.low, high=found.high,
            units=found.units, key=ref.digest,
            factors={"part": part, "verdict": better.get(found.winner, "not decided")},
        )  # fmt: skip


def difference_rows(board: Scoreboard) -> Iterator[ResultRow]:
    """Yield the difference of the best model to each other one, closest first."""
    rows = list(compared_rows(board, "differences"))
    for line in grouped((row.task, row) for row in rows).values():
        for place, row in enumerate(sorted(line, key=lambda row: row.low or 0.0)):
            part = {"part": "other differences" if place else "winners"}
            yield row.model_copy(update={"factors": row.factors | part})


def diagnosis_rows(board: Scoreboard) -> list[ResultRow]:
    """Return every diagnostic of every model."""
    from sentemb_core.evaluation.label_free import MEASURES

    rows: list[ResultRow] = []
    for score, ref in board.found("diagnostics"):
        found = diagnosis_of(ref)
        held_out = {} if found.held_out is None else {"held out": "yes" if found.held_out else "no"}
        rows += [
            ResultRow(
                system=score.system, task=score.task, metric=metric, value=getattr(found, metric),
                key=ref.digest, factors={"part": "diagnostics"} | held_out,
            )
            for metric in MEASURES
        ]  # fmt: skip
    return rows


def agreement_rows(
    board: Scoreboard, scores: Sequence[ResultRow], diagnostics: Iterable[ResultRow]
) -> Iterator[ResultRow]:
    """Yield the rank correlation over models of each diagnostic with each group's average.

    Names of one encoder count as one model. A retriever does not count: its score is not that of
    the encoder that was diagnosed. Groups with fewer than three models have none, and
    neither has a diagnostic that is equal for all models.
    """
    from sentemb_core.evaluation.label_free import agreement

    places = grouped(((row.task, row.metric), row) for row in diagnostics)
    for group in GROUPS:
        means = averages(board, scores, group)
        for (sample, metric), rows in places.items():
            values = {
                row.system: row.value or 0.0
                for row in rows
                if row.system in means and row.system not in board.retrievers
            }
            both = {board.encoders[name].digest: name for name in values}.values()
            if len(both) < FEWEST_MODELS:
                continue
            found, expected = [values[name] for name in both], [means[name] for name in both]
            if len(set(found)) > 1 and len(set(expected)) > 1:
                yield ResultRow(
                    system=f"rho {TITLES[group]}, {len(both)} models", task=sample, metric=metric,
                    value=agreement(found, expected), units=len(both),
                    factors={"part": "diagnostics"},
                )  # fmt: skip


def fusion_rows(board: Scoreboard) -> Iterator[ResultRow]:
    """Yield BM25, each model and both together, their gains, and the main measure by alpha."""
    for score, ref in board.found("fusion"):
        found = read_json(ref, "fusion")
        row = ResultRow(system=score.system, task=score.task, metric=found["measure"])
        for one in found["values"]:
            names = {"system": FUSED[one["system"]], "baseline": FUSED.get(one.get("baseline"), "")}
            factors = {"part": "fusion", "model": score.system}
            if one["system"] == "rescored":
                factors["alpha"] = f"{found['alpha']:g}"
            more = {"units": found["queries"], "key": ref.digest, "factors": factors}
            yield row.model_copy(update=one | names | more)
        for alpha, value in found["curve"].items():
            factors = {"part": "fusion by alpha", "model": score.system}
            factors["alpha"] = f"{float(alpha):g}"
            names = {"system": FUSED["rescored"], "factors": factors}
            yield row.model_copy(update=names | {"value": value})


def overlap_rows(board: Scoreboard) -> Iterator[ResultRow]:
    """Yield the share of each set's texts, and of their runs of 8 words, in the training corpus."""
    for _, ref in board.found("overlap"):
        for task, one in overlaps_of(ref).items():
            for metric, share in (("whole texts", one.exact), ("runs of 8 words", one.runs)):
                if share is not None:
                    yield ResultRow(
                        system="training corpus", task=task, metric=metric, value=share,
                        units=one.texts, factors={"part": "overlap"},
                    )  # fmt: skip


def not_scored(board: Scoreboard) -> dict[str, list[str]]:
    """Return retriever of words alone -> the tasks that compare vectors, which it lacks."""
    compare_vectors = [
        one.task.name for one in board.tasks if one.task.group != "retrieval" and not one.missing
    ]
    return {
        label: compare_vectors
        for label, one in board.retrievers.items()
        if not one.encoder and compare_vectors
    }


def not_run(tasks: Iterable[Placed]) -> dict[str, str]:
    """Return task -> the files that it lacks."""
    return {
        one.task.name: f"not run: wants {', '.join(one.missing)}" for one in tasks if one.missing
    }


def error_rows(board: Scoreboard) -> Iterator[ResultRow]:
    """Yield the tasks without files or without vectors, and every refusal with its error."""
    groups = {one.task.name: one.task.group for one in board.tasks}
    for task, note in not_run(board.tasks).items():
        factors = {"part": "errors", "group": groups[task]}
        yield ResultRow(system="", task=task, metric="", note=note, factors=factors)
    for label, tasks in not_scored(board).items():
        for task in tasks:
            factors = {"part": "errors", "group": groups[task]}
            yield ResultRow(system=label, task=task, metric="", note=NO_ENCODER, factors=factors)
    for one in board.scores:
        if one.error:
            factors = {"part": "errors"}
            yield ResultRow(
                system=one.label, task=one.task, metric="", note=one.error, factors=factors
            )
