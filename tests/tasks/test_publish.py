"""What a run says of itself: on which split, against what, and what it did not learn."""

from pathlib import Path

import numpy as np
import pytest

from sentemb_core.corpus.benchmark import BenchmarkReport, Kind
from sentemb_core.types import ArtifactRef
from tasks import publish
from tasks.publish import Outcome, beside, commit, judged_on, notes_of, verdict_of, way
from tasks.rows import Row, RowKind, SelfTraining, Texts

RECALLS = {"start": 0.2, "after_conpono": 0.4, "round_1": 0.5, "tuned": 0.45, "bm25": 0.899}


def ref(kind: str) -> ArtifactRef:
    return ArtifactRef(kind=kind, digest="1" * 64, size=1)


def row(kind: RowKind, label: str, encoder: str = "model") -> Row:
    return Row(
        kind=kind,
        label=label,
        encoder=ref(encoder),
        sentences=ref("sentences"),
        scores=ref(label.replace(" ", "_")),
    )


def training(rows: list[Row], best: int, *, controls: tuple[Row, ...] = ()) -> SelfTraining:
    texts = Texts(documents=ref("d"), benchmark=ref("b"), sentences=ref("s"))
    return SelfTraining(
        texts=texts,
        rows=rows,
        controls=list(controls),
        bm25=ref("bm25"),
        random=ref("random"),
        best=best,
    )


ROWS = [row("start", "start"), row("trained", "after conpono"), row("round", "round 1")]


def after(before: str, kind: RowKind, label: str) -> Row:
    return row(kind, label).model_copy(update={"before": before})


def test_the_way_to_an_encoder_leaves_out_the_rounds_that_it_did_not_begin_with():
    rows = [
        row("start", "start"),
        after("start", "round", "cycle 1 r1"),
        after("cycle 1 r1", "round", "cycle 1 r2"),
        after("cycle 1 r1", "fine-tuned", "cycle 1 tuned"),
        after("cycle 1 tuned", "round", "cycle 2 r1"),
        after("cycle 1 tuned", "fine-tuned", "cycle 2 tuned"),
    ]
    ways = [[one.label for one in training(rows, best).path] for best in (0, 2, 5)]
    assert ways == [
        ["start"],
        ["start", "cycle 1 r1", "cycle 1 r2"],
        ["start", "cycle 1 r1", "cycle 1 tuned", "cycle 2 tuned"],
    ]


def said(best: int, monkeypatch: pytest.MonkeyPatch, rows: list[Row] = ROWS, **changed: float):
    """The verdict when the scores are RECALLS, those of validation 0.01 higher."""
    known = RECALLS | changed
    monkeypatch.setattr(
        publish, "recall", lambda scores, split: known[scores.kind] + 0.01 * (split != "test")
    )
    outcome = Outcome(
        run="r", training=training(rows, best), encoder=ref("model"), report="", landing=None,
        timings=[],
    )  # fmt: skip
    return verdict_of(outcome)


NOT_GROWN = "No round grew over it: what is returned did not learn from self-annotation."


def test_the_verdict_names_splits_and_a_better_bm25(monkeypatch: pytest.MonkeyPatch):
    assert said(2, monkeypatch) == (
        "Round 1 is the best of 3 encoders (R@5 0.510 on the validation split). On the test "
        "split, never decided on, R@5 was 0.200 at the start and is 0.500 now, below BM25's 0.899."
    )
    assert "BM25" not in said(2, monkeypatch, bm25=0.5)


def test_a_returned_encoder_is_called_best_only_if_no_other_is(monkeypatch: pytest.MonkeyPatch):
    """A fine-tuned one is returned whether or not a round before it was better."""
    assert "Round 1 is as good as the best of 3" in said(2, monkeypatch, after_conpono=0.5)
    assert "is returned, which is not the best of 3" in said(2, monkeypatch, after_conpono=0.6)


def test_a_card_holds_an_encoder_against_words_and_against_its_own_control():
    controls = (row("control", "control 1"), row("control", "control 2"))
    rounds = [*ROWS, row("round", "round 2")]
    of_the_first = training(rounds, 2, controls=controls)
    assert beside(of_the_first) == {
        "BM25": ref("bm25"),
        "control: the same number of steps on plain neighbours": ref("control_1"),
    }
    assert list(beside(training(rounds, 1, controls=controls))) == ["BM25"], "no round was chosen"
    assert list(beside(training(rounds, 2))) == ["BM25"], "there was no control"


def test_a_card_says_a_method_once_and_every_training_on_the_way():
    assert way("infocse_idc", []) is None
    assert way("simcse", ["after simcse"]) == "simcse"
    assert way("infocse_idc", ["after ict", "round 1"]) == "infocse_idc: ict, then round 1"


@pytest.mark.parametrize(
    ("kind", "column", "sides"),
    [
        ("counterpart", "title", ("document", "title")),
        ("counterpart", None, ("document", "counterpart")),
        ("halves", "title", ("first half", "second half")),
    ],
)
def test_a_card_names_both_sides_of_the_test_split_and_its_size(
    kind: Kind, column: str | None, sides: tuple[str, str], tmp_path: Path
):
    counts = {"validation": 7, "gate": 8, "test": 9}
    told = BenchmarkReport(kind=kind, n_candidates=24, n_queries=counts, merged=0)
    (tmp_path / "benchmark.json").write_text(told.model_dump_json())
    judged = judged_on(tmp_path, column)
    assert (judged.query, judged.candidate) == sides
    assert (judged.queries, judged.candidates) == (9, 24)


def test_an_encoder_that_no_round_made_is_said_not_to_learn_from_annotation(
    monkeypatch: pytest.MonkeyPatch,
):
    assert said(1, monkeypatch).endswith(NOT_GROWN)
    assert said(0, monkeypatch).endswith(NOT_GROWN)
    assert NOT_GROWN not in said(1, monkeypatch, ROWS[:2]), "a run without rounds promised none"


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
    monkeypatch.setattr(publish, "hits_at_5", lambda row: np.arange(60.0) % 2)
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
        publish, "hits_at_5", lambda row: np.full(60, row.kind == "fine-tuned", np.float64)
    )
    tuned, control = row("fine-tuned", "tuned", "better"), row("control", "control")
    (note,) = notes_of(training([*ROWS, tuned], 3, controls=(control,)), 0)
    assert "the same labels without self-training" in note
    assert "+1.000" in note
    assert "chance" not in note


def test_a_control_that_is_better_is_said_to_be(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        publish, "hits_at_5", lambda row: np.full(60, row.kind == "control", np.float64)
    )
    tuned, control = row("fine-tuned", "tuned", "better"), row("control", "control")
    (note,) = notes_of(training([*ROWS, tuned], 3, controls=(control,)), 0)
    assert note.endswith("with 95 % confidence): here the control's way is the better one.")


def test_a_difference_whose_interval_has_zero_is_said_to_be_perhaps_chance(
    monkeypatch: pytest.MonkeyPatch,
):
    def half_each(row: Row) -> np.ndarray:
        return np.arange(60) % 2 == (row.kind == "fine-tuned")

    monkeypatch.setattr(publish, "hits_at_5", lambda row: half_each(row).astype(np.float64))
    tuned, control = row("fine-tuned", "tuned", "better"), row("control", "control")
    (note,) = notes_of(training([*ROWS, tuned], 3, controls=(control,)), 0)
    assert note.endswith("with 95 % confidence), which may be chance.")


def test_a_report_needs_no_git(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """An image of a few programs has none, and the run is over by then."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit() == "unknown"
