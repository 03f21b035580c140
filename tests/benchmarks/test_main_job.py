"""The tables of the main job: rows of all seeds, and the demo's runs."""

import shlex

import pytest

from benchmarks import main_job
from benchmarks.results_pages import load
from flows.__main__ import app
from flows.cli import run
from flows.demo import WAYS
from sentemb_core.config.run import InfoCSEIDC
from tasks.results import ResultRow
from tests.repository import ROOT


def test_an_encoder_that_not_every_seed_has_names_how_many_have_it(monkeypatch):
    """A run of more rounds may stop early, and a mean of the others is another number."""
    values = {1: {"BM25": 0.5, "round 3": 0.75}, 2: {"BM25": 0.5}}

    def rows_of(outcome: str, corpus: str, seed: int) -> list[ResultRow]:
        return [
            ResultRow(system=system, metric="R@5", value=value, seeds=(seed,))
            for system, value in values[seed].items()
        ]

    monkeypatch.setattr(main_job, "outcome_of", str)
    monkeypatch.setattr(main_job, "rows_of", rows_of)
    lines = main_job.table("blog", [1, 2], "").lines()
    assert lines == [["BM25", "0.500 ± 0.000"], ["round 3 (1 of 2 seeds)", "0.750"]]


@pytest.mark.parametrize("way", WAYS.values(), ids=list(WAYS))
def test_the_demo_trains_as_its_tables_but_on_fewer_sentences(way, monkeypatch):
    commands = {table.id: table.command for table in load("main_job")}
    demos = [id for id in commands if id.startswith("main-job posts")]
    assert len(demos) == len(WAYS)
    runs: list[InfoCSEIDC] = []
    monkeypatch.setattr(run, "prepare", lambda: None)
    monkeypatch.setattr(run, "run_config", lambda config, as_json: runs.append(config))
    monkeypatch.chdir(ROOT)
    for id in demos:
        more = id.removeprefix("main-job posts")
        assert commands[id] == main_job.command("posts", "S", more)
        command = main_job.command("posts", str(way.training.seed), more)
        app(shlex.split(command)[3:], result_action="return_value")
    (made,) = (one for one in runs if one.encoder.name == way.encoder.name)
    larger = way.corpus.model_copy(update={"max_documents": 1_000, "max_sentences": 20})
    encoder_alone = {"name": way.name, "returns": "encoder", "corpus": larger}
    assert made.model_copy(update={"name": way.name}) == way.model_copy(update=encoder_alone)
