"""What annotation made of documents: one of them before and after, then the clusters of all."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from sentemb_core.annotation.statistics import KEPT_SHARE_WARNING
from sentemb_core.formats import ABSENT, count, decimal, letters, percent
from sentemb_core.report.chapters.parts import (
    Drawings,
    explained,
    footnote,
    named,
    nothing_to_show,
    panel,
)
from sentemb_core.report.data import READABLE, DocumentClusters, Labelling, RoundRow, RunReport
from sentemb_core.report.drawing import HUES
from sentemb_core.report.legends import ANNOTATION
from sentemb_core.report.markup import Html, join, quoted, table, tag

MATES_SHOWN = 10


def before_and_after(report: RunReport, drawings: Drawings) -> Html:
    """One document, its sentences as rows, their cluster under every encoder as columns."""
    document = report.document
    if document is None or not document.rounds:
        fewest, most = READABLE
        return nothing_to_show(
            f"No document of {fewest} to {most} sentences was clustered, so there is no before and "
            "after."
        )
    title = [": ", quoted(document.counterpart)] if document.counterpart else []
    rows = [
        [
            str(place + 1),
            quoted(sentence),
            *(_chip(labels, before, place) for before, labels in _with_before(document)),
        ]
        for place, sentence in enumerate(document.sentences)
    ]
    return join(
        [
            tag("p", "Document ", tag("code", quoted(document.name)), *title),
            table(
                "Sentences of one document and their cluster under each encoder",
                ["No.", "Sentence", *(quoted(labels.label) for labels in document.rounds)],
                rows,
                numeric=False,
            ),
            footnote(
                "Of a hundred documents the one that the first and the best encoder (the last, "
                "where the first is the best) see most differently. A letter is a cluster, the "
                "numbers beside it are the other sentences in it; letters start anew in every "
                "column. A bold ring marks a sentence whose company changed since the column "
                "before."
            ),
        ]
    )


def _with_before(document: DocumentClusters) -> list[tuple[Labelling, Labelling]]:
    """Every labelling with the one before it; the first with itself."""
    return [(document.rounds[0], document.rounds[0]), *pairwise(document.rounds)]


def _chip(labels: Labelling, before: Labelling, place: int) -> Html:
    """Letter of the sentence's cluster and the numbers of its mates."""
    mates = _mates(labels.clusters, place)
    changed = mates != _mates(before.clusters, place)
    shown = ", ".join(str(mate + 1) for mate in mates[:MATES_SHOWN])
    more = f" and {len(mates) - MATES_SHOWN} more" if len(mates) > MATES_SHOWN else ""
    cluster = labels.clusters[place]
    return tag(
        "span",
        tag("b", letters(cluster), class_=f"hue-{cluster % len(HUES)}"),
        f" {shown}{more}" if mates else " alone",
        tag("span", " (changed)", class_="unseen") if changed else "",
        class_="chip changed" if changed else "chip",
    )


def _mates(clusters: Sequence[int], place: int) -> list[int]:
    return [
        other
        for other, cluster in enumerate(clusters)
        if cluster == clusters[place] and other != place
    ]


def clusters(report: RunReport, drawings: Drawings) -> Html:
    """Sizes, the share of pairs kept, and how much the clusters still change."""
    rows = [row for row in report.rounds if row.kept_share is not None or row.pairs is not None]
    if not rows and not report.cluster_sizes:
        return nothing_to_show("No annotation ran, so there are no clusters.")
    body = [
        [
            named(row),
            percent(row.kept_share),
            decimal(row.clusters_per_document, 1),
            count(row.pairs),
            percent(row.adjacent_share),
            percent(row.related_share),
            decimal(row.churn, 2),
            _turnover(row),
            percent(row.lexical_overlap),
        ]
        for row in rows
    ]
    ari = " ARI to last: how far the clusters are those of the annotation before, 1 if they are."
    line = "; above the dashed line clusters have grown into whole documents"
    return join(
        [
            *(tag("p", quoted(text), class_="warning") for text in kept_share_warnings(rows)),
            panel(
                drawings.get("stability", ()),
                "Pairs kept: of all pairs inside documents, the share that became positives"
                f"{line if any(row.positives == 'cluster' for row in rows) else ''}."
                f"{ari if any(row.churn is not None for row in rows) else ''}",
            ),
            explained("What each encoder's annotation found", ANNOTATION, body) if body else "",
            _giving(rows),
            _precision(rows),
            panel(
                drawings.get("cluster_sizes", ()),
                "How many clusters have how many sentences, on a common logarithmic scale: a long "
                "tail to the right means clusters that chain through a document.",
            ),
        ]
    )


def _turnover(row: RoundRow) -> str:
    if row.new_share is None or row.gone_share is None:
        return ABSENT
    return f"{percent(row.new_share)}, {percent(row.gone_share)}"


def _giving(rows: Sequence[RoundRow]) -> Html:
    """What share of the documents an annotation reached."""
    told = [
        f"{percent(row.giving_share)} in {row.label}"
        for row in rows
        if row.giving_share is not None
    ]
    if not told:
        return Html("")
    return footnote(f"Of the documents that teach, those that give a pair: {', '.join(told)}.")


def _precision(rows: Sequence[RoundRow]) -> Html:
    """What bfloat16 changed, where it annotated."""
    told = [f"{percent(row.drift)} in {row.label}" for row in rows if row.drift is not None]
    if not told:
        return Html("")
    drawn = " (but for related ones, which are drawn)"
    return footnote(
        "Annotated in bfloat16, twice as fast. Of the pairs of a sample of documents"
        f"{drawn if any(row.positives == 'related' for row in rows) else ''}, float32 finds "
        f"otherwise: {', '.join(told)}."
    )


def kept_share_warnings(rows: Iterable[RoundRow]) -> list[str]:
    """One sentence for each annotation whose clusters kept too large a share of the pairs."""
    return [
        f"{row.label}: {percent(row.kept_share)} of all pairs inside documents were kept, above "
        f"{percent(KEPT_SHARE_WARNING)}. The clusters have grown into whole documents and say "
        "little: lower top_k, set mutual = true or, for k-means, raise n_clusters."
        for row in rows
        if row.positives == "cluster"
        and row.kept_share is not None
        and row.kept_share > KEPT_SHARE_WARNING
    ]
