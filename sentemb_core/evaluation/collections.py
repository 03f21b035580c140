"""Test collections: documents, queries, and which documents answer which query.

From a BEIR folder, or from the open sets in Parquet files: three TREC-style ones, product titles
in the manner of eProduct (product_thesis), and sentences that look for their paraphrase (infocse).
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Int64
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from sentemb_core.errors import NoQueriesError
from sentemb_core.evaluation.beir import Text, beir_judgements, beir_texts
from sentemb_core.evaluation.judgements import LARGEST_GRADE, Judgement, judged
from sentemb_core.evaluation.parquet import refuse_rows, require_texts, table_of
from sentemb_core.evaluation.ranking import ABSENT, Relevant

log = logging.getLogger(__name__)

Measure = Literal[
    "nDCG@10", "MAP@10", "MAP@100", "MRR@10", "P@10",
    "R@1", "R@5", "R@10", "R@20", "R@100", "R_cap@10",
]  # fmt: skip

Hidden = Mapping[int, Int64[np.ndarray, " documents"]]

SAME = 5.0
"""The gold score of two sentences that mean the same."""


@dataclass(frozen=True)
class Collection:
    """A retrieval task.

    Attributes:
        name: As in tables.
        main: The measure that stands for the task.
        document_ids: Equal scores are ordered by them, as trec_eval does.
        titles: Of the documents, empty where they have none.
        texts: Of the documents.
        query_ids: Of the queries that somebody judged.
        queries: Their texts.
        relevant: The documents that each query should find, with grades; it leaves out queries to
            which none is relevant.
        hidden: Documents, by the place of a query, that it cannot find: itself, above all.
    """

    name: str
    main: Measure
    document_ids: list[str]
    titles: list[str]
    texts: list[str]
    query_ids: list[str]
    queries: list[str]
    relevant: Relevant
    hidden: Hidden

    @cached_property
    def tied(self) -> Int64[np.ndarray, " queries"]:
        """Queries of one number answer each other, and a bootstrap draws them as one.

        Titles of one product do: what one of them finds tells what the others find. A query is the
        document that it cannot find where they say the same; ids alone may meet by chance.
        """
        asking = np.full(len(self.document_ids), -1)
        for query, own in self.hidden.items():
            same = [place for place in own if self.texts[place] == self.queries[query]]
            asking[same] = query
        one = np.repeat(self.relevant.query, np.diff(self.relevant.offsets))
        other = np.where(self.relevant.item == ABSENT, -1, asking[self.relevant.item])
        one, other = one[other >= 0], other[other >= 0]
        shape = (len(self.query_ids),) * 2
        found = connected_components(coo_array((np.ones(len(one)), (one, other)), shape))[1]
        return found.astype(np.int64)

    @cached_property
    def place_by_id(self) -> Int64[np.ndarray, " documents"]:
        """Of each document among all ids in ascending order."""
        order = sorted(range(len(self.document_ids)), key=self.document_ids.__getitem__)
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        return place

    @property
    def documents(self) -> list[str]:
        """Title and text of each document in one, as BEIR's models read them."""
        pairs = zip(self.titles, self.texts, strict=True)
        return [f"{title} {text}".strip() for title, text in pairs]


def read_beir(folder: Path, split: str = "test", *, hide_own: bool = True) -> Collection:
    """Any folder in BEIR's format; grades may be more than 1. The main measure is nDCG@10.

    Args:
        folder: With corpus.jsonl, queries.jsonl and qrels/; tables call it by its name.
        split: Of the judgements.
        hide_own: A document with the id of the query is no hit, which is BEIR's default.

    Raises:
        UnreadableSourceError, BadDataError: E103, E100, as `beir_texts` and `beir_judgements`.
        DuplicateIdError, UnknownLabelsError, NoQueriesError: E105, E501, E502, as `judged`.
        NoQueriesError: E502, every relevant document has the id of its query, and is hidden.
    """
    judgements = list(beir_judgements(folder, split))
    documents = list(beir_texts(folder, "corpus.jsonl"))
    queries = list(beir_texts(folder, "queries.jsonl"))
    own = {query.key: {query.key} for query in queries} if hide_own else {}
    collection = _collection(folder.name, "nDCG@10", documents, queries, judgements, own)
    _tell_hidden(collection)
    return collection


def read_trec_style(docs: Path, queries: Path, qrels: Path) -> Collection:
    """A TREC-style set out of three files. The main measure is nDCG@10.

    Documents and queries are numbered apart: equal ids mean nothing and hide nothing.

    Raises:
        UnreadableSourceError, MissingColumnError: E103, E104.
        BadDataError: E100, a query without a text, or a grade that is no whole number of 32 bits.
        DuplicateIdError, UnknownLabelsError, NoQueriesError: E105, E501, E502, as `judged`.
    """
    documents = _rows(docs, "doc_id", "text")
    asked = _rows(queries, "query_id", texts=("text",))
    return _collection(
        docs.stem,
        "nDCG@10",
        [Text(row["doc_id"], row.get("title") or "", row["text"] or "") for row in documents],
        [Text(row["query_id"], "", row["text"]) for row in asked],
        [Judgement(row["query_id"], row["doc_id"], row["rel"]) for row in _qrels(qrels)],
        {},
    )


def _qrels(path: Path) -> list[dict[str, Any]]:
    rows = _rows(path, "query_id", "doc_id", "rel")
    bad = [place for place, row in enumerate(rows) if not _is_whole(row["rel"])]
    refuse_rows(path, "rel", "a whole number (of 32 bits)", bad)
    return rows


