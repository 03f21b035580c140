"""Test collections out of files: BEIR folders, and the open sets in Parquet.

The Parquet sets are three TREC-style ones, product titles in the manner of eProduct
(product_thesis), and sentences that look for their paraphrase (infocse). One bad row refuses the
file: leaving it out would change the pool, and so every number.
"""

import json
import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from sentemb_core.config.suite import RetrievalTask
from sentemb_core.errors import BadDataError, NoQueriesError, UnreadableSourceError
from sentemb_core.evaluation.collections import Collection, Judgement, Text, judged_collection
from sentemb_core.evaluation.parquet import refuse_rows, require_texts, table_of

log = logging.getLogger(__name__)

LARGEST_GRADE = 2**31 - 1
"""A grade is a small whole number; a number beyond 32 bits is an id or a time in its column."""

SAME = 5.0
"""The gold score of two sentences with the same meaning."""


def read_collection(task: RetrievalTask, folder: Path) -> Collection:
    """Read the collection of a retrieval task of the suite, under the task's name.

    Raises:
        BadDataError: as the reader of the collection.
    """
    return replace(_read_files(task, folder), name=task.name)


def _read_files(task: RetrievalTask, folder: Path) -> Collection:
    files = [folder / file for file in task.files]
    match task.source:
        case "cranfield" | "cacm" | "npl":
            return read_trec_style(*files)
        case "wdc_clusters":
            return product_clusters(*files)
        case "amazon_google" | "abt_buy":
            return product_pairs(*files)
        case "stsb":
            return sts_retrieval(*files)
        case "scitldr_titles":
            return summarised_papers(*files, by="title")
        case "scitldr_summaries":
            return summarised_papers(*files, by="summary")
        case "beir":
            return read_beir(folder, files[-1].stem)


def read_beir(folder: Path, split: str = "test", *, hide_own: bool = True) -> Collection:
    """Read a folder in BEIR's format (Thakur et al. 2021). The main measure is nDCG@10.

    Args:
        folder: With corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv; its name is the task's name.
        split: Of the judgements.
        hide_own: Hide the document with the id of the query from it, which is BEIR's default.

    Raises:
        UnreadableSourceError, BadDataError: E103, E100, as `beir_texts` and `beir_judgements`.
        DuplicateIdError, UnknownLabelsError, NoQueriesError: as `judged_collection`.
        NoQueriesError: E502, every relevant document has the id of its query, and is hidden.
    """
    judgements = list(beir_judgements(folder, split))
    documents = list(beir_texts(folder, "corpus.jsonl"))
    queries = list(beir_texts(folder, "queries.jsonl"))
    own = {query.key: {query.key} for query in queries} if hide_own else {}
    collection = judged_collection(folder.name, "nDCG@10", documents, queries, judgements, own)
    _require_findable(collection)
    return collection


def beir_texts(folder: Path, name: str) -> Iterator[Text]:
    """Yield documents (`corpus.jsonl`) or queries (`queries.jsonl`): _id, text, optional title.

    Raises:
        UnreadableSourceError: E103, the file does not exist.
        BadDataError: E100, a bad row, with its line.
    """
    for where, line in _lines(folder, name):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise _bad_row(where, "a JSON object", line) from error
        if not isinstance(row, dict):
            raise _bad_row(where, "a JSON object", line)
        yield _text(where, row)


def beir_judgements(folder: Path, split: str) -> Iterator[Judgement]:
    """Yield the rows of qrels/SPLIT.tsv: query id, document id, grade.

    A first line that does not end in a number is a header.

    Raises:
        UnreadableSourceError: E103, the file does not exist.
        BadDataError: E100, a bad row, with its line.
    """
    for number, (where, line) in enumerate(_lines(folder, f"qrels/{split}.tsv")):
        cells = line.split("\t")
        if number == 0 and not _is_read_by(float, cells[-1]):
            continue
        if len(cells) != 3 or not _is_grade(cells[2]):
            expected = "query id, document id and a whole grade (of 32 bits) between tabs"
            raise _bad_row(where, expected, line)
        yield Judgement(cells[0], cells[1], int(cells[2]))


