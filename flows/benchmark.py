"""Models on the evaluation suite: a benchmark of several, and a comparison of two."""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean

from prefect import flow

from flows.benchmark_settings import BenchmarkSettings, labelled
from flows.contamination import overlap_with
from flows.isolate_errors import isolate_errors
from flows.pipeline import documents_of, encoder_from
from flows.scoring import System, reads_vectors, result_on
from sentemb_core.config.run import EncoderConfig
from sentemb_core.config.suite import GROUPS, DocumentVector, RetrievalTask
from sentemb_core.errors import UsageError
from sentemb_core.store.disk import remove, replacing_in
from sentemb_core.store.objects import Store, file_digest
from sentemb_core.types import ArtifactRef
from tasks.benchmark import (
    FIXED,
    Fixed,
    Placed,
    compare_results,
    diagnose_on_halves,
    diagnose_on_pairs,
    encode_collection,
    kept_encoder,
    placed,
    result_of,
    score_fusion,
)
from tasks.benchmark_rows import (
    ModelComparison,
    Score,
    Scoreboard,
    Winner,
    average_name,
    averaged_tasks,
    not_run,
    score_rows,
)
from tasks.benchmark_table import FILES, write_board
from tasks.execution import is_pending, section, sub_flow
from tasks.prefect_pages import progress
from tasks.registered_encoders import find_encoder, is_saved_encoder
from tasks.results import grouped
from tasks.run_monitor import recorded
from tasks.sources import digest_of_encoder
from tasks.tracking import tracked_run

log = logging.getLogger("sentemb_core.run")

LONGEST = 256
"""Tokens of a text for a model given by name: the limit of all-MiniLM-L6-v2, with which its
published scores were made. A folder keeps its own limit."""


@flow(name="benchmark", flow_run_name="benchmark")
def benchmark(config: BenchmarkSettings) -> Scoreboard:
    """Score every model and baseline on every task; write the files and track them."""
    settings = config.model_dump(mode="json")
    with recorded("benchmark", settings) as record:
        run_id = record.run.id
        with tracked_run("benchmark", params=settings, tags={"run": run_id}, key=run_id) as run:
            board = scoreboard(config, run_id)
            folder = folder_of(config, run_id)
            with replacing_in(folder) as draft:
                files = [folder / file.name for file in write_board(board, draft)]
            for earlier in {folder / name for name in FILES}.difference(files):
                remove(earlier)
            for file in files:
                run.log_artifact(file)
            for system, rows in grouped((row.system, row) for row in score_rows(board)).items():
                names = (f"{row.factors['group']}/{row.task}/{row.metric}" for row in rows)
                values = (row.value or 0.0 for row in rows)
                run.child(system).log_metrics(dict(zip(names, values, strict=True)))
    return board


def folder_of(config: BenchmarkSettings, run_id: str) -> Path:
    """Return the folder of the table and the figure."""
    return Path(config.out) if config.out else Store.default().root / "benchmarks" / run_id


def scoreboard(config: BenchmarkSettings, run_id: str) -> Scoreboard:
    """Score the baselines, then model by model."""
    documents = documents_of(config.corpus) if config.corpus else None
    tasks = [placed(task, folder) for task, folder in config.places()]
    models = labelled(config.models, taken=FIXED)
    encoders = {label: encoder_of(model) for label, model in models.items()}
    compared = [one for one in tasks if not one.missing and not reads_vectors(one.task)]
    ranked = [one for one in compared if isinstance(one.task, RetrievalTask)]
    fixed = FIXED if compared else ()
    scores = [score for name in fixed for score in scored(name, name, compared, config.vectors)]
    for label, encoder in encoders.items():
        scores += scored(label, encoder, tasks, config.vectors)
    diagnosed = diagnoses(config, encoders, documents)
    joined = fusions(encoders, ranked, config.vectors) if config.fusion else {}
    shared = overlap(documents, tasks) if documents else None
    won = list(winners(models, tasks, scores))
    undecided = [Score(system="winner", task=task, error=error) for task, _, error in won]
    beside = [one for some in (*diagnosed.values(), *joined.values(), undecided) for one in some]
    return Scoreboard(
        run=run_id,
        models=models,
        encoders=encoders,
        fixed=list(fixed),
        tasks=tasks,
        scores=[*scores, *refused(*beside, shared)],
        winners={task: winner for task, winner, _ in won if winner},
        diagnoses=results(diagnosed, lambda score: score.system),
        overlap=shared.result if shared else None,
        fusions=results(joined, lambda score: score.task),
    )


