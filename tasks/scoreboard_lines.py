"""What a benchmark found beside its scores, as the lines of a table, for a terminal and a page."""

from collections.abc import Mapping

from sentemb_core.suite import Group
from sentemb_core.types import ArtifactRef
from tasks.benchmark import diagnosis_of, overlaps_of
from tasks.fusion import SYSTEMS, fusion_of

Lines = list[list[str]]
"""The head first."""

TITLES: dict[Group, str] = {
    "retrieval": "Retrieval",
    "sts": "STS",
    "transfer": "Transfer",
    "reviews": "Long reviews",
    "probing": "Probing",
}


def diagnosis_lines(
    diagnoses: Mapping[str, ArtifactRef], agreed: Mapping[Group, Mapping[str, float]]
) -> Lines:
    """Measures down, models across, then their rank correlation with the scores."""
    from sentemb_core.evaluation.label_free import MEASURES

    found = [diagnosis_of(ref).model_dump() for ref in diagnoses.values()]
    head = ["diagnostic", *diagnoses, *(f"rho {TITLES[group]}" for group in agreed)]
    rows = [
        [
            measure.replace("_", " "),
            *(f"{told[measure]:.3f}" for told in found),
            *(f"{of[measure]:+.2f}" if measure in of else "" for of in agreed.values()),
        ]
        for measure in MEASURES
    ]
    return [head, *rows]


def fusion_lines(fusions: Mapping[str, Mapping[str, ArtifactRef]]) -> Lines:
    """Of every task and model: queries, four values times 100, alpha, and what rescoring gains."""
    systems = ("BM25", "encoder", "BM25 + alpha cosine", "rank fusion")
    gain = "rescored less the better of the two"
    lines = [["task", "measure", "model", "queries", *systems, "alpha", gain]]
    for task in dict.fromkeys(task for told in fusions.values() for task in told):
        for model, told in fusions.items():
            if task in told:
                one = fusion_of(told[task])
                shown = [f"{100 * one.values[name]:.1f}" for name in SYSTEMS]
                more = 100 * (one.values["rescored"] - one.values[one.better])
                interval = f"{more:+.1f} ({100 * one.low:+.1f} to {100 * one.high:+.1f})"
                queries, alpha = f"{one.queries:,}", f"{one.alpha:g}"
                lines.append([task, one.measure, model, queries, *shown, alpha, interval])
    return lines


def overlap_lines(overlap: ArtifactRef) -> Lines:
    """What of each set of texts the training corpus has."""
    lines = [["texts", "number", "whole texts, %", "runs of 8 words, %"]]
    for name, one in overlaps_of(overlap).items():
        runs = "" if one.runs is None else f"{100 * one.runs:.2f}"
        lines.append([name, f"{one.texts:,}", f"{100 * one.exact:.2f}", runs])
    return lines
