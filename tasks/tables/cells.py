"""The cells of a table of methods: what each measured, as rows for people and for programs."""

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import TYPE_CHECKING

from pydantic import Field

from sentemb_core.console import terminal_table
from sentemb_core.formats import counted
from sentemb_core.types import ArtifactRef, Json, Value
from tasks.artifact_files import artifact_path
from tasks.benchmark import largest_overlaps, pools_told, result_of
from tasks.results import grouped
from tasks.table_notes import OF_PAIRS, ONE_FIELD, bm25_note, contamination_notes, pool_notes
from tasks.tables.markdown import across, markdown_table
from tasks.validate import language_of, scores_of

if TYPE_CHECKING:
    from rich.table import Table

    from sentemb_core.evaluation.task_result import TaskResult

    Hits = dict[int, TaskResult]
    """Seed -> which queries found their title among five."""

Key = tuple[str, str, str, int]
"""Of a row: corpus, start encoder, method and labels."""

RECALLS = ("R@1", "R@5", "R@10")

START = "start encoder"
"""The row that others are compared with."""

GAIN = "R@5 less the start (95 %)"

ONE_SEED = "one seed alone knows the noise of the queries, not that of training"


class MethodCell(Value):
    """One encoder of a table: how it was made, and its scores or the error that it ended in.

    Attributes:
        labels: Pairs that it was fine-tuned on at last.
        steps: Without labels, in each cycle; 0: none.
        cycles: Of InfoCSE++.
        seconds: Its training took, when it was computed.
        segmented: Share of the texts that HiCL cut.
        language: What the Condenser stage before it learnt.
    """

    corpus: str
    start: str
    method: str
    seed: int
    labels: int = 0
    steps: int = 0
    cycles: int = 1
    batch_size: int = 0
    scores: ArtifactRef | None = None
    sts: dict[str, ArtifactRef] = Field(default_factory=dict[str, ArtifactRef])
    seconds: float = 0.0
    segmented: float | None = None
    language: ArtifactRef | None = None
    error: str = ""

    @property
    def learnt(self) -> bool:
        return bool(self.steps or self.labels)


class CellsTable(Value):
    """The cells of a table, and what of its judges' texts training read.

    Attributes:
        cells: Row by row.
        overlaps: Of the sets of texts, one for each corpus that they judge.
        pools: Corpus -> its pool of titles.
    """

    cells: list[MethodCell]
    overlaps: list[ArtifactRef]
    pools: dict[str, ArtifactRef]

    def seen(self) -> list[str]:
        """Notes for beneath the table."""
        overlaps = contamination_notes(largest_overlaps(self.overlaps))
        return [*overlaps, *pool_notes(pools_told(self.pools))]


def numbers_of(cell: MethodCell) -> dict[str, float]:
    """Recalls of the test split, document to title; Spearman's correlation over all pairs."""
    told = {name: result_of(ref).value for name, ref in cell.sts.items()}
    if cell.scores:
        test = scores_of(cell.scores)["test"].document_to_counterpart.model_dump()
        told |= {f"R@{k}": test[f"recall_at_{k}"] for k in (1, 5, 10)}
    return told


def cells_json(cells: Sequence[MethodCell]) -> list[Json]:
    """Every cell with its numbers, and its row's gain over the start, of all seeds together."""
    refs = {"scores", "sts", "language"}
    gains = gains_over_start(cells)
    return [
        cell.model_dump(mode="json", exclude=refs)
        | numbers_of(cell)
        | ({"less_start": gains[key_of(cell)]} if key_of(cell) in gains else {})
        | ({"language": language_of(cell.language).model_dump()} if cell.language else {})
        for cell in cells
    ]


def header(cells: Sequence[MethodCell]) -> list[str]:
    """Of titles there are no columns where pairs of sentences alone judge."""
    judges = dict.fromkeys(name for cell in cells for name in cell.sts)
    recalls = RECALLS if any(cell.scores for cell in cells) or not judges else ()
    labels = ["labels"] if any(cell.labels for cell in cells) else []
    compared = [GAIN] if any(cell.method == START and cell.scores for cell in cells) else []
    numbers = [*recalls, *compared, *judges]
    return ["corpus", "start", "method", *labels, *numbers, "steps", "batch", "seconds"]


