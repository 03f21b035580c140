"""Whether a drawn pool has enough queries to judge a run: checked before any training."""

import math
from pathlib import Path

import numpy as np

from sentemb_core.config.run import ValidationConfig
from sentemb_core.corpus.validation_pool import (
    HELD_OUT_SHARE,
    Split,
    ValidationPool,
    read_report,
)
from sentemb_core.errors import NoQueriesError
from sentemb_core.evaluation.gate import FEWEST
from sentemb_core.formats import counted

FEW = 50
"""With fewer test queries only a large gain is significant."""


def require_queries(
    pool: Path, config: ValidationConfig, *, gated: bool, unlabelled: str = ""
) -> None:
    """Refuse a pool whose validation, test or (if needed) gate split has no query.

    Args:
        pool: A folder that `write_validation_pool` filled with this `config`.
        config: The settings of the pool.
        gated: Whether the run registers its encoder, so that the gate compares it.
        unlabelled: What would be validated without the file of labels; empty if there is none.

    Raises:
        NoQueriesError: E502, with the number of documents that are enough.
    """
    report = read_report(pool)
    needed: list[Split] = ["validation", "gate", "test"] if gated else ["validation", "test"]
    empty = [split for split in needed if not report.n_queries[split]]
    if not empty:
        return
    ungated = "switch the gate off with --set register_model=false"
    if gated and not config.gate_share:
        raise NoQueriesError(
            f"The gate needs queries; found validation.gate_share = 0. Raise it, or {ungated}."
        )
    enough = (
        f"{documents_enough(config, gated)} documents of two sentences"
        if report.kind == "halves"
        else f"{pool_enough(config, gated)} different counterparts or labels of documents of the "
        "pool (if labels are learned, half of the labelled documents are outside the pool)"
    )
    ways: list[str] = []
    if unlabelled and report.kind == "counterpart":
        ways.append(f", or leave --labels out to validate on {unlabelled}")
    if gated:
        ways.append(f", or {ungated}")
    raise NoQueriesError(
        f"Every split needs a query; found none for {' and '.join(empty)} in a pool of "
        f"{counted(sum(report.n_queries.values()), 'document')} and "
        f"{counted(report.n_candidates, 'candidate')} (validation.candidates allows "
        f"{config.candidates}). Enough are {enough}{''.join(ways)}."
    )


def pool_doubts(pool: Path) -> list[str]:
    """Return the warnings about a pool by which a run is judged."""
    return [*filter(None, (few_queries(pool), few_candidates(pool)))]


def few_queries(pool: Path) -> str:
    """Return a warning if the test split has fewer than `FEW` queries, else the empty text."""
    if not (queries := _fewer(pool, "test", FEW)):
        return ""
    return (
        f"The test split has few queries ({queries}): one query is {100 / queries:.3g} % of it, so "
        "only a large gain is significant. More documents give more queries."
    )


def few_candidates(pool: Path) -> str:
    """Return a warning if most counterparts of a pool are equal to others, else the empty text."""
    report = read_report(pool)
    queries = report.n_candidates + report.merged
    if 2 * report.n_candidates >= queries:
        return ""
    return (
        f"{queries:,} documents share {counted(report.n_candidates, 'counterpart')}: documents of "
        "one counterpart are alike, and a score shows only how well these groups are separated. "
        "Name a counterpart that differs by document."
    )


def few_gate_queries(pool: Path) -> str:
    """Return a warning if the gate split has too few queries to promote, else the empty text."""
    if not (queries := _fewer(pool, "gate", FEWEST)):
        return ""
    return (
        f"The gate split has {counted(queries, 'query')}: with fewer than {FEWEST} the gate "
        "promotes nothing, and the model becomes the challenger. More documents give more queries."
    )


def _fewer(pool: Path, split: Split, limit: int) -> int:
    """Return the number of a split's counterparts if it is below the limit, else 0."""
    queries = counterparts(pool, split)
    return queries if queries < limit else 0


def counterparts(pool: Path, split: Split) -> int:
    """Return the number of different counterparts of a split: the units of its intervals."""
    drawn = ValidationPool.open(pool)
    return len(np.unique(drawn.query_candidate[drawn.queries(split)]))


def pool_enough(config: ValidationConfig, gated: bool) -> int:
    """Return the pool size that fills every split, whatever the ids: one query in the smallest."""
    shares = [config.validation_share, 1 - config.validation_share - config.gate_share]
    return math.ceil(1 / min([*shares, config.gate_share] if gated else shares))


def documents_enough(config: ValidationConfig, gated: bool) -> int:
    """Return the corpus size that fills every split without counterparts: a share is held out."""
    return math.ceil(pool_enough(config, gated) / HELD_OUT_SHARE)
