"""Test collections: documents, queries, and the documents that answer each query."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Int64
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from sentemb_core.errors import DuplicateIdError, NoQueriesError, UnknownLabelsError
from sentemb_core.evaluation.ranking import ABSENT, Relevant

log = logging.getLogger(__name__)

Measure = Literal[
    "nDCG@10", "MAP@10", "MAP@100", "MRR@10",
    "P@1", "P@3", "P@5", "P@10", "P@100", "P@1000",
    "R@1", "R@3", "R@5", "R@10", "R@20", "R@100", "R@1000", "R_cap@10",
]  # fmt: skip

Hidden = Mapping[int, Int64[np.ndarray, " documents"]]

MOST_UNKNOWN = 0.01
"""Share of judgements that may name unknown ids; more of them belong to other texts."""


class Text(NamedTuple):
    """A document or a query; a query's title is empty.

    `sentences` are those of the text, where its file states them.
    """

    key: str
    title: str
    text: str
    sentences: Sequence[str] | None = None


class Judgement(NamedTuple):
    """How relevant a document is to a query; a grade of 0 or less means not relevant."""

    query: str
    document: str
    grade: int


@dataclass(frozen=True)
class Collection:
    """A retrieval task.

    Attributes:
        name: As in tables.
        main: The measure that stands for the task.
        document_ids: They order equal scores, as in trec_eval.
        titles: Of the documents; empty where a document has none.
        texts: Of the documents.
        query_ids: Of the judged queries.
        queries: Their texts.
        relevant: The documents that each query should find, with grades; queries without a
            relevant document are left out.
        hidden: Documents that a query cannot find (above all itself), by the query's place.
        sentences: Of the texts of documents, for retrievers; None where the files state none.
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
    sentences: Sequence[Sequence[str]] | None = None

    @cached_property
    def tied(self) -> Int64[np.ndarray, " queries"]:
        """One group number per query; queries of one group answer each other.

        Titles of one product do, so their values depend on each other and a bootstrap draws them
        together. A query is the same text as a hidden document only where both texts are equal:
        ids alone may coincide.
        """
        asking = np.full(len(self.document_ids), -1)
        for query, own in self.hidden.items():
            same = [place for place in own if self.texts[place] == self.queries[query]]
            asking[same] = query
        query = np.repeat(self.relevant.query, np.diff(self.relevant.offsets))
        answer = np.where(self.relevant.item == ABSENT, -1, asking[self.relevant.item])
        query, answer = query[answer >= 0], answer[answer >= 0]
        shape = (len(self.query_ids),) * 2
        links = coo_array((np.ones(len(query)), (query, answer)), shape)
        return connected_components(links)[1].astype(np.int64)

    @cached_property
    def place_by_id(self) -> Int64[np.ndarray, " documents"]:
        """The place of each document among all ids in ascending order."""
        return np.argsort(sorted(range(len(self.document_ids)), key=self.document_ids.__getitem__))

    @property
    def documents(self) -> list[str]:
        """Title and text of each document as one text, as BEIR's models read them."""
        pairs = zip(self.titles, self.texts, strict=True)
        return [f"{title} {text}".strip() for title, text in pairs]


