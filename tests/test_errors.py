"""Bad input: the error's class, code and values, from the code that meets the input."""

import json
import logging
import re
from pathlib import Path

import pytest

from flows.cli.settings import settings
from sentemb_core import errors
from sentemb_core.config.run import CorpusConfig, ValidationConfig
from sentemb_core.corpus.documents import write_documents
from sentemb_core.corpus.validation_pool import ValidationPool, write_validation_pool
from sentemb_core.errors import SentembError
from sentemb_core.evaluation.bm25_scores import bm25_scorers
from sentemb_core.evaluation.validation_scores import rank_pool
from tests.repository import ROOT


def read(folder: Path, *rows: object, **options: str) -> None:
    """Read these rows, one a line of JSON."""
    source = folder / "corpus.jsonl"
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    source.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    write_documents(CorpusConfig(source=str(source), id_column="id", **options), folder)


def batch_of_one_document(_: Path) -> None:
    settings(None, {"corpus.source": "documents.jsonl"}, ["training.batch_size=1"])


def split_without_queries(folder: Path) -> None:
    read(folder, *({"id": k, "sentences": ["a", "b"]} for k in range(20)))
    write_validation_pool(folder / "documents.parquet", ValidationConfig(gate_share=0), folder)
    rank_pool(ValidationPool.open(folder), bm25_scorers(["a b"], ["a b"]), "gate")


TABLE = {
    batch_of_one_document: (
        errors.NoNegativesError,
        r"training\.batch_size: .*at least 2 .*found 1\b",
        2,
    ),
    split_without_queries: (errors.NoQueriesError, "gate", 3),
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
