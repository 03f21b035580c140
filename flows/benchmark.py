"""Models on the evaluation suite between the fixed rows, and which of two is better."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from prefect import flow

from flows.benchmark_settings import Benchmark
from flows.steps import documents_of
from flows.subflow import sub_flow
from sentemb_core.configs import EncoderConfig
from sentemb_core.errors import SentembError
from sentemb_core.store.objects import Store, file_digest
from sentemb_core.suite import GROUPS, DocumentVector, ProbeTask, RetrievalTask, StsTask
from sentemb_core.types import ArtifactRef
from tasks.benchmark import (
    FIXED,
    Fixed,
    Placed,
    compare_results,
    diagnose_on_halves,
    diagnose_on_pairs,
    kept_encoder,
    measure_overlap,
    placed,
    score_fixed,
    score_retrieval,
    score_similarity,
    score_transfer,
)
from tasks.duel import Duel
from tasks.encode import start_encoder
from tasks.following import recorded
from tasks.fusion import score_fusion
from tasks.progress import progress
from tasks.registry import resolve
from tasks.scoreboard import Score, Scoreboard, averaged_tasks, cells_of
from tasks.scoreboard_tables import write_board
from tasks.sources import digest_of_encoder
from tasks.tracking import tracked_run

log = logging.getLogger("sentemb_core.run")

LONGEST = 256
"""Tokens of a text for a model that a name describes: all-MiniLM-L6-v2's own limit, with which its
published numbers were made. A folder keeps its own."""

System = ArtifactRef | Fixed
"""An encoder, or a row that no model moves."""


@flow(name="benchmark", flow_run_name="benchmark")
def benchmark(config: Benchmark) -> Scoreboard:
    """Every model and the fixed rows on every task; the table and the figure as files, tracked."""
    settings = config.model_dump(mode="json")
    with recorded("benchmark", settings) as record:
        run_id = record.run.id
        with tracked_run("benchmark", params=settings, tags={"run": run_id}, key=run_id) as run:
            board = scoreboard(config, run_id)
            run.log_artifact(write_board(board, folder_of(config, run_id)))
            for cell in cells_of(board):
                told = {f"{cell.group}/{cell.task}/{k}": v for k, v in cell.measures.items()}
                run.child(cell.system).log_metrics(told)
    return board


def folder_of(config: Benchmark, run_id: str) -> Path:
    """Where the table and the figure go."""
    return Path(config.out) if config.out else Store.default().root / "benchmarks" / run_id


def scoreboard(config: Benchmark, run_id: str) -> Scoreboard:
    """The fixed rows, then model by model."""
    tasks = [placed(task, folder) for task, folder in config.places()]
    models = labelled(config.models)
    encoders = {label: encoder_of(model) for label, model in models.items()}
    ranked = [one for one in tasks if isinstance(one.task, RetrievalTask) and not one.missing]
    fixed = FIXED if ranked else ()
    scores = [score for name in fixed for score in scored(name, name, ranked, config.vectors)]
    for label, encoder in encoders.items():
        scores += scored(label, encoder, tasks, config.vectors)
    documents = documents_of(config.corpus) if config.corpus else None
    return Scoreboard(
        run=run_id,
        models=models,
        encoders=encoders,
        fixed=list(fixed),
        tasks=tasks,
        scores=scores,
        diagnoses=diagnoses(config, encoders, documents),
        overlap=overlap(documents, tasks) if documents else None,
        fusions=fusions(encoders, ranked, config.vectors) if config.fusion else {},
    )


def labelled(models: Sequence[str]) -> dict[str, str]:
    """Models by their names in a table: NAME@ALIAS, the last part of a folder or a name."""
    short = [Path(model.removeprefix("models:/")).name or model for model in models]
    names = [
        model if short.count(name) > 1 or model.startswith("models:/") else name
        for name, model in zip(short, models, strict=True)
    ]
    shown = [name.removeprefix("models:/") for name in names]
    return dict(zip(shown, models, strict=True))


def encoder_of(model: str) -> ArtifactRef:
    """A registered model or a folder as it is; any other name as a start encoder."""
    if model.startswith("models:") or Path(model).is_dir():
        folder = str(resolve(model))
        return kept_encoder(folder, digest_of_encoder(EncoderConfig(name=folder)))
    return start_encoder(EncoderConfig(name=model, max_length=LONGEST), "", None)


@sub_flow(name="system", flow_run_name="{label}")
def scored(label: str, system: System, tasks: list[Placed], vectors: DocumentVector) -> list[Score]:
    """One system on all tasks whose files are there; one that is refused says why."""
    present = [one for one in tasks if not one.missing]
    found: list[Score] = []
    with progress(label, len(present)) as update:
        for one in present:
            try:
                result, error = result_on(one, system, vectors), ""
            except SentembError as refused:
                result, error = None, str(refused)
                log.warning("%s on %s: %s", label, one.task.name, error)
            found.append(Score(system=label, task=one.task.name, result=result, error=error))
            update(len(found))
    return found


def result_on(place: Placed, system: System, vectors: DocumentVector) -> ArtifactRef:
    """The result of a system on one task; fixed rows are of retrieval alone."""
    task, digests, folder = place.task, place.digests, place.folder
    if not isinstance(system, ArtifactRef):
        assert isinstance(task, RetrievalTask)
        return score_fixed(system, task, digests, folder)
    match task:
        case RetrievalTask():
            return score_retrieval(system, task, vectors, digests, folder)
        case StsTask():
            return score_similarity(system, task, digests, folder)
        case ProbeTask():
            return score_transfer(system, task, digests, folder)


def fusions(
    encoders: Mapping[str, ArtifactRef], tasks: Sequence[Placed], vectors: DocumentVector
) -> dict[str, dict[str, ArtifactRef]]:
    """Each model beside BM25 and joined with it, on every task that retrieves."""
    found: dict[str, dict[str, ArtifactRef]] = {label: {} for label in encoders}
    for label, encoder in encoders.items():
        for one in tasks:
            assert isinstance(one.task, RetrievalTask)
            try:
                fusion = score_fusion(encoder, one.task, vectors, one.digests, one.folder)
            except SentembError as refused:
                log.warning("%s with BM25 on %s: %s", label, one.task.name, refused)
            else:
                found[label][one.task.name] = fusion
    return found


def diagnoses(
    config: Benchmark, encoders: Mapping[str, ArtifactRef], documents: ArtifactRef | None
) -> dict[str, dict[str, ArtifactRef]]:
    """Of every model, on pairs that people call alike and on halves of the corpus's documents."""
    found: dict[str, dict[str, ArtifactRef]] = {}
    if file := config.positives:
        digest = file_digest(file)
        found[f"pairs of {file.stem}"] = {
            label: diagnose_on_pairs(encoder, digest, str(file))
            for label, encoder in encoders.items()
        }
    if documents and config.has_halves:
        found["halves of the corpus's documents"] = {
            label: diagnose_on_halves(encoder, documents) for label, encoder in encoders.items()
        }
    return found


