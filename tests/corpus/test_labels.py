"""Labels are drawn by a hash and share nothing with the validation pool."""

import random
from pathlib import Path
from typing import Any

import pytest

from sentemb_core.corpus.table import Document
from sentemb_core.corpus.validation_pool import (
    is_label,
    unit_hash,
)
from sentemb_core.errors import EmptyPairsError
from tests.corpus.label_rows import SHARE, documents, fine_tuned, labelled, pair, written


def drawn(folder: Path, rows: list[Document], count: int | None = None, **options: Any):
    return fine_tuned(folder, written(folder / "corpus", rows), count, **options)


def test_a_label_is_its_document_with_the_counterpart_last(tmp_path: Path):
    _, trained_on, report = drawn(tmp_path, documents())
    assert report.labels == len(trained_on) > 50
    for document in trained_on:
        number = document.doc_id[1:]
        assert document.sentences == [f"It rains. {number}", f"It snows. {number}",
                                      f"Title {number}"]  # fmt: skip
        assert document.counterpart is None


def test_no_labelled_document_is_a_query(tmp_path: Path):
    pool, trained_on, _ = drawn(tmp_path, documents())
    learnt = {document.doc_id for document in trained_on}
    assert learnt.isdisjoint(pool.query_doc_id)
    assert len(learnt) + len(pool.query_doc_id) == 200


def test_a_label_with_the_text_of_a_candidate_is_left_out(tmp_path: Path):
    rows = documents()
    judging = [row for row in rows if not is_label(row.doc_id, SHARE)]
    learning = [row for row in rows if is_label(row.doc_id, SHARE)]
    leak = learning[0]._replace(counterpart=f"  {judging[0].counterpart.upper()}")
    _, trained_on, report = drawn(tmp_path, [leak, *learning[1:], *judging])
    assert report.judged == 1
    assert leak.doc_id not in {document.doc_id for document in trained_on}


def test_a_copy_of_a_query_is_no_label(tmp_path: Path):
    """A mirrored post under another id and nearly the same title would teach the answer."""
    rows = documents()
    twins = [
        Document(f"t{k}", row.sentences, f"{row.counterpart} - The Site", len(rows) + k)
        for k, row in enumerate(rows)
    ]
    pool, trained_on, report = drawn(tmp_path, [*rows, *twins])
    bodies = {row.doc_id: tuple(row.sentences) for row in (*rows, *twins)}
    judging = {bodies[doc_id] for doc_id in pool.query_doc_id}
    learnt = {tuple(document.sentences[:2]) for document in trained_on}
    assert learnt
    assert not learnt & judging
    assert report.judged > 0


def test_no_held_out_document_is_a_label(tmp_path: Path):
    """Only labels have counterparts here, so the pool consists of halves."""
    rows = [
        row if is_label(row.doc_id, SHARE) else row._replace(counterpart=None)
        for row in documents()
    ]
    pool, trained_on, report = drawn(tmp_path, rows)
    assert pool.kind == "halves"
    learnt = {document.doc_id for document in trained_on}
    assert learnt.isdisjoint(pool.query_doc_id)
    assert report.judged == sum(is_label(doc_id, SHARE) for doc_id in pool.query_doc_id) > 0


def test_the_first_labels_by_hash_are_drawn_in_any_order(tmp_path: Path):
    rows = documents()
    shuffled = random.Random(3).sample(rows, len(rows))
    ids = [
        {document.doc_id for document in drawn(tmp_path / name, some, count)[1]}
        for name, some, count in (("a", rows, 10), ("b", shuffled, 10), ("c", rows, 40))
        if (tmp_path / name).mkdir() is None
    ]
    teaching = [row.doc_id for row in rows if is_label(row.doc_id, SHARE)]
    by_hash = sorted(teaching, key=lambda doc_id: unit_hash("label", doc_id))
    assert ids == [{*by_hash[:10]}, {*by_hash[:10]}, {*by_hash[:40]}]


def test_more_labels_than_available_gives_all(tmp_path: Path, caplog):
    _, trained_on, report = drawn(tmp_path, documents(), 5_000)
    assert report.labels == report.available == len(trained_on)
    assert (5_000, report.labels) in [record.args for record in caplog.records]


def test_one_label_is_too_few(tmp_path: Path):
    with pytest.raises(EmptyPairsError, match=r"of 1; .* 1 of \d\d.*labels\.count"):
        drawn(tmp_path, documents(), 1)


def test_labels_of_one_document_are_too_few(tmp_path: Path):
    row = next(row for row in documents() if is_label(row.doc_id, SHARE))
    out = labelled(tmp_path, [pair(row.source_row, text) for text in ("first", "second")])
    with pytest.raises(EmptyPairsError, match=r"of 1; .* 2 of 2; .*validation\.label_share"):
        fine_tuned(tmp_path, out, halves=True)


def test_labels_with_one_text_are_too_few(tmp_path: Path):
    """Counterparts that differ in letter case are no negatives of each other."""
    rows = [
        row._replace(counterpart="News" if k % 2 else "NEWS") for k, row in enumerate(documents())
    ]
    with pytest.raises(EmptyPairsError, match=r"\d\d labels .*'(News|NEWS)'\."):
        drawn(tmp_path, rows, None)
