"""The first documents by their vectors: exactly, or through a graph of faiss."""

import importlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from jaxtyping import Float32, Int64

from sentemb_core.annotation.faiss_wheels import installed_faiss
from sentemb_core.errors import UsageError
from sentemb_core.retrieval.dense import search
from sentemb_core.retriever.index_files import Approximate

EXACT = 1_000_000
"""Most documents whose vectors are all compared with a query."""

LINKS, BUILD_DEPTH, SEARCH_DEPTH = 32, 200, 2_000
"""M, efConstruction and efSearch of HNSW (Malkov and Yashunin 2018). faiss takes 32 and 40, and 16
for the search; a fusion needs the first 1,000 documents, and efSearch must exceed that. 100,000
drawn vectors of 64 dimensions: efConstruction 40 finds 95 % of the exact first 1,000 after a build
of 6 CPU-seconds, 200 finds 98 % after 31. Of a million, 40 finds 83 %."""

RECALL_QUERIES, RECALL_DEPTH = 200, 100

QUERIES = 256
"""Queries that are compared with the documents at once: 20 MB of scores."""

Queries = Float32[np.ndarray, "queries dim"]
Documents = Float32[np.ndarray, "documents dim"]


class Nearest(Protocol):
    """Finds documents by their vectors."""

    def first(self, queries: Queries, count: int) -> Int64[np.ndarray, "queries _"]:
        """Return the rows of each query's nearest documents; -1 where there are fewer."""
        ...

    def of(self, rows: Int64[np.ndarray, " rows"]) -> Float32[np.ndarray, "rows dim"]:
        """Return the vectors of these rows."""
        ...


class Exact:
    """All vectors in memory; a search compares all of them."""

    def __init__(self, vectors: Documents) -> None:
        self._vectors = vectors

    def first(self, queries: Queries, count: int) -> Int64[np.ndarray, "queries _"]:
        if len(queries) > 1 or count >= len(self._vectors):
            blocks = np.split(queries, range(QUERIES, len(queries), QUERIES))
            return np.concatenate([search(some, self._vectors, count)[0] for some in blocks])
        cosines = self._vectors @ queries[0]  # a sixth of the time of `search` for one query
        return np.argpartition(-cosines, count)[None, :count]

    def of(self, rows: Int64[np.ndarray, " rows"]) -> Float32[np.ndarray, "rows dim"]:
        return self._vectors.take(rows, axis=0)


class Graph:
    """A graph of faiss that holds the vectors."""

    def __init__(self, file: Path, depth: int) -> None:
        self._graph = import_faiss().read_index(str(file))
        self._graph.hnsw.efSearch = depth

    def first(self, queries: Queries, count: int) -> Int64[np.ndarray, "queries _"]:
        return self._graph.search(queries, count)[1]

    def of(self, rows: Int64[np.ndarray, " rows"]) -> Float32[np.ndarray, "rows dim"]:
        return self._graph.reconstruct_batch(rows)


def write_graph(vectors: Iterable[Documents], queries: Queries, file: Path) -> Approximate:
    """Write a graph of these vectors (in blocks), and return its settings and recall."""
    faiss = import_faiss()
    graph = faiss.IndexHNSWFlat(queries.shape[1], LINKS, faiss.METRIC_INNER_PRODUCT)
    graph.hnsw.efConstruction = BUILD_DEPTH
    exact = faiss.ResultHeap(len(queries), RECALL_DEPTH, keep_max=True)
    for block in vectors:
        scores, rows = faiss.knn(queries, block, RECALL_DEPTH, faiss.METRIC_INNER_PRODUCT)
        exact.add_result(scores, np.where(rows < 0, rows, rows + graph.ntotal))
        graph.add(block)
    exact.finalize()
    faiss.write_index(graph, str(file))
    graph.hnsw.efSearch = SEARCH_DEPTH
    found = graph.search(queries, RECALL_DEPTH)[1]
    shares = [  # of fewer documents, the last rows are -1
        np.isin(best[best >= 0], rows).mean() for best, rows in zip(exact.I, found, strict=True)
    ]
    return Approximate(
        links=LINKS,
        build_depth=BUILD_DEPTH,
        search_depth=SEARCH_DEPTH,
        recall=float(np.mean(shares)),
    )


def import_faiss() -> Any:
    """Return the faiss module.

    Raises:
        UsageError: faiss is not installed.
    """
    if not installed_faiss():
        raise UsageError(
            f"An index of more than {EXACT:,} documents needs faiss, which is not installed. "
            "Install sentemb[cpu]."
        )
    return importlib.import_module("faiss")
