"""The validation pool: splits depend on the id only, equal counterparts are one candidate."""

import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentemb_core.config.run import ValidationConfig
from sentemb_core.corpus.table import Document, write_rows
from sentemb_core.corpus.validation_pool import (
    ValidationPool,
    is_label,
    query_splits,
    write_validation_pool,
)
from sentemb_core.errors import EmptyPairsError


def documents(count: int, *, title: Any = "Title {}".format, sentences: int = 4) -> list[Document]:
    return [
        Document(f"d{k}", [f"Sentence {j} of {k}." for j in range(sentences)], title(k), k)
        for k in range(count)
    ]


def pool_of(folder: Path, rows: list[Document], **options: Any) -> ValidationPool:
    out = folder / f"pool-{len(list(folder.iterdir()))}"
    out.mkdir()
    write_rows(out / "documents.parquet", rows)
    write_validation_pool(out / "documents.parquet", ValidationConfig(**options), out)
    return ValidationPool.open(out)


def test_every_document_is_a_query_for_its_counterpart(tmp_path: Path) -> None:
    rows = [*documents(40), Document("none", ["A.", "B."], None, 40)]
    pool = pool_of(tmp_path, rows)
    assert (pool.kind, pool.n_candidates) == ("counterpart", 40)
    for place, row in enumerate(pool.query_document):
        assert pool.query_doc_id[place] == rows[row].doc_id
        assert pool.candidate_text[pool.query_candidate[place]] == rows[row].counterpart
    assert len(pool.held_out_documents) == 0


def test_equal_counterparts_are_one_candidate(tmp_path: Path) -> None:
    pool = pool_of(tmp_path, documents(40, title=lambda k: ["A  title", "a TITLE", "b"][k % 3]))
    assert pool.candidate_text == ["A  title", "b"]
    assert pool.candidate_document.tolist() == [0, 2]
    assert [int(pool.query_candidate[k]) for k in range(6)] == [0, 0, 1, 0, 0, 1]


def test_the_pool_is_bounded_and_drawn_by_hash(tmp_path: Path) -> None:
    rows = documents(200)
    pool = pool_of(tmp_path, rows, candidates=30)
    assert len(pool.query_document) == pool.n_candidates == 30
    assert (np.diff(pool.query_document) > 0).all()
    larger = pool_of(tmp_path, random.Random(1).sample(rows, 200), candidates=60)
    assert set(pool.query_doc_id) < set(larger.query_doc_id)
    splits = [
        dict(zip(each.query_doc_id, each.query_split.tolist(), strict=True))
        for each in (pool, larger)
    ]
    assert splits[0].items() <= splits[1].items(), "in any order of rows"
    for seed in range(3):
        again = pool_of(tmp_path, random.Random(seed).sample(rows, 200), candidates=60)
        found = dict(zip(again.query_doc_id, again.query_split.tolist(), strict=True))
        assert found == splits[1]


def test_copies_of_held_out_documents_are_held_out(tmp_path: Path) -> None:
    """Also copies with further sentences: they would show which halves belong together."""
    rows = [
        Document(f"d{k}", [f"It is {k % 100}.", f"It was {k % 100}."], None, k) for k in range(150)
    ]
    longer = [("Updated.", *row.sentences[::-1]) for row in rows[:100]]
    rows += [Document(f"e{k}", [*text], None, 150 + k) for k, text in enumerate(longer)]
    pool = pool_of(tmp_path, rows)
    held_out = pool.held_out_documents.tolist()
    assert len(pool.query_document) == 50 < len(held_out) == len({*held_out})
    trained_on = [{*row.sentences} for row in rows if row.source_row not in held_out]
    queries = [{*rows[k].sentences} for k in pool.query_document]
    assert not any(query <= text for query in queries for text in trained_on)


def test_splits_have_the_configured_shares(tmp_path: Path) -> None:
    pool = pool_of(tmp_path, documents(2_000), validation_share=0.5, gate_share=0.3)
    sizes = [len(pool.queries(split)) for split in ("validation", "gate", "test")]
    assert sum(sizes) == 2_000
    assert sizes == pytest.approx([1_000, 600, 400], abs=70)


def test_outside_labels_marks_queries_without_a_label(tmp_path: Path) -> None:
    pool = pool_of(tmp_path, documents(200))
    outside = pool.outside_labels(0.5)
    assert outside.tolist() == [not is_label(doc_id, 0.5) for doc_id in pool.query_doc_id]
    assert 0.3 < outside.mean() < 0.7
    assert pool.outside_labels(0.0).all()


