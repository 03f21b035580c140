"""How much each method of a table gains over its start encoder, and how surely."""

import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sentemb_core.store.objects import Store
from sentemb_core.types import ArtifactRef
from tasks.table_notes import OF_PAIRS
from tasks.tables.cells import (
    GAIN,
    ONE_SEED,
    START,
    MethodCell,
    cells_json,
    cells_markdown,
    header,
    key_of,
    lines,
    told_below,
)

pytestmark = pytest.mark.usefixtures("home")

QUERIES = 40


def ranked(found: int) -> ArtifactRef:
    """Scores of a pool of whose test documents the first so many find their titles."""
    ranks = np.repeat([1, 9], [found, QUERIES - found])
    direction = {f"recall_at_{k}": found / QUERIES for k in (1, 5, 10, 20)}
    direction |= {"mrr_at_10": 0.5, "queries": QUERIES, "candidates": QUERIES}
    both = dict.fromkeys(("document_to_counterpart", "counterpart_to_document"), direction)
    with Store.default().writing("scores") as draft:
        table = {"split": ["test"] * QUERIES, "document": range(QUERIES), "rank": ranks}
        pq.write_table(pa.table(table), draft.path / "ranks.parquet")
        scores = json.dumps({"test": {"split": "test", **both}})
        (draft.path / "scores.json").write_text(scores, encoding="utf-8")
    return draft.ref


def cell(method: str, found: int | None, seed: int = 1, **changes: object) -> MethodCell:
    scores = None if found is None else ranked(found)
    made = MethodCell(corpus="c", start="s", method=method, seed=seed, scores=scores)
    return made.model_copy(update={"steps": 9 if method == "simcse" else 0} | changes)


def gains(cells: list[MethodCell]) -> dict[str, str]:
    """Method -> what the column says."""
    place = header(cells).index(GAIN)
    return {line[2]: line[place] for line in lines(cells)}


GAINED = re.compile(r"([+-]\d\.\d{3}) \(([+-]\d\.\d{3}) to ([+-]\d\.\d{3})\)")


def test_a_row_tells_its_gain_over_the_start_on_the_same_queries_and_its_interval():
    cells = [cell(START, 10), cell("BM25", 10), cell("simcse", 30), cell("bce", 5)]
    told = gains(cells)
    assert told[START] == ""
    assert told["BM25"] == "+0.000 (+0.000 to +0.000)", "paired: it finds the very same"
    for method, sign in (("simcse", 1), ("bce", -1)):
        mean, low, high = map(float, GAINED.fullmatch(told[method]).groups())
        assert low < mean < high
        assert sign * mean > 0
        assert low * high > 0
    assert float(GAINED.fullmatch(told["simcse"])[1]) == 0.5
    assert f"- {GAIN}: {ONE_SEED}." in cells_markdown(cells)


def test_programs_read_the_gain_with_every_cell_of_its_row():
    start, simcse = cells_json([cell(START, 10), cell("simcse", 30)])
    assert "less_start" not in start
    assert simcse["less_start"].keys() == {"seeds", "above", "mean", "low", "high"}
    assert (simcse["less_start"]["seeds"], simcse["less_start"]["mean"]) == (1, 0.5)


def test_several_seeds_widen_the_interval_by_what_training_varies():
    def row(*found: int) -> list[MethodCell]:
        pairs = [(cell(START, 10, seed), cell("simcse", n, seed)) for seed, n in enumerate(found)]
        return [one for pair in pairs for one in pair]

    alike, apart = (
        {key_of(one): told for one, told in zip(cells, cells_json(cells), strict=True)}[
            "c", "s", "simcse", 0
        ]["less_start"]
        for cells in (row(20, 20, 20), row(10, 20, 30))
    )
    assert alike["mean"] == apart["mean"] == 0.25
    assert apart["low"] < alike["low"]
    assert apart["high"] > alike["high"]
    assert not any(ONE_SEED in line for line in told_below(row(20, 20, 20)))


def test_where_there_is_nothing_to_pair_nothing_is_told():
    failed = cell("bce", None, error="E302 Training met a loss of nan.")
    other_seed, other_start = cell("simcse", 30, 2), cell("ict", 30, start="other")
    told = gains([cell(START, 10), failed, other_seed, other_start])
    assert set(told.values()) == {""}
    assert GAIN not in header([cell("simcse", 30), cell(START, None)])


def test_a_fine_tuned_row_is_held_against_the_start_without_labels():
    """In the table of few-shot curves."""
    cells = [cell(START, 10), cell("simcse", 20), cell("simcse", 30, labels=100)]
    place = header(cells).index(GAIN)
    assert [line[place][:6] for line in lines(cells)] == ["", "+0.250", "+0.500"]


def test_cycles_stand_before_their_steps():
    plus = cell("infocse_plus", 30, steps=1_000, cycles=2, batch_size=64)
    assert lines([plus])[0][-3:-1] == ["2 x 1,000", "64"]


def test_a_table_says_which_bm25_is_among_its_rows():
    assert told_below([cell("BM25", 10)])[0].startswith("BM25: k1 1.2, b 0.75, k3 8; each text")
    assert told_below([cell("simcse", 10)]) == []


def test_bm25_on_pairs_alone_reads_no_titles():
    pairs = cell("BM25", None, sts={"STS-B dev": ranked(1)})
    assert OF_PAIRS in told_below([pairs])[0]
    both = told_below([pairs, cell("BM25", 10)])[0]
    assert OF_PAIRS in both