def judged_collection(
    name: str,
    main: Measure,
    documents: Sequence[Text],
    queries: Sequence[Text],
    judgements: Iterable[Judgement],
    hidden: Mapping[str, set[str]],
) -> Collection:
    """Return the collection of the judged queries.

    Of several judgements of one query and document the last one counts, and a warning is logged. A
    relevant document that does not exist counts as never found, as in trec_eval.

    Args:
        name: As in tables.
        main: The measure that stands for the task.
        documents: With distinct ids.
        queries: With distinct ids; queries without a judgement are left out.
        judgements: A query without a relevant document counts 0.
        hidden: Ids of hidden documents by query id; ids that do not exist are ignored.

    Raises:
        DuplicateIdError: E105, two queries or two documents have one id.
        UnknownLabelsError: E501, more than 1 % name a query or a document that does not exist.
        NoQueriesError: E502, no query has a relevant document.
    """
    query_place, place = _places(name, "queries", queries), _places(name, "documents", documents)
    grades = _grades(name, judgements, query_place, place)
    judged = {query for query, _ in grades}
    asking = [query for query in queries if query.key in judged]
    relevant = _relevant(grades, _places(name, "queries", asking), place)
    if relevant is None:
        raise NoQueriesError(
            f"A collection needs a query with a relevant document; found none of {len(queries)} "
            f"queries of {name} ({len(grades)} judgements). Check the grades and the split."
        )
    places = [[place[key] for key in hidden.get(query.key, ()) if key in place] for query in asking]
    if empty := sum(not query.text.strip() for query in asking):
        log.warning("%s: queries without a word: %d of %d", name, empty, len(asking))
    log.info(
        "%s: documents: %d, queries: %d (without a relevant document, which count 0: %d; left out "
        "as not judged: %d)",
        *(name, len(documents), len(asking), len(asking) - len(relevant.query)),
        len(queries) - len(asking),
    )
    return Collection(
        name=name,
        main=main,
        document_ids=[document.key for document in documents],
        titles=[document.title for document in documents],
        texts=[document.text for document in documents],
        query_ids=[query.key for query in asking],
        queries=[query.text for query in asking],
        relevant=relevant,
        hidden={k: np.array(some, np.int64) for k, some in enumerate(places) if some},
        sentences=_stated(documents),
    )


def _stated(documents: Sequence[Text]) -> list[Sequence[str]] | None:
    stated = [document.sentences for document in documents if document.sentences is not None]
    return stated if len(stated) == len(documents) else None


def _grades(
    name: str,
    judgements: Iterable[Judgement],
    queries: Mapping[str, int],
    documents: Mapping[str, int],
) -> dict[tuple[str, str], int]:
    """Return the last grade of each pair; refuse judgements of other texts."""
    grades: dict[tuple[str, str], int] = {}
    contradicted = 0
    for query, document, grade in judgements:
        contradicted += grades.get((query, document), grade) != grade
        grades[query, document] = grade
    if contradicted:
        log.warning("%s: judgements replaced by a later, different one: %d", name, contradicted)
    unknown = [pair for pair in grades if pair[0] not in queries or pair[1] not in documents]
    if len(unknown) > MOST_UNKNOWN * len(grades):
        raise UnknownLabelsError(
            f"Judgements must name queries and documents that exist; {len(unknown)} of "
            f"{len(grades)} of {name} do not, first (query, document) {unknown[0]}. Take the "
            "corpus, the queries and the judgements of one release."
        )
    if unknown:
        log.warning("%s: judgements of unknown ids: %d of %d", name, len(unknown), len(grades))
    return grades


def _relevant(
    grades: Mapping[tuple[str, str], int], queries: Mapping[str, int], documents: Mapping[str, int]
) -> Relevant | None:
    """Return the relevant documents of these queries; None if none exists."""
    pairs = sorted(
        (queries[query], documents.get(document, ABSENT), grade)
        for (query, document), grade in grades.items()
        if grade > 0 and query in queries
    )
    if all(document == ABSENT for _, document, _ in pairs):
        return None
    query, item, grade = np.array(pairs, dtype=np.int64).T
    answered, sizes = np.unique(query, return_counts=True)
    return Relevant(answered, item, np.append(0, np.cumsum(sizes)), grade)


def _places(name: str, kind: str, texts: Sequence[Text]) -> dict[str, int]:
    """Return the place of each text by its id, which must be unique."""
    places: dict[str, int] = {}
    for place, key in enumerate(text.key for text in texts):
        if places.setdefault(key, place) != place:
            raise DuplicateIdError(
                f"Ids of the {kind} of {name} must be unique; found {key!r} as number "
                f"{places[key] + 1} and as number {place + 1}. Repair the ids."
            )
    return places
