"""The demo command, on a tiny corpus with short trainings."""

import json
import re
from pathlib import Path

import pytest
from prefect.client.orchestration import get_client

from flows import demo
from flows.cli.records import outcome_of
from sentemb_core.config.run import InfoCSEIDC
from sentemb_core.encoder.checkpoint import save_encoder
from sentemb_core.store.objects import Store
from sentemb_core.store.runs import last_runs
from sentemb_core.types import ArtifactRef
from tasks.artifacts import RunResult
from tasks.prefect_pages import artifact_key
from tasks.report import Outcome
from tasks.retriever import choice_of
from tasks.servers import experiment_id, mlflow_client
from tasks.validate import scores_of
from tasks.verdict import returned_name, verdict_on
from tests.encoder.starting import start
from tests.flows.corpora import tiny_run

ROW = re.compile(r"^ (\S.*?)( \*)?  +((?:[01]\.\d{3} +){6})(\d*) *$", re.MULTILINE)
"""A label, the mark of what was returned, six recalls, seconds."""

OUTCOME = re.compile(r"^ (\S.*?)  +([01]\.\d{3}) +([01]\.\d{3}) *(?:([+-]\S+) \(.*\))? *$", re.M)
"""A label, MRR@10 in both directions, and the gain over BM25 before its interval."""


@pytest.fixture
def ways(corpus_file, tmp_path, monkeypatch) -> dict[demo.Way, InfoCSEIDC]:
    """One round from random vectors, and one from a saved encoder."""
    save_encoder(start("static"), tmp_path / "saved", "card")
    saved = {"encoder": {"name": str(tmp_path / "saved")}, "initialiser": None, "control": False}
    short = {"rounds": {"max_rounds": 1, "patience": 1}, "register_model": False}
    short["returns"] = "retriever"
    small = {
        "nothing": tiny_run(corpus_file, name="from-nothing", **short),
        "minilm": tiny_run(corpus_file, name="from-saved", **short, **saved),
    }
    monkeypatch.setattr(demo, "WAYS", small)
    return small


def cells_of(scores: ArtifactRef) -> list[str]:
    """R@1, R@5, R@10 on the test split, to the counterparts and reverse."""
    test = scores_of(scores)["test"]
    return [
        f"{recall:.3f}"
        for way in (test.document_to_counterpart, test.counterpart_to_document)
        for recall in (way.recall_at_1, way.recall_at_5, way.recall_at_10)
    ]


def check_outcome(output: str, nothing: RunResult, saved: RunResult) -> None:
    """The end of the demo: five rows with their gains over BM25, and whether to serve."""
    end = output[output.index("MRR@10") :]
    names, forward, backward, gains = zip(*OUTCOME.findall(end), strict=True)
    assert names == (
        "BM25",
        "MiniLM",
        "self-trained encoder",
        demo.RETRIEVER,
        demo.WITHOUT_ENCODER,
    )
    scores = [
        nothing.bm25,
        saved.rows[0].scores,
        saved.rows[1].scores,
        saved.retriever.scores,
        nothing.retriever.scores,
    ]
    tests = [scores_of(ref)["test"] for ref in scores]
    assert forward == tuple(f"{one.document_to_counterpart.mrr_at_10:.3f}" for one in tests)
    assert backward == tuple(f"{one.counterpart_to_document.mrr_at_10:.3f}" for one in tests)
    assert [bool(gain) for gain in gains] == [False, True, True, True, True]
    for gain, one in zip(gains[1:], tests[1:], strict=True):
        ways = [
            (getattr(one, way).mrr_at_10 - getattr(tests[0], way).mrr_at_10)
            * getattr(one, way).queries
            for way in ("document_to_counterpart", "counterpart_to_document")
        ]
        queries = one.document_to_counterpart.queries + one.counterpart_to_document.queries
        assert float(gain) == pytest.approx(sum(ways) / queries, abs=6e-4)
    verdict = verdict_on(saved, None)
    assert verdict.head in " ".join(end.split())


