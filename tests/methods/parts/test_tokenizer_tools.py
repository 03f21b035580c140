"""What recipes ask of a tokenizer."""

import numpy as np
import pytest
from tokenizers import Tokenizer, models

from sentemb_core.config.methods import CLMAutoencoder
from sentemb_core.encoder.backbones import StaticTable
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.methods.autoencoders import clm_autoencoder
from sentemb_core.methods.catalogue import method_for
from sentemb_core.methods.parts.tokenizer_tools import begins_word, spelt, vocabulary
from sentemb_core.methods.parts.tokenizer_tools import texts_of as decoder_of
from sentemb_core.methods.parts.views import IGNORED
from sentemb_core.training.batches import sampler_for
from tests import tiny
from tests.encoder.starting import invented, start
from tests.methods.drawing import seen
from tests.methods.recipes import NEW_HEAD, SPANS, config_of


def of_pieces(*pieces: str) -> Encoder:
    made = Tokenizer(models.WordLevel({piece: k for k, piece in enumerate(pieces)}, pieces[0]))
    table = StaticTable.random(len(pieces), 8, 0)
    return Encoder(table, made, pooling="mean", similarity="cosine", max_length=12)


@pytest.mark.parametrize(
    ("pieces", "begins"),
    [
        (["the", "play", "##ing", "▁", "##ed"], [True, True, False, True, False]),
        (["▁the", "▁play", "ing", "##"], [True, True, False, False]),
        (["Ġthe", "Ġplay", "ing", "##"], [True, True, False, False]),
        (["the", "playing"], [True, True]),
    ],
    ids=["WordPiece", "SentencePiece", "byte-level BPE", "whole words"],
)
def test_a_word_begins_where_the_marks_of_its_vocabulary_say(pieces, begins):
    assert begins_word(of_pieces(*pieces)).tolist() == begins


def test_an_id_that_a_vocabulary_passes_over_moves_no_piece():
    made = Tokenizer(models.WordLevel({"the": 0, "play": 1, "##ing": 3, "##ed": 4}, "the"))
    table = StaticTable.random(5, 8, 0)
    encoder = Encoder(table, made, pooling="mean", similarity="cosine", max_length=12)
    assert vocabulary(encoder) == ["the", "play", "", "##ing", "##ed"]
    assert begins_word(encoder).tolist() == [True, True, True, False, False]


def test_the_noise_of_an_autoencoder_takes_whole_words():
    encoder = start("transformer", vocabulary=64)
    texts = ["agency pays a benefit claim by mail each month"] * 60
    corpus = tiny.corpus([len(texts)])
    corpus.sentences = encoder.tokenise(texts)
    assert len(corpus.sentences[0]) > len(texts[0].split()) + 2
    method = clm_autoencoder(CLMAutoencoder(noise=0.6), encoder)
    left = decoder_of(encoder)(seen(method.views["anchor"], corpus).tokens)
    words = texts[0].split()
    assert all(text.split() == [word for word in words if word in text.split()] for text in left)
    assert len(set(left)) > 20


MASKED = [
    ("simcse", {"mlm": 0.1}),
    ("declutr", SPANS),
    ("condenser", {}),
    ("infocse_aux", NEW_HEAD),
    ("diffcse", NEW_HEAD),
    ("rtd_mlm", NEW_HEAD),
    ("mlm_autoencoder", {}),
]


@pytest.mark.parametrize(("name", "settings"), MASKED, ids=[name for name, _ in MASKED])
def test_no_special_token_is_a_target(name, settings):
    encoder = start("transformer", vocabulary=64)
    corpus = tiny.corpus([4] * 16)
    corpus.sentences = encoder.tokenise([f"{text} ☃" for text in invented(64, 12, seed=2)])
    config = config_of(name, settings | {"mask_rate": 0.9})
    batch = sampler_for(config, method_for(config.method, encoder), corpus).batch(0)
    views = [view for view in batch.views.values() if view.targets]
    targets = np.concatenate([row for view in views for row in view.targets])
    special = [encoder.tokenizer.token_to_id(name) for name in ("[CLS]", "[SEP]", "[PAD]", "[UNK]")]
    assert np.isin(special[-1], np.concatenate([row for view in views for row in view.tokens]))
    assert (targets != IGNORED).mean() > 0.5
    assert not np.isin(targets, special).any()


@pytest.mark.parametrize(
    "vocabulary",
    [
        ["the", "##ing", ",", "5", "$"],
        ["▁the", "ing", "▁,", "▁5", "▁$"],
        ["Ġthe", "ing", ",", "Ġ5", "Ġ$"],
    ],
)
def test_a_word_stands_behind_a_space_and_punctuation_behind_its_word(vocabulary):
    assert spelt(vocabulary) == [" the", "ing", ",", " 5", " $"]


@pytest.mark.parametrize(
    "vocabulary",
    [["▁a", "▁the", "▁play", "ing", "##", "###"], ["Ġa", "Ġthe", "Ġplay", "ing", "##", "###"]],
    ids=["SentencePiece", "byte-level BPE"],
)
def test_a_piece_of_number_signs_makes_no_word_piece_of_a_vocabulary(vocabulary):
    assert spelt(vocabulary) == [" a", " the", " play", "ing", "##", "###"]


def test_in_a_vocabulary_without_marks_every_token_stands_behind_a_space():
    assert spelt(["the", "play", ","]) == [" the", " play", ","]
