"""What the encoder finds and misses: pairs to read, queries gone wrong, tasks of the suite."""

from collections.abc import Sequence

from sentemb_core.formats import count, decimal
from sentemb_core.report.chapters.parts import (
    Drawings,
    explained,
    footnote,
    nothing_to_show,
    pairs_share_a_cluster,
    panel,
)
from sentemb_core.report.data import RunReport, SentencePair
from sentemb_core.report.legends import FIXED, LOST, OTHER, OWN, READ_SCORES, SUITE
from sentemb_core.report.markup import Html, join, quoted, table, tag


def examples(report: RunReport, drawings: Drawings) -> Html:
    """The pairs that show most of the annotation."""
    if not (report.best_pairs or report.worst_pairs):
        exported = any(row.pairs for row in report.rounds)
        absent = "vectors were kept to rank them by" if exported else "pairs were exported"
        return nothing_to_show(f"No {absent}, so there are none to read.")
    still = " that still share a cluster" if pairs_share_a_cluster(report) else ""
    return join(
        [
            _pair_table("Closest pairs", report.best_pairs),
            _pair_table(f"Farthest pairs{still}", report.worst_pairs),
            footnote(
                "Of the last round's pairs, with the cosine of the encoder that annotated. Closest "
                "pairs should say the same in other words; the farthest show what the "
                "annotation takes along by mistake."
            ),
        ]
    )


def _pair_table(caption: str, pairs: Sequence[SentencePair]) -> Html:
    if not pairs:
        return Html("")
    rows = [[decimal(pair.cosine), quoted(pair.left), quoted(pair.right)] for pair in pairs]
    return table(caption, ["Cosine", "Sentence", "Sentence"], rows, numeric=False)


def lost_queries(report: RunReport, drawings: Drawings) -> Html:
    """Where the best encoder still fails."""
    if not report.lost_queries:
        return nothing_to_show(
            "Every query of the validation split found its answer first, or none asked."
        )
    lost = [
        [count(row.rank), quoted(row.query), quoted(row.wanted), quoted(row.found)]
        for row in report.lost_queries
    ]
    caption = (
        f"Queries of the validation split ({report.forward}) whose answer the best encoder ranks "
        "last"
    )
    return join(
        [
            explained(caption, LOST, lost, numeric=False),
            footnote(
                "Some queries cannot be answered by meaning (a title that says nothing); the "
                "others are what the encoder has yet to learn."
            ),
        ]
    )


def evaluation(report: RunReport, drawings: Drawings) -> Html:
    """The encoder on tasks of the suite, where a benchmark has scored it."""
    found = report.evaluation
    if found is None:
        absent = nothing_to_show(
            "No benchmark on this machine had scored this encoder when the report was written."
        )
        typed = tag("pre", tag("code", "\n".join(report.evaluate)), class_="scroll", tabindex=0)
        how = join([footnote("These two commands bring its scores here:"), typed])
        return join([absent, how if report.evaluate else ""])
    own, *others = found.systems
    told = {name: FIXED if name in found.fixed else OTHER for name in others}
    meanings = SUITE | {own: OWN} | told
    rows = [[quoted(cell) for cell in row] for row in found.rows]
    caption = "Times 100, with the 95 % interval over each task's queries or pairs"
    where = join(["Benchmark ", quoted(found.run), "; all of it: ", quoted(found.page)])
    picture = panel(drawings.get("evaluation", ()), READ_SCORES)
    return join([picture, explained(caption, meanings, rows), footnote(where)])
