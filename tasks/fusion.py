"""Words and vectors together (seed 002): BM25's first texts rescored, and the fusion of ranks."""

from typing import TYPE_CHECKING

from sentemb_core.suite import DocumentVector, RetrievalTask
from sentemb_core.types import ArtifactRef
from tasks.benchmark import kept_json, told_of
from tasks.caching import stage
from tasks.rows import Value
from tasks.storing import opened

if TYPE_CHECKING:
    from sentemb_core.evaluation.collection_scores import FusedResults

SYSTEMS = ("bm25", "encoder", "rescored", "fused")


class Fusion(Value):
    """One encoder on one task, on the half of the queries that chose nothing.

    alpha: of BM25 + alpha x cosine, chosen on the other half, whose main measure `curve` has by
    alpha. low, high: the 95 % interval of rescored less the better of BM25 and the encoder.
    """

    measure: str
    alpha: float
    curve: dict[float, float]
    values: dict[str, float]
    queries: int
    low: float
    high: float

    @property
    def better(self) -> str:
        """The one of the two that rescoring has to beat."""
        return max(("bm25", "encoder"), key=lambda name: self.values[name])


@stage(
    "score_fusion",
    version=1,
    ignore=("folder",),
    numeric=("device",),
    libraries=("bm25s", "syntok"),
)
def score_fusion(
    encoder: ArtifactRef,
    task: RetrievalTask,
    vectors: DocumentVector,
    digests: tuple[str, ...],
    folder: str,
) -> ArtifactRef:
    """BM25, the encoder, BM25 + alpha x cosine, and reciprocal rank fusion on the same queries."""
    from pathlib import Path

    from sentemb_core.encoder.checkpoint import load_encoder
    from sentemb_core.evaluation.collection_scores import fused_results
    from sentemb_core.evaluation.suite_collections import read_collection

    collection = read_collection(task, Path(folder))
    found = fused_results(load_encoder(opened(encoder)), collection, documents=vectors)
    return kept_json("fusion", fusion_from(found).model_dump(mode="json"))


def fusion_from(found: "FusedResults") -> Fusion:
    """What a table shows of it."""
    from sentemb_core.evaluation.comparison import comparison

    results = found.results
    values = {name: results[name].value for name in SYSTEMS}
    rival = max(("bm25", "encoder"), key=lambda name: values[name])
    gain = comparison(results["rescored"], results[rival])
    return Fusion(
        measure=results["rescored"].main,
        alpha=found.alpha,
        curve=dict(found.curve),
        values=values,
        queries=gain.units,
        low=gain.low,
        high=gain.high,
    )


def fusion_of(artifact: ArtifactRef) -> Fusion:
    """What `score_fusion` wrote."""
    return Fusion.model_validate(told_of(artifact, "fusion"))