def test_a_document_keeps_its_split_when_others_come() -> None:
    ids = [f"d{k}" for k in range(500)]
    before = query_splits(ids[:100], ValidationConfig())
    assert query_splits(ids, ValidationConfig())[:100] == before


def test_a_shared_counterpart_is_in_one_split_and_others_keep_theirs(tmp_path: Path) -> None:
    pool = pool_of(tmp_path, documents(300, title=lambda k: f"T{k % 40 if k < 200 else k}"))
    splits: dict[int, set[str]] = {}
    for candidate, split in zip(pool.query_candidate.tolist(), pool.query_split, strict=True):
        splits.setdefault(candidate, set()).add(split)
    assert {len(found) for found in splits.values()} == {1}
    alone = [doc_id for doc_id in pool.query_doc_id if int(doc_id.strip("d")) >= 200]
    by_id = query_splits(alone, ValidationConfig())
    found = dict(zip(pool.query_doc_id, pool.query_split, strict=True))
    assert [found[doc_id] for doc_id in alone] == by_id


@given(
    ids=st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=3, unique=True),
    gate_share=st.sampled_from([0.0, 0.3]),
)
def test_no_split_of_a_small_pool_is_empty(ids: list[str], gate_share: float) -> None:
    splits = query_splits(ids, ValidationConfig(gate_share=gate_share))
    assert set(splits) == {"validation", "test"} | ({"gate"} if gate_share else set())


@pytest.mark.parametrize(("size", "validating"), [(3, 1), (7, 2), (20, 6)])
def test_a_small_pool_is_cut_by_ranks(size: int, validating: int) -> None:
    """A gate share of .001 contains no hash of so few ids."""
    config = ValidationConfig(validation_share=0.3, gate_share=0.001)
    splits = query_splits([f"d{k}" for k in range(size)], config)
    assert splits.count("validation") == validating


@pytest.mark.parametrize("title", [lambda k: None, lambda k: "Only" if k > 3 else None])
def test_without_counterparts_first_halves_are_queries(tmp_path: Path, title: Any) -> None:
    rows = [*documents(50, title=title), *documents(30, title=title, sentences=1)]
    pool = pool_of(tmp_path, rows)
    assert (pool.kind, pool.n_candidates) == ("halves", 10)
    assert pool.candidate_text == [None] * 10
    assert (pool.query_document == pool.candidate_document).all()
    assert (pool.held_out_documents == pool.query_document).all()
    assert pool.query_document.max() < 50
    assert pool.query_candidate.tolist() == list(range(10))
    assert pool_of(tmp_path, documents(50), halves=True).kind == "halves"


@pytest.mark.parametrize("options", [{}, {"halves": True}])
@pytest.mark.parametrize("title", ["Title {}".format, lambda _: None])
def test_one_document_is_too_few(tmp_path: Path, title: Any, options: dict[str, Any]) -> None:
    rows = [*documents(1, title=title), *documents(9, title=lambda _: None, sentences=1)]
    found = 1 if rows[0].counterpart and not options else 0
    values = rf"E102 .* {found} \S+ counterparts? and 1 .*--counterpart-column"
    with pytest.raises(EmptyPairsError, match=values):
        pool_of(tmp_path, rows, **options)


def test_the_report_counts_candidates_queries_and_repetitions(tmp_path: Path) -> None:
    others = [Document(f"s{k}", ["Other.", f"TITLE {k}"], None, 400 + k) for k in range(3)]
    again = Document("again", ["title 0"], None, 403)
    write_rows(
        tmp_path / "documents.parquet",
        [*documents(400, title=lambda k: f"Title  {k // 2}"), *others, again],
    )
    report = write_validation_pool(tmp_path / "documents.parquet", ValidationConfig(), tmp_path)
    counts = report.n_queries
    assert (report.n_candidates, report.merged, sum(counts.values())) == (200, 200, 400)
    assert report.in_other_documents == 3
    assert re.findall(r"\d+", report.summary()) == [
        str(count) for count in (200, *counts.values(), 200, 3)
    ]
    assert pq.read_table(tmp_path / "queries.parquet").column_names == [
        "document", "doc_id", "split", "candidate",
    ]  # fmt: skip
