"""The tables of RESULTS.md: from runs of all seeds, and of experiments that there are."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from benchmarks import main_job
from benchmarks.claims import tables
from flows.__main__ import app
from flows.cli import commands
from flows.demo import WAYS
from flows.experiments.index import Reproduction
from tests.repository import ROOT


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
    asked = Reproduction(experiment="mutual.t1", data="data").model_dump(mode="json")
    for name in ("mutual.t1", "s009.gone"):
        table = {"experiment": name, "asked": asked | {"experiment": name}, "claims": []}
        (tmp_path / name).mkdir()
        (tmp_path / name / "table.json").write_text(json.dumps(table))
    assert [table["experiment"] for table in tables(tmp_path)] == ["mutual.t1"]


def test_the_summary_counts_the_claims_of_the_table():
    results = (ROOT / "RESULTS.md").read_text("utf-8")
    table = results.partition("<!-- claims:begin -->")[2].partition("<!-- claims:end -->")[0]
    claims = re.findall(r"^\| s0\S+ \| (.+?) \| \*\*(.+?)\*\* \|", table, re.MULTILINE)
    fates = Counter(fate for text, fate in claims if not text.startswith("(ours)"))
    summary = results.partition("\n## ")[0]
    assert f"**Of {fates.total()} claims of the papers**" in summary
    told = f"{fates['holds']} hold, {fates['does not hold']} do not, {fates['not decided']} are not"
    assert told in summary


@pytest.mark.parametrize("way", WAYS.values(), ids=list(WAYS))
def test_the_rows_of_the_demo_are_runs_as_the_demo_makes_them(way, monkeypatch):
    results = (ROOT / "RESULTS.md").read_text("utf-8")
    options = re.findall(r"^<!-- main-job demo(.*):begin -->$", results, re.MULTILINE)
    assert all(f"\n{main_job.command('demo', 'S', more)}\n" in results for more in options)

    runs = []
    monkeypatch.setattr(commands, "prepare", lambda: None)
    monkeypatch.setattr(commands, "run_config", lambda config, as_json: runs.append(config))
    monkeypatch.chdir(ROOT)
    for more in options:
        typed = main_job.command("demo", str(way.training.seed), more)
        app(typed.removeprefix("python -m flows "), result_action="return_value")
    (run,) = (one for one in runs if one.encoder.name == way.encoder.name)
    assert run.model_copy(update={"name": way.name}) == way
