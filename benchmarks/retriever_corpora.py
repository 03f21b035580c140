"""The corpora of the retriever study: what is drawn, and how retrievers are judged on it."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from flows.pipeline import documents_of
from sentemb_core.config.run import CorpusConfig, ValidationConfig
from sentemb_core.config.suite import SUITE, RetrievalTask
from sentemb_core.corpus.validation_pool import ValidationPool, write_validation_pool
from sentemb_core.evaluation.collection_files import read_collection
from sentemb_core.evaluation.collection_scores import result_of
from sentemb_core.evaluation.collection_vectors import document_sentences
from sentemb_core.evaluation.collections import Collection
from sentemb_core.evaluation.metrics import PerQuery, recall, reciprocal_rank
from sentemb_core.evaluation.validation_scores import rank_pool
from sentemb_core.retriever.pool import Pair, pool_pairs, pool_scorers
from sentemb_core.retriever.results import stated_sentences
from sentemb_core.retriever.scores import Readings, scores_of_documents
from sentemb_core.retriever.spec import RetrieverSpec
from sentemb_core.types import ArtifactRef
from tasks.artifacts import artifact_path

Way = tuple[str, str]
"""Direction and metric."""

FORWARD, BACKWARD, SEARCH = "document → title", "title → document", "query → document"


@dataclass(frozen=True)
class Titled:
    """A file of documents with titles.

    Attributes:
        file: In the data folder.
        sentences: Column of lists.
        title: Column of the counterpart.
        fewest: Documents with fewer sentences are left out.
        most: Sentences used of a document; with 12 a pool of 600 takes minutes.
        kept: Whether a row takes part.
        depth: Of the recall beside MRR@10; None: MRR@10 alone.
    """

    file: str
    sentences: str = "sentences"
    title: str = "title"
    fewest: int = 2
    most: int | None = 12
    kept: Callable[[Mapping[str, Any]], bool] = lambda row: True
    depth: int | None = None


CORPORA: dict[str, Titled | str] = {
    "blog": Titled("blog_usgov.parquet", fewest=5),
    "reuters": Titled("news_reuters21578.parquet", fewest=5),
    "forum": Titled("forum_20newsgroups.parquet", kept=lambda row: not row["is_reply"]),
    "arxiv": Titled("sci_arxiv_cs.parquet", fewest=5),
    "scitldr": Titled("pairs_scitldr_train.parquet"),
    "sessions": Titled("session_mixed_titles.parquet", "titles", "ad_title", most=None, depth=20),
    "cranfield": "Cranfield",
    "cacm": "CACM",
    "npl": "NPL",
}
"""Name -> file, or a task of the suite, of which all documents and queries are used."""


@dataclass(frozen=True)
class Judged:
    """A drawn corpus, and the values of a retriever's queries on it.

    Attributes:
        documents: The usable documents, on which parts are fitted.
        pair: Queries or titles, and documents, as lists of sentences.
        values: From a spec and the readings of both sides of `pair`.
    """

    documents: ArtifactRef
    pair: Pair
    values: Callable[[RetrieverSpec, Readings, Readings], dict[Way, PerQuery]]


def judged(name: str, seed: int, count: int) -> Judged:
    """Return a corpus: `count` documents drawn by the seed, or a whole collection."""
    drawn = rows_of(name, seed, count)
    with TemporaryDirectory() as folder:
        documents = documents_of(corpus_of(drawn, Path(folder) / "documents.parquet"))
    corpus = CORPORA[name]
    if isinstance(corpus, Titled):
        return _pool(documents, corpus.depth)
    return _collection(documents, collection_of(name))


def rows_of(name: str, seed: int, count: int) -> list[tuple[list[str], str | None]]:
    """Return the sentences and titles of `count` drawn documents, or of a whole collection."""
    corpus = CORPORA[name]
    if not isinstance(corpus, Titled):
        return [(sentences, None) for sentences in sentences_of(collection_of(name))]
    rows = [
        row
        for row in pq.read_table(data_folder() / corpus.file).to_pylist()
        if row[corpus.title] and len(row[corpus.sentences]) >= corpus.fewest and corpus.kept(row)
    ]
    places = np.random.default_rng(seed).permutation(len(rows))[:count]
    return [
        (row[corpus.sentences][: corpus.most], row[corpus.title])
        for row in (rows[place] for place in sorted(places.tolist()))
    ]


def corpus_of(rows: Sequence[tuple[list[str], str | None]], source: Path) -> CorpusConfig:
    """Write the documents to a file, and return the settings that read it."""
    sentences, titles = zip(*rows, strict=True)
    ids = [f"{place:06d}" for place in range(len(titles))]
    columns = {"id": ids, "sentences": list(sentences), "title": list(titles)}
    pq.write_table(pa.table(columns), source)
    single = all(len(each) == 1 for each in sentences)
    return CorpusConfig(
        source=str(source),
        id_column="id",
        sentences_column="sentences",
        counterpart_column="title" if any(titles) else None,
        splitter="none" if single else "syntok",
    )


def collection_of(name: str) -> Collection:
    """Return a test collection of the suite, with its queries and judgements."""
    task = next(one for one in SUITE if one.name == CORPORA[name])
    assert isinstance(task, RetrievalTask)
    return read_collection(task, data_folder())


def sentences_of(collection: Collection) -> list[list[str]]:
    """Return the sentences of each document of a collection."""
    return stated_sentences(collection) or document_sentences(collection)


def data_folder() -> Path:
    return Path(os.environ["SENTEMB_DATA"])


def _pool(documents: ArtifactRef, depth: int | None) -> Judged:
    """Return a corpus in which all documents look for their titles, and all titles for them."""
    folder = artifact_path(documents)
    with TemporaryDirectory() as name:
        config = ValidationConfig(candidates=1_000_000)
        write_validation_pool(folder / "documents.parquet", config, Path(name))
        drawn = ValidationPool.open(Path(name))
    pool = replace(drawn, query_split=np.full(len(drawn.query_split), "test"))

    def values(spec: RetrieverSpec, texts: Readings, read: Readings) -> dict[Way, PerQuery]:
        ranks = rank_pool(pool, pool_scorers(spec, texts, read, "counterpart"), "test")
        ways = {FORWARD: ranks.document_to_counterpart, BACKWARD: ranks.counterpart_to_document}
        found = {(way, "MRR@10"): reciprocal_rank(one, 10) for way, one in ways.items()}
        if depth:
            found |= {(way, f"R@{depth}"): recall(one, depth) for way, one in ways.items()}
        return found

    return Judged(documents, pool_pairs(folder, pool)["counterpart"], values)


def _collection(documents: ArtifactRef, collection: Collection) -> Judged:
    """Return a test collection, whose queries look for documents."""

    def values(spec: RetrieverSpec, texts: Readings, read: Readings) -> dict[Way, PerQuery]:
        result = result_of(collection, scores_of_documents(spec, texts, read))
        return {(SEARCH, result.main): result.units[:, 0]}

    pair = Pair([[text] for text in collection.queries], sentences_of(collection))
    return Judged(documents, pair, values)
