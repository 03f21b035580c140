"""Exact search and the ranking of validation, beside the exact search of faiss.

Run with `python benchmarks/search.py`: 200,000 drawn vectors of 384 dimensions, 500 queries, one
thread. The ids of both searches must agree but for scores that are equal to the last bits. A
ranking counts the candidates ahead of one candidate a query, which no library does.
"""

import os

os.environ |= {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS")}

import sys
from functools import partial
from typing import Any

import faiss
import numpy as np

from benchmarks.promises import fastest, kept, measured
from sentemb_core.evaluation.ranking import Relevant, ranks_of_relevant
from sentemb_core.retrieval.dense import search

VECTORS, QUERIES, DIM = 200_000, 500, 384
PEER = "faiss IndexFlatIP"


def main() -> bool:
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((VECTORS, DIM), dtype=np.float32)
    queries = rng.standard_normal((QUERIES, DIM), dtype=np.float32)
    index: Any = faiss.IndexFlatIP(DIM)
    index.add(vectors)
    held: list[bool] = []
    for k in (10, 100):
        ways = {
            PEER: lambda k=k: index.search(queries, k)[1],
            "ours": lambda k=k: search(queries, vectors, k)[0],
        }
        seconds, ids = fastest(ways)
        equal = float((ids[PEER] == ids["ours"]).mean())
        held.append(kept(f"first {k}: equal ids", equal, at_least=0.999))
        ratio = seconds[PEER] / seconds["ours"]
        if k == 10:
            measured("search", ratio)
        held.append(kept(f"first {k}: ours / {PEER}", ratio, at_least=0.6))
    relevant = Relevant(
        np.arange(QUERIES), rng.integers(0, VECTORS, QUERIES), np.arange(QUERIES + 1)
    )
    ranking = partial(ranks_of_relevant, queries, vectors, relevant, rng.permutation(VECTORS))
    seconds, _ = fastest({PEER: lambda: index.search(queries, 100), "ours": ranking})
    ratio = seconds[PEER] / seconds["ours"]
    measured("ranking", ratio)
    held.append(kept(f"ranking / {PEER}", ratio, at_least=0.5))
    return all(held)


if __name__ == "__main__":
    sys.exit(not main())
