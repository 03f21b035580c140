"""Which of two models is better, or than a fixed row: their paired differences on the suite."""

from collections.abc import Mapping, Sequence

from prefect import flow

from flows.benchmark import encoder_of, is_of_one_measure, overlap, refused, scored
from flows.benchmark_settings import BenchmarkSettings
from flows.pipeline import documents_of
from flows.scoring import System, reads_vectors
from flows.short_names import labelled
from sentemb_core.config.suite import GROUPS
from sentemb_core.errors import UsageError
from sentemb_core.types import ArtifactRef
from tasks.benchmark import FIXED, Fixed, Placed, compare_results, placed
from tasks.run_monitor import recorded
from tasks.tables.duel import Duel
from tasks.tables.scoreboard import average_name, averaged_tasks, not_run


@flow(name="compare", flow_run_name="compare")
def compare(config: BenchmarkSettings) -> Duel:
    """Two models on every task that both can do, on record: what it made stays with it."""
    with recorded("compare", {"compare": config.model_dump(mode="json")}):
        return duel(config)


def duel(config: BenchmarkSettings) -> Duel:
    """Task by task both results, and the paired difference of each."""
    models = labelled(config.models)
    tasks = comparable(config)
    kept = {one.task.name for one in tasks}
    systems: list[System] = [fixed_row(model) or encoder_of(model) for model in models.values()]
    first, second = (
        scored(label, system, tasks, config.vectors)
        for label, system in zip(models, systems, strict=True)
    )
    shared = overlap(documents_of(config.corpus), tasks) if config.corpus else None
    pairs = {
        one.task: (one.result, other.result)
        for one, other in zip(first, second, strict=True)
        if one.result and other.result
    }
    return Duel(
        models=models,
        encoders={
            label: system
            for label, system in zip(models, systems, strict=True)
            if isinstance(system, ArtifactRef)
        },
        tasks=tasks,
        left_out=[task.name for task, _ in config.places() if task.name not in kept],
        scores=[*first, *second, *refused(shared)],
        rows=[compare_results(task, [pair]) for task, pair in pairs.items()],
        averages=compared_averages(tasks, pairs),
        overlap=shared.result if shared else None,
    )


def fixed_row(model: str) -> Fixed | None:
    """The row that no model moves, by its name in any case."""
    return next((name for name in FIXED if name.lower() == model.lower()), None)


def comparable(config: BenchmarkSettings) -> list[Placed]:
    """What both sides can do; fixed rows have no vectors to probe.

    Raises:
        UsageError: nothing of it has its files.
    """
    tasks = [placed(task, folder) for task, folder in config.places()]
    fixed = [label for label, model in labelled(config.models).items() if fixed_row(model)]
    if not fixed:
        return tasks
    found = [one for one in tasks if not reads_vectors(one.task)]
    if all(one.missing for one in found):
        absent = not_run(found)
        names = [one.task.name for one in tasks]
        told = [f"{name} ({absent[name]})" if name in absent else name for name in names]
        raise UsageError(
            f"A probe reads vectors, and there are none of {' and '.join(fixed)}; asked for is "
            f"{', '.join(told)}: name a task of retrieval or similarity that has its files with "
            "--tasks, or two models."
        )
    return found


def compared_averages(
    tasks: Sequence[Placed], pairs: Mapping[str, tuple[ArtifactRef, ArtifactRef]]
) -> list[ArtifactRef]:
    """The difference of each group's average, where several tasks of one measure make one."""
    averaged = {
        group: [name for name in averaged_tasks(tasks, group) if name in pairs] for group in GROUPS
    }
    return [
        compare_results(average_name(group, names), [pairs[name] for name in names])
        for group, names in averaged.items()
        if len(names) > 1 and is_of_one_measure(pairs[name][0] for name in names)
    ]
