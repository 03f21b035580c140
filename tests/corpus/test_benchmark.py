"""The pool is fixed, the splits hang on the id alone, equal counterparts are one candidate."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sentemb_core.config.run import ValidationConfig
from sentemb_core.corpus.table import Document, DocumentWriter
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


def drawn(folder: Path, rows: list[Document], **options: Any) -> ValidationPool:
    out = folder / f"benchmark-{len(list(folder.iterdir()))}"
    out.mkdir()
    with DocumentWriter(out / "documents.parquet") as writer:
        for row in rows:
            writer.write(row)
    write_validation_pool(out / "documents.parquet", ValidationConfig(**options), out)
    return ValidationPool.open(out)


def test_every_document_looks_for_its_counterpart(tmp_path: Path) -> None:
    rows = [*documents(40), Document("none", ["A.", "B."], None, 40)]
    benchmark = drawn(tmp_path, rows)
    assert (benchmark.kind, benchmark.n_candidates) == ("counterpart", 40)
    for place, row in enumerate(benchmark.query_document):
        assert benchmark.query_doc_id[place] == rows[row].doc_id
        assert benchmark.candidate_text[benchmark.query_candidate[place]] == rows[row].counterpart
    assert len(benchmark.held_out_documents) == 0


def test_equal_counterparts_are_one_candidate(tmp_path: Path) -> None:
    benchmark = drawn(tmp_path, documents(40, title=lambda k: ["A  title", "a TITLE", "b"][k % 3]))
    assert benchmark.candidate_text == ["A  title", "b"]
    assert benchmark.candidate_document.tolist() == [0, 2]
    assert [int(benchmark.query_candidate[k]) for k in range(6)] == [0, 0, 1, 0, 0, 1]


def test_the_pool_is_bounded_and_drawn_by_hash(tmp_path: Path) -> None:
    rows = documents(200)
    benchmark = drawn(tmp_path, rows, candidates=30)
    assert len(benchmark.query_document) == benchmark.n_candidates == 30
    assert (np.diff(benchmark.query_document) > 0).all()
    larger = drawn(tmp_path, rows, candidates=60)
    assert set(benchmark.query_doc_id) < set(larger.query_doc_id)
    splits = [
        dict(zip(pool.query_doc_id, pool.query_split.tolist(), strict=True))
        for pool in (benchmark, larger)
    ]
    assert splits[0].items() <= splits[1].items()


def test_pool_and_splits_do_not_depend_on_the_order_of_rows(tmp_path: Path) -> None:
    rows = documents(200)
    found = []
    for seed in range(3):
        random.Random(seed).shuffle(rows)
        benchmark = drawn(tmp_path, rows, candidates=80)
        found.append(dict(zip(benchmark.query_doc_id, benchmark.query_split, strict=True)))
    assert found[0] == found[1] == found[2]


def test_what_repeats_a_held_out_document_is_held_out_too(tmp_path: Path) -> None:
    """Trained on, it would teach which halves belong together."""
    rows = [
        Document(f"d{k}", [f"It is {k % 100}.", f"It was {k % 100}."], None, k) for k in range(150)
    ]
    benchmark = drawn(tmp_path, rows)
    held_out = benchmark.held_out_documents.tolist()
    assert len(benchmark.query_document) == 30 < len(held_out) == len({*held_out})
    learnt = {tuple(row.sentences) for row in rows if row.source_row not in held_out}
    assert learnt.isdisjoint(tuple(rows[k].sentences) for k in held_out)


def test_a_copy_with_more_sentences_is_held_out_too(tmp_path: Path) -> None:
    once = [Document(f"d{k}", [f"It is {k}.", f"It was {k}."], None, k) for k in range(60)]
    more = [
        Document(f"e{k}", ["Updated.", *sentences[::-1], "Bye."], None, 60 + k)
        for k, (_, sentences, *_) in enumerate(once)
    ]
    held_out = drawn(tmp_path, [*once, *more]).held_out_documents.tolist()
    copied = [row for row in held_out if row < 60]
    assert copied
    assert {row + 60 for row in copied} <= {*held_out}


def test_the_splits_have_the_shares_asked_for(tmp_path: Path) -> None:
    benchmark = drawn(tmp_path, documents(2_000), validation_share=0.5, gate_share=0.3)
    sizes = [len(benchmark.queries(split)) for split in ("validation", "gate", "test")]
    assert sum(sizes) == 2_000
    assert sizes == pytest.approx([1_000, 600, 400], abs=70)


def test_queries_whose_counterpart_was_learnt_are_told_from_the_others(tmp_path: Path) -> None:
    benchmark = drawn(tmp_path, documents(200))
    told = benchmark.outside_labels(0.5)
    assert told.tolist() == [not is_label(doc_id, 0.5) for doc_id in benchmark.query_doc_id]
    assert 0.3 < told.mean() < 0.7
    assert benchmark.outside_labels(0.0).all()


def test_a_document_keeps_its_split_when_others_come() -> None:
    ids = [f"d{k}" for k in range(500)]
    before = query_splits(ids[:100], ValidationConfig())
    assert query_splits(ids, ValidationConfig())[:100] == before


@settings(max_examples=60, deadline=None)
@given(
    ids=st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=3, unique=True),
    gate_share=st.sampled_from([0.0, 0.3]),
)
def test_no_split_is_empty_however_small_the_pool(ids: list[str], gate_share: float) -> None:
    splits = query_splits(ids, ValidationConfig(gate_share=gate_share))
    assert set(splits) == {"validation", "test"} | ({"gate"} if gate_share else set())


@pytest.mark.parametrize(("size", "validating"), [(3, 1), (7, 2), (20, 6)])
def test_a_pool_that_its_hashes_do_not_fill_is_cut_at_the_nearest_document(
    size: int, validating: int
) -> None:
    """No hash of so few lies between shares a thousandth apart."""
    config = ValidationConfig(validation_share=0.3, gate_share=0.001)
    splits = query_splits([f"d{k}" for k in range(size)], config)
    assert splits.count("validation") == validating


@pytest.mark.parametrize("title", [lambda k: None, lambda k: "Only" if k > 3 else None])
def test_without_counterparts_halves_look_for_each_other(tmp_path: Path, title: Any) -> None:
    rows = [*documents(50, title=title), *documents(30, title=title, sentences=1)]
    benchmark = drawn(tmp_path, rows)
    assert (benchmark.kind, benchmark.n_candidates) == ("halves", 10)
    assert benchmark.candidate_text == [None] * 10
    assert (benchmark.query_document == benchmark.candidate_document).all()
    assert (benchmark.held_out_documents == benchmark.query_document).all()
    assert benchmark.query_document.max() < 50
    assert benchmark.query_candidate.tolist() == list(range(10))


def test_halves_can_be_asked_for(tmp_path: Path) -> None:
    assert drawn(tmp_path, documents(50), halves=True).kind == "halves"


def test_halves_need_two_documents_of_two_sentences(tmp_path: Path) -> None:
    rows = [*documents(1, title=lambda _: None), *documents(9, title=lambda _: None, sentences=1)]
    with pytest.raises(
        EmptyPairsError, match=r"E102 .*found 1, and no counterpart\. .*--counterpart-c"
    ):
        drawn(tmp_path, rows)


def test_who_has_a_counterpart_is_not_told_to_name_their_column(tmp_path: Path) -> None:
    with pytest.raises(EmptyPairsError, match=r"found 1, and 1 counterpart .*\. Give more doc"):
        drawn(tmp_path, documents(1))
    with pytest.raises(EmptyPairsError, match=r"found 1\. Give more documents"):
        drawn(tmp_path, documents(1), halves=True)


def test_candidates_that_other_documents_say_are_counted(tmp_path: Path) -> None:
    said = [Document(f"s{k}", ["Other.", f"TITLE {k}"], None, 40 + k) for k in range(3)]
    again = Document("again", ["title 0"], None, 43)
    with DocumentWriter(tmp_path / "documents.parquet") as writer:
        for row in [*documents(40, title=lambda k: f"Title  {k}"), *said, again]:
            writer.write(row)
    report = write_validation_pool(tmp_path / "documents.parquet", ValidationConfig(), tmp_path)
    assert report.in_other_documents == 3
    assert report.summary().endswith("; sentences of other documents among them: 3")


def test_the_report_says_the_pool(tmp_path: Path) -> None:
    with DocumentWriter(tmp_path / "documents.parquet") as writer:
        for row in documents(400, title=lambda k: f"Title {k // 2}"):
            writer.write(row)
    report = write_validation_pool(tmp_path / "documents.parquet", ValidationConfig(), tmp_path)
    counts = report.n_queries
    assert (report.n_candidates, report.merged, sum(counts.values())) == (200, 200, 400)
    assert report.summary() == (
        f"pool of 200 candidates; {counts['validation']} validation / {counts['gate']} gate / "
        f"{counts['test']} test documents; 200 merged"
    )
    assert pq.read_table(tmp_path / "queries.parquet").column_names == [
        "document", "doc_id", "split", "candidate",
    ]  # fmt: skip
