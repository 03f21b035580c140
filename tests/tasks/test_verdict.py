"""What a run says of itself: on which split, against what, and what it did not learn."""

import numpy as np
import pytest

from sentemb_core.types import ArtifactRef
from tasks import verdict
from tasks.publish import Outcome
from tasks.run_result import EncoderResult
from tasks.verdict import notes_of, verdict_of
from tests.tasks.made import ROWS, ref, row, training

RECALLS = {"start": 0.2, "after_conpono": 0.4, "round_1": 0.5, "tuned": 0.45, "bm25": 0.899}


def said(
    best: int, monkeypatch: pytest.MonkeyPatch, rows: list[EncoderResult] = ROWS, **changed: float
):
    """The verdict when the scores are RECALLS, those of validation 0.01 higher."""
    known = RECALLS | changed

    def recall_at_5(scores: ArtifactRef, split: str = "validation") -> float:
        return known[scores.kind] + 0.01 * (split != "test")

    def hits_at_5(scores: ArtifactRef) -> np.ndarray:
        return (np.arange(1_000) < 1_000 * known[scores.kind]).astype(np.float64)

    monkeypatch.setattr(verdict, "recall_at_5", recall_at_5)
    monkeypatch.setattr(verdict, "hits_at_5", hits_at_5)
    outcome = Outcome(
        run="r", training=training(rows, best), encoder=ref("model"), report="", landing=None,
        timings=[],
    )  # fmt: skip
    return verdict_of(outcome)


NOT_GROWN = "No round grew over it: what is returned did not learn from self-annotation."


def test_the_verdict_names_splits_and_a_better_bm25(monkeypatch: pytest.MonkeyPatch):
    assert said(2, monkeypatch).replace("\N{MINUS SIGN}", "-") == (
        "Round 1 is the best of 3 encoders (R@5 0.510 on the validation split). On the test "
        "split, never decided on, R@5 was 0.200 at the start and is 0.500 now, +0.300 (+0.272 to "
        "+0.328 with 95 % confidence), below BM25's 0.899, -0.399 (-0.429 to -0.369 with 95 % "
        "confidence)."
    )
    assert "BM25" not in said(2, monkeypatch, bm25=0.5)
    assert "is 0.200 now." in said(0, monkeypatch, bm25=0.1), "the start less itself is nothing"


def test_a_returned_encoder_is_called_best_only_if_no_other_is(monkeypatch: pytest.MonkeyPatch):
    """A fine-tuned one is returned whether or not a round before it was better."""
    assert "Round 1 is as good as the best of 3" in said(2, monkeypatch, after_conpono=0.5)
    assert "is returned, which is not the best of 3" in said(2, monkeypatch, after_conpono=0.6)


def test_an_encoder_that_no_round_made_is_said_not_to_learn_from_annotation(
    monkeypatch: pytest.MonkeyPatch,
):
    assert said(1, monkeypatch).endswith(NOT_GROWN)
    assert said(0, monkeypatch).endswith(NOT_GROWN)
    assert NOT_GROWN not in said(1, monkeypatch, ROWS[:2]), "a run without rounds promised none"


def test_an_initialiser_that_cost_more_than_was_gained_is_named(monkeypatch: pytest.MonkeyPatch):
    words = "The start itself judged higher (R@5 0.610), and is not returned, for all training"
    assert f"{words} began after conpono: without it" in said(2, monkeypatch, start=0.6)
    assert "judged higher" not in said(2, monkeypatch)
    assert "judged higher" not in said(1, monkeypatch, [ROWS[0], ROWS[2]], start=0.6)
    rounds = [ROWS[0], row("round", "round 1"), row("round", "tuned", before="round 1")]
    assert "judged higher" not in said(2, monkeypatch, rounds, start=0.6), "a round is none"


def test_a_condenser_stage_that_cost_something_is_no_initialiser_that_may_be_left_out(
    monkeypatch: pytest.MonkeyPatch,
):
    """It is the training itself, returned for its head however its encoder is judged."""
    words = said(1, monkeypatch, ROWS[:2], start=0.6)
    assert "is returned, which is not the best" in words
    assert "initialiser" not in words


def test_an_encoder_that_learnt_no_label_and_one_that_learnt_nothing_are_said_so(
    monkeypatch: pytest.MonkeyPatch,
):
    tuned = [*ROWS[:2], row("fine-tuned", "tuned")]
    no_label = "Fine-tuning did not grow over it: what is returned learnt from no label."
    nothing = "No training grew over it: what is returned is the start encoder itself."
    assert said(1, monkeypatch, tuned).endswith(no_label)
    assert said(0, monkeypatch, ROWS[:2]).endswith(nothing)
    assert "grew" not in said(2, monkeypatch, tuned)


def test_two_encoders_that_find_the_same_are_not_told_apart_by_chance(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(verdict, "hits_at_5", lambda scores: np.arange(60.0) % 2)
    tuned, control = row("fine-tuned", "tuned", "other"), row("control", "control")
    (note,) = notes_of(training([*ROWS, tuned], 3, controls=(control,)), 0)
    assert "nothing that R@5 sees" in note
    assert "find the same 30 of 60 counterparts" in note


def test_a_fine_tuned_encoder_equal_to_its_control_is_not_compared():
    tuned, control = row("fine-tuned", "tuned"), row("control", "control")
    notes = notes_of(training([*ROWS, tuned], 3, controls=(control,)), 0)
    assert notes == [
        "No round of self-training grew, so the fine-tuned encoder is the control itself: "
        "nothing to compare."
    ]


def test_another_fine_tuned_encoder_is_compared_with_its_control(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        verdict, "hits_at_5", lambda scores: np.full(60, scores.kind == "tuned", np.float64)
    )
    tuned, control = row("fine-tuned", "tuned", "better"), row("control", "control")
    (note,) = notes_of(training([*ROWS, tuned], 3, controls=(control,)), 0)
    assert "the same labels once, without self-training" in note
    assert "+1.000" in note
    assert "chance" not in note


def test_a_control_that_is_better_is_said_to_be(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        verdict, "hits_at_5", lambda scores: np.full(60, scores.kind == "control", np.float64)
    )
    tuned, control = row("fine-tuned", "tuned", "better"), row("control", "control")
    (note,) = notes_of(training([*ROWS, tuned], 3, controls=(control,)), 0)
    assert note.endswith(
        "with 95 % confidence): here the control's way is the better one "
        "(another seed may say otherwise)."
    )


def test_a_difference_whose_interval_has_zero_is_said_to_be_perhaps_chance(
    monkeypatch: pytest.MonkeyPatch,
):
    def half_each(scores: ArtifactRef) -> np.ndarray:
        return (np.arange(60) % 2 == (scores.kind == "tuned")).astype(np.float64)

    monkeypatch.setattr(verdict, "hits_at_5", half_each)
    tuned, control = row("fine-tuned", "tuned", "better"), row("control", "control")
    (note,) = notes_of(training([*ROWS, tuned], 3, controls=(control,)), 0)
    assert note.endswith("with 95 % confidence), which may be chance.")
