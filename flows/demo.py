"""The demo: InfoCSE-IDC from two start encoders, on a fixed sample of the shipped corpus."""

from collections.abc import Mapping
from typing import Literal

from flows.defaults import completed
from flows.experiments.parts import SHIPPED
from flows.infocse_idc import infocse_idc
from sentemb_core.config.run import CorpusConfig, InfoCSEIDC
from sentemb_core.types import ArtifactRef, Json
from tasks.execution import flow
from tasks.report import Outcome, result_of
from tasks.results import ResultTable
from tasks.run_table import baseline_rows, run_rows, run_table
from tasks.served import compared_table, difference_row, directions, system_rows
from tasks.validate import recall_at_5
from tasks.verdict import compared, system

Way = Literal["nothing", "minilm"]

SAMPLE = CorpusConfig(
    source=str(SHIPPED),
    id_column="doc_id",
    sentences_column="sentences",
    counterpart_column="title",
    min_sentences=5,
    max_sentences=12,
    max_documents=600,
)

RETRIEVER = "retriever chosen"
WITHOUT_ENCODER = "retriever without any pretrained encoder"

STARTS: dict[Way, str] = {"nothing": "static", "minilm": "minilm"}

BUDGETS: dict[Way, Json] = {
    "nothing": {
        "initialiser": {"method": "conpono", "steps": 600},
        "training": {"steps": 400},
    },
    "minilm": {"training": {"steps": 32, "batch_size": 32}},
}
"""Each start takes two rounds and two controls; its pairs are all pairs of a cluster.

A static encoder overfits this sample after a third of its preset's steps (docs/results). MiniLM has
few steps to save time.
"""

WAYS: dict[Way, InfoCSEIDC] = {
    way: completed(
        InfoCSEIDC.model_validate(
            BUDGETS[way]
            | {
                "name": f"usgov-from-{way}",
                "corpus": SAMPLE,
                "encoder": {"name": encoder},
                "annotation": {"positives": "cluster"},
                "validation": {"candidates": 1_000},
                "rounds": {"max_rounds": 2, "patience": 2},
            }
        )
    )
    for way, encoder in STARTS.items()
}


@flow(name="demo", flow_run_name="demo")
def demo(ways: list[Way] | None = None) -> dict[Way, Outcome]:
    """Self-train from nothing and from MiniLM on 600 posts of the US government's blogs.

    Args:
        ways: `nothing`, `minilm`, or both if left out.
    """
    return {way: infocse_idc(WAYS[way]) for way in ways or list(WAYS)}


def encoders_table(outcomes: Mapping[Way, Outcome]) -> ResultTable:
    """Return the encoders of both ways between the baselines, on the test split."""
    first = next(iter(outcomes.values()))
    prefixes: dict[Way, str] = {"nothing": "from nothing: ", "minilm": "from MiniLM: "}
    runs = [row for way, outcome in outcomes.items() for row in run_rows(outcome, prefixes[way])]
    return run_table(first, [*baseline_rows(first), *runs])


def outcome_table(outcomes: Mapping[Way, Outcome]) -> ResultTable:
    """Return what the demo comes to: BM25, MiniLM, its best round, and the retrievers."""
    training = next(iter(outcomes.values())).training
    ways = directions(training, SAMPLE.counterpart_column)
    rows = [*system_rows(system("BM25", training.bm25, None), ways)]
    for name, scores in systems_of(outcomes).items():
        rows += system_rows(system(name, scores, None), ways)
        rows.append(
            difference_row(compared("BM25", scores, training.bm25, training, None), name, "BM25")
        )
    return compared_table(training, rows)


def systems_of(outcomes: Mapping[Way, Outcome]) -> dict[str, ArtifactRef]:
    """Return the scores of the demo's systems in the order of its table."""
    found: dict[str, ArtifactRef] = {}
    if "minilm" in outcomes:
        training = outcomes["minilm"].training
        rounds = [row for row in training.rows if row.kind == "round"]
        best = max(rounds, key=lambda row: recall_at_5(row.scores))
        found |= {"MiniLM": training.rows[0].scores, "self-trained encoder": best.scores}
        if training.retriever:
            found[RETRIEVER] = training.retriever.scores
            if training.retriever.without_encoder:
                found[WITHOUT_ENCODER] = training.retriever.without_encoder
    if "nothing" in outcomes and (retriever := outcomes["nothing"].training.retriever):
        found[WITHOUT_ENCODER] = retriever.scores
    return found


def closing_sentence(outcomes: Mapping[Way, Outcome]) -> str:
    """Return whether to serve the retriever from MiniLM, or else that from nothing."""
    outcome = outcomes.get("minilm") or outcomes["nothing"]
    return result_of(outcome)
