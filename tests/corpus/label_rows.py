"""Documents with titles, and label files for them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sentemb_core.config.run import CorpusConfig, LabelsConfig, ValidationConfig
from sentemb_core.corpus.documents import CorpusReport
from sentemb_core.corpus.labels import LabelReport, write_labelled, write_with_labels
from sentemb_core.corpus.table import Document, read_documents, write_rows
from sentemb_core.corpus.validation_pool import ValidationPool, write_validation_pool

SHARE = 0.5

WHOLE = CorpusConfig(source="nowhere")
"""A corpus without left-out documents: it is not read again."""


def documents(count: int = 200) -> list[Document]:
    body = ["It rains.", "It snows."]
    return [
        Document(f"d{k}", [*(f"{line} {k}" for line in body)], f"Title {k}", k)
        for k in range(count)
    ]


def written(folder: Path, rows: list[Document]) -> Path:
    folder.mkdir()
    write_rows(folder / "documents.parquet", rows)
    report = CorpusReport(documents=len(rows), quarantined={}, duplicate_document_ids=[])
    (folder / "report.json").write_text(report.model_dump_json(), encoding="utf-8")
    return folder


def labelled(
    folder: Path, rows: list[dict[str, Any]], corpus: Sequence[Document] | None = None
) -> Path:
    """Write a corpus (else 200 documents) with the counterparts of a label file."""
    bare = [row._replace(counterpart=None) for row in corpus or documents(200)]
    file = folder / "labels.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "out").mkdir()
    config = LabelsConfig(source=str(file))
    write_with_labels(written(folder / "corpus", bare), WHOLE, config, folder / "out")
    return folder / "out"


def pair(number: int, text: str) -> dict[str, Any]:
    return {"doc_id": f"d{number}", "counterpart": text}


def fine_tuned(
    folder: Path, corpus: Path, count: int | None = None, **options: Any
) -> tuple[ValidationPool, list[Document], LabelReport]:
    """Return the pool of a corpus, the documents of its drawn labels, and their report."""
    pool, out = folder / "pool", folder / "labels"
    pool.mkdir()
    out.mkdir()
    config = ValidationConfig(label_share=SHARE, **options)
    write_validation_pool(corpus / "documents.parquet", config, pool)
    report = write_labelled(corpus, pool, SHARE, count, out)
    assert LabelReport.model_validate_json((out / "report.json").read_text()) == report
    return ValidationPool.open(pool), list(read_documents(out / "documents.parquet")), report