def read_trec_style(docs: Path, queries: Path, qrels: Path) -> Collection:
    """Read a TREC-style set out of three files. The main measure is nDCG@10.

    Documents and queries are numbered apart: equal ids mean nothing and hide nothing.

    Raises:
        UnreadableSourceError, MissingColumnError: E103, E104.
        BadDataError: E100, a query without a text, or a grade that is no whole number of 32 bits.
        DuplicateIdError, UnknownLabelsError, NoQueriesError: as `judged_collection`.
    """
    documents = _rows(docs, "doc_id", "text")
    stated = [row["sentences"] for row in documents if "sentences" in row]  # all rows, or none
    _require_lists(docs, "sentences", stated)
    asked = _rows(queries, "query_id", texts=("text",))
    judgements = _rows(qrels, "query_id", "doc_id", "rel")
    bad = [place for place, row in enumerate(judgements) if not _is_whole(row["rel"])]
    refuse_rows(qrels, "rel", "a whole number (of 32 bits)", bad)
    return judged_collection(
        docs.stem,
        "nDCG@10",
        [
            Text(row["doc_id"], row.get("title") or "", row["text"] or "", row.get("sentences"))
            for row in documents
        ],
        [Text(row["query_id"], "", row["text"]) for row in asked],
        [Judgement(row["query_id"], row["doc_id"], row["rel"]) for row in judgements],
        {},
    )


def product_clusters(path: Path) -> Collection:
    """Read product titles; each looks for the other titles of its cluster.

    In the manner of eProduct (product_thesis), whose data are private. The main measure is
    R_cap@10. Equal titles are one document, which cannot find itself; a title of two clusters
    looks for the titles of both.

    Raises:
        UnreadableSourceError, MissingColumnError: E103, E104.
        BadDataError: E100, a row without a title or a cluster.
        NoQueriesError: E502, as `judged_collection`.
    """
    rows = _rows(path, "cluster_id", texts=("title",))
    alone = [place for place, row in enumerate(rows) if row["cluster_id"] is None]
    refuse_rows(path, "cluster_id", "a cluster", alone)
    number = _numbered(row["title"] for row in rows)
    members: dict[object, set[str]] = defaultdict(set)
    for row in rows:
        members[row["cluster_id"]].add(number[row["title"]])
    judgements = [
        Judgement(query, answer, 1)
        for cluster in members.values()
        for query in cluster
        for answer in cluster - {query}
    ]
    titles = _texts(number)
    own = {title.key: {title.key} for title in titles}
    return judged_collection(path.stem, "R_cap@10", titles, titles, judgements, own)


def product_pairs(path: Path) -> Collection:
    """Read pairs of product titles; a left title looks for the right titles of its product.

    As `product_clusters`. All right titles, matched or not and of all splits, are the pool.

    Raises:
        UnreadableSourceError, MissingColumnError: E103, E104.
        BadDataError: E100, a row without a title.
        NoQueriesError: E502, as `judged_collection`.
    """
    rows = _rows(path, "label", texts=("title1", "title2"))
    left, right = _numbered(row["title1"] for row in rows), _numbered(row["title2"] for row in rows)
    matches = [row for row in rows if row["label"] == 1]
    judgements = [Judgement(left[row["title1"]], right[row["title2"]], 1) for row in matches]
    return judged_collection(path.stem, "R_cap@10", _texts(right), _texts(left), judgements, {})


def summarised_papers(path: Path, by: Literal["title", "summary"]) -> Collection:
    """Read SciTLDR (Cachola et al. 2020); titles or summaries look for the abstract of the paper.

    A paper's summary is the first of its TLDRs, which its authors wrote. Every query has one
    relevant document. The main measure is MRR@10.

    Raises:
        UnreadableSourceError, MissingColumnError: E103, E104.
        BadDataError: E100, a row without an id, a title, sentences or a summary.
        DuplicateIdError: E105, two papers have one id.
    """
    rows = _rows(path, texts=("doc_id", "title"))
    for name in ("sentences", "tldrs"):
        _require_lists(path, name, [row.get(name) or None for row in rows])
    return judged_collection(
        path.stem,
        "MRR@10",
        [Text(row["doc_id"], "", " ".join(row["sentences"]), row["sentences"]) for row in rows],
        [
            Text(row["doc_id"], "", row["title"] if by == "title" else row["tldrs"][0])
            for row in rows
        ],
        [Judgement(row["doc_id"], row["doc_id"], 1) for row in rows],
        {},
    )


