"""What people judged relevant, checked against the queries and documents that are there."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int64

from sentemb_core.errors import DuplicateIdError, NoQueriesError, UnknownLabelsError
from sentemb_core.evaluation.ranking import ABSENT, Relevant

log = logging.getLogger(__name__)

MOST_UNKNOWN = 0.01
"""Of the judgements: above it they belong to other texts."""

LARGEST_GRADE = 2**31 - 1
"""A grade is a small whole number; one beyond 32 bits is an id or a time in its column."""


class Judgement(NamedTuple):
    """How relevant a document is to a query: not at all where the grade is 0 or less."""

    query: str
    document: str
    grade: int


class Judged(NamedTuple):
    """The queries that somebody judged, by their places, and the answers of those that have one.

    `relevant` counts the judged queries from 0, and leaves out those to which nothing is relevant.
    """

    asking: Int64[np.ndarray, " asking"]
    relevant: Relevant


def judged(
    name: str,
    query_ids: Sequence[str],
    document_ids: Sequence[str],
    judgements: Iterable[Judgement],
) -> Judged:
    """Judgements by place; of several of one query and document the last counts, and is told.

    A relevant document that is not there counts as one that is never found, as in trec_eval.

    Raises:
        DuplicateIdError: E105, two queries or two documents have one id.
        UnknownLabelsError: E501, more than 1 % name a query or a document that is not there.
        NoQueriesError: E502, no query has a relevant document.
    """
    query_place = _places(name, "queries", query_ids)
    document_place = _places(name, "documents", document_ids)
    grades: dict[tuple[str, str], int] = {}
    contradicted = 0
    for query, document, grade in judgements:
        contradicted += grades.get((query, document), grade) != grade
        grades[query, document] = grade
    if contradicted:
        told = "%s: %d judgements contradict an earlier one of their query and document; it yields"
        log.warning(told, name, contradicted)
    judged_queries = {query_place[query] for query, _ in grades if query in query_place}
    unknown = [
        pair for pair in grades if pair[0] not in query_place or pair[1] not in document_place
    ]
    _few(name, unknown, len(grades))
    pairs = [
        (query_place[query], document_place.get(document, ABSENT), grade)
        for (query, document), grade in grades.items()
        if grade > 0 and query in query_place
    ]
    if all(document == ABSENT for _, document, _ in pairs):
        raise NoQueriesError(
            f"Somebody must find something: none of {len(query_ids)} queries of {name} has a "
            f"relevant document ({len(grades)} judgements). Check the grades and the split."
        )
    query, item, grade = np.array(sorted(pairs), dtype=np.int64).T
    asking = np.array(sorted(judged_queries), dtype=np.int64)
    answered, sizes = np.unique(query, return_counts=True)
    bounds = np.append(0, np.cumsum(sizes))
    return Judged(asking, Relevant(np.searchsorted(asking, answered), item, bounds, grade))


def _places(name: str, kind: str, ids: Sequence[str]) -> Mapping[str, int]:
    places: dict[str, int] = {}
    for place, one in enumerate(ids):
        if places.setdefault(one, place) != place:
            raise DuplicateIdError(
                f"An id occurs once among the {kind} of {name}: {one!r} is number "
                f"{places[one] + 1} and number {place + 1}. Repair the ids."
            )
    return places


def _few(name: str, unknown: Sequence[tuple[str, str]], judgements: int) -> None:
    """Refuse judgements of other texts; say so where a few are left out."""
    if len(unknown) > MOST_UNKNOWN * judgements:
        raise UnknownLabelsError(
            f"Judgements name queries and documents that are there; {len(unknown)} of {judgements} "
            f"of {name} do not, first (query, document) {unknown[0]}: take the corpus, the queries "
            "and the judgements of one release."
        )
    if unknown:
        log.warning("%s: %d of %d judgements name unknown ids", name, len(unknown), judgements)