def lines(cells: Sequence[MethodCell]) -> list[list[str]]:
    """One line for all seeds of a corpus, start encoder and method, in the cells' first order."""
    columns = header(cells)[3:-3]
    labelled = columns[:1] == ["labels"]
    gains = {key: told_gain(gain) for key, gain in gains_over_start(cells).items()}
    return [
        line_of(seeds, columns[labelled:], gains.get(key, ""), labelled=labelled)
        for key, seeds in grouped((key_of(cell), cell) for cell in cells).items()
    ]


def key_of(cell: MethodCell) -> Key:
    return cell.corpus, cell.start, cell.method, cell.labels


def line_of(
    seeds: Sequence[MethodCell], columns: Sequence[str], gain: str, *, labelled: bool
) -> list[str]:
    """Means over seeds; where a seed failed, its code too, in the first column."""
    told = [numbers_of(cell) for cell in seeds if not cell.error]
    codes = dict.fromkeys(cell.error.split()[0] for cell in seeds if cell.error)
    values = [
        gain if name == GAIN else across([one[name] for one in told if name in one])
        for name in columns
    ]
    if codes:
        values[0] = " ".join([values[0], *codes]).strip()
    cell = seeds[0]
    took = [one.seconds for one in seeds if not one.error]
    seconds = f"{mean(took):.0f}" if took and cell.learnt else ""
    times = f"{cell.cycles} x " if cell.cycles > 1 else ""
    steps = [f"{times}{cell.steps:,}", str(cell.batch_size)] if cell.steps else ["", ""]
    labels = [f"{cell.labels:,}"] if labelled else []
    return [cell.corpus, cell.start, cell.method, *labels, *values, *steps, seconds]


def cells_table(cells: Sequence[MethodCell]) -> "Table":
    """A line a method, for the terminal."""
    names, below = header(cells), "\n".join(told_below(cells))
    return terminal_table(names, lines(cells), range(3, len(names)), caption=below)


def cells_markdown(cells: Sequence[MethodCell], seen: Sequence[str] = ()) -> str:
    """A line a method, for a document, with notes below; `seen`: of what training read."""
    names = header(cells)
    told = [*(f"- {line}" for line in (*told_below(cells), *seen)), *notes(cells)]
    table = markdown_table(names, lines(cells), range(3, len(names)))
    return "\n".join([table, *(["", *told] if told else [])])


def told_below(cells: Sequence[MethodCell]) -> list[str]:
    """Which BM25 it was, what one seed knows of a gain, and `told_leads`."""
    shared = (own.keys() & before.keys() for own, before in beside_start(cells).values())
    alone = [f"{GAIN}: {ONE_SEED}."] if any(len(seeds) == 1 for seeds in shared) else []
    fields = [ONE_FIELD for cell in cells if cell.scores] + [OF_PAIRS for cell in cells if cell.sts]
    words = bm25_note((cell.method for cell in cells), dict.fromkeys(fields))
    return [*words, *alone, *told_leads(cells)]


def gains_over_start(cells: Sequence[MethodCell]) -> dict[Key, Json]:
    """What each row with titles gains over its start encoder, on the same test queries."""
    return {key: gain_of(own, before) for key, (own, before) in beside_start(cells).items()}


def beside_start(cells: Sequence[MethodCell]) -> "dict[Key, tuple[Hits, Hits]]":
    """Each row with titles and its start encoder, where they have a seed in common."""
    hits = title_hits(cells)
    found: dict[Key, tuple[Hits, Hits]] = {}
    for (corpus, start, method, labels), own in hits.items():
        before = hits.get((corpus, start, START, 0), {})
        if method != START and own.keys() & before.keys():
            found[corpus, start, method, labels] = own, before
    return found


def told_gain(gain: Json) -> str:
    """The mean, and its interval."""
    return f"{gain['mean']:+.3f} ({gain['low']:+.3f} to {gain['high']:+.3f})"


class Lead(Value):
    """What the best method for a number of labels has over another in R@5, and how surely.

    The mean difference over the seeds that both have, its 95 % interval, and in how many of
    these seeds it is above zero; no seed in common: no numbers.
    """

    corpus: str
    start: str
    labels: int
    best: str
    other: str
    seeds: int
    above: int = 0
    mean: float | None = None
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        where = f"{self.corpus}, {self.start}, {counted(self.labels, 'label')}"
        told = f"{where}: {self.best} less {self.other}"
        if not self.seeds:
            return f"{told} have no seed in common"
        seeds = f"{self.above} of {counted(self.seeds, 'seed')}"
        alone = f"; {ONE_SEED}" if self.seeds == 1 else ""
        return f"{told} {told_gain(self.model_dump())}, above in {seeds}{alone}"


