"""The verdict and the report of a run: which split, which baseline, which changes."""

from pathlib import Path

import numpy as np
import pytest

from sentemb_core.config.run import CorpusConfig, InfoCSEIDC
from sentemb_core.errors import CorruptArtifactError
from sentemb_core.types import ArtifactRef
from tasks import report
from tasks.artifacts import EncoderResult
from tasks.report import (
    Outcome,
    commands_of,
    commit,
    gain_of,
    notes_of,
    read_outcome,
    search_command,
)
from tests.tasks.made import ROWS, row, training

RECALLS = {"start": 0.2, "after_conpono": 0.4, "round_1": 0.5, "tuned": 0.45, "bm25": 0.899}


def gain(
    best: int,
    monkeypatch: pytest.MonkeyPatch,
    rows: list[EncoderResult] = ROWS,
    **changed: float,
) -> str:
    """The gain of a run with the scores RECALLS; those of the validation split are 0.01 higher."""
    known = RECALLS | changed

    def recall_at_5(scores: ArtifactRef, split: str = "validation") -> float:
        return known[scores.kind] + 0.01 * (split != "test")

    def hits_at_5(scores: ArtifactRef) -> np.ndarray:
        return (np.arange(1_000) < 1_000 * known[scores.kind]).astype(np.float64)

    monkeypatch.setattr(report, "recall_at_5", recall_at_5)
    monkeypatch.setattr(report, "hits_at_5", hits_at_5)
    return gain_of(training(rows, best)).replace("\N{MINUS SIGN}", "-")


def test_gain_has_scores_of_both_splits_and_intervals(monkeypatch: pytest.MonkeyPatch):
    text = gain(2, monkeypatch)
    for value in ("3 encoders", "0.510", "0.500", "0.200", "+0.300 (+0.272 to +0.328", "95 %"):
        assert value in text
    assert "0.899" in text
    assert "-0.399 (-0.429 to -0.369" in text
    assert "BM25" not in gain(2, monkeypatch, bm25=0.5)
    assert "0.200" in gain(0, monkeypatch, bm25=0.1)
    assert "difference" not in gain(0, monkeypatch, bm25=0.1), "the start less itself is nothing"


def test_an_encoder_is_called_best_only_if_no_other_is_better(monkeypatch: pytest.MonkeyPatch):
    texts = [gain(2, monkeypatch, after_conpono=value) for value in (0.4, 0.5, 0.6)]
    assert [text.startswith("'round 1' (0.510) is the best") for text in texts] == [1, 0, 0]
    assert ["'after conpono' (0.610) is the best" in text for text in texts] == [0, 0, 1]


def test_each_kind_of_training_that_did_not_help_is_named(monkeypatch: pytest.MonkeyPatch):
    tuned = [*ROWS[:2], row("fine-tuned", "tuned")]
    cases = [
        (1, ROWS, "No round improved"),
        (0, ROWS, "No round improved"),
        (1, tuned, "Fine-tuning did not improve"),
        (0, ROWS[:2], "No training improved"),
        (1, ROWS[:2], ""),
        (2, tuned, ""),
    ]
    for best, rows, sentence in cases:
        text = gain(best, monkeypatch, rows)
        assert sentence in text
        assert ("improve" in text) == bool(sentence)


def test_initialiser_that_lost_more_than_was_gained_is_named(monkeypatch: pytest.MonkeyPatch):
    """A stage that is the whole training, or a round, is no initialiser to leave out."""
    text = gain(2, monkeypatch, start=0.6)
    for value in ("0.610", "after conpono", "--initialiser none"):
        assert value in text
    assert "'start' (0.610) is the best" in gain(1, monkeypatch, ROWS[:2], start=0.6)
    rounds = [ROWS[0], row("round", "round 1"), row("round", "tuned", parent="round 1")]
    for best, rows, start in [
        (2, ROWS, 0.2),
        (1, [ROWS[0], ROWS[2]], 0.6),
        (2, rounds, 0.6),
        (1, ROWS[:2], 0.6),
    ]:
        assert "initialiser" not in gain(best, monkeypatch, rows, start=start)


def half(parity: int) -> np.ndarray:
    return (np.arange(60) % 2 == parity).astype(np.float64)


@pytest.mark.parametrize(
    ("tuned", "control", "expected"),
    [
        (np.ones(60), np.zeros(60), ["+1.000", ", significant"]),
        (np.zeros(60), np.ones(60), ["1.000", ", significant", "the control is better"]),
        (half(0), half(1), ["not significant"]),
        (half(0), half(0), ["30 of 60"]),
    ],
    ids=["better", "worse", "undecided", "equal"],
)
def test_fine_tuned_encoder_is_compared_with_its_control(
    monkeypatch: pytest.MonkeyPatch, tuned: np.ndarray, control: np.ndarray, expected: list[str]
):
    hits = {"tuned": tuned, "control": control}
    monkeypatch.setattr(report, "hits_at_5", lambda scores: hits[scores.kind])
    rows = [*ROWS, row("fine-tuned", "tuned", "other")]
    (note,) = notes_of(training(rows, 3, controls=(row("control", "control"),)), 0)
    for text in expected:
        assert text in note


def test_fine_tuned_encoder_equal_to_its_control_is_not_compared():
    rows = [*ROWS, row("fine-tuned", "tuned")]
    (note,) = notes_of(training(rows, 3, controls=(row("control", "control"),)), 0)
    assert "R@5" not in note


def test_outcome_of_another_version_is_refused(tmp_path: Path):
    (tmp_path / "outcome.json").write_text('{"run": "r", "landing": null}')
    with pytest.raises(CorruptArtifactError):
        read_outcome(tmp_path)


def test_report_needs_no_git(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit() == "unknown"


def test_index_command_names_the_source_of_a_sample(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(report, "model_of", lambda _: "models:/posts/1")
    corpus = {"source": "posts.jsonl", "text_column": "body", "max_documents": 60}
    config = InfoCSEIDC.model_validate({"corpus": corpus, "name": "posts"})
    run = training(ROWS, 0)
    outcome = Outcome(
        run="r", training=run, encoder=run.rows[0].encoder, report="", gate=None, timings=[]
    )
    index, search = (command.split() for command in commands_of(outcome, config))
    assert index[3:6] == ["index", "posts.jsonl", "posts-index"]
    assert index[-2:] == ["--text-column", "body"]
    assert search[-1] == "posts-index"


def test_search_command_has_the_columns_of_the_run():
    options = {"id_column": "ticket", "text_column": "the message", "splitter": "regex"}
    command = search_command("models:/tickets/1", CorpusConfig(source="tickets.jsonl", **options))
    usual = search_command("models:/tickets/1", CorpusConfig(source="tickets.jsonl"))
    assert usual == "python -m flows search WORDS SOURCE --model models:/tickets/1"
    assert command == f"{usual} --text-column 'the message' --id-column ticket --splitter regex"
