"""What a benchmark found, as lines of tables and points of pictures, for whoever shows it."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from sentemb_core.config.suite import GROUPS, Group
from sentemb_core.formats import counted
from sentemb_core.types import ArtifactRef
from tasks.benchmark import diagnosis_of, overlaps_of
from tasks.fusion import ALONE, Estimate, Fusion, fusion_of
from tasks.tables.scoreboard import Agreement, Lead, ScoreCell

if TYPE_CHECKING:
    from sentemb_core.report.data import Point

Lines = list[list[str]]
"""The head first."""

TITLES: dict[Group, str] = {
    "retrieval": "Retrieval",
    "sts": "STS",
    "transfer": "Transfer",
    "reviews": "Long reviews",
    "probing": "Probing",
}

HALVES = {
    True: "The halves are of documents that a run on this corpus without counterparts or labels "
    "holds out of its training, if it has 1,000 candidates (validation.candidates) or more; a "
    "model that was trained on it with them (--counterpart-column) has read the halves.",
    False: "A model that was trained on this corpus may have read the halves: counterparts judge a "
    "run on it, or it holds out too few documents.",
}
"""Whether they are held out -> what that means."""


def points_of(cells: Sequence[ScoreCell], fixed: Collection[str]) -> "list[Point]":
    """What the figure of all scores shows."""
    from sentemb_core.report.data import Point

    return [
        Point(
            panel=f"{TITLES[cell.group]}, times 100",
            task=f"{cell.task} ({cell.measure})",
            system=cell.system,
            fixed=cell.system in fixed,
            value=cell.value,
            low=cell.low,
            high=cell.high,
        )
        for group in GROUPS
        for cell in cells
        if cell.group == group
    ]


def diagnosis_lines(
    diagnoses: Mapping[str, ArtifactRef], agreed: Mapping[Group, Agreement]
) -> Lines:
    """Measures down, models across, then their rank correlation with the scores."""
    from sentemb_core.evaluation.label_free import MEASURES

    found = [diagnosis_of(ref).model_dump() for ref in diagnoses.values()]
    ways = (f"rho {TITLES[group]}, {told.models} models" for group, told in agreed.items())
    head = ["diagnostic", *diagnoses, *ways]
    rows = [
        [
            measure.replace("_", " "),
            *(f"{told[measure]:.3f}" for told in found),
            *(f"{one.rho[measure]:+.2f}" if measure in one.rho else "" for one in agreed.values()),
        ]
        for measure in MEASURES
    ]
    return [head, *rows]


def halves_lines(diagnoses: Mapping[str, ArtifactRef]) -> list[str]:
    """Whether a model that was trained on the corpus may have read the halves that judge it."""
    held_out = {diagnosis_of(ref).held_out for ref in diagnoses.values()}
    return [HALVES[told] for told in (True, False) if told in held_out]


def further_lines(cells: Sequence[ScoreCell]) -> list[str]:
    """What stands beneath the main measures."""
    return [*subset_lines(cells), *precision_lines(cells), *few_lines(cells)]


def subset_lines(cells: Sequence[ScoreCell]) -> list[str]:
    """SentEval's own settings beside `all`, a line for each STS task that has subsets.

    Without any, both are `all` itself.
    """
    sts = [cell for cell in cells if cell.group == "sts"]
    having = {cell.task for cell in sts if cell.measures["mean"] != cell.value}
    of_subsets = [cell for cell in sts if cell.task in having]
    return lines_of(of_subsets, "mean and weighted mean over its subsets", "mean", "wmean")


def precision_lines(cells: Sequence[ScoreCell]) -> list[str]:
    """P@10 and the capped recall, one line a product set (product_thesis reports both)."""
    return lines_of([cell for cell in cells if cell.measure == "R_cap@10"], "P@10", "P@10")


def lines_of(cells: Sequence[ScoreCell], called: str, *measures: str) -> list[str]:
    """A line for each task: every system with these measures."""
    told: dict[str, list[str]] = {}
    for cell in cells:
        numbers = ", ".join(f"{100 * cell.measures[name]:.1f}" for name in measures)
        told.setdefault(cell.task, []).append(f"{cell.system} {numbers}")
    return [f"{task}, {called}: {'; '.join(values)}" for task, values in told.items()]


def few_lines(cells: Sequence[ScoreCell]) -> list[str]:
    """Tasks so small that a bootstrap of them knows nothing of other queries."""
    from sentemb_core.evaluation.bootstrap import FEWEST

    units = {cell.task: cell.units for cell in cells if cell.units < FEWEST}
    return [
        f"{task}: {counted(number, 'unit')}, fewer than {FEWEST}, so that its intervals say nothing"
        for task, number in units.items()
    ]


def fusion_lines(fusions: Mapping[str, Mapping[str, ArtifactRef]]) -> Lines:
    """Every task, model, and way to join it with BM25."""
    values = ("queries", "BM25", "alone", "both", "less BM25", "less alone")
    lines = [["task", "measure", "model", "joined by", *values, "better"]]
    for task in dict.fromkeys(task for told in fusions.values() for task in told):
        for model, told in fusions.items():
            if task in told:
                lines += joined_lines(task, model, fusion_of(told[task]))
    return lines


def joined_lines(task: str, model: str, found: Fusion) -> Lines:
    """Three values times 100, what is gained over either alone, and who is better for sure."""
    ways = {"rescored": f"alpha {found.alpha:g}", "fused": "rank fusion"}
    lines: Lines = []
    for joined, way in ways.items():
        values = [f"{100 * found.values[name].value:.1f}" for name in (*ALONE, joined)]
        gains = [with_interval(found.gains[joined][name], "+") for name in ALONE]
        names = {
            "bm25": "BM25",
            "encoder": model,
            "alone": "either alone",
            joined: "both",
            None: "not decided",
        }
        start = [task, found.measure, model, way, f"{found.queries:,}"]
        lines.append([*start, *values, *gains, names[found.better(joined)]])
    return lines


def with_interval(found: ScoreCell | Estimate | None, sign: str = "") -> str:
    """Times 100, with the 95 % interval; empty where nothing was measured."""
    if found is None:
        return ""
    value, low, high = (f"{100 * one:{sign}.1f}" for one in (found.value, found.low, found.high))
    return f"{value} ({low} to {high})"


def leads_told(leads: Mapping[str, Lead]) -> list[str]:
    """What a star means, where several models are in the table."""
    sure = sum(one.is_sure for one in leads.values())
    told = (
        "*: better than every other model here (BM25 and chance aside), and not by the choice "
        "of queries or pairs alone (no 95 % interval of a paired bootstrap holds 0); so in "
        f"{sure} of {counted(len(leads), 'line')}. `compare` has the differences of two."
    )
    return [told] if leads else []


def lead_told(lead: Lead | None) -> str:
    """The best model less the one that it is least surely above, times 100."""
    if lead is None:
        return ""
    rival, found = lead.least_sure
    gain = Estimate(value=found.difference, low=found.low, high=found.high)
    return f"{lead.best} less {rival} {with_interval(gain, '+')}"


def overlap_lines(overlap: ArtifactRef) -> Lines:
    """What of each set of texts the training corpus has."""
    lines = [["texts", "number", "whole texts, %", "runs of 8 words, %"]]
    for name, one in overlaps_of(overlap).items():
        runs = "" if one.runs is None else f"{100 * one.runs:.2f}"
        lines.append([name, f"{one.texts:,}", f"{100 * one.exact:.2f}", runs])
    return lines
