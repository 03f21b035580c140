"""Documents with titles, and label files for them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sentemb_core.config.run import CorpusConfig, LabelsConfig
from sentemb_core.corpus.documents import CorpusReport
from sentemb_core.corpus.label_files import write_with_labels
from sentemb_core.corpus.table import Document, write_rows

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
