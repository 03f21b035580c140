"""The demo command, on a tiny corpus with short trainings."""

import json
import re

import pytest

from flows import demo
from flows.cli.records import outcome_of
from sentemb_core.config.run import InfoCSEIDC
from sentemb_core.encoder.checkpoint import save_encoder
from sentemb_core.store.objects import Store
from sentemb_core.store.runs import last_runs
from sentemb_core.types import ArtifactRef
from tasks.report import Outcome
from tasks.validate import scores_of
from tests.encoder.starting import start
from tests.flows.corpora import tiny_run

ROW = re.compile(r"^ (\S.*?)( \*)?  +((?:[01]\.\d{3} +){6})(\d+) *$", re.MULTILINE)
"""A label, the mark of the returned encoder, six recalls, seconds."""


@pytest.fixture
def ways(corpus_file, tmp_path, monkeypatch) -> dict[demo.Way, InfoCSEIDC]:
    """One round from random vectors, and one from a saved encoder."""
    save_encoder(start("static"), tmp_path / "saved", "card")
    saved = {"encoder": {"name": str(tmp_path / "saved")}, "initialiser": None, "control": False}
    short = {"rounds": {"max_rounds": 1, "patience": 1}, "register_model": False}
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

    labels, marks, cells, seconds = zip(*ROW.findall(output), strict=True)
    assert labels == (
        "random encoder",
        "BM25",
        "from nothing: start",
        "from nothing: after conpono",
        "from nothing: round 1",
        "from nothing: control 1: neighbours only",
        "from MiniLM: start",
        "from MiniLM: round 1",
    )
    nothing, saved = outcomes["nothing"].training, outcomes["minilm"].training
    trained = [row.scores for row in (*nothing.rows, *nothing.controls, *saved.rows)]
    shown = [nothing.random, nothing.bm25, *trained]
    assert [row.split() for row in cells] == [cells_of(scores) for scores in shown]
    costs = {used.stage: used.seconds for used in outcomes["nothing"].timings}
    fixed = (costs["random_scores"], costs["bm25_scores"])
    assert seconds[:2] == tuple(f"{cost:.0f}" for cost in fixed)
    returned = (2 + nothing.best, 2 + len(nothing.rows) + len(nothing.controls) + saved.best)
    assert tuple(number for number, mark in enumerate(marks) if mark) == returned
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
