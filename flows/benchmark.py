"""Models on the evaluation suite: a benchmark of several, and a comparison of two."""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean

from flows.benchmark_settings import BenchmarkSettings, fixed_row, labelled
from flows.pipeline import documents_of, encoder_from
from flows.scoring import can_score, overlap_with, reads_vectors, result_on, vectors_result_on
from sentemb_core.config.run import EncoderConfig
from sentemb_core.config.suite import FIXED, GROUPS, DocumentVector, RetrievalTask
from sentemb_core.errors import UsageError
from sentemb_core.store.disk import remove, replacing_in
from sentemb_core.store.objects import Store, file_digest
from sentemb_core.types import ArtifactRef
from tasks.benchmark import (
    Placed,
    compare_results,
    diagnose_on_halves,
    diagnose_on_pairs,
    encode_collection,
    kept_encoder,
    kept_retriever,
    placed,
    result_of,
    score_fusion,
)
from tasks.benchmark_rows import (
    Score,
    Scoreboard,
    average_name,
    averaged_tasks,
    not_run,
    score_rows,
)
from tasks.benchmark_table import FILES, write_board
from tasks.execution import flow, is_pending, isolate_errors, section
from tasks.prefect_pages import progress
from tasks.registered_encoders import find_encoder, is_saved_encoder
from tasks.results import grouped
from tasks.retriever_systems import RetrieverSystem, System, retriever_in, vectors_label
from tasks.run_monitor import recorded
from tasks.sources import digest_of_encoder
from tasks.tracking import tracked_run

log = logging.getLogger("sentemb_core.run")


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
    systems: dict[str, System] = {label: system_of(model) for label, model in models.items()}
    fixed = FIXED if any(not (one.missing or reads_vectors(one.task)) for one in tasks) else ()
    scores = [
        score
        for label, system in (*zip(fixed, fixed, strict=True), *systems.items())
        for score in scored(label, system, tasks, config.vectors)
    ]
    board = Scoreboard(
        run=run_id, models=models, systems=systems, fixed=list(fixed), tasks=tasks, scores=scores
    )
    others = [
        *differences(models, tasks, scores),
        *baseline_differences(board.retrievers, tasks, scores),
        *diagnoses(config, board.encoders, documents),
        *(fusions(systems, tasks, config.vectors) if config.fusion else ()),
        *overlap(documents, tasks),
    ]
    return board.model_copy(update={"scores": [*scores, *others]})


def system_of(model: str) -> ArtifactRef | RetrieverSystem:
    """Return a retriever or a complete encoder as it is; any other as a start encoder."""
    if not is_saved_encoder(model):
        return encoder_from(EncoderConfig(name=model), None)
    folder = find_encoder(model)
    digest = digest_of_encoder(str(folder))
    spec = retriever_in(folder)
    if spec is None:
        return kept_encoder(str(folder), digest)
    return RetrieverSystem(
        retriever=kept_retriever(str(folder), digest),
        encoder=kept_encoder(str(folder), digest) if spec.vectors else None,
        parts=spec.names,
        has_vectors_alone=spec.vectors_alone not in (None, spec),
    )


@flow(name="system", flow_run_name="{label}")
def scored(label: str, system: System, tasks: list[Placed], vectors: DocumentVector) -> list[Score]:
    """Score a system on all tasks whose files exist and that it can do.

    The vectors of a retriever have a score of their own on tasks of retrieval.
    """
    own = [one for one in tasks if not one.missing and can_score(system, one.task)]
    found: list[Score] = []
    with progress(label, len(own)) as update:
        for done, one in enumerate(own, 1):
            score = Score(part="scores", system=label, task=one.task.name)
            found.append(tried(score, partial(result_on, one, system, vectors)))
            retrieved = isinstance(one.task, RetrievalTask) and found[-1].result
            if retrieved and isinstance(system, RetrieverSystem) and system.has_vectors_alone:
                alone = score.model_copy(update={"system": vectors_label(label)})
                found.append(tried(alone, partial(vectors_result_on, one, system)))
            update(done)
    return found


def tried(score: Score, make: Callable[[], ArtifactRef]) -> Score:
    """Return the score with its result or its error."""
    with section(part := f"{score.label}: {score.task}"):
        result, error = isolate_errors(part, make)
    if error:
        log.warning("%s on %s: %s", score.label, score.task, error)
    return score.model_copy(update={"result": result, "error": error})


def differences(
    models: Collection[str], tasks: Sequence[Placed], scores: Iterable[Score], first: str = ""
) -> Iterator[Score]:
    """Yield the paired differences of one model to all others, for each task and average.

    Args:
        models: Names of the models; a line includes only models with all its tasks.
        tasks: The tasks.
        scores: Results on tasks.
        first: The model that the others are compared with; empty: the best of each line.
    """
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
        if len(of_models) < 2 or not has_one_measure(next(iter(of_models.values()))):
            continue
        best = first or max(of_models, key=lambda model: score_of(of_models[model]))
        for rival, theirs in of_models.items():
            if rival != best:
                pairs = list(zip(of_models[best], theirs, strict=True))
                score = Score(part="differences", system=best, task=line, baseline=rival)
                yield tried(score, partial(compare_results, line, pairs))


