"""Diagnoses of vectors with known values, of pairs, and of halves of documents."""

from pathlib import Path

import numpy as np
import pytest

from sentemb_core.config.run import ValidationConfig
from sentemb_core.corpus.table import Document, write_rows
from sentemb_core.corpus.validation_pool import ValidationPool, write_validation_pool
from sentemb_core.encoder.batching import embed_texts
from sentemb_core.errors import BadEmbeddingError, EmptyPairsError
from sentemb_core.evaluation import label_free
from sentemb_core.evaluation.label_free import (
    MEASURES,
    Diagnosis,
    agreement,
    diagnosis,
    drawn_documents,
    halves_diagnosis,
    pairs_diagnosis,
)
from sentemb_core.evaluation.sts import StsPairs
from tests import tiny


def test_cross_has_its_hand_values():
    """Four directions at right angles, in pairs of opposites: six pairs, four at 90, two at 180.

    Uniformity log((4 e^-4 + 2 e^-8) / 6); mean cosine -2 / 6; singular values alike, so rank 2.
    """
    cross = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]], np.float32)
    found = diagnosis(3 * cross, cross[:2], cross[[0, 2]])
    assert found.uniformity == pytest.approx(np.log((4 * np.exp(-4) + 2 * np.exp(-8)) / 6))
    assert found.mean_cosine == pytest.approx(-1 / 3)
    assert found.effective_rank == pytest.approx(2)
    assert found.alignment == pytest.approx((0 + 2) / 2)
    assert (found.hubness, found.duplicate_rate) == (0, 0)
    assert (found.texts, found.positives) == (4, 2)


def test_tables_have_every_measure():
    assert {*MEASURES, "texts", "positives", "held_out"} == set(Diagnosis.model_fields)


def test_zero_vectors_are_left_out():
    rows = np.array([[1, 0], [0, 1], [0, 0]], np.float32)
    found = diagnosis(rows, rows[[0, 2]], rows[[1, 1]])
    assert (found.texts, found.positives, found.alignment) == (2, 1, 2)
    with pytest.raises(BadEmbeddingError):
        diagnosis(rows[[2, 2]], rows[[2]], rows[[2]])


def test_pairs_with_score_4_are_positives():
    pairs = StsPairs(["w4", "w5", "w6"], ["w4", "w7", "w8"], np.array([5, 3.9, 4]), [""] * 3)
    encoder = tiny.static()
    found = pairs_diagnosis(encoder, pairs)
    distance = np.diff(embed_texts(encoder, ["w6", "w8"]), axis=0)
    assert (found.texts, found.positives) == (5, 2)
    assert found.alignment == pytest.approx(float((distance**2).sum()) / 2)
    with pytest.raises(EmptyPairsError, match=r"at least 4.* of 3\b"):
        pairs_diagnosis(encoder, StsPairs(pairs.first, pairs.second, np.ones(3), [""] * 3))


def write(folder: Path, documents: list[list[str]], title: str | None = None) -> Path:
    rows = [Document(f"d{k}", sentences, title, k) for k, sentences in enumerate(documents)]
    write_rows(folder / "documents.parquet", rows)
    return folder


def test_halves_of_a_document_are_positives(tmp_path: Path):
    encoder = tiny.static()
    found = halves_diagnosis(encoder, write(tmp_path, [["w4", "w5", "w6"], ["w7"], ["w8", "w8"]]))
    rows = embed_texts(encoder, ["w4", "w5", "w6"])
    first = rows[:2].mean(axis=0)
    distance = first / np.linalg.norm(first) - rows[2]
    assert (found.texts, found.positives) == (4, 2)  # w8 and w8 are one text, and one point
    assert found.alignment == pytest.approx(float((distance**2).sum()) / 2, rel=1e-5)


def test_documents_are_cut_and_sampled_by_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(label_free, "DOCUMENTS", 5)
    monkeypatch.setattr(label_free, "LONGEST", 3)
    documents = [[f"{row} {k}" for k in range(6)] for row in range(20)]
    whole, _ = drawn_documents(write(tmp_path, documents))
    assert [len(one) for one in whole] == [3] * 5
    (tmp_path / "more").mkdir()
    more, _ = drawn_documents(write(tmp_path / "more", [*documents, *[["a", "b"]] * 5]))
    assert len([one for one in more if one in whole]) >= 2  # most of the sample stays


@pytest.mark.parametrize(
    ("documents", "title", "drawn", "held_out"),
    [(30, None, 6, True), (29, None, 29, False), (30, "T", 6, False)],
)
def test_held_out_documents_are_used_if_enough(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    documents: int,
    title: str | None,
    drawn: int,
    held_out: bool,
):
    """A fifth is held out; with titles, nothing is."""
    monkeypatch.setattr(label_free, "ENOUGH", 6)
    texts = [[f"{row} a", f"{row} b"] for row in range(documents)]
    sample, kept = drawn_documents(write(tmp_path, texts, title))
    assert (len(sample), kept) == (drawn, held_out)
    if not held_out:
        return
    write_validation_pool(tmp_path / "documents.parquet", ValidationConfig(), tmp_path)
    rows = ValidationPool.open(tmp_path).held_out_documents
    assert sorted(sample) == sorted(texts[row] for row in rows)
    assert halves_diagnosis(tiny.static(), tmp_path).held_out


def test_documents_of_one_sentence_are_refused(tmp_path: Path):
    with pytest.raises(EmptyPairsError):
        halves_diagnosis(tiny.static(), write(tmp_path, [["w4"], ["w5"]]))


def test_agreement_is_a_rank_correlation():
    assert agreement([0.1, 0.5, 0.3], [10.0, 30.0, 20.0]) == pytest.approx(1)
    assert agreement([0.1, 0.5, 0.3], [3.0, 1.0, 2.0]) == pytest.approx(-1)
    assert agreement([1.0] * 3, [1.0, 2.0, 3.0]) == 0
