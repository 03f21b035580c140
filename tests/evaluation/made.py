"""Small validation pools, and test collections written as a BEIR folder."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from sentemb_core.config.suite import SUITE, RetrievalTask
from sentemb_core.corpus.validation_pool import ValidationPool
from sentemb_core.evaluation.collection_files import read_beir
from sentemb_core.evaluation.collections import Collection

Run = Mapping[str, Mapping[str, float]]


def beir_folder(
    folder: Path,
    documents: Mapping[str, str],
    queries: Mapping[str, str],
    judgements: Iterable[tuple[str, str, int]],
) -> Path:
    """corpus.jsonl, queries.jsonl and qrels/test.tsv."""
    (folder / "qrels").mkdir(parents=True)
    for name, texts in (("corpus", documents), ("queries", queries)):
        rows = [json.dumps({"_id": key, "text": text}) for key, text in texts.items()]
        (folder / f"{name}.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    lines = ["query-id\tcorpus-id\tscore", *("\t".join(map(str, row)) for row in judgements)]
    (folder / "qrels" / "test.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def judged_run(
    folder: Path, run: Run, judgements: Mapping[str, Mapping[str, int]], *, hide_own: bool = False
) -> Collection:
    """The collection of a run in which every query scores all documents."""
    documents = dict.fromkeys(next(iter(run.values())), "")
    rows = [(query, key, grade) for query, own in judgements.items() for key, grade in own.items()]
    made = beir_folder(folder, documents, dict.fromkeys(run, ""), rows)
    return read_beir(made, hide_own=hide_own)


def task_of(source: str) -> RetrievalTask:
    """The suite's task of these files."""
    found = (one for one in SUITE if isinstance(one, RetrievalTask) and one.source == source)
    return next(found)


def pool_of(candidate: list[int], splits: list[str]) -> ValidationPool:
    """One document a place; a candidate's first document is the first that has it."""
    n, m = len(candidate), max(candidate) + 1
    return ValidationPool(
        kind="counterpart",
        query_document=np.arange(n),
        query_split=np.array(splits),
        query_candidate=np.array(candidate),
        query_doc_id=[f"d{place:03d}" for place in range(n)],
        candidate_text=[f"title {k}" for k in range(m)],
        candidate_document=np.array([candidate.index(k) for k in range(m)]),
    )
