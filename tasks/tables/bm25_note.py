"""Which BM25 stands in a table, and what it read of the texts, as a note below."""

from collections.abc import Iterable

from sentemb_core.config.suite import Group
from tasks.benchmark import Placed

ONE_FIELD = "each text, or title that is looked for, as one field"
"""What BM25 reads where titles look for texts; in a BEIR folder they are a part of them."""

OF_PAIRS = "a pair by the mean of its sentences asking the set for each other"
"""What it does on pairs of sentences: `words.word_similarities`."""

FIELDS: dict[Group, str] = {"retrieval": "title and text as one field", "sts": OF_PAIRS}
"""What it reads of the suite's tasks that it can do."""


def bm25_note(systems: Iterable[str], fields: Iterable[str]) -> list[str]:
    """Which BM25 it was and what it read, if it is among the systems: others differ by points."""
    from sentemb_core.retrieval.bm25 import ENGLISH, K3, LUCENE

    if "bm25" not in {name.lower() for name in systems}:
        return []
    words = "words lowercased and not stemmed (runs of letters and digits)"
    read = ", ".join([*fields, words, f"{len(ENGLISH)} English stop words left out"])
    return [f"BM25: k1 {LUCENE.k1:g}, b {LUCENE.b:g}, k3 {K3:g}; {read}."]


def fields_of(tasks: Iterable[Placed]) -> list[str]:
    """What BM25 read of those that were run."""
    groups = {one.task.group for one in tasks if not one.missing}
    return [told for group, told in FIELDS.items() if group in groups]
