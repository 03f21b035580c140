"""The values of a round's diagnostics, on disk and as numbers; imports no torch."""

import json
from pathlib import Path

from sentemb_core.evaluation.diagnostics import Shape
from sentemb_core.types import Value

COUNTED = (
    "clusters",
    "clusters_per_document",
    "pairs",
    "kept_share",
    "dropped_share",
    "adjacent_share",
    "lexical_overlap",
)
"""Numbers of `write_pairs` that are reported for a round."""

CHANGES = ("churn", "new_share", "gone_share", "related_share", "drift")
"""Numbers of `Diagnostics` that are reported for a round."""


class Similarities(Value):
    """Similarities of a round's positives and negatives under one encoder."""

    edges: list[float]
    positives: list[int]
    negatives: list[int]
    alignment: float
    shape: Shape


class Pair(Value):
    """One exported pair, as texts."""

    left: str
    right: str
    cosine: float
    jaccard: float


class Diagnostics(Value):
    """Diagnostics of one round for its report.

    before, after: under the annotator, and under the encoder that was trained on the pairs; None if
        vectors are not stored (then no pairs are ranked either).
    churn: adjusted Rand index to the clusters of the previous round.
    new_share, gone_share: pairs that were added and removed since (`annotation.pairs.turnover`).
    related_share: related sentences in a document, by the annotator's vectors (`related`).
    drift: share of pairs that float32 finds differently; None for float32 (`annotation.drift`).
    """

    churn: float | None
    new_share: float | None = None
    gone_share: float | None = None
    related_share: float | None = None
    drift: float | None = None
    before: Similarities | None
    after: Similarities | None
    cosine: list[float]
    jaccard: list[float]
    best: list[Pair]
    worst: list[Pair]


def write_diagnostics(result: Diagnostics, folder: Path) -> None:
    (folder / "diagnostics.json").write_text(result.model_dump_json(), encoding="utf-8")


def read_diagnostics(folder: Path) -> Diagnostics:
    """Read what `write_diagnostics` wrote."""
    return Diagnostics.model_validate_json((folder / "diagnostics.json").read_text("utf-8"))


def annotation_numbers(pairs: Path, result: Diagnostics) -> dict[str, int | float]:
    """Return the numbers of a round's annotation by name, without the missing ones.

    Alignment and shape are the trained encoder's. `pairs` is a folder that `write_pairs` wrote.
    """
    report = json.loads((pairs / "report.json").read_text("utf-8"))
    sizes = {int(size): count for size, count in report["cluster_sizes"].items()}
    sentences = sum(size * count for size, count in sizes.items())
    training_documents = report["documents"] - report["held_out_documents"]
    numbers = {name: report[name] for name in COUNTED} | {
        "cluster_size_mean": sentences / sum(sizes.values()),
        "cluster_size_largest": max(sizes),
        "giving_share": report["giving_documents"] / training_documents,
        **{name: getattr(result, name) for name in CHANGES},
    }
    if result.after:
        numbers |= {
            "alignment": result.after.alignment,
            "uniformity": result.after.shape.uniformity,
            "effective_rank": result.after.shape.effective_rank,
        }
    return {name: value for name, value in numbers.items() if value is not None}
