"""Cluster documents, sentemb against networkx: documents per CPU-second, with equal labels.

Run with `python benchmarks/annotate.py`. There are two peers. One is Eq. 2 and 3 of mutual in plain
networkx (`tests/networks.py`). The other is networkx on similarities from numpy. The documents are
synthetic: lengths log-normal around 29 sentences, 384 and 768 dimensions. One thread.
"""

import os

# threads that spin while they wait cost CPU-seconds
os.environ |= {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS")}

import argparse
import sys
from collections.abc import Callable
from functools import partial

import networkx as nx
import numpy as np

from benchmarks.promises import fastest, kept, measured
from sentemb_core.annotation.pair_arrays import cluster_pairs
from sentemb_core.annotation.pruning import clusters, prune_to_top_k
from sentemb_core.annotation.similarity import neighbours
from sentemb_core.annotation.statistics import cluster_statistics
from tests.networks import document_graph, graph_clusters, pruned

Labels = Callable[[np.ndarray, np.ndarray, int], np.ndarray]


def corpus(documents: int, mean: int, dim: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return normalised sentence vectors around one centre per document, and the offsets."""
    rng = np.random.default_rng(seed)
    lengths = np.clip(rng.lognormal(np.log(mean) - 0.18, 0.6, documents).astype(int), 2, 400)
    centres = rng.standard_normal((documents, dim), dtype=np.float32)
    vectors = rng.standard_normal((lengths.sum(), dim), dtype=np.float32)
    vectors += np.repeat(centres, lengths, axis=0)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.cumsum([0, *lengths])


def ours(degree: int) -> Labels:
    def labels(vectors: np.ndarray, offsets: np.ndarray, top_k: int) -> np.ndarray:
        near = neighbours(vectors, offsets, max(degree, top_k))
        return clusters(prune_to_top_k(near, top_k), offsets)

    return labels


def each_document(of_one: Callable[[np.ndarray, int], list[int]]) -> Labels:
    def labels(vectors: np.ndarray, offsets: np.ndarray, top_k: int) -> np.ndarray:
        parts = np.split(vectors[: offsets[-1]], offsets[1:-1])
        return np.concatenate([of_one(part, top_k) for part in parts])

    return labels


def plain_networkx(vectors: np.ndarray, top_k: int) -> list[int]:
    """Prune the fully connected graph and return its components."""
    return graph_clusters(pruned(document_graph(vectors), top_k))


def networkx_on_numpy(vectors: np.ndarray, top_k: int) -> list[int]:
    """Give networkx only the kept edges."""
    weights = vectors @ vectors.T
    np.fill_diagonal(weights, -np.inf)
    nearest = np.argsort(-weights, axis=1, kind="stable")[:, : min(top_k, len(vectors) - 1)]
    graph = nx.Graph()
    graph.add_nodes_from(range(len(vectors)))
    graph.add_edges_from((i, j) for i, row in enumerate(nearest.tolist()) for j in row)
    return graph_clusters(graph)


def main() -> bool:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=3_000)
    parser.add_argument("--sentences", type=int, default=29)
    parser.add_argument("--dims", type=int, nargs="+", default=[384, 768])
    options = parser.parse_args()
    held: list[bool] = []
    for dim in options.dims:
        vectors, offsets = corpus(options.documents, options.sentences, dim, seed=0)
        print(f"{options.documents:,} documents, {len(vectors):,} sentences, {dim} dimensions")
        held += [compare(vectors, offsets, top_k) for top_k in (1, 2)]
    return all(held)


def compare(vectors: np.ndarray, offsets: np.ndarray, top_k: int) -> bool:
    """Print a line for each way; return whether all labels agree and the promise is kept."""
    ways: list[tuple[str, Labels, int]] = [
        ("networkx, plain", each_document(plain_networkx), 40),
        ("networkx on numpy", each_document(networkx_on_numpy), 400),
        (f"ours, degree {top_k}", ours(top_k), len(offsets) - 1),
        ("ours, degree 8 (default)", ours(8), len(offsets) - 1),
    ]
    expected = ours(top_k)(vectors, offsets, top_k)
    seconds, labels = fastest(
        {
            name: partial(way, vectors[: offsets[documents]], offsets[: documents + 1], top_k)
            for name, way, documents in ways
        }
    )
    speeds = {name: documents / seconds[name] for name, _, documents in ways}
    plain, on_numpy, _, speed = speeds.values()
    if top_k == 1:  # the largest dimension is the last
        measured("annotate", speed / plain)
        measured("annotate numpy", speed / on_numpy)
    identical = True
    for name, _, documents in ways:
        same = np.array_equal(labels[name], expected[: offsets[documents]])
        identical = identical and same
        print(
            f"top_k {top_k}  {name:26}{speeds[name]:10,.0f} documents/CPU-s"
            f"{speeds[name] / plain:8.1f}x  labels {'identical' if same else 'DIFFERENT'}"
        )
    fast = kept(
        f"top_k {top_k}  default / plain networkx",
        speed / plain,
        at_least=20 if vectors.shape[1] < 768 else 12,
    )
    statistics = cluster_statistics(expected, offsets)
    seconds, counts = fastest(
        {"pairs": lambda: sum(len(i) for i, _ in cluster_pairs(expected, offsets))}
    )
    count = counts["pairs"]
    print(
        f"top_k {top_k}  {statistics.mean_clusters:.2f} clusters per document, "
        f"{statistics.kept_share:.1%} of pairs kept; {count:,} pairs at "
        f"{count / seconds['pairs'] / 1e6:.0f} million/CPU-s"
    )
    return fast and identical


if __name__ == "__main__":
    sys.exit(not main())
