"""What a run returned, as its page, the terminal, Prefect and MLflow show it."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from sentemb_core.formats import change, decimal
from tasks.artifacts import RunResult, artifact_path
from tasks.results import Pivot, ResultRow, ResultTable
from tasks.retriever import choice_of
from tasks.verdict import DEPTH, Comparison, System, Verdict, pool_of

if TYPE_CHECKING:
    from sentemb_core.report.data import CandidateRow, RetrieverReport
    from sentemb_core.retriever.choice import Choice

METRIC = f"MRR@{DEPTH}"


def retriever_report(
    training: RunResult, verdict: Verdict, commands: list[str], counterpart: str | None
) -> "RetrieverReport":
    """Return what the page of a run shows of its retriever; `counterpart` is their column."""
    from sentemb_core.report.data import RetrieverReport, ServedRow

    assert training.retriever, "the run returns a retriever"
    choice = choice_of(training.retriever.choice)
    compared = training.retriever.compared
    beside = [
        ServedRow(
            name=each.baseline.name,
            to_counterparts=each.baseline.to_counterparts,
            to_documents=each.baseline.to_documents,
            gain=each.gain,
            low=each.low,
            high=each.high,
        )
        for each in verdict.comparisons
    ]
    own = ServedRow(
        name="returned",
        to_counterparts=verdict.own.to_counterparts,
        to_documents=verdict.own.to_documents,
    )
    return RetrieverReport(
        serve=verdict.serve,
        answer=verdict.head,
        shares=verdict.shares,
        label=choice.label,
        directions=directions(training, counterpart),
        systems=[*beside, own],
        commands=commands,
        trust=trust_of(training, choice, verdict, counterpart),
        queries=choice.queries,
        candidates=candidate_rows(choice),
        encoders=candidate_rows(choice_of(compared)) if compared else [],
    )


def candidate_rows(choice: "Choice") -> "list[CandidateRow]":
    """Return each candidate with its result, and why it was not chosen."""
    from sentemb_core.report.data import CandidateRow

    return [
        CandidateRow(
            label=row.candidate.label,
            parts=list(row.candidate.spec.names),
            width=row.candidate.width,
            mrr=row.mrr,
            to_best=row.to_best,
            low=row.low,
            high=row.high,
            why_not=choice.why_not(row),
        )
        for row in choice.judged
    ]


def directions(training: RunResult, counterpart: str | None) -> tuple[str, str]:
    """Return the directions of search in words: document → title, and the reverse."""
    from sentemb_core.corpus.validation_pool import SIDES

    kind = pool_of(training).kind
    query, candidate = SIDES[kind]
    if kind == "counterpart":
        candidate = counterpart or candidate
    return f"{query} → {candidate}", f"{candidate} → {query}"


def trust_of(
    training: RunResult, choice: "Choice", verdict: Verdict, counterpart: str | None
) -> list[str]:
    """Return how far the verdict can be trusted: its queries, their kind, and their number."""
    from sentemb_core.evaluation.pool_size import pool_doubts
    from sentemb_core.retriever.choice import unchosen

    pool = pool_of(training)
    if pool.kind == "counterpart":
        asked = (
            f"Judged on {verdict.queries:,} documents and their {counterpart or 'counterpart'}, "
            f"which no choice has seen, among {pool.n_candidates:,}. People may search in other "
            "words: try some of their searches with the commands above."
        )
    else:
        asked = (
            f"There are no titles or queries. {verdict.queries:,} held-out documents were judged: "
            "one half of each looks for the other. Such queries share the style of their "
            "documents, so this says less about people's searches. Try some with the commands "
            "above, or name a column of titles (--counterpart-column)."
        )
    return [
        asked,
        *pool_doubts(artifact_path(training.texts.validation_pool)),
        *([unchosen(choice.queries)] if choice.fixed else []),
    ]


def candidate_lines(choice: "Choice") -> list[dict[str, str]]:
    """Return every candidate as a line of texts."""
    return [
        {
            "retriever": row.candidate.label,
            "parts": ", ".join(row.candidate.spec.names),
            "dimensions": str(row.candidate.width),
            METRIC: decimal(row.mrr),
            "minus the best (95 %)": f"{change(row.to_best)} ({change(row.low)} to "
            f"{change(row.high)})",
            "why not": choice.why_not(row) or "chosen",
        }
        for row in choice.judged
    ]


def served_table(
    training: RunResult, verdict: Verdict, counterpart: str | None = None
) -> ResultTable:
    """Return BM25, the start encoder and the retriever, and what this one has more than each."""
    ways = directions(training, counterpart)
    this = "this row, over both" if verdict.both else "this row"
    rows = [
        row
        for each in verdict.comparisons
        for row in [
            *system_rows(each.baseline, ways),
            difference_row(each, each.baseline.name, this, "returned"),
        ]
    ]
    return compared_table(training, [*rows, *system_rows(verdict.own, ways)])


def compared_table(training: RunResult, rows: Iterable[ResultRow]) -> ResultTable:
    """Return systems as lines, and MRR@10 in both directions and a difference as columns."""
    pool = pool_of(training)
    return ResultTable(
        id="served",
        title=f"{METRIC} on the test split: {len(pool.queries('test')):,} documents, "
        f"{pool.n_candidates:,} candidates",
        rows=tuple(rows),
        pivot=Pivot(columns=("direction", "metric")),
    )


def system_rows(system: System, ways: tuple[str, str]) -> Iterator[ResultRow]:
    """Yield the MRR@10 of a system in both directions."""
    for way, value in zip(ways, (system.to_counterparts, system.to_documents), strict=True):
        yield ResultRow(system=system.name, metric=METRIC, direction=way, split="test", value=value)


def difference_row(
    comparison: Comparison, system: str, baseline: str, metric: str = METRIC
) -> ResultRow:
    """Return a difference in MRR@10, over the queries of the directions that count."""
    return ResultRow(
        system=system,
        metric=metric,
        baseline=baseline,
        split="test",
        value=comparison.gain,
        low=comparison.low,
        high=comparison.high,
    )
