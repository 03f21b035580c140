"""A benchmark's documents and candidates as texts: what BM25 reads."""

from pathlib import Path

from sentemb_core.corpus.table import read_documents
from sentemb_core.corpus.validation_pool import ValidationPool


def benchmark_texts(documents: Path, benchmark: ValidationPool) -> tuple[list[str], list[str]]:
    """Texts of the queries' documents and of the candidates.

    Where halves look for each other, the first half of the sentences, the longer one of an odd
    number, is the query and the second the candidate.
    """
    wanted = {*benchmark.query_document.tolist(), *benchmark.candidate_document.tolist()}
    sentences = {
        row: document.sentences
        for row, document in enumerate(read_documents(documents / "documents.parquet"))
        if row in wanted
    }
    asking = [sentences[row] for row in benchmark.query_document.tolist()]
    if benchmark.kind == "counterpart":
        return list(map(joined, asking)), [text or "" for text in benchmark.candidate_text]
    sought = [sentences[row] for row in benchmark.candidate_document.tolist()]
    return (
        [joined(half[: (len(half) + 1) // 2]) for half in asking],
        [joined(half[(len(half) + 1) // 2 :]) for half in sought],
    )


def joined(sentences: list[str]) -> str:
    return " ".join(sentences)
