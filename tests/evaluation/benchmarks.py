"""Benchmarks of a few documents and counterparts, written down."""

import numpy as np

from sentemb_core.corpus.validation_pool import ValidationPool


def benchmark(candidate: list[int], splits: list[str]) -> ValidationPool:
    """One document a place; a candidate's first document is the first that has it."""
    n, m = len(candidate), max(candidate) + 1
    return ValidationPool(
        kind="counterpart",
        query_document=np.arange(n),
        query_split=np.array(splits),
        query_candidate=np.array(candidate),
        query_doc_id=[f"d{place:03d}" for place in range(n)],
        candidate_text=[f"title {k}" for k in range(m)],
        candidate_document=np.array([candidate.index(k) for k in range(m)]),
    )
