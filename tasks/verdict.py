"""A run judged in words: what was gained over the start, over BM25 and over its control."""

from typing import TYPE_CHECKING

from sentemb_core.formats import counted, sure_change
from sentemb_core.types import ArtifactRef
from tasks.artifact_files import artifact_path
from tasks.publish import Outcome, compared
from tasks.run_result import RunResult
from tasks.validate import recall_at_5

if TYPE_CHECKING:
    import numpy as np


def verdict_of(outcome: Outcome) -> str:
    """What was gained, what the gate said, and what serves now."""
    gained = gain_of(outcome.training)
    return f"{gained} {outcome.landing.told}" if outcome.landing else gained


def gain_of(training: RunResult) -> str:
    """What was gained on which split, over what."""
    start, best = training.rows[0], training.rows[training.best]
    said = [
        f"{best.label[0].upper()}{best.label[1:]} {standing(training)} "
        f"{counted(len(training.rows), 'encoder')} "
        f"(R@5 {recall_at_5(best.scores):.3f} on the validation split). On the test split, never "
        f"decided on, R@5 was {recall_at_5(start.scores, 'test'):.3f} at the start and is "
        f"{recall_at_5(best.scores, 'test'):.3f} now{interval_words(best.scores, start.scores)}"
        f"{below_words(training)}."
    ]
    if cost := initialiser_words(training):
        said.append(cost)
    kinds = {row.kind for row in training.rows}
    best = training.learnt
    if best.kind in ("start", "trained") and "round" in kinds:
        said.append("No round grew over it: what is returned did not learn from self-annotation.")
    elif best.kind in ("start", "trained") and "fine-tuned" in kinds:
        said.append("Fine-tuning did not grow over it: what is returned learnt from no label.")
    elif best.kind == "start" and len(training.rows) > 1:
        said.append("No training grew over it: what is returned is the start encoder itself.")
    return " ".join(said)


def standing(training: RunResult) -> str:
    """How the returned encoder lies among all: a fine-tuned one is returned, better or not."""
    values = [recall_at_5(row.scores) for row in training.rows]
    best = values.pop(training.best)
    if any(value > best for value in values):
        return "is returned, which is not the best of"
    return "is the best of" if best not in values else "is as good as the best of"


def initialiser_words(training: RunResult) -> str:
    """A sentence where the initialiser took more than all training after it gave; else nothing."""
    start, best = training.rows[0], training.rows[training.best]
    begun_from = {row.before for row in training.rows}
    first = [row for row in training.rows[1:2] if row.kind == "trained" and row.label in begun_from]
    lost = recall_at_5(start.scores) > recall_at_5(best.scores)
    if not lost or not first:
        return ""
    return (
        f"The start itself judged higher (R@5 {recall_at_5(start.scores):.3f}), and is not "
        f"returned, for all training began {first[0].label}: without it (--initialiser none) "
        "training begins at the start."
    )


def below_words(training: RunResult) -> str:
    """A clause that says so if words alone (BM25) find more of the test split; else nothing."""
    best, words = training.rows[training.best].scores, training.bm25
    if recall_at_5(best, "test") >= recall_at_5(words, "test"):
        return ""
    return f", below BM25's {recall_at_5(words, 'test'):.3f}{interval_words(best, words)}"


def interval_words(one: ArtifactRef, other: ArtifactRef) -> str:
    """R@5 of the test split, one less the other, with its interval; nothing of equal scores."""
    from sentemb_core.evaluation.bootstrap import paired_difference

    if one == other:
        return ""
    gain = paired_difference(hits_at_5(one), hits_at_5(other), 0)
    return f", {sure_change(gain.low, gain.mean, gain.high)}"


def notes_of(training: RunResult, seed: int) -> list[str]:
    """What the control says about self-annotation: more training is not better annotation."""
    from sentemb_core.evaluation.bootstrap import paired_difference

    if not training.controls:
        return []
    chosen, control, what = compared(training)
    if chosen.kind == "fine-tuned" and chosen.encoder == control.encoder:
        return [
            "No round of self-training grew, so the fine-tuned encoder is the control itself: "
            "nothing to compare."
        ]
    worth = "What self-annotation itself was worth"
    if chosen.kind == "fine-tuned":  # its control took no steps before the labels, and those once
        worth = "What cycles were worth, their steps and further passes over the labels included"
    hits = hits_at_5(chosen.scores), hits_at_5(control.scores)
    if (hits[0] == hits[1]).all():
        return [
            f"{worth}: nothing that R@5 sees; {chosen.label} and its "
            f"control, {what}, find the same {hits[0].sum():.0f} of "
            f"{counted(len(hits[0]), 'counterpart')} of the test split."
        ]
    gain = paired_difference(*hits, seed)
    meaning = " (another seed may say otherwise)" if gain.low > 0 else ", which may be chance"
    if gain.high < 0:
        meaning = ": here the control's way is the better one (another seed may say otherwise)"
    return [
        f"{worth}: {chosen.label} reaches R@5 {hits[0].mean():.3f} "
        f"on the test split, its control, {what}, {hits[1].mean():.3f}; a difference of "
        f"{sure_change(gain.low, gain.mean, gain.high)}{meaning}."
    ]


def doubts_of(training: RunResult) -> list[str]:
    """What to know before anything is read off the scores: whether few queries judged."""
    from sentemb_core.evaluation.pool_size import few_queries

    return list(filter(None, [few_queries(artifact_path(training.texts.validation_pool))]))


def hits_at_5(scores: ArtifactRef) -> "np.ndarray":
    """1 for every test document that finds its counterpart among five, else 0."""
    from sentemb_core.evaluation.validation_scores import read_ranks

    return (read_ranks(artifact_path(scores), "test") <= 5).astype("float64")
