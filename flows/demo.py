"""The demo: InfoCSE-IDC from two start encoders, on a fixed sample of the shipped corpus."""

from collections.abc import Mapping
from typing import Literal

from prefect import flow

from flows.experiments.parts import SHIPPED
from flows.infocse_idc import infocse_idc
from flows.presets import merged, preset
from sentemb_core.config.run import CorpusConfig, InfoCSEIDC
from sentemb_core.types import Json
from tasks.report import Outcome
from tasks.results import ResultTable
from tasks.run_table import baseline_rows, run_rows, run_table

Way = Literal["nothing", "minilm"]

SAMPLE = CorpusConfig(
    source=str(SHIPPED),
    id_column="doc_id",
    sentences_column="sentences",
    counterpart_column="title",
    min_sentences=5,
    max_sentences=20,
    max_documents=1_000,
)

STARTS: dict[Way, str] = {"nothing": "static", "minilm": "minilm"}

BUDGETS: dict[Way, Json] = {
    "nothing": {"initialiser": {"steps": 600}, "training": {"steps": 400}},
    "minilm": {"training": {"steps": 32, "batch_size": 32}},
}
"""Each start takes two rounds and two controls.

A static encoder overfits this sample after a third of its preset's steps (docs/results). MiniLM has
few steps to save time.
"""

WAYS: dict[Way, InfoCSEIDC] = {
    way: InfoCSEIDC.model_validate(
        merged(preset(encoder), BUDGETS[way])
        | {
            "name": f"usgov-from-{way}",
            "corpus": SAMPLE,
            "encoder": {"name": encoder},
            "validation": {"candidates": 1_000},
            "rounds": {"max_rounds": 2, "patience": 2},
        }
    )
    for way, encoder in STARTS.items()
}


@flow(name="demo", flow_run_name="demo")
def demo(ways: list[Way] | None = None) -> dict[Way, Outcome]:
    """Self-train from nothing and from MiniLM on 1,000 posts of the US government's blogs.

    Args:
        ways: `nothing`, `minilm`, or both if left out.
    """
    return {way: infocse_idc(WAYS[way]) for way in ways or list(WAYS)}


def demo_table(outcomes: Mapping[Way, Outcome]) -> ResultTable:
    """Return both ways between the baselines, on the test split."""
    first = next(iter(outcomes.values()))
    prefixes: dict[Way, str] = {"nothing": "from nothing: ", "minilm": "from MiniLM: "}
    runs = [row for way, outcome in outcomes.items() for row in run_rows(outcome, prefixes[way])]
    return run_table(first, [*baseline_rows(first), *runs])
