"""The retriever study: its retrievers, the draws of its corpora, and its rows."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from benchmarks import retriever_corpora, retriever_study
from benchmarks.results_pages import load, put
from benchmarks.retriever_corpora import BACKWARD, FORWARD, SEARCH, Titled, judged
from benchmarks.retriever_study import (
    BM25,
    CONTROL,
    FX,
    SPECS,
    control_of,
    joined,
    read,
    rows_of,
    spec_of,
    stored_bytes,
    studied,
)
from sentemb_core.retriever.retriever import Retriever
from sentemb_core.retriever.scores import Readings
from sentemb_core.retriever.words import Texts
from tasks.execution import without_prefect
from tests import tiny
from tests.flows.suites import write_data
from tests.parquet import write
from tests.retriever.made import DIM, retriever

WHOLES = ("A + M + L + T", "A + B + M", "B + M + L", FX)


@pytest.mark.parametrize("whole", WHOLES)
def test_a_whole_stands_beside_what_remains_without_each_part(whole: str):
    parts = whole.split(" + ")
    assert len(spec_of(whole).names) >= len(parts) - 1
    for part in parts:
        rest = [one for one in parts if one != part]
        if {"M", "T"} & set(rest) and not {"A", "B"} & set(rest):
            continue  # no encoder is left
        assert " + ".join(rest) in SPECS


def test_names_are_different_retrievers_with_fixed_weights():
    specs = [spec_of(name) for name in SPECS]
    assert len({spec.model_dump_json() for spec in specs}) == len(SPECS)
    assert spec_of(BM25).words == "bm25"
    assert spec_of("B + M + L").shares == (0.3, 0.4)
    assert spec_of(FX).shares == (0.5, 0.6)
    assert [each.weight for each in spec_of("A + B").vectors] == [1.0, 0.5]
    assert {name: list(control_of(name).values()) for name in SPECS if control_of(name)} == {
        "B": ["N"],
        "A + B + M": ["A + N + M"],
        "B + M + L": ["N + M + L"],
    }


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Thirty posts, half of them replies, and a small Cranfield."""
    monkeypatch.setenv("SENTEMB_DATA", str(tmp_path))
    monkeypatch.setenv("SENTEMB_HOME", str(tmp_path / "home"))
    places = range(4, 34)
    write(
        tmp_path / "posts.parquet",
        sentences=[[f"w{k} w9", f"w{k} w8 w7"] for k in places],
        title=[f"w{k}" for k in places],
        is_reply=[k % 2 == 1 for k in places],
    )
    write_data(tmp_path)
    posts = Titled("posts.parquet", kept=lambda row: not row["is_reply"], depth=2)
    monkeypatch.setitem(retriever_corpora.CORPORA, "posts", posts)
    with without_prefect():
        yield tmp_path


def tokens_of_a() -> Retriever:
    whole = retriever()
    return Retriever(spec_of("A + T"), {"A": whole.encoders[""]}, whole.token_map)


def words_of(side: list[list[str]]) -> Readings:
    return Readings(Texts([" ".join(sentences) for sentences in side]))


def test_a_seed_draws_a_pool_without_replies(data: Path):
    drawn = [judged("posts", seed, 10) for seed in (1, 1, 2)]
    titles = [[text for (text,) in one.pair.texts] for one in drawn]
    assert titles[0] == titles[1] != titles[2]
    assert all(int(title.removeprefix("w")) % 2 == 0 for title in titles[0])
    values = drawn[0].values(spec_of(BM25), *map(words_of, drawn[0].pair))
    assert values.keys() == {
        (way, metric) for way in (FORWARD, BACKWARD) for metric in ("MRR@10", "R@2")
    }
    assert all(len(each) == 10 for each in values.values())
    assert values[BACKWARD, "MRR@10"].tolist() == [1.0] * 10


def test_a_collection_is_used_whole_whatever_the_seed(data: Path):
    first, second = (judged("cranfield", seed, 5) for seed in (1, 2))
    assert first.pair == second.pair
    assert (len(first.pair.texts), len(first.pair.documents)) == (12, 30)
    values = first.values(spec_of(BM25), *map(words_of, first.pair))
    assert [(way, len(each)) for way, each in values.items()] == [((SEARCH, "nDCG@10"), 12)]


def test_a_table_that_cannot_be_trained_has_the_reason(data: Path, monkeypatch):
    """Tiny encoders stand for MiniLM and A."""
    model = tokens_of_a()
    artifacts = {"MiniLM": tiny.bert(), "A": tiny.bert(seed=1)}
    monkeypatch.setattr(retriever_study, "artifact_path", lambda name: name)
    monkeypatch.setattr(retriever_study, "load_encoder", artifacts.__getitem__)
    names = {name: name for name in artifacts}
    made = names, model.token_map, "E102 no pairs"
    monkeypatch.setattr(retriever_study, "fitted", lambda documents, seed: made)
    values, costs, refused = studied("posts", [1, 2], 10, SPECS)
    assert (
        values.keys()
        == costs.keys()
        == {name for name in SPECS if not {"B", "N"} & set(name.split(" + "))}
    )
    rows = list(rows_of("posts", [1, 2], values, costs, refused))
    assert {row.system for row in rows if row.note == refused} == set(SPECS) - values.keys()
    assert {row.metric for row in rows} == {
        *("MRR@10", "R@2", "parts", "bytes a document", "ms a query")
    }
    assert all(cost > 0 for of_spec in costs.values() for each in of_spec.values() for cost in each)