def overlap(documents: ArtifactRef, tasks: Sequence[Placed]) -> ArtifactRef:
    """What the corpus has of the texts of all tasks that were run."""
    present = [one for one in tasks if not one.missing]
    return measure_overlap(
        documents,
        [one.task for one in present],
        [one.digests for one in present],
        [one.folder for one in present],
    )


@flow(name="compare", flow_run_name="compare")
def compare(config: Benchmark) -> Duel:
    """Two models on every task that both can do, and the paired difference of each."""
    models = labelled(config.models)
    systems: list[System] = [system_of(model) for model in models.values()]
    tasks = [placed(task, folder) for task, folder in config.places()]
    if not all(isinstance(system, ArtifactRef) for system in systems):
        tasks = [one for one in tasks if isinstance(one.task, RetrievalTask)]
    first, second = (
        scored(label, system, tasks, config.vectors)
        for label, system in zip(models, systems, strict=True)
    )
    pairs = {
        one.task: (one.result, other.result)
        for one, other in zip(first, second, strict=True)
        if one.result and other.result
    }
    return Duel(
        models=models,
        tasks=tasks,
        scores=[*first, *second],
        rows=[compare_results(task, [pair]) for task, pair in pairs.items()],
        averages=compared_averages(tasks, pairs),
    )


def system_of(model: str) -> System:
    """A fixed row by its name, or an encoder."""
    for name in FIXED:
        if name.lower() == model.lower():
            return name
    return encoder_of(model)


def compared_averages(
    tasks: Sequence[Placed], pairs: Mapping[str, tuple[ArtifactRef, ArtifactRef]]
) -> list[ArtifactRef]:
    """The difference of each group's average, where several tasks make one."""
    averaged = {
        group: [name for name in averaged_tasks(tasks, group) if name in pairs] for group in GROUPS
    }
    return [
        compare_results(f"{group}, average of {len(names)}", [pairs[name] for name in names])
        for group, names in averaged.items()
        if len(names) > 1
    ]
