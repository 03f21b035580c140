"""The tables of RESULTS.md: from runs of all seeds, and of experiments that there are."""

import json
from pathlib import Path

from benchmarks import main_job
from benchmarks.claims import tables
from flows.experiments.index import Reproduction


def test_a_row_that_not_every_seed_has_says_how_many_have_it(monkeypatch):
    """A run of more rounds may stop early, and a mean of the others is another number."""
    found = {
        "1": {"BM25": [0.5, 0.25], "round 3": [0.75, 0.5]},
        "2": {"BM25": [0.5, 0.25]},
    }
    monkeypatch.setattr(main_job, "command", lambda corpus, seed, more: seed)
    monkeypatch.setattr(main_job, "outcome_of", str)
    monkeypatch.setattr(main_job, "recalls", lambda seed, depths: found[seed])
    told = main_job.table("blog", [1, 2], "").splitlines()
    assert told[2:4] == [
        "| BM25 | 0.500 ± 0.000 | 0.250 ± 0.000 |",
        "| round 3 (1 of 2 seeds) | 0.750 | 0.500 |",
    ]


def test_a_report_of_an_experiment_that_is_no_more_is_passed_over(tmp_path: Path):
    asked = Reproduction(experiment="s000.t1", data="data").model_dump(mode="json")
    for name in ("s000.t1", "s009.gone"):
        table = {"experiment": name, "asked": asked | {"experiment": name}, "claims": []}
        (tmp_path / name).mkdir()
        (tmp_path / name / "table.json").write_text(json.dumps(table))
    assert [table["experiment"] for table in tables(tmp_path)] == ["s000.t1"]