def sts_retrieval(path: Path) -> Collection:
    """Read STS-B; sentences look for their paraphrase among all sentences (infocse, Table 11).

    The first sentence of each pair with the score 5.0 looks for the second: 97 queries of the test
    file, in a pool of the 2,758 sentences of all its pairs. Sentences recur (2,551 are distinct):
    a query finds neither itself nor a copy of itself, and of several copies of its answer only its
    own. 31 queries have such a copy, which would limit R@1 to 0.69 where the paper reports up to
    0.80. The main measure is R@5.

    Raises:
        UnreadableSourceError, MissingColumnError: E103, E104.
        BadDataError: E100, a row without a sentence.
        NoQueriesError: E502, no pair has the score 5.0.
    """
    rows = _rows(path, "score", texts=("sentence1", "sentence2"))
    documents = [
        Text(f"{number:05d}-{side}", "", row[f"sentence{side}"])
        for number, row in enumerate(rows)
        for side in (1, 2)
    ]
    copies: dict[str, set[str]] = defaultdict(set)
    for document in documents:
        copies[document.text].add(document.key)
    pairs = zip(documents[::2], documents[1::2], rows, strict=True)
    same = [(first, second) for first, second, row in pairs if row["score"] == SAME]
    hidden = {
        first.key: (copies[first.text] | copies[second.text]) - {second.key}
        for first, second in same
    }
    judgements = [Judgement(first.key, second.key, 1) for first, second in same]
    queries = [first for first, _ in same]
    return judged_collection("stsb_retrieval", "R@5", documents, queries, judgements, hidden)


def _require_lists(path: Path, name: str, cells: Sequence[object]) -> None:
    """Refuse a file with a cell that is no list of texts in this column (E100)."""
    bad = [place for place, cell in enumerate(cells) if not _are_texts(cell)]
    refuse_rows(path, name, "a list of texts", bad)


def _are_texts(cell: object) -> bool:
    return isinstance(cell, list) and all(isinstance(text, str) for text in cast("list[Any]", cell))


def _require_findable(collection: Collection) -> None:
    """Log how many relevant documents are hidden because they have the id of their query.

    Raises:
        NoQueriesError: E502, all have.
    """
    relevant = collection.relevant
    answers = np.split(relevant.item, relevant.offsets[1:-1])
    pairs = zip(relevant.query.tolist(), answers, strict=True)
    count = sum(int(np.isin(items, collection.hidden.get(k, ())).sum()) for k, items in pairs)
    if not count:
        return
    text = (
        f"{count:,} of {len(relevant.item):,} relevant documents of {collection.name} have the id "
        "of their query, and BEIR's default hides them from it. Where the two are different texts, "
        "give queries and documents different ids."
    )
    if count == len(relevant.item):
        raise NoQueriesError(f"A query must be able to find an answer; found that {text}")
    log.warning("%s", text)


def _rows(path: Path, *wanted: str, texts: Sequence[str] = ()) -> list[dict[str, Any]]:
    table = table_of(path, "This part of a collection", (*texts, *wanted))
    require_texts(table, path, texts)
    return table.to_pylist()


def _numbered(texts: Iterable[str]) -> dict[str, str]:
    """Return an id for each distinct text, by first appearance."""
    return {text: f"{number:06d}" for number, text in enumerate(dict.fromkeys(texts))}


def _texts(ids: Mapping[str, str]) -> list[Text]:
    return [Text(key, "", text) for text, key in ids.items()]


def _lines(folder: Path, name: str) -> Iterator[tuple[str, str]]:
    """Yield place and text of every line that is not blank."""
    path = folder / name
    if not path.is_file():
        splits = sorted(path.stem for path in folder.glob("qrels/*.tsv"))
        raise UnreadableSourceError(
            "A BEIR folder has corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv; found no "
            f"{path}. Splits in the folder: {', '.join(splits) or 'none'}. Add the file, or name "
            "another folder or split (--beir, --beir-split)."
        )
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            where = f"{path}, line {number}"
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise _bad_row(where, "UTF-8", repr(line)) from error
            if text.strip():
                yield where, text


def _text(where: str, row: dict[str, Any]) -> Text:
    key, title, text = row.get("_id"), row.get("title") or "", row.get("text")
    if isinstance(key, bool) or not isinstance(key, str | int) or key == "":
        raise _bad_row(where, "an _id that is text or a whole number", str(row))
    if not isinstance(title, str) or not isinstance(text, str):
        raise _bad_row(where, "a text, and a title that is text where there is one", str(row))
    try:
        f"{key}{title}{text}".encode()
    except UnicodeEncodeError as error:
        raise _bad_row(where, "text without lone surrogates", ascii(row)) from error
    return Text(str(key), title, text)


def _is_grade(cell: str) -> bool:
    return _is_read_by(int, cell) and _is_whole(int(cell))


def _is_whole(grade: object) -> bool:
    if not isinstance(grade, int | float):
        return False
    return abs(grade) <= LARGEST_GRADE and float(grade).is_integer()


def _is_read_by(number: type[int] | type[float], cell: str) -> bool:
    try:
        number(cell)
    except ValueError:
        return False
    return True


def _bad_row(where: str, expected: str, found: str) -> BadDataError:
    return BadDataError(
        f"A row needs {expected}; {where} has {found[:80]!r}. Repair the row, or fetch the file "
        "again."
    )
