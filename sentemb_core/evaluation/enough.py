"""Whether a drawn benchmark has queries enough to judge a run: asked before anything is trained."""

import math
from pathlib import Path

from sentemb_core.config.run import ValidationConfig
from sentemb_core.corpus.validation_pool import HELD_OUT_SHARE, PoolReport, Split
from sentemb_core.errors import NoQueriesError
from sentemb_core.evaluation.gate import FEW
from sentemb_core.formats import counted


def require_queries(
    benchmark: Path, config: ValidationConfig, *, gated: bool, unlabelled: str = ""
) -> None:
    """Refuse a benchmark whose validation or test split, or the gate's, has no query.

    Args:
        benchmark: Folder that `write_validation_pool` filled.
        config: What it was drawn by.
        gated: The run registers its encoder, so that the gate must judge it.
        unlabelled: What would judge if the run had no file of labels, where it has one.

    Raises:
        NoQueriesError: E502, with how many documents are enough.
    """
    report = PoolReport.model_validate_json((benchmark / "pool.json").read_bytes())
    needed: list[Split] = ["validation", "gate", "test"] if gated else ["validation", "test"]
    empty = [split for split in needed if not report.n_queries[split]]
    if not empty:
        return
    ungated = "leave the gate out by --set register_model=false"
    if gated and not config.gate_share:
        raise NoQueriesError(f"The gate needs queries; its validation.gate_share is 0: {ungated}.")
    enough = (
        f"{documents_enough(config, gated)} documents of two sentences"
        if report.kind == "halves"
        else f"{pool_enough(config, gated)} of the pool with a counterpart or label (half of the "
        "labelled documents are outside it where labels are learnt)"
    )
    leave = unlabelled and report.kind == "counterpart"
    ways = [f", or leave --labels out: {unlabelled} judge"] if leave else []
    ways += [f", or {ungated}"] if gated else []
    raise NoQueriesError(
        f"Every split needs a query; found none for {' and '.join(empty)} in a pool of "
        f"{counted(sum(report.n_queries.values()), 'document')} (validation.candidates allows "
        f"{config.candidates}). {enough} are enough{''.join(ways)}."
    )


def few_queries(benchmark: Path) -> str:
    """A sentence where the test split has few queries; else nothing.

    Args:
        benchmark: Folder that `write_validation_pool` filled.
    """
    report = PoolReport.model_validate_json((benchmark / "pool.json").read_bytes())
    asking = report.n_queries["test"]
    if not 0 < asking < FEW:
        return ""
    return (
        f"The test split has few queries ({asking}): one is {100 / asking:.3g} % of it, so that "
        "only a large gain shows there, if any. More documents judge better."
    )


def pool_enough(config: ValidationConfig, gated: bool) -> int:
    """Documents of a pool that fill every split, whatever their ids: one in the smallest share."""
    shares = [config.validation_share, 1 - config.validation_share - config.gate_share]
    return math.ceil(1 / min([*shares, config.gate_share] if gated else shares))


def documents_enough(config: ValidationConfig, gated: bool) -> int:
    """Documents of a corpus without counterparts: their pool is a share of them."""
    return math.ceil(pool_enough(config, gated) / HELD_OUT_SHARE)
