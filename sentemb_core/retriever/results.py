"""Results of a retriever on a test collection: as it is served, and by its vectors alone.

Queries are texts, and documents are lists of sentences, title first: those that the collection's
files state, else those of syntok. A hidden document (above all
the query itself) is among the candidates of the fusion, as it would be in an index, and is left out
of the ranking. Scores are computed in blocks of queries.
"""

from dataclasses import replace
from typing import NamedTuple

from sentemb_core.encoder.truncation import Cut, log_once
from sentemb_core.evaluation.collection_scores import result_of
from sentemb_core.evaluation.collection_vectors import document_sentences
from sentemb_core.evaluation.collections import Collection
from sentemb_core.evaluation.task_result import TaskResult
from sentemb_core.progress import log_progress
from sentemb_core.retriever.retriever import Retriever
from sentemb_core.retriever.scores import Readings, scores_of_documents
from sentemb_core.retriever.words import Texts


class RetrieverResults(NamedTuple):
    """Results of a whole retriever, and of its vectors alone.

    Attributes:
        whole: All parts.
        vectors: One vector for each document; None for a retriever that has no vectors, or nothing
            else.
    """

    whole: TaskResult
    vectors: TaskResult | None


def retriever_results(retriever: Retriever, collection: Collection) -> RetrieverResults:
    """Return the results of the whole retriever and of its vectors; texts are encoded once.

    Raises:
        BadEmbeddingError: a vector or a score is not finite.
    """
    texts, documents = collection_readings(retriever, collection)
    spec, dense = retriever.spec, retriever.spec.vectors_alone
    return RetrieverResults(
        whole=result_of(collection, scores_of_documents(spec, texts, documents)),
        vectors=result_of(collection, scores_of_documents(dense, texts, documents))
        if dense and dense != spec
        else None,
    )


def collection_readings(retriever: Retriever, collection: Collection) -> tuple[Readings, Readings]:
    """Return a collection's queries and documents as a retriever reads them."""
    sentences = stated_sentences(collection) or document_sentences(collection)
    update = log_progress(f"read documents of {collection.name}", sum(map(len, sentences)))
    cut = Cut()
    documents = retriever.read_documents(sentences, update, cut)
    if cut.texts:
        log_once(cut.line(f"texts of {collection.name}"))
    # words are read as BM25 reads them
    return (
        retriever.read_texts(collection.queries),
        replace(documents, texts=Texts(collection.documents)),
    )


def stated_sentences(collection: Collection) -> list[list[str]] | None:
    """Return title and sentences of each document, where the collection's files state them."""
    if collection.sentences is None:
        return None
    pairs = zip(collection.titles, collection.sentences, strict=True)
    return [[*([title] if title else []), *sentences] or [""] for title, sentences in pairs]
