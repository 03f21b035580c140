"""The card states the training, the scores and how to load an encoder, and only known values."""

import re
from pathlib import Path

import pytest
import yaml

from sentemb_core.encoder.card import CardFacts, RetrievalTask, model_card
from sentemb_core.encoder.checkpoint import save_encoder
from tests import tiny

TRAINED = CardFacts(
    name="blog\n# injected",
    registered="blog",
    base="minilm",
    method="infocse_idc",
    parent="model:0123456789ab",
    corpus="2,306 documents (documents:ba9876543210)",
    labels=1200,
    kind="transformer",
    max_length=32,
    task=RetrievalTask(query="document", candidate="title", queries=1153, candidates=2301),
    scores={"start": {"R@5": 0.725}, "round 1": {"R@5": 0.8061, "R@1": 0.5}},
)
STATIC = TRAINED.model_copy(update={"base": "static", "kind": "static"})


def test_the_card_has_corpus_parent_scores_and_licence():
    card = model_card(TRAINED)
    for part in (
        "Labelled pairs: 1,200",
        "2,306 documents (documents:ba9876543210)",
        "model:0123456789ab",
        "| start | 0.7250 |  |",
        "| round 1 | 0.8061 | 0.5000 |",
        "document \N{RIGHTWARDS ARROW} title",
        "1,153 queries",
        "2,301 candidates",
        "32 tokens",
        "all-MiniLM-L6-v2",
    ):
        assert part in card


@pytest.mark.parametrize("facts", [TRAINED, STATIC, CardFacts()])
def test_the_front_matter_is_yaml_without_placeholders(facts: CardFacts):
    card = model_card(facts)
    _, front, body = card.split("---\n", 2)
    read = yaml.safe_load(front)
    assert read["library_name"] == "sentence-transformers"
    assert "sentemb" in read["tags"]
    assert read.get("license") == ("apache-2.0" if facts.base == "minilm" else None)
    assert re.search(r"\b(NAME|PATH|MODEL|FOLDER)\b|None", body) is None


def test_commands_of_a_card_name_the_registered_model():
    commands = re.findall(r"^python -m flows .*$", model_card(TRAINED), re.M)
    assert [command.split()[3:] for command in commands] == [
        ["encode", "documents.jsonl", "vectors.parquet", "--model", "models:/blog@champion"],
        ["where", "models:/blog@champion"],
    ]
    assert "models:/" not in model_card(CardFacts())


@pytest.mark.parametrize("facts", [TRAINED, STATIC])
def test_its_snippets_run_as_printed(
    facts: CardFacts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    card = model_card(facts)
    save_encoder(tiny.static() if facts == STATIC else tiny.bert(), tmp_path, card)
    monkeypatch.chdir(tmp_path)
    done: dict[str, object] = {}
    snippets = re.findall(r"```python\n(.*?)```", card, re.S)
    for snippet in snippets:
        exec(snippet, done)
    assert done["vectors"].shape[0] == 1
    assert ("model" in done) == (facts != STATIC)


def test_unknown_values_are_left_out():
    card = model_card(CardFacts())
    absent = ("license:", "## Scores", "Corpus", "None", "Labelled pairs", "R@k", "tokens of")
    for unknown in absent:
        assert unknown not in card


def test_only_the_card_of_a_transformer_loads_the_transformer():
    assert "AutoModel" in model_card(TRAINED)
    assert "AutoModel" not in model_card(STATIC)
    assert "AutoModel" in model_card(CardFacts())


def test_a_name_stays_on_its_line():
    assert "# blog # injected\n" in model_card(TRAINED)
