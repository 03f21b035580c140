"""The report of a finished run: its words and facts, its artifacts opened, its files written."""

import json
import logging
import platform
import subprocess
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from sentemb_core.config.run import CorpusConfig, RunConfig
from sentemb_core.options import CorpusOptions
from sentemb_core.redaction import redacted
from sentemb_core.report.data import Fact, RunReport
from sentemb_core.store.disk import replacing_in
from sentemb_core.store.objects import Store
from sentemb_core.store.runs import Run, last_runs
from sentemb_core.store.stages import flat
from sentemb_core.store.status import differences
from sentemb_core.types import Json
from tasks.artifact_files import artifact_path
from tasks.publish import Outcome
from tasks.run_result import EncoderResult
from tasks.tables.evaluations import evaluation_of
from tasks.tables.run_table import seconds_behind
from tasks.verdict import doubts_of, gain_of, notes_of

if TYPE_CHECKING:
    from sentemb_core.report.folders import RoundFolders

log = logging.getLogger("sentemb_core.run")

CHANGES = 6
"""Told of what is other than in the run before."""


def write_report_of(outcome: Outcome, config: RunConfig, *notes: str) -> Path:
    """The page, its figures and the settings that repeat the run, as files; `notes` stand there."""
    from sentemb_core.report.write import write_report

    folder = report_folder(outcome.run)
    log.info("writing the report to %s", folder)
    settings = json.dumps(config.model_dump(mode="json"), indent=1)
    with replacing_in(folder) as draft:
        page = write_report(full_report(outcome, config, *notes), draft)
        (draft / "config.json").write_text(settings, encoding="utf-8")
    return folder / page.name


def report_folder(run: str) -> Path:
    """Of a run's page: in the home of today, which may have been moved since the run."""
    return Store.default().root / "reports" / run


def full_report(outcome: Outcome, config: RunConfig, *notes: str) -> RunReport:
    """Words and facts of the run, and every panel its artifacts can fill."""
    from sentemb_core.report.collect import report_of
    from sentemb_core.report.folders import RunFolders

    training, settings = outcome.training, config.model_dump(mode="json")
    texts = training.texts
    fixed = {"BM25": training.bm25, "random encoder": training.random}
    folders = RunFolders(
        documents=artifact_path(texts.documents),
        benchmark=artifact_path(texts.validation_pool),
        sentences=artifact_path(texts.sentences),
        rounds=[
            folders_of(row, seconds_behind(outcome.timings, row.label))
            for row in (*training.rows, *training.controls)
        ],
        fixed={label: artifact_path(ref) for label, ref in fixed.items()},
        best=training.best,
        annotation=config.annotation,
    )
    config_file = report_folder(outcome.run) / "config.json"
    model = outcome.landing.uri if outcome.landing else Store.default().path(outcome.encoder)
    words = RunReport(
        title=config.name,
        verdict=gain_of(training),
        registry=outcome.landing.told if outcome.landing else "",
        use=search_of(str(model), config.corpus),
        notes=[
            *doubts_of(training),
            *notes_of(training, config.training.seed),
            *since_the_last(outcome.run, settings, texts.documents.digest),
            *notes,
        ],
        command=f"python -m flows run --config {quote(str(config_file))}",
        facts=facts_of(outcome, config),
        settings=shown(settings),
        timings=outcome.timings,
        evaluation=evaluation_of(outcome.encoder),
        evaluate=[
            f"python -m flows benchmark {quote(str(model))}",
            f"python -m flows report {outcome.run}",
        ],
    )
    return report_of(folders, words)


def since_the_last(run: str, settings: Json, documents: str) -> list[str]:
    """What is other than in the run before of the same name; of the first one nothing."""
    before = run_before(run, settings["name"])
    if before is None:
        return []
    read = {
        ref.digest
        for used in before.stages
        if used.stage == "draw_validation_pool"
        for ref in used.inputs
    }
    changed = [
        *(["other documents"] if documents not in read else []),
        *differences(shown(before.config), shown(settings)),
    ]
    if not changed:
        return [f"Documents and settings are those of the run before, {before.id}."]
    more = f" and {len(changed) - CHANGES} more" if len(changed) > CHANGES else ""
    return [f"Since the run before, {before.id}: {', '.join(changed[:CHANGES])}{more}."]


def shown(settings: Json) -> dict[str, str]:
    """Every setting by its dotted path, without passwords."""
    return {path: redacted(str(value)) for path, value in flat(settings).items()}


def run_before(run: str, name: str) -> Run | None:
    """The finished run of this name that began last before another one."""
    known = last_runs(Store.default())
    started = [one.started for one in known if one.id == run]
    earlier = [
        one
        for one in known
        if one.state == "completed"
        and one.config.get("name") == name
        and "corpus" in one.config
        and started
        and one.started < started[0]
    ]
    return max(earlier, key=lambda one: one.started, default=None)


def search_of(model: str, corpus: CorpusConfig) -> str:
    """What to type to search with an encoder in documents like the run's: its options, too."""
    usual = CorpusConfig(source=corpus.source)
    told = {field.name: getattr(corpus, field.name) for field in fields(CorpusOptions)}
    options = [
        f" --{name.replace('_', '-')} {quote(value)}"
        for name, value in told.items()
        if value != getattr(usual, name)
    ]
    return f"python -m flows search WORDS SOURCE --model {quote(model)}{''.join(options)}"


def folders_of(row: EncoderResult, cost: float) -> "RoundFolders":
    """A row's artifacts, opened."""
    from sentemb_core.report.folders import RoundFolders

    assert row.kind != "annotator", "a foreign annotator is no row of the run"
    annotation = row.annotation
    return RoundFolders(
        label=row.label,
        kind=row.kind,
        encoder=artifact_path(row.encoder),
        scores=artifact_path(row.scores),
        embeddings=artifact_path(row.embeddings) if row.embeddings else None,
        log=artifact_path(row.log) if row.log else None,
        clusters=artifact_path(annotation.clusters) if annotation else None,
        pairs=artifact_path(annotation.pairs) if annotation else None,
        diagnostics=artifact_path(row.diagnostics) if row.diagnostics else None,
        seconds=cost,
    )


def facts_of(outcome: Outcome, config: RunConfig) -> list[Fact]:
    """What someone needs to repeat the run or to doubt it."""
    texts = outcome.training.texts
    told = {
        "run": outcome.run,
        "encoder": outcome.encoder.digest,
        "documents": texts.documents.digest,
        "benchmark": texts.validation_pool.digest,
        "seed": str(config.training.seed),
        "commit": commit(),
        "versions": ", ".join(
            f"{name} {version(name)}" for name in ("torch", "transformers", "tokenizers", "prefect")
        ),
        "machine": f"Python {platform.python_version()}, {platform.machine()}",
    }
    if outcome.landing:
        told["registered as"] = f"{outcome.landing.uri} ({outcome.landing.alias})"
    return [Fact(label=label, value=value) for label, value in told.items()]


def commit() -> str:
    """The checkout's git commit and whether files differ from it, if git is there to ask."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty= and changes"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"
