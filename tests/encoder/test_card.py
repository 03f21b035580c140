"""The card says where an encoder comes from, and only what is known."""

import re

from sentemb_core.encoder.card import CardFacts, model_card

TRAINED = CardFacts(
    name="blog\n# injected",
    base="minilm",
    method="infocse_idc",
    parent="model:0123456789ab",
    corpus="sentences:ba9876543210",
    scores={"start": {"R@5": 0.725}, "round 1": {"R@5": 0.8061, "R@1": 0.5}},
)


def test_the_card_names_corpus_parent_scores_loading_and_licence():
    card = model_card(TRAINED)
    for part in (
        'library_name: "sentence-transformers"',
        'license: "apache-2.0"',
        "sentences:ba9876543210",
        "model:0123456789ab",
        "| start | 0.7250 |  |",
        "| round 1 | 0.8061 | 0.5000 |",
        'SentenceTransformer("PATH")',
        "AutoModel.from_pretrained",
        "models:/NAME@champion",
        "all-MiniLM-L6-v2",
    ):
        assert part in card


def test_the_command_of_a_card_is_whole():
    (command,) = re.findall(r"^python -m flows encode .*$", model_card(TRAINED), re.M)
    assert command.split()[4:] == [
        *("documents.jsonl", "vectors.parquet", "--model", "models:/NAME@champion")
    ]


def test_a_name_stays_on_its_line():
    assert "# blog # injected\n" in model_card(TRAINED)


def test_what_is_not_known_is_left_out():
    card = model_card(CardFacts())
    assert "license:" not in card
    assert "## Scores" not in card
    assert "Corpus" not in card
    assert "None" not in card
