"""What training did: similarities, words against meaning, sentences on axes, the losses."""

from sentemb_core.formats import ABSENT, count, decimal, duration
from sentemb_core.report.chapters.parts import (
    Drawings,
    drawn,
    explained,
    named,
    nothing_to_show,
    pairs_share_a_cluster,
    panel,
)
from sentemb_core.report.data import Curve, RunReport
from sentemb_core.report.figures.learning import LINEAR_LOSS, SMOOTHED
from sentemb_core.report.legends import GEOMETRY, TRAINING
from sentemb_core.report.markup import Html, join, quoted


def similarities(report: RunReport, drawings: Drawings) -> Html:
    """Histograms of positives and negatives, then the geometry of the vectors."""
    rows = [row for row in report.rounds if row.alignment is not None]
    if not report.similarities and not rows:
        return nothing_to_show("No similarities were sampled.")
    body = [
        [
            named(row),
            decimal(row.alignment),
            decimal(row.uniformity),
            decimal(row.effective_rank, 1),
        ]
        for row in rows
    ]
    pairs = "pairs inside a cluster" if pairs_share_a_cluster(report) else "the pairs"
    return join(
        [
            panel(
                drawings.get("similarities", ()),
                f"Filled: {pairs} of that round's annotation, under the encoder that made it "
                "(before) or learnt from it (after). Dashed outline: sentences of different "
                "documents. The less the two overlap, the better the encoder tells them "
                "apart.",
            ),
            panel(
                drawings.get("geometry", ()),
                "Each arrow is one round on its own pairs, from the encoder that found them "
                "(hollow) to the one that learnt from them. Down: positives come closer. Left: "
                "sentences spread over the sphere. Far down and right, with a falling rank, is a "
                "collapse: all sentences come closer.",
            ),
            explained("Geometry of the sentence vectors", GEOMETRY, body) if body else "",
        ]
    )


def lexical_overlap(report: RunReport, drawings: Drawings) -> Html:
    """Do the pairs share meaning, or merely words?"""
    return drawn(
        drawings,
        "overlap",
        "Each dot is one exported pair (2,000 are drawn at random), its cosine that of the encoder "
        "that annotated. Top left: close in meaning, different in words, which is "
        "what self-annotation is for; top right: pairs that repeat their words.",
        absent="No pairs were sampled, so words cannot be set against meaning.",
    )


def projection(report: RunReport, drawings: Drawings) -> Html:
    """The same sentences under every encoder, on axes that all share."""
    return drawn(
        drawings,
        "projection",
        "The same sampled sentences under each encoder, on the two principal axes of all of them "
        "together. One colour and shape is one document (the eight with most sentences here, small "
        "dots are the others): training should gather a document and part it from the others.",
        absent="No sentences were sampled for the projection.",
    )


def training(report: RunReport, drawings: Drawings) -> Html:
    """Loss, learning rate and gradient norm of every training, and how fast it went."""
    curves = drawn(
        drawings,
        "training",
        "Loss, learning rate and gradient norm (before it is clipped) by optimiser step. Loss and "
        f"norm are means of the {100 * SMOOTHED:g} % of a training's steps around each; the loss "
        f"is drawn logarithmically above {LINEAR_LOSS}. Losses of different tasks (neighbours, "
        "clusters) are not comparable; read each line alone.",
        absent="No training curve was recorded in this run.",
    )
    body = [_pace(curve, report) for curve in report.curves]
    return join([curves, explained("What every training took", TRAINING, body) if body else ""])


def _pace(curve: Curve, report: RunReport) -> list[Html | str]:
    """A training's steps and pairs, and these by its time where its stage was timed."""
    seconds = sum(
        timing.seconds
        for timing in report.timings
        if (timing.stage, timing.round) == ("train_encoder", curve.label)
    )
    return [
        quoted(curve.label),
        count(len(curve.step)),
        count(curve.pairs),
        duration(seconds or None),
        count(round(curve.pairs / seconds)) if seconds else ABSENT,
    ]