def winners(
    models: Collection[str], tasks: Sequence[Placed], scores: Iterable[Score]
) -> Iterator[tuple[str, Winner | None, str]]:
    """Yield the best model, or the error, of every task and average that several models have."""
    results = {(one.system, one.task): one.result for one in scores if one.result}
    lines = {one.task.name: [one.task.name] for one in tasks}
    averaged = {group: averaged_tasks(tasks, group) for group in GROUPS}
    lines |= {average_name(group, names): names for group, names in averaged.items() if names[1:]}
    for line, names in lines.items():
        of_models = {
            model: [results[model, name] for name in names]
            for model in models
            if all((model, name) in results for name in names)
        }
        if len(of_models) > 1 and has_one_measure(next(iter(of_models.values()))):
            yield line, *isolate_errors(f"winner: {line}", partial(winner_of, line, of_models))


def winner_of(line: str, results: Mapping[str, Sequence[ArtifactRef]]) -> Winner:
    """Compare the best model by these results with each other one."""
    best = max(results, key=lambda model: score_of(results[model]))
    over = {
        model: compare_results(line, list(zip(results[best], theirs, strict=True)))
        for model, theirs in results.items()
        if model != best
    }
    return Winner(best=best, over=over)


def score_of(results: Sequence[ArtifactRef]) -> float:
    """Return the mean of main measures; 0 in a dry run, whose comparisons have no order."""
    values = [result_of(ref).value for ref in known(results)]
    return fmean(values) if values else 0.0


def results(
    scores: Mapping[str, Sequence[Score]], name: Callable[[Score], str]
) -> dict[str, dict[str, ArtifactRef]]:
    """Return the results under each heading by name; a heading without results is left out."""
    found = {
        heading: {name(score): score.result for score in some if score.result}
        for heading, some in scores.items()
    }
    return {heading: some for heading, some in found.items() if some}


def refused(*scores: Score | None) -> list[Score]:
    """Return the scores with an error; None stands for a part that was not asked for."""
    return [score for score in scores if score and score.error]


def encoder_of(model: str) -> ArtifactRef:
    """Return a complete encoder as it is; a bare transformer, file or name as a start encoder."""
    if is_saved_encoder(model):
        folder = str(find_encoder(model))
        return kept_encoder(folder, digest_of_encoder(folder))
    return encoder_from(EncoderConfig(name=model, max_length=LONGEST), None)


@sub_flow(name="system", flow_run_name="{label}")
def scored(label: str, system: System, tasks: list[Placed], vectors: DocumentVector) -> list[Score]:
    """Score one system on all tasks with their files; a refused task has its error."""
    present = [one for one in tasks if not one.missing]
    found: list[Score] = []
    with progress(label, len(present)) as update:
        for one in present:
            found.append(tried(label, one.task.name, partial(result_on, one, system, vectors)))
            update(len(found))
    return found


def tried(system: str, task: str, make: Callable[[], ArtifactRef]) -> Score:
    """Return a system's result on a task, or its error."""
    with section(label := f"{system}: {task}"):
        result, error = isolate_errors(label, make)
    if error:
        log.warning("%s on %s: %s", system, task, error)
    return Score(system=system, task=task, result=result, error=error)


def fusions(
    encoders: Mapping[str, ArtifactRef], tasks: Sequence[Placed], vectors: DocumentVector
) -> dict[str, list[Score]]:
    """Fuse each model with BM25 on every retrieval task."""
    return {
        label: [
            tried(f"{label} with BM25", one.task.name, partial(fusion, encoder, one, vectors))
            for one in tasks
        ]
        for label, encoder in encoders.items()
    }


