"""Word vectors: how texts are cut, what unknown words do, that others load the same encoder."""

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

from sentemb_core.encoder.batching import embed_texts
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.encoder.word_vectors import (
    WordVectors,
    lowercased_words,
    trained_word_vectors,
    word_encoder,
)
from sentemb_core.errors import BadDataError, MissingEncoderError
from tests.encoder.published import saved_and_read

WORDS = ["the", "tax", "form", "do", "n't", "3.5", "."]


def table(words: list[str] = WORDS) -> WordVectors:
    vectors = np.random.default_rng(0).normal(size=(len(words), 8)).astype(np.float32)
    return WordVectors(words, vectors)


def pooled(encoder: Encoder, text: str) -> np.ndarray:
    """The mean over all tokens, before it is normalised."""
    return encoder(torch.from_numpy(encoder.tokenise([text])[0])[None])[0].detach().numpy()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Don't file it's form.", ["do", "n't", "file", "it", "'s", "form", "."]),
        ("do n't", ["do", "n't"]),
        ("1,250.75 or 3.5% of 2nd", ["1,250.75", "or", "3.5", "%", "of", "2nd"]),
        ("'Yes', we'll (can't) e-mail", ["'", "yes", "'", ",", "we", "'ll", "(", "ca", "n't", ")",
                                         "e", "-", "mail"]),
        ("Überstunden\u00a0北京 ", ["überstunden", "北京"]),
        ("", []),
    ],
)  # fmt: skip
def test_texts_are_cut_as_the_penn_treebank_cuts_clitics(text: str, words: list[str]):
    assert list(lowercased_words(text)) == words


@pytest.mark.parametrize("text", ["the tax form", "The unheard tax of form", "a tax form, the"])
def test_a_sentence_is_the_mean_of_its_known_words(text: str):
    given = table()
    encoder = word_encoder(given, max_length=32)
    known = given.vectors[[0, 1, 2]].mean(axis=0)
    np.testing.assert_allclose(pooled(encoder, text), known, atol=1e-6)
    (vector,) = embed_texts(encoder, [text])
    np.testing.assert_allclose(vector, known / np.linalg.norm(known), atol=1e-6)


def test_no_letter_of_an_unknown_word_is_a_word():
    encoder = word_encoder(table(["a", "u", "un", "▁", "▁u"]), max_length=32)
    assert encoder.tokenise(["unu u una a", "▁u"])[0].tolist() == [3, 2]
    assert encoder.tokenise(["unu"])[0].tolist() == [encoder.unknown_id]


def test_a_text_without_a_known_word_is_zero():
    encoder = word_encoder(table(), max_length=32)
    assert not pooled(encoder, "nothing here").any()
    assert not pooled(encoder, "").any()
    assert not encoder.vectors(encoder.backbone.embedding.weight[:2]).detach().numpy().any()


def test_only_a_table_with_capitals_is_case_sensitive():
    without = word_encoder(table(), max_length=32)
    assert without.tokenise(["The TAX"])[0].tolist() == [2, 3]
    cased = word_encoder(table(["the", "The", "TAX"]), max_length=32)
    assert cased.tokenise(["The TAX the tax"])[0].tolist() == [3, 4, 2]


def test_words_that_look_like_special_tokens_do_no_harm():
    encoder = word_encoder(table(["[UNK]", "tax", "[PAD]"]), max_length=32)
    assert not pooled(encoder, "unheard").any()
    assert pooled(encoder, "tax").any()


def test_sentence_transformers_and_the_saved_folder_give_the_same_vectors(tmp_path: Path):
    texts = ["Don't tax the form.", "3.5 unheard", "nothing here", ""]
    saved_and_read(word_encoder(table(), max_length=32), texts, tmp_path, atol=1e-6)


needs_gensim = pytest.mark.skipif(
    find_spec("gensim") is None, reason="gensim is not installed: pip install 'sentemb[words]'"
)


def topics(seed: int) -> list[str]:
    """Sentences of one of two topics, whose words never meet."""
    rng = np.random.default_rng(seed)
    lists = [["tax", "form", "claim", "refund", "file"], ["falcon", "brick", "lego", "set", "toy"]]
    return [" ".join(rng.choice(lists[k % 2], size=8)) for k in range(400)]


@needs_gensim
def test_words_of_one_topic_become_alike_and_one_seed_gives_one_table():
    first, again = (trained_word_vectors(topics(0), 3, dim=16, epochs=40) for _ in range(2))
    assert first.words == again.words
    np.testing.assert_array_equal(first.vectors, again.vectors)
    tax, claim, lego = embed_texts(word_encoder(first, 32), ["Tax", "claim", "LEGO"])
    assert tax @ claim > tax @ lego + 0.1


@needs_gensim
def test_progress_counts_every_text_of_every_pass():
    """Once to count the words, then once a pass."""
    counts: list[int] = []
    trained_word_vectors(["one two"] * 10, 0, dim=4, epochs=2, progress=counts.append)
    assert counts == list(range(1, 31))


@needs_gensim
def test_a_corpus_whose_words_are_all_rare_is_refused():
    with pytest.raises(BadDataError, match=r"E100 .*\b5\b"):
        trained_word_vectors(["every word once"], 0)


def test_training_without_gensim_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "gensim", None)
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    with pytest.raises(MissingEncoderError, match=r"sentemb\[words\]"):
        trained_word_vectors(["a b"], 0)
