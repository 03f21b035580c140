"""What of its judges' texts training read, as notes beneath a table."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sentemb_core.corpus.benchmark import BenchmarkReport
    from sentemb_core.evaluation.overlap import Overlap

SEEN = 0.001
"""Share of a judge's runs of words from which on it is named."""


def overlap_notes(
    overlaps: "Mapping[str, Overlap]", unmeasured: Mapping[str, str] = MappingProxyType({})
) -> list[str]:
    """Of sets of texts, by their names: those of .1 % and more by name.

    Args:
        overlaps: Set of texts -> what of it was read.
        unmeasured: Corpus that training read -> why it is not known for that one.
    """
    unknown = [
        f"What training read of the judges' texts in {corpus} is not known: {error.splitlines()[0]}"
        for corpus, error in unmeasured.items()
    ]
    runs = {name: one.runs or 0.0 for name, one in overlaps.items()}
    if not runs:
        return unknown
    seen = [f"{name} {100 * share:.1f} %" for name, share in runs.items() if share >= SEEN]
    rest = "all others below" if seen else "all below"
    told = [*seen, *([f"{rest} {100 * SEEN:g} %"] if len(seen) < len(runs) else [])]
    where = " elsewhere" if unknown else ""
    said = f"Runs of eight words of the judges' texts that training read{where}"
    return [*unknown, f"{said}: {', '.join(told)}."]


def pool_notes(pools: "Mapping[str, BenchmarkReport]") -> list[str]:
    """Of pools of titles, by their names; no document is trained on beside its own title."""
    said = [
        f"{name} {pool.said_elsewhere:,} of {pool.n_candidates:,}" for name, pool in pools.items()
    ]
    told = "Titles that are a sentence of another document, too, which training may have read"
    return [f"{told}: {', '.join(said)}."] if said else []
