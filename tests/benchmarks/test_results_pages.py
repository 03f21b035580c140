"""docs/results/ is what results/*.json generates."""

import json
import shutil
from pathlib import Path

import pytest

from benchmarks import results_pages
from benchmarks.results_pages import (
    PAGES,
    RESULTS,
    add,
    claim_counts,
    load,
    never_run,
    not_run,
    pages,
    put,
    quoted_alone,
    save,
)
from tasks.claims import CLAIMS
from tasks.results import ResultRow, ResultTable

FINDINGS = json.loads((RESULTS / "findings.json").read_text("utf-8"))
NAMES = [name.rpartition("/")[2] for name in FINDINGS["pages"]]


def test_committed_pages_are_the_generated_ones():
    made = pages()
    assert {str(file.relative_to(PAGES)) for file in PAGES.rglob("*.md")} == made.keys()
    for path, text in made.items():
        assert (PAGES / path).read_text("utf-8") == text, f"{path}: run `make results`"


@pytest.mark.parametrize("name", NAMES)
def test_stored_rows_survive_a_round_trip(name: str, tmp_path: Path):
    file = RESULTS / f"{name}.json"
    source = json.loads(file.read_text("utf-8"))["source"]
    assert source.get("commit") == (None if name == "retriever" else "e44cff9")
    assert save(name, load(name), source, tmp_path).read_bytes() == file.read_bytes()


def test_findings_are_short_and_caveats_are_known():
    assert (RESULTS / "findings.json").stat().st_size < 40_000
    assert all(len(about["findings"]) <= 5 for about in FINDINGS["pages"].values())
    used = {caveat for name in NAMES for table in load(name) for caveat in table.caveats}
    assert used <= FINDINGS["caveats"].keys()
    assert len((PAGES / "README.md").read_text("utf-8").splitlines()) < 80


def test_every_experiment_of_a_paper_has_its_claims_in_one_table():
    for name in NAMES:
        tables = load(name)
        claims = [table for table in tables if table.pivot == CLAIMS]
        assert len(claims) == (f"papers/{name}" in FINDINGS["pages"])
        for row in (row for table in claims for row in table.rows):
            assert row.task in {table.id for table in tables}


def test_every_empty_cell_of_a_paper_has_its_reason():
    stored = {name: load(name) for name in NAMES}
    tables = [table for of_page in stored.values() for table in of_page]
    assert {one.id for one in tables if not_run(one)} == FINDINGS["costs"].keys()
    assert {one.id for one in tables if quoted_alone(one)} == FINDINGS["quoted_alone"].keys()
    absent = {id for name, of_page in stored.items() for id in never_run(name, of_page)}
    assert absent == FINDINGS["needs"].keys()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(RESULTS, tmp_path / "results"))


def test_put_replaces_the_table_of_the_same_id(folder: Path):
    row = ResultRow(system="BM25", metric="R@5", value=0.5)
    put("main_job", ResultTable(id="main-job blog", title="new", rows=(row,)), folder)
    before, after = load("main_job"), load("main_job", folder)
    assert [table.id for table in after] == [table.id for table in before]
    changed = next(table for table in after if table.id == "main-job blog")
    assert changed.rows == (row,)
    assert changed.title != "new"


def test_a_run_replaces_its_table_and_its_claims(folder: Path):
    row = {"system": "ict", "metric": "R@5", "value": 0.5, "factors": {"column": "News R@5"}}
    claim = {"system": "ict", "metric": "difference", "task": "mutual.t1"}
    claim["factors"] = {"claim": "ICT is best", "verdict": "holds", "seeds above": "2 of 2"}
    rows = [row | {"seeds": [seed]} for seed in (1, 2)]
    made = {"experiment": "mutual.t1", "title": "x", "rows": [*rows, claim], "notes": ["short"]}
    file = folder / "table.json"
    file.write_text(json.dumps(made), encoding="utf-8")
    add(file, folder)
    tables = {table.id: table for table in load("mutual", folder)}
    assert [row.seeds for row in tables["mutual.t1"].rows] == [(1, 2)]
    assert [row.system for row in tables["mutual claims"].rows if row.task == "mutual.t1"] == [
        "ict"
    ]
    old = claim_counts(load("mutual")).total()
    assert claim_counts(tables.values()).total() == old - 2 + 1, "of its own claims it had two"
    assert "mutual.t1" in results_pages.page(FINDINGS, "papers/mutual", list(tables.values()))