def fusion(encoder: ArtifactRef, place: Placed, vectors: DocumentVector) -> ArtifactRef:
    assert isinstance(place.task, RetrievalTask)
    encoded = encode_collection(encoder, place.task, vectors, place.digests, place.folder)
    return score_fusion(encoded, place.task, place.digests, place.folder)


def diagnoses(
    config: BenchmarkSettings, encoders: Mapping[str, ArtifactRef], documents: ArtifactRef | None
) -> dict[str, list[Score]]:
    """Diagnose every model on similar pairs, and on halves of the corpus's documents."""
    found: dict[str, list[Score]] = {}
    if file := config.positives:
        digest, sample = file_digest(file), f"pairs of {file.stem}"
        found[sample] = [
            tried(label, sample, partial(diagnose_on_pairs, encoder, digest, str(file)))
            for label, encoder in encoders.items()
        ]
    if documents and config.has_halves:
        sample = "halves of the corpus's documents"
        found[sample] = [
            tried(label, sample, partial(diagnose_on_halves, encoder, documents))
            for label, encoder in encoders.items()
        ]
    return found


def overlap(documents: ArtifactRef, tasks: Sequence[Placed]) -> Score:
    """Measure how much evaluation text of all tasks the corpus has."""
    present = [one for one in tasks if not one.missing]
    return tried("corpus", "overlap", partial(overlap_with, documents, present))


def has_one_measure(results: Iterable[ArtifactRef]) -> bool:
    """Return whether several results have an average: a correlation and a share have no mean."""
    return len({result_of(ref).main for ref in known(results)}) <= 1


def known(results: Iterable[ArtifactRef]) -> list[ArtifactRef]:
    """Return all results; in a dry run those that exist already."""
    return [ref for ref in results if not is_pending(ref)]


@flow(name="compare", flow_run_name="compare")
def compare(config: BenchmarkSettings) -> ModelComparison:
    """Compare two models on every task that both can do, with a record of the run."""
    with recorded("compare", {"compare": config.model_dump(mode="json")}):
        return comparison(config)


def comparison(config: BenchmarkSettings) -> ModelComparison:
    """Score both models task by task, and compute each paired difference."""
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
    return ModelComparison(
        models=models,
        encoders={
            label: system
            for label, system in zip(models, systems, strict=True)
            if isinstance(system, ArtifactRef)
        },
        tasks=tasks,
        left_out=[task.name for task, _ in config.places() if task.name not in kept],
        scores=[*first, *second, *refused(shared)],
        differences=[compare_results(task, [pair]) for task, pair in pairs.items()],
        averages=compared_averages(tasks, pairs),
        overlap=shared.result if shared else None,
    )


def fixed_row(model: str) -> Fixed | None:
    """Return the baseline of that name, in any case."""
    return next((name for name in FIXED if name.lower() == model.lower()), None)


def comparable(config: BenchmarkSettings) -> list[Placed]:
    """Return the tasks that both sides can do; baselines have no vectors to probe.

    Raises:
        UsageError: no such task has its files.
    """
    tasks = [placed(task, folder) for task, folder in config.places()]
    fixed = [label for label, model in labelled(config.models).items() if fixed_row(model)]
    if not fixed:
        return tasks
    found = [one for one in tasks if not reads_vectors(one.task)]
    if all(one.missing for one in found):
        absent = not_run(found)
        names = [one.task.name for one in tasks]
        listed = [f"{name} ({absent[name]})" if name in absent else name for name in names]
        raise UsageError(
            f"Probes need vectors, and {' and '.join(fixed)} has none. Tasks: {', '.join(listed)}. "
            "Name a task of retrieval or similarity that has its files (--tasks), or two models."
        )
    return found


def compared_averages(
    tasks: Sequence[Placed], pairs: Mapping[str, tuple[ArtifactRef, ArtifactRef]]
) -> list[ArtifactRef]:
    """Compare each group's average, if several tasks of one measure make one."""
    averaged = {
        group: [name for name in averaged_tasks(tasks, group) if name in pairs] for group in GROUPS
    }
    return [
        compare_results(average_name(group, names), [pairs[name] for name in names])
        for group, names in averaged.items()
        if len(names) > 1 and has_one_measure(pairs[name][0] for name in names)
    ]
