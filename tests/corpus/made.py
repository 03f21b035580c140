"""Small corpora in files, and a short way to read them."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from sentemb_core.config.run import CorpusConfig
from sentemb_core.corpus.documents import CorpusReport, write_documents
from sentemb_core.corpus.table import Document, read_documents


def jsonl(path: Path, rows: list[Any]) -> Path:
    """Write one row a line; bytes are written unchanged."""
    lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def as_json(path: Path, rows: list[Any]) -> Path:
    """Write one JSON array."""
    path.write_text(json.dumps(rows), encoding="utf-8")
    return path


def texts(count: int, sentences: int = 3) -> list[dict[str, str]]:
    """Return different rows of running text."""
    return [
        {
            "id": f"d{k}",
            "title": f"Title {k}",
            "text": " ".join(f"Sentence {j} of {k}." for j in range(sentences)),
        }
        for k in range(count)
    ]


def read(source: Path, **options: Any) -> tuple[CorpusReport, list[Document], Path]:
    """Read a source with the regex splitter; return report, documents and output folder."""
    out = source.parent / f"out-{len(list(source.parent.glob('out-*')))}"
    out.mkdir()
    config = CorpusConfig(source=str(source), **{"splitter": "regex", **options})
    report = write_documents(config, out)
    return report, list(read_documents(out / "documents.parquet")), out


def quarantined(out: Path) -> list[dict[str, Any]]:
    return pq.read_table(out / "quarantine.parquet").to_pylist()
