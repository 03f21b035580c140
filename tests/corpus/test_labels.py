"""Labels are drawn by a hash, and never judged by."""

import random
from pathlib import Path
from typing import Any

import pytest

from sentemb_core.config.run import ValidationConfig
from sentemb_core.corpus.labels import LabelReport, write_labelled
from sentemb_core.corpus.table import Document, read_documents
from sentemb_core.corpus.validation_pool import (
    ValidationPool,
    is_label,
    unit_hash,
    write_validation_pool,
)
from sentemb_core.errors import EmptyPairsError
from tests.corpus.label_rows import SHARE, documents, labelled, pair, written


def drawn(folder: Path, rows: list[Document], count: int | None = None, **pool: Any):
    """The pool, the labels' documents, and the report."""
    corpus, judged, out = folder / "corpus", folder / "benchmark", folder / "labels"
    written(corpus, rows)
    judged.mkdir()
    out.mkdir()
    config = ValidationConfig(label_share=SHARE, **pool)
    write_validation_pool(corpus / "documents.parquet", config, judged)
    report = write_labelled(corpus, judged, SHARE, count, out)
    found = list(read_documents(out / "documents.parquet"))
    assert LabelReport.model_validate_json((out / "report.json").read_text()) == report
    return ValidationPool.open(judged), found, report


def test_a_label_is_its_document_with_the_counterpart_last(tmp_path: Path):
    _, found, report = drawn(tmp_path, documents())
    assert report.labels == len(found) > 50
    for document in found:
        number = document.doc_id[1:]
        assert document.sentences == [f"It rains. {number}", f"It snows. {number}",
                                      f"Title {number}"]  # fmt: skip
        assert document.counterpart is None


def test_no_label_is_judged_by(tmp_path: Path):
    benchmark, found, _ = drawn(tmp_path, documents())
    learnt = {document.doc_id for document in found}
    assert learnt.isdisjoint(benchmark.query_doc_id)
    assert len(learnt) + len(benchmark.query_doc_id) == 200


def test_a_label_whose_text_is_looked_for_is_left_out(tmp_path: Path):
    rows = documents()
    judging = [row for row in rows if not is_label(row.doc_id, SHARE)]
    learning = [row for row in rows if is_label(row.doc_id, SHARE)]
    leak = learning[0]._replace(counterpart=f"  {judging[0].counterpart.upper()}")
    _, found, report = drawn(tmp_path, [leak, *learning[1:], *judging])
    assert report.judged == 1
    assert leak.doc_id not in {document.doc_id for document in found}


def test_a_document_with_the_sentences_of_one_that_judges_is_no_label(tmp_path: Path):
    """A mirrored post under another id and nearly the same title would teach the answer."""
    rows = documents()
    twins = [
        Document(f"t{k}", row.sentences, f"{row.counterpart} - The Site", len(rows) + k)
        for k, row in enumerate(rows)
    ]
    benchmark, found, report = drawn(tmp_path, [*rows, *twins])
    bodies = {row.doc_id: tuple(row.sentences) for row in (*rows, *twins)}
    judging = {bodies[doc_id] for doc_id in benchmark.query_doc_id}
    learnt = {tuple(document.sentences[:2]) for document in found}
    assert learnt
    assert not learnt & judging
    assert report.judged > 0


def test_no_label_of_a_held_out_document_is_learnt(tmp_path: Path):
    """Labels alone have counterparts here, so that halves of documents judge."""
    rows = [
        row if is_label(row.doc_id, SHARE) else row._replace(counterpart=None)
        for row in documents()
    ]
    benchmark, found, report = drawn(tmp_path, rows)
    assert benchmark.kind == "halves"
    learnt = {document.doc_id for document in found}
    assert learnt.isdisjoint(benchmark.query_doc_id)
    assert report.judged == sum(is_label(one, SHARE) for one in benchmark.query_doc_id) > 0


def test_the_first_labels_by_hash_are_drawn_whatever_the_order(tmp_path: Path):
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


def test_more_labels_than_there_are_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    _, found, report = drawn(tmp_path, documents(), 5_000)
    assert report.labels == report.available == len(found)
    assert f"labels asked for: 5000; found: {report.labels}" in caplog.text


def test_one_label_is_too_few(tmp_path: Path):
    with pytest.raises(EmptyPairsError, match="two documents at least"):
        drawn(tmp_path, documents(), 1)


def test_labels_of_one_document_have_nothing_to_contrast_with(tmp_path: Path):
    row = next(row for row in documents() if is_label(row.doc_id, SHARE))
    out = labelled(tmp_path, [pair(row.source_row, text) for text in ("first", "second")])
    judged, learnt = tmp_path / "benchmark", tmp_path / "labels"
    judged.mkdir()
    learnt.mkdir()
    config = ValidationConfig(label_share=SHARE, halves=True)
    write_validation_pool(out / "documents.parquet", config, judged)
    with pytest.raises(EmptyPairsError, match="found those of 1; labels to train on: 2 of 2"):
        write_labelled(out, judged, SHARE, None, learnt)


def test_labels_that_all_say_the_same_have_nothing_to_contrast_with(tmp_path: Path):
    """Equal counterparts are no negatives of each other, letter case apart."""
    rows = [
        row._replace(counterpart="News" if k % 2 else "NEWS") for k, row in enumerate(documents())
    ]
    with pytest.raises(
        EmptyPairsError, match=r"two different counterparts at least.*labels say 'N"
    ):
        drawn(tmp_path, rows, None)
