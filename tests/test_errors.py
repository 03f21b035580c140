"""Bad input: the error's class, code and values, from the code that meets the input."""

import errno
import json
import logging
import os
import re
from pathlib import Path

import pytest
import torch

from flows.cli.settings import settings
from sentemb_core import errors
from sentemb_core.config.run import CorpusConfig, EncoderConfig, ValidationConfig
from sentemb_core.corpus.documents import write_documents
from sentemb_core.corpus.validation_pool import ValidationPool, write_validation_pool
from sentemb_core.encoder.batching import embed_texts
from sentemb_core.encoder.start import start_encoder
from sentemb_core.errors import SentembError
from sentemb_core.evaluation.bm25_scores import bm25_scorers
from sentemb_core.evaluation.validation_scores import rank_pool
from sentemb_core.store.disk import replacing, replacing_in, require_free
from tests import tiny
from tests.repository import ROOT


def read(folder: Path, *rows: object, **options: str) -> None:
    """Read these rows, one a line of JSON."""
    source = folder / "corpus.jsonl"
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    source.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    write_documents(CorpusConfig(source=str(source), id_column="id", **options), folder)


def no_usable_document(folder: Path) -> None:
    read(folder, {"id": 1, "sentences": []}, {"id": 2, "sentences": [7]}, "no JSON")


def one_sentence_each(folder: Path) -> None:
    read(folder, *({"id": k, "sentences": ["alone"]} for k in range(60)))


def wrong_column(folder: Path) -> None:
    read(folder, {"id": 1, "sentences": ["a", "b"]}, text_column="boddy")


def repeated_ids(folder: Path) -> None:
    rows = [{"id": k, "sentences": ["a", "b"]} for k in (1, 2, 3, 4)]
    read(folder, *rows, *rows, on_duplicate="error")


def vectors_that_are_not_finite(_: Path) -> None:
    encoder = tiny.static()
    with torch.no_grad():
        encoder.backbone.embedding.weight[7] = float("nan")
    embed_texts(encoder, ["w5 w6", "w7", "w8 w7"])


def batch_of_one_document(_: Path) -> None:
    settings(None, {"corpus.source": "documents.jsonl"}, ["training.batch_size=1"])


def encoder_that_is_not_here(_: Path) -> None:
    start_encoder(EncoderConfig(name="no/such-encoder"), None)


def split_without_queries(folder: Path) -> None:
    read(folder, *({"id": k, "sentences": ["a", "b"]} for k in range(20)))
    write_validation_pool(folder / "documents.parquet", ValidationConfig(gate_share=0), folder)
    rank_pool(ValidationPool.open(folder), bm25_scorers(["a b"], ["a b"]), "gate")


def disk_too_small(folder: Path) -> None:
    require_free(folder, 1 << 60, "The vectors of 9 sentences")


def folder_that_is_not_there(folder: Path) -> None:
    with replacing(folder / "nosuch" / "vectors.parquet") as draft:
        draft.write_bytes(b"")


TABLE = {
    no_usable_document: (
        errors.EmptyCorpusError,
        r"\(3 .*: 1 empty, 1 not text, 1 broken.*\) .*quarantine\.parquet",
        3,
    ),
    one_sentence_each: (errors.EmptyPairsError, "60 of 60 ", 3),
    wrong_column: (errors.MissingColumnError, r"'boddy': .*\['id', .*\?", 3),
    repeated_ids: (
        errors.DuplicateIdError,
        r"'1' in .*, line 1, byte 0 and in .*, line 5, .*'3' .*--on-duplicate keep-first",
        3,
    ),
    vectors_that_are_not_finite: (errors.BadEmbeddingError, r"2 of 3 .*\[1, 2\]", 3),
    batch_of_one_document: (
        errors.NoNegativesError,
        r"training\.batch_size: .*at least 2 .*found 1\b",
        2,
    ),
    encoder_that_is_not_here: (
        errors.MissingEncoderError,
        "no/such-encoder.*HF_HUB_OFFLINE is on",
        2,
    ),
    split_without_queries: (errors.NoQueriesError, "gate", 3),
    disk_too_small: (errors.StorageError, r"1,152,921,504\.6 GB.* GB are free at ", 5),
    folder_that_is_not_there: (errors.StorageError, r"vectors\.parquet", 5),
}


@pytest.mark.parametrize("trigger", TABLE, ids=lambda trigger: trigger.__name__)
def test_bad_input_raises_its_class_with_the_values_found(trigger, tmp_path: Path):
    kind, values, exit_code = TABLE[trigger]
    with pytest.raises(kind, match=f"(?s)^{kind.code} .*{values}") as caught:
        trigger(tmp_path)
    assert caught.value.exit_code == exit_code


def test_documents_without_a_counterpart_are_counted_and_have_no_query(tmp_path: Path, caplog):
    rows = [{"id": k, "sentences": ["a", "b"], "title": f"t{k}"} for k in range(12)]
    for row in rows[:3]:
        del row["title"]
    read(tmp_path, *reversed(rows), counterpart_column="title")
    with caplog.at_level(logging.WARNING):
        report = write_validation_pool(tmp_path / "documents.parquet", ValidationConfig(), tmp_path)
    assert "3 of 12" in caplog.text
    assert (report.n_candidates, sum(report.n_queries.values())) == (9, 9)


def fill_the_disk(file: Path) -> None:
    with replacing(file) as draft:
        draft.write_bytes(b"half of the n")
        raise OSError(28, "No space left on device")


def test_a_file_that_cannot_be_written_leaves_the_old_one_alone(tmp_path: Path):
    kept = tmp_path / "vectors.bin"
    kept.write_bytes(b"old")
    with pytest.raises(errors.StorageError, match=f"E601 .*{os.strerror(errno.ENOSPC)}"):
        fill_the_disk(kept)
    assert [file.name for file in tmp_path.iterdir()] == ["vectors.bin"]
    assert kept.read_bytes() == b"old"


def test_files_of_a_folder_are_replaced_together(tmp_path: Path):
    (tmp_path / "page.html").write_text("old")
    with replacing_in(tmp_path) as draft:
        (draft / "figures").mkdir()
        for name in ("page.html", "figures/loss.png"):
            (draft / name).write_text("new")
    found = {path.name: path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    assert found == {"page.html": "new", "loss.png": "new"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["figures", "page.html"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyError()])
def test_a_folder_that_cannot_be_written_keeps_its_old_files(tmp_path: Path, error: Exception):
    def fill(folder: Path) -> None:
        with replacing_in(folder) as draft:
            (draft / "page.html").write_text("half of the n")
            raise error

    (tmp_path / "page.html").write_text("old")
    with pytest.raises(errors.StorageError if isinstance(error, OSError) else KeyError):
        fill(tmp_path)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("page.html", "old")]


def test_every_error_has_a_code_of_its_own_and_a_known_exit_code():
    kinds = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, SentembError)
    ]
    codes = [kind.code for kind in kinds]
    assert len(set(codes)) == len(codes)
    assert {kind.exit_code for kind in kinds} == {1, 2, 3, 4, 5}
    assert all(str(kind("found nothing.")) == f"{kind.code} found nothing." for kind in kinds)


def test_docs_list_every_code_with_its_exit_code():
    page = (ROOT / "docs" / "errors.md").read_text("utf-8")
    listed = re.findall(r"^\| (E\d+) \| (\d) \|", page, re.MULTILINE)
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    known = [kind for kind in kinds if issubclass(kind, SentembError)]
    assert listed == [(kind.code, str(kind.exit_code)) for kind in known]