def _is_whole(grade: object) -> bool:
    if not isinstance(grade, int | float):
        return False
    return float(grade).is_integer() and abs(grade) <= LARGEST_GRADE


def product_clusters(path: Path) -> Collection:
    """Titles look for those of the same product: every one for the others of its cluster.

    Like eProduct (product_thesis), whose data are private; the main measure is R_cap@10.
    Equal titles are one document, which cannot find itself; one that stands in two clusters asks
    for those of both.

    Raises:
        UnreadableSourceError, MissingColumnError: E103, E104.
        BadDataError: E100, a row without a title or a cluster.
        NoQueriesError: E502, as `judged`.
    """
    rows = _rows(path, "cluster_id", texts=("title",))
    alone = [place for place, row in enumerate(rows) if row["cluster_id"] is None]
    refuse_rows(path, "cluster_id", "a cluster", alone)
    number = _numbered(row["title"] for row in rows)
    members: dict[object, set[str]] = defaultdict(set)
    for row in rows:
        members[row["cluster_id"]].add(number[row["title"]])
    judgements = [
        Judgement(asking, found, 1)
        for cluster in members.values()
        for asking in cluster
        for found in cluster - {asking}
    ]
    titles = _texts(number)
    own = {title.key: {title.key} for title in titles}
    return _collection(path.stem, "R_cap@10", titles, titles, judgements, own)


def product_pairs(path: Path) -> Collection:
    """The left titles of pairs look for the right ones of the same product, as `product_clusters`.

    The right titles, matched or not, are the pool, of all splits.

    Raises:
        UnreadableSourceError, MissingColumnError: E103, E104.
        BadDataError: E100, a row without a title.
        NoQueriesError: E502, as `judged`.
    """
    rows = _rows(path, "label", texts=("title1", "title2"))
    left, right = _numbered(row["title1"] for row in rows), _numbered(row["title2"] for row in rows)
    matches = [row for row in rows if row["label"] == 1]
    judgements = [Judgement(left[row["title1"]], right[row["title2"]], 1) for row in matches]
    return _collection(path.stem, "R_cap@10", _texts(right), _texts(left), judgements, {})


def sts_retrieval(path: Path) -> Collection:
    """Sentences look for their paraphrase among all sentences of STS-B (infocse, Table 11).

    The first sentence of each pair with the score 5.0 asks for the second: 97 queries of the test
    file, in a pool of the 2,758 sentences of all its pairs. Sentences recur (2,551 of them
    differ): a query finds neither itself nor a copy of itself, and of several copies of what it
    looks for only its own. 31 queries have such a copy, which would keep R@1 below 0.69 where the
    paper reports up to 0.80. The main measure is R@5.

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
    return _collection("stsb_retrieval", "R@5", documents, queries, judgements, hidden)


def _collection(
    name: str,
    main: Measure,
    documents: Sequence[Text],
    queries: Sequence[Text],
    judgements: Iterable[Judgement],
    hidden: Mapping[str, set[str]],
) -> Collection:
    """The queries that are judged; `hidden` documents by query, which need not be there."""
    document_ids = [document.key for document in documents]
    found = judged(name, [query.key for query in queries], document_ids, judgements)
    asking = [queries[place] for place in found.asking.tolist()]
    place = {key: k for k, key in enumerate(document_ids)}
    places = [[place[key] for key in hidden.get(query.key, ()) if key in place] for query in asking]
    if empty := sum(not query.text.strip() for query in asking):
        log.warning(
            "%s: %d of %d queries have no word, and find by chance", name, empty, len(asking)
        )
    log.info(
        "%s: %d documents, %d queries, of which %d have no relevant document and count 0; %d more "
        "that nobody judged are left out",
        *(name, len(documents), len(asking), len(asking) - len(found.relevant.query)),
        len(queries) - len(asking),
    )
    return Collection(
        name=name,
        main=main,
        document_ids=document_ids,
        titles=[document.title for document in documents],
        texts=[document.text for document in documents],
        query_ids=[query.key for query in asking],
        queries=[query.text for query in asking],
        relevant=found.relevant,
        hidden={k: np.array(some, np.int64) for k, some in enumerate(places) if some},
    )


def _tell_hidden(collection: Collection) -> None:
    """How many relevant documents their query cannot find, for they have its id.

    Raises:
        NoQueriesError: E502, all have.
    """
    relevant = collection.relevant
    answers = np.split(relevant.item, relevant.offsets[1:-1])
    pairs = zip(relevant.query.tolist(), answers, strict=True)
    count = sum(int(np.isin(found, collection.hidden.get(k, ())).sum()) for k, found in pairs)
    if not count:
        return
    told = (
        f"{count:,} of {len(relevant.item):,} relevant documents of {collection.name} "
        "have the id of their query, and are hidden from it as BEIR's default hides them: where "
        "the two are different texts, give queries and documents ids of their own"
    )
    if count == len(relevant.item):
        raise NoQueriesError(f"A query must be able to find an answer; {told}.")
    log.warning("%s.", told)


def _numbered(texts: Iterable[str]) -> dict[str, str]:
    """An id for each distinct text, by first appearance."""
    return {text: f"{number:06d}" for number, text in enumerate(dict.fromkeys(texts))}


def _texts(ids: Mapping[str, str]) -> list[Text]:
    return [Text(key, "", text) for text, key in ids.items()]


def _rows(path: Path, *wanted: str, texts: Sequence[str] = ()) -> list[dict[str, Any]]:
    table = table_of(path, "This part of a collection", (*texts, *wanted))
    require_texts(table, path, texts)
    return table.to_pylist()