def test_values_and_differences_are_two_tables_that_are_stored(tmp_path: Path, monkeypatch):
    rng = np.random.default_rng(0)
    way = (FORWARD, "MRR@10")
    values = {name: {way: [rng.random(8)]} for name in (BM25, FX)}
    costs = {name: {"parts": [1.0]} for name in values}
    monkeypatch.setattr(retriever_study, "studied", lambda *_: (values, costs, "absent"))
    monkeypatch.setenv("SENTEMB_HOME", str(tmp_path / "home"))
    (tmp_path / "retriever.json").write_text('{"source": {}, "tables": []}')
    made = retriever_study.tables("blog", [1], 10, SPECS)
    for table in made:
        put("retriever", table, tmp_path)
    assert load("retriever", tmp_path) == made
    assert [{row.baseline for row in table.rows} for table in made] == [{""}, {BM25, FX}]
    assert all(table.lines() for table in made)


def test_rows_of_some_retrievers_replace_their_own(monkeypatch):
    values = {name: {(FORWARD, "MRR@10"): [np.full(8, 0.5)]} for name in SPECS}
    costs = {name: {"parts": [1.0]} for name in SPECS}
    monkeypatch.setattr(retriever_study, "studied", lambda *_: (values, costs, ""))
    stored = retriever_study.tables("blog", [1], 10, ["A", "C + L"])
    monkeypatch.setattr(retriever_study, "load", lambda name: stored)
    values["C + L"] = {(FORWARD, "MRR@10"): [np.full(8, 0.7)]}
    for table in retriever_study.tables("blog", [1], 10, ["C + L", "A + L"]):
        merged = retriever_study.with_stored_rows(table)
        assert list(dict.fromkeys(row.system for row in merged.rows)) == ["A", "A + L", "C + L"]
        found = {row.system: row.value for row in merged.rows if row.metric == "MRR@10"}
        assert found["C + L"] != found["A"]


def test_bytes_are_those_of_the_parts(data: Path):
    model = tokens_of_a()
    documents = model.read_documents([["w4 w5", "w6"], ["w7 w8 w9"]])
    vectors, sentences, tokens = 16 * 4, 16 * 4 * 3 / 2, DIM * 4 / 2
    assert stored_bytes(spec_of("A"), documents) == vectors
    assert stored_bytes(spec_of("A + M"), documents) == vectors + sentences
    assert stored_bytes(spec_of("A + M + T"), documents) == vectors + sentences + tokens
    assert stored_bytes(spec_of("C + M"), documents) == vectors + sentences, "one vector"
    assert spec_of("C + M") == spec_of("A + M").model_copy(update={"unit": "both"})
    assert stored_bytes(spec_of(BM25), documents) == 8 * (3 + 3) / 2
    both = joined(documents, Readings(documents.texts))
    assert both.vectors.keys() == {"A"}
    assert read({}, model.token_map, judged("posts", 1, 5))[2] == {}


def test_differences_are_paired_over_pools_or_over_the_queries_of_a_collection():
    ways = (FORWARD, "MRR@10"), (SEARCH, "nDCG@10")
    rng = np.random.default_rng(0)
    names = (BM25, FX, "B", "N")
    values = {name: {way: [rng.random(8), rng.random(8)] for way in ways} for name in names}
    costs = {name: {"parts": [1.0, 1.0]} for name in names}
    rows = list(rows_of("posts", [1, 2], values, costs, "absent"))
    found = {(row.system, row.direction, row.baseline): row for row in rows}
    for name in names:
        for direction, metric in ways:
            of_seeds = [each.mean() for each in values[name][direction, metric]]
            row = found[name, direction, ""]
            assert row.value == pytest.approx(np.mean(of_seeds))
            assert row.spread == pytest.approx(np.std(of_seeds, ddof=1))
            assert row.units == (16 if direction == FORWARD else 8)
            baselines = {BM25: BM25, FX: FX} | ({CONTROL: "N"} if name == "B" else {})
            for baseline, other in baselines.items():
                if other == name:
                    assert (name, direction, baseline) not in found
                    continue
                gain = found[name, direction, baseline]
                others = [each.mean() for each in values[other][direction, metric]]
                assert gain.value == pytest.approx(np.mean(of_seeds) - np.mean(others))
                assert gain.low <= gain.value <= gain.high
