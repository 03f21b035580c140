"""What recipes ask of a tokenizer."""

import pytest
from tokenizers import Tokenizer, models

from sentemb_core.encoder.encoder import Encoder
from sentemb_core.encoder.static import StaticTable
from sentemb_core.method_settings import CLMAutoencoder
from sentemb_core.methods.autoencoders import clm_autoencoder
from sentemb_core.methods.words import begins_word, texts_of, vocabulary
from tests import tiny
from tests.encoder.starting import start
from tests.views.drawn import seen


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
    left = texts_of(encoder)(seen(method.views["anchor"], corpus).tokens)
    words = texts[0].split()
    assert all(text.split() == [word for word in words if word in text.split()] for text in left)
    assert len(set(left)) > 20
