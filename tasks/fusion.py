"""BM25 and vectors together (product_thesis): rescored BM25 results, and rank fusion."""

from typing import TYPE_CHECKING

from sentemb_core.config.suite import RetrievalTask
from sentemb_core.types import ArtifactRef, Value
from tasks.artifact_files import artifact_path, read_json, save_json
from tasks.benchmark import files_of
from tasks.sources import require_same_bytes
from tasks.stage import stage

if TYPE_CHECKING:
    from sentemb_core.evaluation.collection_scores import FusedResults

ALONE = ("bm25", "encoder")
JOINED = ("rescored", "fused")
SYSTEMS = (*ALONE, *JOINED)


class Estimate(Value):
    """A number and its 95 % interval."""

    value: float
    low: float
    high: float


class Fusion(Value):
    """One encoder on one task, on the half of the queries that chose nothing.

    alpha: of BM25 + alpha x cosine, chosen on the other half, whose main measure `curve` has by
    alpha. gains: of each joined system, less BM25 and less the encoder.
    """

    measure: str
    alpha: float
    curve: dict[float, float]
    queries: int
    values: dict[str, Estimate]
    gains: dict[str, dict[str, Estimate]]

    def better(self, joined: str) -> str | None:
        """The joined system where it beats both alone, or what of them beats it; none: open.

        Where both do, "alone" of either: the two were not compared.
        """
        gains = self.gains[joined]
        if all(gain.low > 0 for gain in gains.values()):
            return joined
        ahead = [alone for alone in ALONE if gains[alone].high < 0]
        return "alone" if len(ahead) == len(ALONE) else next(iter(ahead), None)


@stage("score_fusion", version=4, ignore=("folder",), libraries=("bm25s",))
def score_fusion(
    vectors: ArtifactRef, task: RetrievalTask, digests: tuple[str, ...], folder: str
) -> ArtifactRef:
    """BM25, the encoder, BM25 + alpha x cosine, and reciprocal rank fusion on the same queries."""
    from pathlib import Path

    from sentemb_core.evaluation.collection_files import read_collection
    from sentemb_core.evaluation.collection_scores import fused_results
    from sentemb_core.evaluation.collection_vectors import read_vectors

    collection = read_collection(task, Path(folder))
    require_same_bytes(files_of(task, folder), digests)
    found = fused_results(read_vectors(artifact_path(vectors)), collection)
    return save_json("fusion", fusion_from(found).model_dump(mode="json"))


def fusion_from(found: "FusedResults") -> Fusion:
    """What a table shows of it."""
    from sentemb_core.evaluation.comparison import comparison, interval

    results = found.results

    def value(system: str) -> Estimate:
        bounds = interval(results[system])
        return Estimate(value=results[system].value, low=bounds.low, high=bounds.high)

    def gain(joined: str, alone: str) -> Estimate:
        paired = comparison(results[joined], results[alone])
        return Estimate(value=paired.difference, low=paired.low, high=paired.high)

    return Fusion(
        measure=results["rescored"].main,
        alpha=found.alpha,
        curve=dict(found.curve),
        queries=results["rescored"].counted,
        values={system: value(system) for system in SYSTEMS},
        gains={joined: {alone: gain(joined, alone) for alone in ALONE} for joined in JOINED},
    )


def fusion_of(artifact: ArtifactRef) -> Fusion:
    """What `score_fusion` wrote."""
    return Fusion.model_validate(read_json(artifact, "fusion"))
