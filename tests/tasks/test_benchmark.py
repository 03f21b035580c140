"""What the stages of a benchmark hand on."""

import pytest

from sentemb_core.evaluation.contamination import Overlap
from tasks.artifact_files import save_json
from tasks.benchmark import largest_overlaps


@pytest.mark.usefixtures("home")
def test_largest_overlap_is_taken_over_corpora():
    """The corpus that has most of the one may have little of the other."""

    def overlap(exact: float, runs: float | None) -> Overlap:
        return Overlap(texts=100, exact=exact, runs=runs)

    read = [
        {"STS-B": overlap(0.0, 0.02), "SST2": overlap(0.1, None)},
        {"STS-B": overlap(0.5, 0.01), "SST2": overlap(0.3, None)},
    ]
    kept = [
        save_json("overlap", {name: one.model_dump() for name, one in of_corpus.items()})
        for of_corpus in read
    ]
    expected = {"STS-B": overlap(0.5, 0.02), "SST2": overlap(0.3, None)}
    assert largest_overlaps(kept) == largest_overlaps(kept[::-1]) == expected
