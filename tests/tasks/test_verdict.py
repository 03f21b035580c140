"""The verdict on a run's retriever: each answer, and the numbers behind it."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from sentemb_core.types import SearchTask
from tasks import verdict
from tasks.artifacts import RetrieverResult, RunResult
from tasks.gate import GateOutcome
from tasks.promotion import VERDICT, describe
from tasks.verdict import (
    CHAMPION_ANYWAY,
    ENCODER_HEADS,
    HEADS,
    Answer,
    Comparison,
    System,
    answer_of,
    answer_on,
    reconciled,
    verdict_on,
)
from tests.tasks.made import ROWS, ref, training

QUERIES = 80
QUALITY = {"start": 0.3, "bm25": 0.5, "retriever_scores": 0.9}


def run_with(
    monkeypatch: pytest.MonkeyPatch, label: str = "whitened start", **quality: float
) -> RunResult:
    """A run whose systems put this share of answers first, in both directions, others ninth."""
    known = QUALITY | quality

    def values_of(scores: Any, task: SearchTask | None) -> list[np.ndarray]:
        firsts = np.arange(QUERIES) < known[scores.kind] * QUERIES
        return (1 if task == "search" else 2) * [np.where(firsts, 1.0, 1 / 9)]

    def scores_of(scores: Any) -> dict[str, Any]:
        way = SimpleNamespace(mrr_at_10=float(values_of(scores, "search")[0].mean()))
        return {"test": SimpleNamespace(document_to_counterpart=way, counterpart_to_document=way)}

    def units_of(_: RunResult, task: SearchTask | None) -> list[np.ndarray]:
        return (1 if task == "search" else 2) * [np.arange(QUERIES)]

    monkeypatch.setattr(verdict, "values_of", values_of)
    monkeypatch.setattr(verdict, "scores_of", scores_of)
    monkeypatch.setattr(verdict, "units_of", units_of)
    monkeypatch.setattr(verdict, "choice_of", lambda _: SimpleNamespace(label=label))
    retriever = RetrieverResult(
        choice=ref("choice"), scores=ref("retriever_scores"), without_encoder=None,
        encoders={}, token_maps={}, bases={},
    )  # fmt: skip
    return training(ROWS[:1], 0).model_copy(update={"retriever": retriever})


def gate_outcome(alias: str) -> GateOutcome:
    return GateOutcome(uri="models:/news/2", alias=alias, reason="Because.", serving="Served.")


@pytest.mark.parametrize(
    ("label", "quality", "alias", "answer"),
    [
        ("whitened start", {}, None, "serve"),
        ("whitened start", {}, "champion", "serve"),
        ("whitened start", {}, "challenger", "not promoted"),
        ("whitened start", {"bm25": 0.9}, None, "not better"),
        ("whitened start", {"bm25": 0.9}, "challenger", "not better"),
        ("whitened start", {"bm25": 0.9}, "champion", "not better"),
        ("whitened start", {"retriever_scores": 0.3}, None, "worse"),
        ("whitened start", {"retriever_scores": 0.3}, "champion", "worse"),
        ("whitened start", {"start": 1.0, "bm25": 0.2}, None, "worse"),
        ("BM25", {"retriever_scores": 0.5}, "challenger", "words are enough"),
        ("BM25", {"retriever_scores": 0.5}, "champion", "words are enough"),
        ("start", {"start": 0.9}, "challenger", "start is enough"),
        ("start", {"start": 0.9}, "champion", "start is enough"),
    ],
)
def test_each_answer(
    monkeypatch: pytest.MonkeyPatch,
    label: str,
    quality: dict[str, float],
    alias: str | None,
    answer: Answer,
):
    found = verdict_on(
        run_with(monkeypatch, label, **quality), None, gate_outcome(alias) if alias else None
    )
    assert found.answer == answer
    assert found.serve == (answer in ("serve", "start is enough"))
    both = alias == "champion" and not found.serve
    assert found.head == HEADS[answer] + (f" {CHAMPION_ANYWAY}" if both else "")
    assert found.text == f"{found.head} {found.reason}"


@pytest.mark.parametrize("alias", [None, "challenger", "champion"])
@pytest.mark.parametrize("answer", ENCODER_HEADS)
def test_each_answer_on_an_encoder_alone(
    monkeypatch: pytest.MonkeyPatch, answer: Answer, alias: str | None
):
    monkeypatch.setattr(verdict, "encoder_answer", lambda _: answer)
    gate = gate_outcome(alias) if alias else None
    both = alias == "champion" and answer in ("not better", "worse")
    head = ENCODER_HEADS[answer] + (f" {CHAMPION_ANYWAY}" if both else "")
    assert answer_on(training(ROWS, 0), None, gate) == (answer, head)


def test_numbers_are_those_of_the_test_split(monkeypatch: pytest.MonkeyPatch):
    found = verdict_on(run_with(monkeypatch), "search")
    assert found.queries == QUERIES
    bm25, start = found.comparisons
    assert (bm25.baseline.name, start.baseline.name) == ("BM25", "start encoder")
    assert (found.own.first, bm25.baseline.first, start.baseline.first) == (0.9, 0.5, 0.3)
    assert bm25.gain == pytest.approx(found.own.mrr - bm25.baseline.mrr)
    assert bm25.low < bm25.gain < bm25.high
    assert found.own.to_documents == pytest.approx(0.9 + 0.1 / 9)
    for share in ("90 %", "50 %", "30 %"):
        assert share in found.shares


def test_the_two_directions_of_one_document_are_not_two_queries(monkeypatch: pytest.MonkeyPatch):
    """Equal directions double the queries, not what is known."""
    run = run_with(monkeypatch)
    one, both = (verdict_on(run, task).comparisons[0] for task in cast(Any, ("search", None)))
    assert (one.low, one.high) == pytest.approx((both.low, both.high))


@pytest.mark.parametrize("label", ["BM25", "start"])
def test_a_returned_baseline_is_not_compared_with_itself(
    monkeypatch: pytest.MonkeyPatch, label: str
):
    found = verdict_on(run_with(monkeypatch, label), None)
    own = found.comparisons[("BM25", "start").index(label)]
    assert (own.gain, own.low, own.high, own.below) == (0.0, 0.0, 0.0, False)


def test_a_loss_in_one_direction_is_a_loss():
    baseline = System(name="BM25", to_counterparts=0.5, to_documents=0.5, mrr=0.5, first=0.4)
    better = Comparison(baseline=baseline, gain=0.1, low=0.05, high=0.15, below=False)
    assert answer_of("whitened start", [better, better]) == "serve"
    lopsided = better.model_copy(update={"below": True})
    assert answer_of("whitened start", [lopsided, better]) == "worse"
    assert answer_of("whitened start", [better, lopsided]) == "worse"


@pytest.mark.parametrize("champion", [True, False, None])
@pytest.mark.parametrize("answer", ["serve", "not better"])
def test_the_registry_describes_a_version_as_the_page_does(answer: Answer, champion: bool | None):
    texts: list[str] = []
    client = SimpleNamespace(update_model_version=lambda _, __, text: texts.append(text))
    version = SimpleNamespace(name="news", version=2, tags={VERDICT: HEADS[answer]})
    describe(cast(Any, client), cast(Any, version), "Compared.", champion=champion)
    assert reconciled(HEADS[answer], champion=champion) in texts[0]
    assert (CHAMPION_ANYWAY in texts[0]) is bool(champion and answer != "serve")
    assert (HEADS["not promoted"] in texts[0]) is (champion is False and answer == "serve")
