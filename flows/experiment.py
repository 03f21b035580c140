"""A paper's experiment: every arm trained under every seed, judged column by column."""

import logging
from collections.abc import Iterator
from functools import partial

from prefect import flow

from flows.experiments.index import Reproduction, task_of
from flows.experiments.judging import column_result, overlaps_with, pools_of
from flows.experiments.learning import arm_encoder, base_of, less_than_asked, texts_of
from flows.isolate_errors import attempted
from flows.row_steps import minilm
from flows.scoring import System, reads_vectors
from sentemb_core.config.experiments import CASE, OF_TRAINING, TITLE, Arm, Column, Corpus, Finish
from sentemb_core.types import ArtifactRef, Value
from tasks.benchmark import largest_overlaps, pools_told
from tasks.claims import ArmResult, cells_of, claim_result
from tasks.encode import word_vectors
from tasks.execution import skip_unknown_results, sub_flow
from tasks.experiment_table import ExperimentTable
from tasks.run_monitor import recorded

log = logging.getLogger("sentemb_core.run")


class Errand(Value):
    """One arm under one seed: what it trains on, and the columns that this serves."""

    arm: Arm
    corpus: Corpus
    columns: list[Column]
    seed: int

    @property
    def label(self) -> str:
        return f"{self.arm.label} on {self.corpus}, seed {self.seed}"


@flow(name="reproduce", flow_run_name="{asked.experiment}")
def experiment(asked: Reproduction) -> ExperimentTable:
    """Every cell of an experiment, what the judges' texts share with what was read, the claims.

    A second run computes only what is missing.
    """
    with recorded(asked.experiment, asked.model_dump(mode="json")) as record:
        made: list[ArmResult] = []
        base = base_of(asked)
        for found, used in record.with_uses(all_findings(asked, base)):
            trainings = [one for one in used if one.stage == "train_encoder"]
            logs = [ref for one in trainings for ref in one.outputs if ref.kind == "training_log"]
            told = {
                "seconds": sum(one.seconds for one in trainings),
                "log": logs[-1] if logs else None,
            }
            made += [one.model_copy(update=told) for one in found]
            log.info("%s, seed %d: %s", found[0].arm, found[0].seed, found[0].error or "done")
        read = overlaps_with(asked)
        return ExperimentTable(
            what=asked.what,
            budget=asked.budget,
            results=made,
            settings=asked.model_dump(mode="json"),
            left_out=asked.left_out,
            overlaps=largest_overlaps([one.overlap for one in read if one.overlap]),
            pools=pools_told(pools_of(asked)),
            unmeasured={one.corpus: one.error for one in read if one.error},
        )


def walked(asked: Reproduction) -> None:
    """`experiment` for a plan: of the claims those of which all results are known."""
    made = [one for some in all_findings(asked, base_of(asked)) for one in some]
    overlaps_with(asked)
    pools_of(asked)
    judged = {one.label for one in asked.what.columns if one.judge not in OF_TRAINING}
    to_come = {one.arm for one in made if one.column in judged and not (one.result or one.error)}
    for claim in asked.what.claims:
        if to_come.isdisjoint({claim.better, *claim.than}):
            with skip_unknown_results():
                claim_result(claim, asked.what, cells_of([one for one in made if one.result]))


def all_findings(asked: Reproduction, base: ArtifactRef) -> Iterator[list[ArmResult]]:
    """Seed by seed: a run that is stopped leaves whole tables of the first seeds."""
    for seed in asked.budget.seeds:
        for arm in asked.what.arms:
            for corpus, columns in asked.what.groups(arm):
                if judging := [one for one in columns if knows(arm, one)]:
                    errand = Errand(arm=arm, corpus=corpus, columns=judging, seed=seed)
                    yield findings_or_error(errand, asked, base)


def knows(arm: Arm, column: Column) -> bool:
    """Whether the arm can have a number there: BM25 and chance have no vectors to probe."""
    if arm.alpha is not None:
        return column.judge == TITLE
    if column.judge in OF_TRAINING:
        return any(not isinstance(step, Finish) for step in arm.steps)
    if arm.system in ("BM25", "random"):
        return column.judge == TITLE or (
            column.judge != CASE and not reads_vectors(task_of(column))
        )
    return True


def findings_or_error(errand: Errand, asked: Reproduction, base: ArtifactRef) -> list[ArmResult]:
    """The arm's findings; one that is refused or fails says why, and the others go on."""
    found, error = attempted(errand.label, partial(arm_findings, errand, asked, base))
    return found or [
        ArmResult(arm=errand.arm.label, column=one.label, seed=errand.seed, error=error)
        for one in errand.columns
    ]


@sub_flow(name="arm", flow_run_name="{errand.label}")
def arm_findings(errand: Errand, asked: Reproduction, base: ArtifactRef) -> list[ArmResult]:
    """Train step by step, then judge."""
    arm, seed = errand.arm, errand.seed
    system = system_of(asked, base, arm, errand.corpus, seed)
    less = less_than_asked(asked, base, arm, errand.corpus)

    def finding(column: Column) -> ArmResult:
        """A judge that refuses is the error of its own column."""
        result, error = None, ""
        if column.judge not in OF_TRAINING:
            judge = partial(column_result, asked, base, arm, system, column, seed)
            result, error = attempted(f"{errand.label}: {column.label}", judge)
        return ArmResult(
            arm=arm.label, column=column.label, seed=seed, result=result, less=less, error=error
        )

    return [finding(column) for column in errand.columns]


def system_of(
    asked: Reproduction, base: ArtifactRef, arm: Arm, corpus: Corpus, seed: int
) -> System:
    """Who is judged: what the arm's steps make of the base, or a row that nothing moves."""
    match arm.system:
        case "encoder":
            return arm_encoder(asked, base, arm, corpus, seed)
        case "minilm":
            return minilm()
        case "word vectors":
            texts = texts_of(asked, base, corpus, arm)
            return word_vectors(texts.documents, texts.validation_pool, seed)
        case fixed:
            return fixed
