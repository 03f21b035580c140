"""What the readers of documents and labels counted and refused, for a run's report."""

import json
from collections.abc import Mapping
from heapq import nsmallest
from operator import itemgetter
from pathlib import Path

import pyarrow.parquet as pq

from sentemb_core.corpus.labels import REJECTED, LabelCounts
from sentemb_core.corpus.tokenise import TokenReport
from sentemb_core.corpus.validation_pool import COUNTED
from sentemb_core.report.data import QuarantineRow, Refusals

QUARANTINED = 20
"""Most refused rows that are shown."""


def corpus_counts(documents: Path, sentences: Path) -> dict[str, object]:
    """Counts of the reader of documents, and the rows that it and the reader of labels refused."""
    tokens = TokenReport.model_validate_json((sentences / "meta.json").read_text("utf-8"))
    read = json.loads((documents / "report.json").read_text("utf-8"))
    counts = {name.replace("_", " "): n for name, n in read.items() if isinstance(n, int)}
    return {
        "corpus": counts | {"read by the encoder": tokens.cut},
        "quarantine": refusals(
            read["rows_read"], read["quarantined"], documents / "quarantine.parquet"
        ),
        "labels": refused_labels(documents),
    }


def refused_labels(documents: Path) -> Refusals | None:
    """None where the counterparts are not from a file of labels."""
    if not (documents / COUNTED).exists():
        return None
    counts = LabelCounts.model_validate_json((documents / COUNTED).read_text("utf-8"))
    return refusals(counts.rows_read, counts.refused, documents / REJECTED)


def refusals(read: int, counts: Mapping[str, int], refused: Path) -> Refusals:
    """The first refused rows in the order of the source; a repeated id is noticed late."""
    with pq.ParquetFile(refused) as file:
        refused_rows = (row for batch in file.iter_batches() for row in batch.to_pylist())
        rows = nsmallest(QUARANTINED, refused_rows, key=itemgetter("row"))
    return Refusals(
        read=read,
        counts=dict(counts),
        rows=[QuarantineRow(**row) for row in rows],
        file=str(refused) if rows else "",
    )
