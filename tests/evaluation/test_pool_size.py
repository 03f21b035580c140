"""A pool too small to judge is refused; the number of documents that is asked for suffices."""

import re
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sentemb_core.config.run import ValidationConfig
from sentemb_core.corpus.table import Document, write_rows
from sentemb_core.corpus.validation_pool import query_splits, write_validation_pool
from sentemb_core.errors import NoQueriesError
from sentemb_core.evaluation.pool_size import (
    documents_enough,
    few_candidates,
    few_gate_queries,
    few_queries,
    pool_doubts,
    pool_enough,
    require_queries,
)


def drawn(folder: Path, count: int, config: ValidationConfig, *, titled: bool) -> Path:
    """The pool of a corpus of this many documents."""
    titles = [f"Title {k}" if titled else None for k in range(count)]
    rows = [Document(f"d{k}", ["One.", "Two."], title, k) for k, title in enumerate(titles)]
    write_rows(folder / "documents.parquet", rows)
    write_validation_pool(folder / "documents.parquet", config, folder)
    return folder


@pytest.mark.parametrize(("count", "titled"), [(5, False), (2, True)])
def test_pool_without_gate_queries_is_refused(tmp_path: Path, count: int, titled: bool):
    config = ValidationConfig()
    folder = drawn(tmp_path, count, config, titled=titled)
    enough = pool_enough(config, True) if titled else documents_enough(config, True)
    for fallback in ("", "the texts of column 'subject'"):
        with pytest.raises(NoQueriesError) as refused:
            require_queries(folder, config, gated=True, unlabelled=fallback)
        assert f" {enough} " in str(refused.value)
        assert enough == (4 if titled else 20)
        for value in ("none for gate", "pool of 2 ", "--set register_model=false"):
            assert value in str(refused.value)
        assert ("'subject'" in str(refused.value)) == (titled and bool(fallback))


def test_an_ungated_run_needs_no_gate_queries(tmp_path: Path):
    config = ValidationConfig()
    require_queries(drawn(tmp_path, 5, config, titled=False), config, gated=False)


@pytest.mark.parametrize(("count", "titled"), [(20, False), (4, True)])
def test_as_many_documents_as_asked_for_are_enough(tmp_path: Path, count: int, titled: bool):
    config = ValidationConfig()
    require_queries(drawn(tmp_path, count, config, titled=titled), config, gated=True)


@pytest.mark.parametrize(
    ("count", "values"), [(3, ("(1)", "100 %")), (100, ("(35)", "2.86 %")), (200, ())]
)
def test_fewer_than_fifty_test_queries_are_reported(
    tmp_path: Path, count: int, values: tuple[str, ...]
):
    text = few_queries(drawn(tmp_path, count, ValidationConfig(), titled=True))
    assert all(value in text for value in values)
    assert bool(text) == bool(values)


@pytest.mark.parametrize(("count", "queries"), [(3, 1), (70, 24), (100, None)])
def test_fewer_than_thirty_gate_queries_are_reported(
    tmp_path: Path, count: int, queries: int | None
):
    text = few_gate_queries(drawn(tmp_path, count, ValidationConfig(), titled=True))
    assert bool(text) is (queries is not None)
    assert queries is None or all(str(value) in text for value in (queries, 30))


@pytest.mark.parametrize(("titles", "warned"), [(2, True), (49, True), (50, False), (100, False)])
def test_a_pool_of_few_different_counterparts_is_reported(
    tmp_path: Path, titles: int, warned: bool
):
    rows = [Document(f"d{k}", ["One.", "Two."], f"T {k % titles}", k) for k in range(100)]
    write_rows(tmp_path / "documents.parquet", rows)
    write_validation_pool(tmp_path / "documents.parquet", ValidationConfig(), tmp_path)
    text = few_candidates(tmp_path)
    assert bool(text) is warned
    assert not text or ("100 " in text and f" {titles} " in text)
    assert text in ("", *pool_doubts(tmp_path))


def test_few_counterparts_of_many_documents_are_few_queries(tmp_path: Path):
    """The gate counts counterparts: 20 titles of 500 documents leave it about six."""
    rows = [Document(f"d{k}", ["One.", "Two."], f"T {k % 20}", k) for k in range(500)]
    write_rows(tmp_path / "documents.parquet", rows)
    write_validation_pool(tmp_path / "documents.parquet", ValidationConfig(), tmp_path)
    for text in (few_gate_queries(tmp_path), few_queries(tmp_path)):
        (count,) = [int(word) for word in re.findall(r"\d+", text)][:1]
        assert 1 <= count <= 20


def test_gate_share_of_0_is_refused_only_for_a_gated_run(tmp_path: Path):
    config = ValidationConfig(gate_share=0)
    folder = drawn(tmp_path, 40, config, titled=True)
    with pytest.raises(NoQueriesError, match=r"validation\.gate_share = 0\b"):
        require_queries(folder, config, gated=True)
    require_queries(folder, config, gated=False)


@settings(max_examples=40)
@given(st.floats(0.05, 0.45), st.floats(0.05, 0.45), st.integers(0, 99))
@example(0.45, 0.45, 0)  # the test split's share is the smallest
def test_a_pool_large_enough_fills_every_split(validation: float, gate: float, salt: int):
    config = ValidationConfig(validation_share=validation, gate_share=gate)
    ids = [f"{salt} {k}" for k in range(pool_enough(config, gated=True))]
    assert set(query_splits(ids, config)) == {"validation", "gate", "test"}
