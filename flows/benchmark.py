"""Models on the evaluation suite between the fixed rows: one table, one figure, who leads."""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean

from prefect import flow

from flows.benchmark_settings import BenchmarkSettings
from flows.contamination import overlap_with
from flows.isolate_errors import attempted
from flows.pipeline import documents_of, encoder_from
from flows.scoring import System, reads_vectors, result_on
from flows.short_names import labelled
from sentemb_core.config.run import EncoderConfig
from sentemb_core.config.suite import GROUPS, DocumentVector, RetrievalTask
from sentemb_core.store.disk import remove, replacing_in
from sentemb_core.store.objects import Store, file_digest
from sentemb_core.types import ArtifactRef
from tasks.benchmark import (
    FIXED,
    Placed,
    compare_results,
    diagnose_on_halves,
    diagnose_on_pairs,
    encode_collection,
    kept_encoder,
    placed,
    result_of,
)
from tasks.execution import is_pending, section, sub_flow
from tasks.fusion import score_fusion
from tasks.prefect_pages import progress
from tasks.registered_encoders import find_encoder, is_saved_encoder
from tasks.run_monitor import recorded
from tasks.sources import digest_of_encoder
from tasks.tables.scoreboard import (
    Lead,
    Score,
    Scoreboard,
    average_name,
    averaged_tasks,
    cells_of,
)
from tasks.tables.scoreboard_tables import FILES, write_board
from tasks.tracking import tracked_run

log = logging.getLogger("sentemb_core.run")

LONGEST = 256
"""Tokens of a text for a model that a name describes: all-MiniLM-L6-v2's own limit, with which its
published numbers were made. A folder keeps its own."""


@flow(name="benchmark", flow_run_name="benchmark")
def benchmark(config: BenchmarkSettings) -> Scoreboard:
    """Every model and the fixed rows on every task; the table and the figure as files, tracked."""
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
            for cell in cells_of(board):
                told = {f"{cell.group}/{cell.task}/{k}": v for k, v in cell.measures.items()}
                run.child(cell.system).log_metrics(told)
    return board


def folder_of(config: BenchmarkSettings, run_id: str) -> Path:
    """Where the table and the figure go."""
    return Path(config.out) if config.out else Store.default().root / "benchmarks" / run_id


def scoreboard(config: BenchmarkSettings, run_id: str) -> Scoreboard:
    """The fixed rows, then model by model."""
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
    ahead = list(leads(models, tasks, scores))
    untold = [Score(system="who leads", task=line, error=error) for line, _, error in ahead]
    beside = [one for told in (*diagnosed.values(), *joined.values(), untold) for one in told]
    return Scoreboard(
        run=run_id,
        models=models,
        encoders=encoders,
        fixed=list(fixed),
        tasks=tasks,
        scores=[*scores, *refused(*beside, shared)],
        leads={line: lead for line, lead, _ in ahead if lead},
        diagnoses=results(diagnosed, lambda score: score.system),
        overlap=shared.result if shared else None,
        fusions=results(joined, lambda score: score.task),
    )


def leads(
    models: Collection[str], tasks: Sequence[Placed], scores: Iterable[Score]
) -> Iterator[tuple[str, Lead | None, str]]:
    """On every task and average that several models have, who leads, or the error."""
    made = {(one.system, one.task): one.result for one in scores if one.result}
    lines = {one.task.name: [one.task.name] for one in tasks}
    averaged = {group: averaged_tasks(tasks, group) for group in GROUPS}
    lines |= {average_name(group, names): names for group, names in averaged.items() if names[1:]}
    for line, names in lines.items():
        told = {
            model: [made[model, name] for name in names]
            for model in models
            if all((model, name) in made for name in names)
        }
        if len(told) > 1 and is_of_one_measure(next(iter(told.values()))):
            yield line, *attempted(f"who leads: {line}", partial(lead_of, line, told))


def lead_of(line: str, told: Mapping[str, Sequence[ArtifactRef]]) -> Lead:
    """The best model by these results, beside the others."""
    best = max(told, key=lambda model: score_of(told[model]))
    over = {
        model: compare_results(line, list(zip(told[best], theirs, strict=True)))
        for model, theirs in told.items()
        if model != best
    }
    return Lead(best=best, over=over)


def score_of(results: Sequence[ArtifactRef]) -> float:
    """The mean of main measures; 0 of a plan, which has as many comparisons in any order."""
    values = [result_of(ref).value for ref in known(results)]
    return fmean(values) if values else 0.0


def results(
    told: Mapping[str, Sequence[Score]], name: Callable[[Score], str]
) -> dict[str, dict[str, ArtifactRef]]:
    """Under each heading what was not refused, by its name; no heading without any."""
    found = {
        heading: {name(score): score.result for score in scores if score.result}
        for heading, scores in told.items()
    }
    return {heading: made for heading, made in found.items() if made}


def refused(*scores: Score | None) -> list[Score]:
    """Those of which nothing came; None is what was not asked for."""
    return [score for score in scores if score and score.error]


def encoder_of(model: str) -> ArtifactRef:
    """What is whole as it is; a bare transformer, a file or any other name as a start encoder."""
    if is_saved_encoder(model):
        folder = str(find_encoder(model))
        return kept_encoder(folder, digest_of_encoder(folder))
    return encoder_from(EncoderConfig(name=model, max_length=LONGEST), None)


@sub_flow(name="system", flow_run_name="{label}")
def scored(label: str, system: System, tasks: list[Placed], vectors: DocumentVector) -> list[Score]:
    """One system on all tasks whose files are there; one that is refused says why."""
    present = [one for one in tasks if not one.missing]
    found: list[Score] = []
    with progress(label, len(present)) as update:
        for one in present:
            found.append(tried(label, one.task.name, partial(result_on, one, system, vectors)))
            update(len(found))
    return found


def tried(system: str, task: str, make: Callable[[], ArtifactRef]) -> Score:
    """What a system has on a task, or why not; the others go on."""
    with section(label := f"{system}: {task}"):
        result, error = attempted(label, make)
    if error:
        log.warning("%s on %s: %s", system, task, error)
    return Score(system=system, task=task, result=result, error=error)


def fusions(
    encoders: Mapping[str, ArtifactRef], tasks: Sequence[Placed], vectors: DocumentVector
) -> dict[str, list[Score]]:
    """Each model beside BM25 and joined with it, on every task that retrieves."""
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
    """Of every model, on pairs that people call alike and on halves of the corpus's documents."""
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
    """What the corpus has of the texts of all tasks that were run."""
    present = [one for one in tasks if not one.missing]
    return tried("corpus", "overlap", partial(overlap_with, documents, present))


def is_of_one_measure(results: Iterable[ArtifactRef]) -> bool:
    """Whether several tasks have an average: a correlation and a share have no mean."""
    return len({result_of(ref).main for ref in known(results)}) <= 1


def known(results: Iterable[ArtifactRef]) -> list[ArtifactRef]:
    """All, but of a plan those that are there already."""
    return [ref for ref in results if not is_pending(ref)]
