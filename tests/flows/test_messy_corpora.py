"""On messy corpora a default run ends at least level with BM25, whatever its encoder has learnt."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from flows.defaults import completed
from flows.infocse_idc import self_train
from flows.retriever import add_retriever
from sentemb_core.config.run import AnnotationConfig, InfoCSEIDC
from tasks.artifacts import RunResult
from tasks.execution import without_prefect
from tasks.verdict import verdict_on

Row = dict[str, object]

PRODUCTS = ["router", "printer", "scanner", "laptop", "phone", "tablet", "monitor", "camera"]
FAULTS = ["does not start", "shows an error", "loses its connection", "is slow", "was returned"]
VERBS = ["install", "remove", "update", "configure", "reset", "export", "import", "rename"]


def tickets(rng: np.random.Generator) -> Iterator[Row]:
    """Support tickets: greetings that all share, an error code that only one has."""
    for k in range(400):
        product, fault = rng.choice(PRODUCTS), rng.choice(FAULTS)
        code = f"ERR-{k:04d}"
        text = [
            "Hello team,",
            f"the {product} of customer {k % 37} {fault}.",
            f"Its log ends with {code}.",
            "Please help as soon as possible.",
            "Kind regards",
        ]
        yield {"sentences": text, "title": f"{product} {fault} ({code})"}


def manuals(rng: np.random.Generator) -> Iterator[Row]:
    """Pages of a manual: commands and file names, few sentences."""
    for k in range(400):
        verb, product = rng.choice(VERBS), rng.choice(PRODUCTS)
        tool = f"{product}ctl"
        text = [
            f"# {verb} a {product} profile",
            f"Run `{tool} {verb} --profile p{k}`.",
            f"The file /etc/{tool}/p{k}.conf holds the profile.",
            "See also the previous page.",
        ]
        yield {"sentences": text, "title": f"How to {verb} profile p{k}"}


def baskets(rng: np.random.Generator) -> Iterator[Row]:
    """Sessions of short items, most of which have nothing to do with the one that is sought."""
    for k in range(400):
        items = [f"{rng.choice(PRODUCTS)} {rng.choice(FAULTS)}" for _ in range(5)]
        yield {"sentences": [*items, f"part {k} of {rng.choice(PRODUCTS)}"], "title": f"part {k}"}


def notes(rng: np.random.Generator) -> Iterator[Row]:
    """Notes of one sentence without a mark, of 3 to 16 words."""
    for k in range(400):
        words = [f"{rng.choice(PRODUCTS)} {rng.choice(VERBS)}" for _ in range(rng.integers(1, 8))]
        yield {"text": f"{' '.join(words)} note{k}", "title": f"{words[0]} note{k}"}


def questions(rng: np.random.Generator) -> Iterator[Row]:
    """Two sentences each, and no counterpart."""
    for k in range(700):
        product, verb = rng.choice(PRODUCTS), rng.choice(VERBS)
        yield {"text": f"How do I {verb} the {product} {k % 90}? The {product} {k % 90} waits."}


@pytest.mark.slow
@pytest.mark.parametrize("made", [tickets, manuals, baskets])
def test_a_messy_corpus_ends_level_with_bm25(
    made: Callable[[np.random.Generator], Iterator[Row]], tmp_path: Path, home: Path
):
    config = small_run(made, tmp_path / "corpus.jsonl")
    pairs = {"min_distance": 2, "positives": "related"}
    run = retriever_of(config.model_copy(update={"annotation": AnnotationConfig(**pairs)}))
    verdict = verdict_on(run, None)
    assert verdict.queries > 100
    for beside in verdict.comparisons:
        assert not beside.below
        assert beside.high >= 0


@pytest.mark.slow
@pytest.mark.parametrize(("made", "splitter"), [(notes, "words"), (questions, "syntok")])
def test_a_corpus_of_short_texts_ends_level_with_bm25(
    made: Callable[[np.random.Generator], Iterator[Row]], splitter: str, tmp_path: Path, home: Path
):
    config = completed(small_run(made, tmp_path / "corpus.jsonl"))
    assert config.corpus.splitter == splitter
    run = retriever_of(config)
    assert len(run.rows) > 2
    verdict = verdict_on(run, None)
    assert verdict.queries > 100 or made is questions
    assert not any(beside.below for beside in verdict.comparisons)


def small_run(made: Callable[[np.random.Generator], Iterator[Row]], source: Path) -> InfoCSEIDC:
    """A short run from nothing on made rows; it states no pairs."""
    rows = list(made(np.random.default_rng(0)))
    lines = (json.dumps({"id": f"d{k}", **row}) for k, row in enumerate(rows))
    source.write_text("\n".join(lines), encoding="utf-8")
    short = {"steps": 40, "batch_size": 32, "learning_rate": 5e-3}
    title = "title" if "title" in rows[0] else None
    return InfoCSEIDC.model_validate(
        {
            "corpus": {"source": str(source), "id_column": "id", "counterpart_column": title},
            "encoder": {"name": "static", "dim": 32, "vocabulary": 1_000},
            "initialiser": {"method": "conpono", **short},
            "training": short,
            "rounds": {"max_rounds": 1},
        }
    )


def retriever_of(config: InfoCSEIDC) -> RunResult:
    """The finished rounds of a run, with its retriever."""
    with without_prefect():
        return add_retriever(self_train(config, lambda _: None), config)