def check_pages(outcome: Outcome, home: Path) -> None:
    """Prefect's pages show every candidate, and MLflow the choice and its scores."""
    choice = choice_of(outcome.training.retriever.choice)
    key = {"artifacts": {"key": {"any_": [artifact_key(f"{outcome.run}-retrievers")]}}}
    with get_client(sync_client=True) as client:
        (table,) = client.request("POST", "/artifacts/latest/filter", json=key).json()
    shown = {row["retriever"]: row["why not"] for row in json.loads(table["data"])}
    assert list(shown) == [row.candidate.label for row in choice.judged]
    assert [label for label, reason in shown.items() if reason == "chosen"] == [choice.label]
    found = mlflow_client(home).search_runs([experiment_id(home)], f"tags.run = '{outcome.run}'")
    (run,) = [one for one in found if "mlflow.parentRunId" not in one.data.tags]
    verdict = verdict_on(outcome.training, None)
    assert run.data.tags["returned"] == returned_name(outcome.training)
    assert choice.label in returned_name(outcome.training)
    assert run.data.tags["serve"] == verdict.answer
    test = scores_of(outcome.training.retriever.scores)["test"].document_to_counterpart
    assert run.data.metrics["test/document_to_counterpart/mrr_at_10"] == test.mrr_at_10
    assert run.data.metrics["test/gain over BM25"] == verdict.comparisons[0].gain


@pytest.mark.server
@pytest.mark.slow
def test_the_demo_shows_both_runs_between_the_fixed_rows(
    prefect_server, ways, home, call, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "160")
    code, output, log = call("demo")
    assert code == 0, log[-2000:]
    runs = {run.config["name"]: run.id for run in last_runs(Store.default())}
    outcomes = {way: outcome_of(runs[config.name])[1] for way, config in ways.items()}

    chosen = {
        way: choice_of(outcome.training.retriever.choice).label
        for way, outcome in outcomes.items()
        if outcome.training.retriever
    }
    labels, marks, cells, seconds = zip(*ROW.findall(output), strict=True)
    assert labels == (
        "random encoder",
        "BM25",
        "from nothing: start",
        "from nothing: after conpono",
        "from nothing: round 1",
        "from nothing: control 1: neighbours only",
        f"from nothing: retriever: {chosen['nothing']}",
        "from MiniLM: start",
        "from MiniLM: round 1",
        f"from MiniLM: retriever: {chosen['minilm']}",
    )
    nothing, saved = outcomes["nothing"].training, outcomes["minilm"].training
    shown = [nothing.random, nothing.bm25]
    for training in (nothing, saved):
        shown += [row.scores for row in (*training.rows, *training.controls)]
        shown.append(training.retriever.scores)
    assert [row.split() for row in cells] == [cells_of(scores) for scores in shown]
    costs = {used.stage: used.seconds for used in outcomes["nothing"].timings}
    fixed = (costs["random_scores"], costs["bm25_scores"])
    assert seconds[:2] == tuple(f"{cost:.0f}" for cost in fixed)
    for place, way in ((6, "nothing"), (-1, "minilm")):
        timings = [one for one in outcomes[way].timings if one.round == "retriever"]
        assert {"read_pool", "choose_retriever"} <= {one.stage for one in timings}
        assert seconds[place] == f"{sum(one.seconds for one in timings):.0f}"
    assert [label for label, mark in zip(labels, marks, strict=True) if mark] == [
        labels[6],
        labels[-1],
    ]
    check_outcome(output, nothing, saved)
    check_pages(outcomes["minilm"], home)
    for way, config in ways.items():
        lines = [line for line in output.splitlines() if line.endswith(outcomes[way].report)]
        assert [config.name in line for line in lines] == [True]

    planned = json.loads(call("demo", "--only", "nothing", "--dry-run", "--json")[1])
    assert list(planned) == [ways["nothing"].name]
    verdicts = {status["verdict"] for status in planned[ways["nothing"].name]}
    assert verdicts - {"SAME"} == {"HIT"}

    monkeypatch.setattr(demo, "demo", lambda ways: {way: outcomes[way] for way in ways})
    printed = json.loads(call("demo", "--only", "minilm", "--json")[1])
    assert list(printed) == ["minilm"]
    assert Outcome.model_validate(printed["minilm"]) == outcomes["minilm"]
