"""Judge what a run returns by default on the corpora of the retriever study, on its test split.

    python -m benchmarks.default_runs --corpora blog sessions --seeds 1 2 3 --write

A seed draws the documents and seeds the run, which is `python -m flows run` with its defaults: ten
minutes of CPU. Collections have no titles: the run sees their documents alone, and their queries
judge its retriever. Runs are kept in the home ($SENTEMB_HOME). `--write` replaces the rows of these
corpora in results/retriever.json.
"""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import flows
from benchmarks.results_pages import load, put
from benchmarks.retriever_corpora import (
    BACKWARD,
    CORPORA,
    FORWARD,
    Titled,
    Way,
    corpus_of,
    judged,
    rows_of,
)
from benchmarks.retriever_study import paired
from sentemb_core.evaluation.bootstrap import paired_difference
from sentemb_core.evaluation.metrics import PerQuery
from sentemb_core.retriever.folder import load_retriever
from sentemb_core.retriever.retriever import Retriever
from sentemb_core.retriever.spec import RetrieverSpec
from sentemb_core.types import ArtifactRef
from tasks.artifacts import artifact_path
from tasks.execution import without_prefect
from tasks.report import Outcome
from tasks.results import Pivot, ResultRow, ResultTable, markdown
from tasks.retriever import choice_of
from tasks.verdict import values_of as test_values

ID = "default runs"

BM25, START, RETURNED = "BM25", "MiniLM", "returned"

PIVOT = Pivot(rows=("task", "direction", "metric"), columns=("system",), corner="corpus")

OfSystems = dict[str, dict[Way, PerQuery]]
"""The values of the queries of one run, by system."""


def default_run(corpus: str, seed: int, count: int) -> Outcome:
    """Return the outcome of a run on drawn documents that states nothing but its columns."""
    with TemporaryDirectory() as folder:
        drawn = corpus_of(rows_of(corpus, seed, count), Path(folder) / f"{corpus}.parquet")
        columns = drawn.model_dump(exclude_unset=True, exclude={"source", "splitter"})
        return flows.run(drawn.source, name=f"{corpus}-{seed}", seed=seed, **columns)


def values_of(corpus: str, seed: int, count: int, outcome: Outcome) -> OfSystems:
    """Return the values of BM25, the start and the returned retriever."""
    training = outcome.training
    assert training.retriever, "a run returns a retriever by default"
    with without_prefect():
        if not isinstance(CORPORA[corpus], Titled):
            returned = load_retriever(artifact_path(outcome.encoder))
            start = load_retriever(artifact_path(training.rows[0].encoder))
            return of_queries(corpus, seed, count, start, returned)
        scores = {
            BM25: training.bm25, START: training.rows[0].scores,
            RETURNED: training.retriever.scores,
        }  # fmt: skip
        return {system: of_titles(each) for system, each in scores.items()}


def of_titles(scores: ArtifactRef) -> dict[Way, PerQuery]:
    """Return the reciprocal ranks of the test split's queries."""
    ways = ((FORWARD, "MRR@10"), (BACKWARD, "MRR@10"))
    return dict(zip(ways, test_values(scores, None), strict=True))


def of_queries(
    corpus: str, seed: int, count: int, start: Retriever, returned: Retriever
) -> OfSystems:
    """Return the values of a collection's own queries, which no part has seen."""
    found = judged(corpus, seed, count)
    values: OfSystems = {}
    for system, retriever in ((START, start), (RETURNED, returned)):
        texts = retriever.read_sentences(found.pair.texts, documents=False)
        documents = retriever.read_documents(found.pair.documents)
        values[system] = found.values(retriever.spec, texts, documents)
    values[BM25] = found.values(RetrieverSpec(words="bm25"), texts, documents)
    return values


def rows(
    corpus: str, seeds: Sequence[int], values: Sequence[OfSystems], chosen: Iterable[str]
) -> Iterator[ResultRow]:
    """Yield each system's mean, the returned one's differences, and what was returned."""
    systems = (BM25, START, RETURNED)
    for way in values[0][BM25]:
        own = {name: [of_seed[name][way] for of_seed in values] for name in systems}
        pairs = {name: paired(way, each) for name, each in own.items()}
        row = ResultRow(
            system="", task=corpus, direction=way[0], metric=way[1], seeds=tuple(seeds),
            units=len(pairs[BM25]),
        )  # fmt: skip
        for name in systems:
            means = [float(each.mean()) for each in own[name]]
            spread = float(np.std(means, ddof=1)) if len(seeds) > 1 else None
            update = {"system": name, "value": float(np.mean(means)), "spread": spread}
            yield row.model_copy(update=update)
        for baseline in (BM25, START):
            gain = paired_difference(pairs[RETURNED], pairs[baseline], seed=0)
            update = {"value": gain.mean, "low": gain.low, "high": gain.high}
            update |= {"system": RETURNED, "baseline": baseline}
            yield row.model_copy(update=update)
        notes = {"parts": "; ".join(dict.fromkeys(chosen)), "seeds": ", ".join(map(str, seeds))}
        for system, note in notes.items():
            yield row.model_copy(update={"system": system, "note": note})


def table(count: int, found: Sequence[ResultRow]) -> ResultTable:
    """Return the rows of these corpora, in place of the stored ones."""
    stored = next((each.rows for each in load("retriever") if each.id == ID), ())
    new = {row.task for row in found}
    merged = [*(row for row in stored if row.task not in new), *found]
    order = list(CORPORA)
    seeds = " ".join(map(str, sorted({seed for row in merged for seed in row.seeds})))
    return ResultTable(
        id=ID,
        title="What a run returns by default",
        rows=tuple(sorted(merged, key=lambda row: order.index(row.task))),
        pivot=PIVOT,
        command=f"python -m benchmarks.default_runs --seeds {seeds} --documents {count}",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpora", nargs="+", choices=CORPORA, default=list(CORPORA))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--documents", type=int, default=600, help="Drawn of a file with titles.")
    parser.add_argument("--write", action="store_true", help="Replace the stored rows.")
    given = parser.parse_args()
    runs: dict[tuple[str, int], Outcome] = {}
    for seed, corpus in product(given.seeds, given.corpora):
        runs[corpus, seed] = default_run(corpus, seed, given.documents)
    for corpus in given.corpora:
        outcomes = {seed: runs[corpus, seed] for seed in given.seeds}
        chosen = [
            choice_of(each.training.retriever.choice).label
            for each in outcomes.values()
            if each.training.retriever
        ]
        values = [values_of(corpus, seed, given.documents, each) for seed, each in outcomes.items()]
        made = table(given.documents, list(rows(corpus, given.seeds, values, chosen)))
        print(markdown(made), flush=True)
        if given.write:
            put("retriever", made)


if __name__ == "__main__":
    main()