def leads(cells: Sequence[MethodCell]) -> list[Lead]:
    """For each number of labels, the best method against each other one."""
    if not any(cell.labels for cell in cells):
        return []
    told: list[Lead] = []
    for (corpus, start, labels), methods in sorted(hits_of(cells).items()):
        means = means_of(methods)
        best, *others = sorted(methods, key=lambda name: -means[name])
        for other in others:
            named = {"corpus": corpus, "start": start, "labels": labels, "best": best}
            gain = gain_of(methods[best], methods[other])
            told.append(Lead.model_validate(named | {"other": other} | gain))
    return told


def means_of(methods: "Mapping[str, Hits]") -> dict[str, float]:
    """Of each method, over the seeds that all have: another seed is another task.

    Without any in common, over its own.
    """
    shared = set.intersection(*map(set, methods.values()))
    return {
        name: mean(hits[seed].value for seed in shared or hits) for name, hits in methods.items()
    }


def gain_of(one: "Hits", other: "Hits") -> Json:
    """Of a `Lead`: its numbers."""
    from sentemb_core.evaluation.bootstrap import over_seeds
    from sentemb_core.evaluation.comparison import seeds_interval

    pairs = [(one[seed], other[seed]) for seed in one if seed in other]
    if not pairs:
        return {"seeds": 0}
    differences = [hits.value - its.value for hits, its in pairs]
    gain = over_seeds(seeds_interval([pairs]), differences)
    above = sum(one > 0 for one in differences)
    bounds = {"mean": gain.mean, "low": gain.low, "high": gain.high}
    return {"seeds": len(pairs), "above": above} | bounds


def told_leads(cells: Sequence[MethodCell]) -> list[str]:
    """`leads` in words, under their heading."""
    found = leads(cells)
    head = "R@5 of the best for each number of labels, less the others, 95 %:"
    return [head, *map(str, found)] if found else []


def hits_of(cells: Sequence[MethodCell]) -> "dict[tuple[str, str, int], dict[str, Hits]]":
    """Of what learnt, by corpus, start encoder and labels, then method."""
    found: dict[tuple[str, str, int], dict[str, Hits]] = {}
    learnt = title_hits([cell for cell in cells if cell.learnt])
    for (corpus, start, method, labels), hits in learnt.items():
        found.setdefault((corpus, start, labels), {})[method] = hits
    return found


def title_hits(cells: Sequence[MethodCell]) -> "dict[Key, Hits]":
    """Row by row, of those that titles judge."""
    from sentemb_core.evaluation.validation_scores import title_result

    found: dict[Key, Hits] = {}
    for cell in cells:
        if cell.scores:
            hits = title_result(artifact_path(cell.scores), "R@5")
            found.setdefault(key_of(cell), {})[cell.seed] = hits
    return found


def notes(cells: Sequence[MethodCell]) -> list[str]:
    """How many texts had segments, what a Condenser stage learnt, why cells have no numbers.

    One line for all that agree.
    """
    where = grouped(
        (told, f"{cell.method} on {cell.corpus} from {cell.start}")
        for told_of in (segments_of, condenser_of, error_of)
        for cell in cells
        if (told := told_of(cell))
    )
    return [f"- {', '.join(dict.fromkeys(names))}: {told}" for told, names in where.items()]


def segments_of(cell: MethodCell) -> str:
    if cell.segmented is None:
        return ""
    return f"{cell.segmented:.1%} of the texts have more than one segment"


def condenser_of(cell: MethodCell) -> str:
    if not cell.language:
        return ""
    found = language_of(cell.language)
    both = {"it": found.late, "its head": found.condensed}
    poor = " and ".join(name for name, loss in both.items() if loss >= found.unigram)
    doubt = f": {poor} learnt less than word counts know" if poor else ""
    return (
        f"the Condenser stage before it tells a masked token of unseen texts at {found.late:.2f} "
        f"nats, its head at {found.condensed:.2f}; by the tokens' shares alone {found.unigram:.2f}"
        f"{doubt}"
    )


def error_of(cell: MethodCell) -> str:
    return cell.error.splitlines()[0] if cell.error else ""