def baseline_differences(
    retrievers: Iterable[str], tasks: Sequence[Placed], scores: Sequence[Score]
) -> Iterator[Score]:
    """Yield the paired differences of each retriever to BM25, and to its vectors alone."""
    retrieval = [one for one in tasks if isinstance(one.task, RetrievalTask)]
    for label in retrievers:
        rivals = (label, "BM25", vectors_label(label))
        for score in differences(rivals, retrieval, scores, first=label):
            yield score.model_copy(update={"part": "baselines"})


def score_of(results: Iterable[ArtifactRef]) -> float:
    """Return the mean of main measures; 0 in a dry run, whose comparisons have no order."""
    values = [result_of(ref).value for ref in known(results)]
    return fmean(values) if values else 0.0


def has_one_measure(results: Iterable[ArtifactRef]) -> bool:
    """Return whether several results have an average: a correlation and a share have no mean."""
    return len({result_of(ref).main for ref in known(results)}) <= 1


def known(results: Iterable[ArtifactRef]) -> list[ArtifactRef]:
    """Return all results; in a dry run those that exist already."""
    return [ref for ref in results if not is_pending(ref)]


def diagnoses(
    config: BenchmarkSettings, encoders: Mapping[str, ArtifactRef], documents: ArtifactRef | None
) -> Iterator[Score]:
    """Diagnose every model on similar pairs, and on halves of the corpus's documents."""
    if file := config.positives:
        digest = file_digest(file)
        for label, encoder in encoders.items():
            score = Score(part="diagnostics", system=label, task=f"pairs of {file.stem}")
            yield tried(score, partial(diagnose_on_pairs, encoder, digest, str(file)))
    if documents and config.has_halves:
        for label, encoder in encoders.items():
            score = Score(part="diagnostics", system=label, task="halves of the corpus's documents")
            yield tried(score, partial(diagnose_on_halves, encoder, documents))


def fusions(
    systems: Mapping[str, System], tasks: Iterable[Placed], vectors: DocumentVector
) -> Iterator[Score]:
    """Fuse each encoder with BM25 on every retrieval task; a retriever has a fusion of its own."""
    present = [one for one in tasks if isinstance(one.task, RetrievalTask) and not one.missing]
    encoders = {label: one for label, one in systems.items() if isinstance(one, ArtifactRef)}
    for label, encoder in encoders.items():
        for one in present:
            score = Score(part="fusion", system=label, task=one.task.name, baseline="BM25")
            yield tried(score, partial(fusion, encoder, one, vectors))


def fusion(encoder: ArtifactRef, place: Placed, vectors: DocumentVector) -> ArtifactRef:
    assert isinstance(place.task, RetrievalTask)
    encoded = encode_collection(encoder, place.task, vectors, place.digests, place.folder)
    return score_fusion(encoded, place.task, place.digests, place.folder)


def overlap(documents: ArtifactRef | None, tasks: Iterable[Placed]) -> Iterator[Score]:
    """Measure how much evaluation text of all tasks the corpus has, if there is a corpus."""
    if documents:
        present = [one for one in tasks if not one.missing]
        score = Score(part="overlap", system="corpus", task="overlap")
        yield tried(score, partial(overlap_with, documents, present))


@flow(name="compare", flow_run_name="compare")
def compare(config: BenchmarkSettings) -> Scoreboard:
    """Compare two models on every task that both can do, with a record of the run."""
    with recorded("compare", {"compare": config.model_dump(mode="json")}) as record:
        return comparison(config, record.run.id)


def comparison(config: BenchmarkSettings, run_id: str) -> Scoreboard:
    """Score both models task by task, and compute each paired difference."""
    models = labelled(config.models)
    tasks = comparable(config)
    systems: dict[str, System] = {
        label: fixed_row(model) or system_of(model) for label, model in models.items()
    }
    scores = [
        score
        for label, system in systems.items()
        for score in scored(label, system, tasks, config.vectors)
    ]
    documents = documents_of(config.corpus) if config.corpus else None
    others = [
        *overlap(documents, tasks),
        *differences(models, tasks, scores, first=next(iter(models))),
    ]
    kept = {one.task.name for one in tasks}
    return Scoreboard(
        run=run_id,
        models=models,
        systems=systems,
        fixed=[],
        tasks=tasks,
        scores=[*scores, *others],
        compared=True,
        left_out=tuple(task.name for task, _ in config.places() if task.name not in kept),
    )


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
