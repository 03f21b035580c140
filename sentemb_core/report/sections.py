"""The chapters of a report's page, in reading order: each from the data to markup.

A chapter with nothing to show says in one sentence why.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

from sentemb_core.corpus.quarantine import REASONS
from sentemb_core.formats import (
    ABSENT,
    change,
    count,
    counted,
    decimal,
    duration,
    letters,
    percent,
)
from sentemb_core.idc.stats import KEPT_SHARE_WARNING
from sentemb_core.report.data import (
    CUTOFFS,
    DocumentClusters,
    FixedRow,
    Labelling,
    Refusals,
    RoundRow,
    RunReport,
    SentencePair,
)
from sentemb_core.report.figures import HUES, Drawing, seconds_by_stage
from sentemb_core.report.legends import (
    ANNOTATION,
    BY_STAGE,
    COUNTS,
    EVERY_STAGE,
    FIRST_REFUSED,
    FIXED,
    GEOMETRY,
    LOST,
    OTHER,
    OWN,
    RECALL,
    REFUSED,
    SUITE,
    Legend,
)
from sentemb_core.report.markup import Html, join, legend, quoted, table, tag
from sentemb_core.report.svg import inline_svg

Drawings = Mapping[str, Sequence[Drawing]]
MATES_SHOWN = 10


def verdict(report: RunReport, drawings: Drawings) -> Html:
    """The outcome in words, four numbers, and what a reader must know beside it."""
    notes = [tag("li", quoted(note)) for note in report.notes]
    warned = [tag("li", text, class_="warning") for text in kept_share_warnings(report.rounds)]
    return join(
        [
            tag("p", quoted(report.verdict), class_="verdict"),
            _tiles(report),
            tag("ul", *warned, *notes, class_="notes") if warned or notes else "",
        ]
    )


def what_moved(report: RunReport, drawings: Drawings) -> Html:
    """The deciding metric by round, then every Recall@k on both splits."""
    if not report.rounds:
        return _absent("No encoder was validated, so no metric can be shown.")
    pool = f" among {count(report.candidates)} candidates" if report.candidates else ""
    controls = any(row.kind == "control" for row in report.rounds)
    diamonds = "; diamonds are the controls: as much training without self-annotation."
    return join(
        [
            _panel(
                drawings["recall"],
                f"R@{report.cutoff} of every encoder. Solid circles are the validation split, "
                "which decides; squares on the dotted line are the test split, which decides "
                "nothing. The band is the 95 % bootstrap interval of the validation score; dashed "
                f"lines are fixed rows (validation){diamonds if controls else '.'}",
            ),
            _recall_table(report, "validation", f"Validation split{pool}: decides the best round"),
            _recall_table(report, "test", f"Test split{pool}: reported, never decided on"),
            legend(RECALL),
        ]
    )


def before_and_after(report: RunReport, drawings: Drawings) -> Html:
    """One document, its sentences as rows, their cluster under every encoder as columns."""
    document = report.document
    if document is None or not document.rounds:
        return _absent("No document was clustered, so there is no before and after.")
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
            _caption(
                "Of a hundred documents the one that the first and the best encoder (the last, "
                "where the first is the best) see most differently. A letter is a cluster, the "
                "numbers beside it are the other sentences in it; letters start anew in every "
                "column. A bold ring marks a sentence whose company changed since the column "
                "before."
            ),
        ]
    )


def clusters(report: RunReport, drawings: Drawings) -> Html:
    """Sizes, the share of pairs kept, and how much the clusters still change."""
    rows = [row for row in report.rounds if row.kept_share is not None or row.pairs is not None]
    if not rows and not report.cluster_sizes:
        return _absent("No annotation ran, so there are no clusters.")
    body = [
        [
            _named(row),
            percent(row.kept_share),
            decimal(row.clusters_per_document, 1),
            count(row.pairs),
            percent(row.adjacent_share),
            percent(row.related_share),
            decimal(row.churn, 2),
            percent(row.lexical_overlap),
        ]
        for row in rows
    ]
    ari = " ARI to last: how far the clusters are those of the annotation before, 1 if they are."
    line = "; above the dashed line clusters have grown into whole documents"
    return join(
        [
            *(tag("p", quoted(text), class_="warning") for text in kept_share_warnings(rows)),
            _panel(
                drawings.get("stability", ()),
                "Pairs kept: of all pairs inside documents, the share that became positives"
                f"{line if any(row.positives == 'cluster' for row in rows) else ''}."
                f"{ari if any(row.churn is not None for row in rows) else ''}",
            ),
            _explained("What each encoder's annotation found", ANNOTATION, body) if body else "",
            _precision(rows),
            _panel(
                drawings.get("cluster_sizes", ()),
                "How many clusters have how many sentences, on a common logarithmic scale: a long "
                "tail to the right means clusters that chain through a document.",
            ),
        ]
    )


def _precision(rows: Sequence[RoundRow]) -> Html:
    """What bfloat16 changed, where it annotated."""
    told = [f"{percent(row.drift)} in {row.label}" for row in rows if row.drift is not None]
    if not told:
        return Html("")
    drawn = " (but for related ones, which are drawn)"
    return _caption(
        "Annotated in bfloat16, twice as fast. Of the pairs of a sample of documents"
        f"{drawn if any(row.positives == 'related' for row in rows) else ''}, float32 finds "
        f"otherwise: {', '.join(told)}."
    )


def similarities(report: RunReport, drawings: Drawings) -> Html:
    """Histograms of positives and negatives, then the geometry of the vectors."""
    rows = [row for row in report.rounds if row.alignment is not None]
    if not report.similarities and not rows:
        return _absent("No similarities were sampled.")
    body = [
        [
            _named(row),
            decimal(row.alignment),
            decimal(row.uniformity),
            decimal(row.effective_rank, 1),
        ]
        for row in rows
    ]
    return join(
        [
            _panel(
                drawings.get("similarities", ()),
                "Filled: pairs inside a cluster of that round's annotation, under the encoder that "
                "made it (before) or learnt from it (after). Dashed outline: sentences of "
                "different documents. The less the two overlap, the better the encoder tells them "
                "apart.",
            ),
            _panel(
                drawings.get("geometry", ()),
                "Each arrow is one round. Down: positives come closer. Left: sentences spread over "
                "the sphere. Up and right together with a falling rank is a collapse.",
            ),
            _explained("Geometry of the sentence vectors", GEOMETRY, body) if body else "",
        ]
    )


def lexical_overlap(report: RunReport, drawings: Drawings) -> Html:
    """Do the pairs share meaning, or merely words?"""
    return _panel(
        drawings.get("overlap", ()),
        "Each dot is one exported pair (2,000 are drawn at random), its cosine that of the encoder "
        "that annotated. Top left: close in meaning, different in words, which is "
        "what self-annotation is for; top right: pairs that repeat their words.",
    ) or _absent("No pairs were sampled, so words cannot be set against meaning.")


def projection(report: RunReport, drawings: Drawings) -> Html:
    """The same sentences under every encoder, on axes that all share."""
    return _panel(
        drawings.get("projection", ()),
        "The same sampled sentences under each encoder, on the two principal axes of all of them "
        "together. One colour and shape is one document (the eight with most sentences here, small "
        "dots are the others): training should gather a document and part it from the others.",
    ) or _absent("No sentences were sampled for the projection.")


def training(report: RunReport, drawings: Drawings) -> Html:
    """Loss and learning rate of every training."""
    return _panel(
        drawings.get("training", ()),
        "Loss and learning rate by optimiser step; the loss is drawn logarithmically above 0.1. "
        "Losses of different tasks (neighbours, clusters) are not comparable; read each line "
        "alone.",
    ) or _absent("No training curve was recorded in this run.")


def examples(report: RunReport, drawings: Drawings) -> Html:
    """The pairs that show most of the annotation."""
    if not (report.best_pairs or report.worst_pairs):
        return _absent("No pairs were exported, so there are none to read.")
    return join(
        [
            _pair_table("Closest pairs", report.best_pairs),
            _pair_table("Farthest pairs that still share a cluster", report.worst_pairs),
            _caption(
                "Of the last round's pairs, with the cosine of the encoder that annotated. Closest "
                "pairs should say the same in other words; the farthest show what the clusters "
                "take along by mistake."
            ),
        ]
    )


def evaluation(report: RunReport, drawings: Drawings) -> Html:
    """The encoder on tasks of the suite, where a benchmark has scored it."""
    found = report.evaluation
    if found is None:
        absent = _absent(
            "No benchmark on this machine had scored this encoder when the report was written."
        )
        typed = tag("pre", tag("code", "\n".join(report.evaluate)), class_="scroll", tabindex=0)
        how = join([_caption("These two commands bring its scores here:"), typed])
        return join([absent, how if report.evaluate else ""])
    own, *others = found.systems
    told = {name: FIXED if name in found.fixed else OTHER for name in others}
    meanings = SUITE | {own: OWN} | told
    rows = [[quoted(cell) for cell in row] for row in found.rows]
    caption = "Times 100, with the 95 % interval over each task's queries or pairs"
    where = join(["Benchmark ", quoted(found.run), "; all of it: ", quoted(found.page)])
    return join([_explained(caption, meanings, rows), _caption(where)])


def lost_queries(report: RunReport, drawings: Drawings) -> Html:
    """Where the best encoder still fails."""
    if not report.lost_queries:
        return _absent("Every query of the validation split found its answer first, or none asked.")
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
            _explained(caption, LOST, lost, numeric=False),
            _caption(
                "Some queries cannot be answered by meaning (a title that says nothing); the "
                "others are what the encoder has yet to learn."
            ),
        ]
    )


def data(report: RunReport, drawings: Drawings) -> Html:
    """What was read and what was refused."""
    read = [
        [_spelled(label), _plain(value), COUNTS.get(label, "")]
        for label, value in report.corpus.items()
    ]
    return join(
        [
            table("Corpus", ["Count", "Value", "Meaning"], read, numeric=False)
            if read
            else _absent("The reader left no counts."),
            _refusals("row", report.quarantine)
            or _absent("No row was refused: the quarantine is empty."),
            _refusals("label", report.labels)
            or _absent(f"None of {counted(report.labels.read, 'label')} was refused.")
            if report.labels
            else "",
        ]
    )


def _refusals(row: str, found: Refusals) -> Html:
    """Counts and shares by reason, the first examples, and where all are; nothing if none is."""
    if not found.counts:
        return Html("")
    by_reason = [
        [quoted(reason), REASONS.get(reason, ""), count(n), percent(n / max(found.read, 1))]
        for reason, n in found.counts.items()
    ]
    first = [
        [count(one.row), quoted(one.excerpt), quoted(one.reason), quoted(one.where)]
        for one in found.rows
    ]
    caption = f"Quarantine: refused {row}s of {count(found.read)} by reason"
    return join(
        [
            _explained(caption, REFUSED, by_reason, numeric=False),
            _explained(f"First refused {row}s", FIRST_REFUSED, first, numeric=False),
            tag("p", f"All refused {row}s: ", tag("code", quoted(found.file)), class_="caption"),
        ]
    )


def timings(report: RunReport, drawings: Drawings) -> Html:
    """Seconds and cache hits by stage, then every single stage."""
    if not report.timings:
        return _absent("No stage was timed.")
    hits = [timing.hit for timing in report.timings]
    by_stage = [
        [quoted(stage), *_ran_and_hit(report, stage), duration(seconds)]
        for stage, seconds in seconds_by_stage(report.timings).items()
    ]
    every = [
        [
            quoted(timing.stage),
            quoted(timing.round) if timing.round else ABSENT,
            "hit" if timing.hit else "ran",
            duration(timing.seconds),
        ]
        for timing in report.timings
    ]
    spent, saved = (
        sum((timing.seconds for timing in report.timings if timing.hit is hit), 0.0)
        for hit in (False, True)
    )
    found = f"; {hits.count(True)} came from the store, which saved {duration(saved)}"
    return join(
        [
            tag(
                "p",
                f"{counted(hits.count(False), 'stage')} ran in {duration(spent)}"
                f"{found if any(hits) else ''}.",
            ),
            _panel(
                drawings.get("timings", ()),
                "Wall time by kind of stage, all rounds together; a hit counts with what it took "
                "when it was computed.",
            ),
            _explained("Stages by kind", BY_STAGE, by_stage),
            tag(
                "details",
                tag("summary", "Every stage in order"),
                _explained("Every stage in order", EVERY_STAGE, every),
            ),
        ]
    )


def reproduce(report: RunReport, drawings: Drawings) -> Html:
    """The command and the facts it depends on."""
    rows = [
        [
            quoted(fact.label),
            tag("a", quoted(fact.value), href=fact.link, rel="noreferrer")
            if fact.link
            else tag("code", quoted(fact.value)),
        ]
        for fact in report.facts
    ]
    settings = [
        [quoted(path), tag("code", quoted(value))] for path, value in report.settings.items()
    ]
    return join(
        [
            tag("pre", tag("code", report.command), class_="scroll", tabindex=0),
            _caption(
                "This command repeats the run; equal data and versions give equal digests. The "
                "file of its settings lies beside this page, wherever that was copied."
            ),
            table("Facts of this run", ["Fact", "Value"], rows, numeric=False)
            if rows
            else _absent("No digests or versions were recorded."),
            tag(
                "details",
                tag("summary", "Every setting"),
                table("Every setting", ["Setting", "Value"], settings, numeric=False),
            )
            if settings
            else "",
        ]
    )


Chapter = Callable[[RunReport, Drawings], Html]
CHAPTERS: dict[str, tuple[str, Chapter]] = {
    "verdict": ("Verdict", verdict),
    "what-moved": ("What moved", what_moved),
    "before-and-after": ("One document, before and after", before_and_after),
    "clusters": ("Clusters", clusters),
    "similarities": ("Similarities", similarities),
    "lexical-overlap": ("Words against meaning", lexical_overlap),
    "projection": ("Sentences on common axes", projection),
    "training": ("Training", training),
    "examples": ("Best and worst pairs", examples),
    "lost-queries": ("Queries that went wrong", lost_queries),
    "evaluation": ("On the evaluation suite", evaluation),
    "data": ("Data and quarantine", data),
    "timings": ("Time and cache", timings),
    "reproduce": ("Reproduce this run", reproduce),
}
"""Anchor, title and content of every chapter."""


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


def _tiles(report: RunReport) -> Html:
    """Start, best round, its control and the first fixed row, by the deciding metric."""
    chosen = [
        *[row for row in report.rounds if row.kind == "start"][:1],
        *[row for row in report.rounds if row.best and row.kind != "start"][:1],
        *_control_of_the_best(report.rounds),
        *report.fixed[:1],
    ]
    scores = [(row, row.validation.forward.get(report.cutoff)) for row in chosen]
    measured = [(row, score) for row, score in scores if score is not None]
    if not measured:
        return Html("")
    start = measured[0][1]
    tiles = [
        tag(
            "div",
            tag("dt", quoted(row.label), _badge(row)),
            tag("dd", decimal(score)),
            tag("dd", f"{change(score - start)} to the start", class_="delta")
            if getattr(row, "kind", "fixed") not in ("start", "fixed")
            else "",
        )
        for row, score in measured
    ]
    return join([tag("dl", *tiles, class_="tiles"), _caption(_rule(report))])


def _rule(report: RunReport) -> str:
    """What the deciding metric counts, and which encoder is the best by it."""
    pool = f"{count(report.candidates)} " if report.candidates else ""
    tuned = any(row.kind == "fine-tuned" for row in report.rounds)
    said = (
        " Candidates that other documents have as a sentence, and that may have been trained on as "
        f"such: {count(report.said_elsewhere)}."
        if report.said_elsewhere
        else ""
    )
    return (
        f"{report.metric}: the share of the queries that find their answer among the first "
        f"{report.cutoff} of {pool}candidates. Best is the highest, of equals the earlier"
        f"{'; cycles return the best of the fine-tuned.' if tuned else '.'}{said}"
    )


def _control_of_the_best(rows: Sequence[RoundRow]) -> list[RoundRow]:
    """The control with as many steps as the best round; as the last one, if none is the best."""
    rounds = [row for row in rows if row.kind == "round"]
    controls = [row for row in rows if row.kind == "control"]
    beside = [control for row, control in zip(rounds, controls, strict=False) if row.best]
    return beside or controls[-1:]


def _recall_table(report: RunReport, split: str, caption: str) -> Html:
    rows: list[FixedRow | RoundRow] = [*report.fixed, *report.rounds]
    directions = [(row, getattr(row, split)) for row in rows]
    body = [
        [
            _named(row),
            *(decimal(both.forward.get(k)) for k in CUTOFFS),
            *(decimal(both.backward.get(k)) for k in CUTOFFS),
            duration(row.seconds if isinstance(row, RoundRow) else None),
        ]
        for row, both in directions
        if both.forward or both.backward
    ]
    if not body:
        return _absent(f"Nothing was measured on the {split} split.")
    columns = [f"R@{k}" for k in CUTOFFS]
    width = len(CUTOFFS)
    return table(
        caption,
        ["Encoder", *columns, *columns, "Time"],
        body,
        groups=[("", 1), (report.forward, width), (report.backward, width), ("", 1)],
    )


def _named(row: FixedRow | RoundRow) -> Html:
    return tag("span", quoted(row.label), _badge(row))


def _badge(row: FixedRow | RoundRow) -> Html:
    best = isinstance(row, RoundRow) and row.best
    return join([" ", tag("span", "best", class_="badge")]) if best else Html("")


def _with_before(document: DocumentClusters) -> list[tuple[Labelling, Labelling]]:
    """Every labelling with the one before it; the first with itself."""
    return [(document.rounds[0], document.rounds[0]), *pairwise(document.rounds)]


def _mates(clusters: Sequence[int], place: int) -> list[int]:
    return [
        other
        for other, cluster in enumerate(clusters)
        if cluster == clusters[place] and other != place
    ]


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


def _pair_table(caption: str, pairs: Sequence[SentencePair]) -> Html:
    if not pairs:
        return Html("")
    rows = [[decimal(pair.cosine), quoted(pair.left), quoted(pair.right)] for pair in pairs]
    return table(caption, ["Cosine", "Sentence", "Sentence"], rows, numeric=False)


def _ran_and_hit(report: RunReport, stage: str) -> tuple[str, str]:
    hits = [timing.hit for timing in report.timings if timing.stage == stage]
    return count(hits.count(False)), count(hits.count(True))


def _panel(drawings: Sequence[Drawing], caption: str) -> Html:
    """A grid of figures over one sentence that says how to read them; nothing for no figure."""
    if not drawings:
        return Html("")
    pictures = [inline_svg(drawing.figure, drawing.name, drawing.alt) for drawing in drawings]
    kind = "grid alone" if len(drawings) == 1 else "grid"
    return tag(
        "figure", tag("div", *pictures, class_=kind), tag("figcaption", caption), class_="panel"
    )


def _explained(
    caption: str, columns: Legend, rows: Iterable[Sequence[str]], *, numeric: bool = True
) -> Html:
    """A table whose columns are those of its legend, and the legend below."""
    return join([table(caption, [*columns], rows, numeric=numeric), legend(columns)])


def _caption(sentence: str) -> Html:
    return tag("p", sentence, class_="caption")


def _absent(reason: str) -> Html:
    return tag("p", reason, class_="absent")


def _spelled(label: str) -> Html:
    return quoted(label.replace("_", " ").capitalize())


def _plain(value: int | float | str) -> Html:
    if isinstance(value, str):
        return quoted(value)
    return quoted(count(value) if isinstance(value, int) else decimal(value))
