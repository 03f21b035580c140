"""Long encodings log their progress."""

import logging
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from sentemb_core.corpus.table import Document, write_rows
from sentemb_core.evaluation.collection_files import read_beir
from sentemb_core.evaluation.collection_vectors import collection_vectors
from sentemb_core.evaluation.label_free import halves_diagnosis
from sentemb_core.progress import log_progress
from tests import tiny
from tests.evaluation.made import beir_folder


@pytest.fixture(autouse=True)
def _slow_clock(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A clock that advances by a minute at each reading."""
    caplog.set_level(logging.INFO, "sentemb_core")
    minutes = count(0, 60)
    clock = SimpleNamespace(monotonic=lambda: float(next(minutes)))
    monkeypatch.setattr("sentemb_core.progress.time", clock)


def encode_collection(folder: Path, form: str = "text") -> None:
    texts = {f"d{k}": f"w{k + 4} w{k + 5}" for k in range(6)}
    judgements = [("q0", "d0", 1)]
    beir = read_beir(beir_folder(folder / "beir", texts, {"q0": "w4", "q1": "w6"}, judgements))
    collection_vectors(tiny.static(), beir, form)


def encode_sentences(folder: Path) -> None:
    encode_collection(folder, "sentence_mean")


def encode_unit_sentences(folder: Path) -> None:
    encode_collection(folder, "unit_sentence_mean")


def encode_halves(folder: Path) -> None:
    write_rows(
        folder / "documents.parquet",
        (Document(f"d{row}", [f"w{row + 4}", f"w{row + 5} w9"], None, row) for row in range(9)),
    )
    halves_diagnosis(tiny.static(), folder)


@pytest.mark.parametrize(
    ("encode", "totals"),
    [
        (encode_collection, [7]),
        (encode_sentences, [1, 6]),
        (encode_unit_sentences, [1, 6]),
        (encode_halves, [18]),
    ],
)
def test_progress_is_logged(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    encode: Callable[[Path], None],
    totals: list[int],
):
    encode(tmp_path)
    lines = [record.args[:3] for record in caplog.records if record.name == "sentemb_core"]
    done = [count for _, count, share in lines if share == 100]
    assert done == [f"{total} of {total}" for total in totals]
    assert len({line[0] for line in lines}) == len(totals)


def test_remaining_time_ignores_steps_before_an_interruption(caplog: pytest.LogCaptureFixture):
    update = log_progress("train", 110)
    for done in (50, 60, 70, 110):  # resumed at step 50
        update(done)
    assert ["min" in line for line in caplog.messages] == [False, True, True, False]
    for value, line in zip(("45 %", "55 %", "64 %", "100 %"), caplog.messages, strict=True):
        assert value in line
    assert "5 min 00 s" in caplog.messages[1]
    assert "4 min 00 s" in caplog.messages[2]
