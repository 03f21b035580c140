"""Whoever scores a model for minutes says in the log how far it is."""

import logging
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from sentemb_core.corpus.table import Document, DocumentWriter
from sentemb_core.evaluation.collection_vectors import collection_vectors
from sentemb_core.evaluation.collections import read_beir
from sentemb_core.evaluation.label_free import halves_diagnosis
from sentemb_core.progress import lines_of_progress
from tests import tiny
from tests.evaluation.made import beir_folder


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A clock that goes on by a minute whenever someone looks."""
    caplog.set_level(logging.INFO, "sentemb_core")
    minutes = count(0, 60)
    clock = SimpleNamespace(monotonic=lambda: float(next(minutes)))
    monkeypatch.setattr("sentemb_core.progress.time", clock)


def written(folder: Path) -> Path:
    texts = {f"d{k}": f"w{k + 4} w{k + 5}" for k in range(6)}
    return beir_folder(folder / "beir", texts, {"q0": "w4", "q1": "w6"}, [("q0", "d0", 1)])


@pytest.mark.usefixtures("slow")
def test_a_retrieval_task_is_told_text_by_text(tmp_path: Path, caplog):
    collection = read_beir(written(tmp_path))
    collection_vectors(tiny.static(), collection)
    all_of = len(collection.documents) + len(collection.queries)
    told = f"encode queries and documents of {collection.name}: {all_of} of {all_of} (100 %)"
    assert told in " ".join(caplog.messages)


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("form", ["sentence_mean", "unit_sentence_mean"])
def test_documents_read_by_sentences_are_told_too(tmp_path: Path, caplog, form):
    collection_vectors(tiny.static(), read_beir(written(tmp_path)), form)
    assert "encode queries of " in caplog.text
    assert "encode sentences of " in caplog.text


@pytest.mark.usefixtures("slow")
def test_a_diagnosis_is_told(tmp_path: Path, caplog):
    with DocumentWriter(tmp_path / "documents.parquet") as writer:
        for row in range(9):
            writer.write(Document(f"d{row}", [f"w{row + 4}", f"w{row + 5} w9"], None, row))
    halves_diagnosis(tiny.static(), tmp_path)
    assert "encode the sentences of halves: " in caplog.text


@pytest.mark.usefixtures("slow")
def test_what_is_left_to_wait_is_told_from_the_second_line_on(caplog):
    update = lines_of_progress("train", 110)
    for done in (50, 60, 70, 110):  # goes on after an interruption: 50 steps cost it nothing
        update(done)
    assert [line.partition("(")[2] for line in caplog.messages] == [
        "45 %)",
        "55 %, about 5 min 00 s left)",
        "64 %, about 4 min 00 s left)",
        "100 %)",
    ]
