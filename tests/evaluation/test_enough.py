"""A benchmark that cannot judge is refused, and the number of documents it asks for suffices."""

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sentemb_core.config.run import ValidationConfig
from sentemb_core.corpus.table import Document, DocumentWriter
from sentemb_core.corpus.validation_pool import query_splits, write_validation_pool
from sentemb_core.errors import NoQueriesError
from sentemb_core.evaluation.enough import few_queries, pool_enough, require_queries


def drawn(folder: Path, count: int, config: ValidationConfig, *, titled: bool) -> Path:
    """The benchmark of so many documents."""
    with DocumentWriter(folder / "documents.parquet") as writer:
        for k in range(count):
            writer.write(Document(f"d{k}", ["One.", "Two."], f"Title {k}" if titled else None, k))
    write_validation_pool(folder / "documents.parquet", config, folder)
    return folder


def test_a_corpus_too_small_for_the_gate_is_refused_with_a_way_out(tmp_path: Path):
    config = ValidationConfig()
    folder = drawn(tmp_path, 5, config, titled=False)
    words = r"E502 .* none for gate in a pool of 2 .* 20 documents .*--set register_model=false\."
    with pytest.raises(NoQueriesError, match=words):
        require_queries(folder, config, gated=True)
    require_queries(folder, config, gated=False)


@pytest.mark.parametrize(("count", "titled"), [(20, False), (4, True)])
def test_as_many_documents_as_asked_for_are_enough(tmp_path: Path, count: int, titled: bool):
    config = ValidationConfig()
    require_queries(drawn(tmp_path, count, config, titled=titled), config, gated=True)


def test_two_titled_documents_are_told_how_many_titles_it_takes(tmp_path: Path):
    folder = drawn(tmp_path, 2, config := ValidationConfig(), titled=True)
    with pytest.raises(NoQueriesError, match=r"4 of the pool with a counterpart .* are enough"):
        require_queries(folder, config, gated=True)


def test_of_few_labels_the_way_out_is_the_column_in_whose_place_they_judge(tmp_path: Path):
    folder = drawn(tmp_path, 2, config := ValidationConfig(), titled=True)
    column = "the texts of column 'subject'"
    words = r"4 of the pool with a counterpart or label .* --labels out: the texts of .*'subject' j"
    with pytest.raises(NoQueriesError, match=words):
        require_queries(folder, config, gated=True, unlabelled=column)


@pytest.mark.parametrize(
    ("count", "told"), [(3, "few queries (1): one is 100 % of it"), (100, "(35): one is 2.86 % of")]
)
def test_few_queries_of_the_test_split_are_told(tmp_path: Path, count: int, told: str):
    assert told in few_queries(drawn(tmp_path, count, ValidationConfig(), titled=True))


def test_of_a_query_in_fifty_nothing_is_told(tmp_path: Path):
    assert not few_queries(drawn(tmp_path, 200, ValidationConfig(), titled=True))


def test_a_gate_share_of_nothing_is_named(tmp_path: Path):
    config = ValidationConfig(gate_share=0)
    folder = drawn(tmp_path, 40, config, titled=True)
    with pytest.raises(NoQueriesError, match=r"validation\.gate_share is 0"):
        require_queries(folder, config, gated=True)
    require_queries(folder, config, gated=False)


@settings(deadline=None, max_examples=40)
@given(st.floats(0.05, 0.45), st.floats(0.05, 0.45), st.integers(0, 99))
@example(0.45, 0.45, 0)  # the test split's share is the smallest
def test_a_pool_large_enough_fills_every_split(validation: float, gate: float, salt: int):
    config = ValidationConfig(validation_share=validation, gate_share=gate)
    ids = [f"{salt} {k}" for k in range(pool_enough(config, gated=True))]
    assert set(query_splits(ids, config)) == {"validation", "gate", "test"}
