"""Notes below a table: its BM25, and how much evaluation text the training corpus has."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sentemb_core.corpus.validation_pool import PoolReport
    from sentemb_core.evaluation.contamination import Overlap

NAMED = 0.001
"""Share of a set's texts from which on the set is named."""

ONE_FIELD = "each text, or title that is searched for, as one field"
"""What BM25 reads of a pool of titles."""

OF_PAIRS = "a pair's score is the mean of both directions"
"""How BM25 scores pairs of sentences (`words.word_similarities`)."""


def bm25_note(systems: Iterable[str], fields: Iterable[str]) -> list[str]:
    """Return which BM25 was used, if it is among the systems: variants differ by points.

    Args:
        systems: Names in the table.
        fields: What BM25 reads: `ONE_FIELD`, `OF_PAIRS`.
    """
    from sentemb_core.retrieval.bm25 import ENGLISH, K3, LUCENE

    if "bm25" not in {name.lower() for name in systems}:
        return []
    words = "lowercased words without stemming (runs of letters and digits)"
    read = ", ".join([*fields, words, f"{len(ENGLISH)} English stop words removed"])
    return [f"BM25: k1 {LUCENE.k1:g}, b {LUCENE.b:g}, k3 {K3:g}; {read}."]


def contamination_notes(
    overlaps: "Mapping[str, Overlap]", unmeasured: Mapping[str, str] = MappingProxyType({})
) -> list[str]:
    """Return how much evaluation text also occurs in the training corpus.

    Args:
        overlaps: Set of evaluation texts -> its overlap with the training corpus.
        unmeasured: Training corpus -> the error that prevented the measurement.
    """
    notes = [
        f"Overlap of evaluation texts with {corpus} was not measured: {error.splitlines()[0]}"
        for corpus, error in unmeasured.items()
    ]
    texts = {name: one.exact for name, one in overlaps.items()}
    runs = {name: one.runs for name, one in overlaps.items() if one.runs is not None}
    notes += shares("Evaluation text in the training corpus, by runs of eight words", runs)
    return notes + shares("Evaluation texts in the training corpus as a whole", texts)


def shares(what: str, of: Mapping[str, float]) -> list[str]:
    """Return a sentence that names every share of `NAMED` and more; empty without shares."""
    named = [f"{name} {100 * share:.1f} %" for name, share in of.items() if share >= NAMED]
    rest = [f"{'all others' if named else 'all'} below {100 * NAMED:g} %"]
    listed = ", ".join(named + (rest if len(named) < len(of) else []))
    return [f"{what}: {listed}."] if of else []


def pool_notes(pools: "Mapping[str, PoolReport]") -> list[str]:
    """Return how many titles of each pool also occur as a sentence of another document."""
    counts = [
        f"{name} {pool.in_other_documents:,} of {pool.n_candidates:,}"
        for name, pool in pools.items()
    ]
    what = "Titles that also occur as a sentence of another document"
    return [f"{what}: {', '.join(counts)}."] if counts else []
