"""What of its judges' texts training read, as notes beneath a table."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sentemb_core.corpus.validation_pool import PoolReport
    from sentemb_core.evaluation.overlap import Overlap

SEEN = 0.001
"""Share of a judge's runs of words from which on it is named."""


def overlap_notes(
    overlaps: "Mapping[str, Overlap]", unmeasured: Mapping[str, str] = MappingProxyType({})
) -> list[str]:
    """How much of the judges' texts training read: sets with .1 % and more by their names.

    Args:
        overlaps: Set of texts -> what of it was read.
        unmeasured: Corpus that training read -> why it is not known for that one.
    """
    unknown = [
        f"What training read of the judges' texts in {corpus} is not known: {error.splitlines()[0]}"
        for corpus, error in unmeasured.items()
    ]
    if not overlaps:
        return unknown
    where = " elsewhere" if unknown else ""
    texts = {name: one.exact for name, one in overlaps.items()}
    runs = {name: one.runs for name, one in overlaps.items() if one.runs is not None}
    return [
        *unknown,
        *shares(f"Runs of eight words of the judges' texts that training read{where}", runs),
        *shares(f"Judges' texts that training read as a whole{where}", texts),
    ]


def shares(what: str, of: Mapping[str, float]) -> list[str]:
    """A sentence that names those of `SEEN` and more; none where there is nothing to name."""
    seen = [f"{name} {100 * share:.1f} %" for name, share in of.items() if share >= SEEN]
    rest = "all others below" if seen else "all below"
    told = [*seen, *([f"{rest} {100 * SEEN:g} %"] if len(seen) < len(of) else [])]
    return [f"{what}: {', '.join(told)}."] if of else []


def pool_notes(pools: "Mapping[str, PoolReport]") -> list[str]:
    """Of pools of titles, by their names; no document is trained on beside its own title."""
    said = [
        f"{name} {pool.in_other_documents:,} of {pool.n_candidates:,}"
        for name, pool in pools.items()
    ]
    told = "Titles that are a sentence of another document, too, which training may have read"
    return [f"{told}: {', '.join(said)}."] if said else []
