"""Late interaction against plain loops, and the error of its int8 form."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import processors

from sentemb_core.encoder.batching import embed_texts
from sentemb_core.encoder.prompts import Prompts
from sentemb_core.encoder.truncation import Cut
from sentemb_core.errors import BadDataError
from sentemb_core.retriever.spec import RetrieverSpec, Vectors
from sentemb_core.retriever.tokens import (
    MERGED,
    SCALE,
    TokenVectors,
    late_interaction,
    late_interaction_of_texts,
    merged_neighbours,
    read_token_map,
    read_tokens,
    token_map_bytes,
)
from tests import tiny
from tests.retriever import made

SIZES = st.lists(st.integers(1, 7), min_size=1, max_size=8)


def loop(query: np.ndarray, document: np.ndarray) -> float:
    return float(np.mean([max(float(token @ other) for other in document) for token in query]))


def split(tokens: TokenVectors) -> list[np.ndarray]:
    return [tokens.rows[first:end] for first, end in pairwise(tokens.starts)]


@given(sizes=SIZES, count=st.integers(1, 5), seed=st.integers(0, 10**6))
def test_both_directions_average_over_the_text(sizes, count, seed):
    rng = np.random.default_rng(seed)
    documents, query = made.tokens(rng, sizes), made.directions(rng, count)
    expected = [loop(query, document) for document in split(documents)]
    assert late_interaction(query, documents) == pytest.approx(np.array(expected), abs=1e-5)
    texts, document = made.tokens(rng, sizes), made.directions(rng, count)
    expected = [loop(text, document) for text in split(texts)]
    assert late_interaction_of_texts(document, texts) == pytest.approx(np.array(expected), abs=1e-5)


@given(sizes=SIZES, count=st.integers(1, 5), seed=st.integers(0, 10**6))
def test_int8_changes_a_score_by_at_most_its_rounding(sizes, count, seed):
    """A coordinate is off by at most .5 / 127, so a cosine by at most sqrt(dim) times that."""
    exact = made.tokens(np.random.default_rng(seed), sizes)
    rounded = made.tokens(np.random.default_rng(seed), sizes, int8=True)
    query = made.directions(np.random.default_rng(seed + 1), count)
    everything = np.arange(len(sizes))
    difference = late_interaction(query, exact) - late_interaction(query, rounded.of(everything))
    assert np.abs(difference).max() <= 0.5 / SCALE * made.DIM**0.5 + 1e-6


@given(sizes=SIZES, picks=st.lists(st.integers(0, 7), min_size=1, max_size=4))
def test_token_vectors_of_some_texts(sizes, picks):
    tokens = made.tokens(np.random.default_rng(0), sizes, int8=True)
    texts = np.array([pick % len(sizes) for pick in picks])
    some = split(tokens.of(texts))
    for text, rows in zip(texts.tolist(), some, strict=True):
        assert rows == pytest.approx(split(tokens)[text].astype(np.float32) / SCALE)


@given(length=st.integers(1, 9), seed=st.integers(0, 10**6))
def test_merged_neighbours_are_mean_directions(length, seed):
    tokens = made.directions(np.random.default_rng(seed), length)
    merged = merged_neighbours(torch.from_numpy(tokens)[None])[0].numpy()
    for k, row in enumerate(merged):
        mean = tokens[MERGED * k : MERGED * (k + 1)].sum(axis=0)
        expected = mean / np.linalg.norm(mean)
        assert row / SCALE == pytest.approx(expected, abs=0.5 / SCALE + 1e-6)
    assert len(merged) == -(-length // MERGED)


def test_sentence_vectors_are_those_of_encode():
    encoder, texts = tiny.bert(), ["w5 w6", "w7", "w8 w9 w10 w5 w6", "w5 w6"]
    sequences = encoder.tokenise(texts)
    read = read_tokens(encoder, sequences, None)
    assert read.vectors == pytest.approx(embed_texts(encoder, texts), abs=1e-6)
    assert np.diff(read.tokens.starts).tolist() == [2, 1, 5, 2]  # special tokens have no vector
    assert read.tokens.rows[:2] == pytest.approx(read.tokens.rows[-2:], abs=1e-6)


@pytest.mark.parametrize("unit", ["sentences", "text"])
def test_both_sides_of_a_retriever_have_their_prompts_whose_tokens_have_no_vector(unit):
    spec = RetrieverSpec(vectors=(Vectors(folder=""),), tokens=True, unit=unit)
    plain, prompted = made.retriever(spec), made.retriever(spec)
    prompts = {"query": "w5 w6 ", "document": "w7 "}
    prompted.encoders[""].prompts = Prompts(prompts)
    texts = ["w8 w9", "w10"]
    for role, documents in (("query", False), ("document", True)):
        found = prompted.read_sentences([[text] for text in texts], documents=documents)
        expected = plain.read_sentences(
            [[prompts[role] + text] for text in texts], documents=documents
        )
        assert found.vectors[""].vectors == pytest.approx(expected.vectors[""].vectors, abs=1e-6)
        assert found.texts.items == texts
        sizes = np.diff(found.tokens[""].starts)
        assert sizes.tolist() == ([1, 1] if documents else [2, 1])  # merged in twos


def test_a_retriever_counts_what_its_first_encoder_cuts():
    cut = Cut()
    long = "w5 " * 40
    made.retriever().read_documents([[long, "w6"], ["w7"]], cut=cut)
    assert cut == Cut(texts=3, cut=1, limit=18, example=long)
    assert "33.3%" in cut.line("sentences")


@pytest.mark.parametrize("role", ["query", "sentence"])
def test_an_encoder_that_ends_texts_only_gives_each_token_a_vector(role):
    encoder = tiny.bert()
    encoder.tokenizer.post_processor = processors.TemplateProcessing(
        single="$A [SEP]", special_tokens=[("[SEP]", 3)]
    )
    encoder.prompts = Prompts({"query": "w5 w6 "})
    sequences = encoder.tokenise(["w8 w9", ""], role)
    read = read_tokens(encoder, sequences, None, prompt=encoder.prompt_tokens(role))
    assert np.diff(read.tokens.starts).tolist() == [2, len(sequences[1])]


def test_merged_tokens_halve_a_document():
    encoder = tiny.bert()
    rng = np.random.default_rng(0)
    texts = [made.sentence(rng, range(4, tiny.VOCABULARY)) for _ in range(200)]
    sequences = encoder.tokenise(texts)
    token_map = made.retriever().token_map
    whole = read_tokens(encoder, sequences, token_map).tokens
    merged = read_tokens(encoder, sequences, token_map, merged=True).tokens
    assert merged.rows.dtype == np.int8
    assert (np.diff(merged.starts) == -(-np.diff(whole.starts) // MERGED)).all()
    assert np.linalg.norm(whole.rows, axis=1) == pytest.approx(1, abs=1e-5)


def test_a_token_map_is_the_same_after_its_file(tmp_path):
    token_map = made.retriever().token_map
    file = tmp_path / "map.safetensors"
    file.write_bytes(token_map_bytes(token_map))
    assert torch.equal(read_token_map(file).weight, token_map.weight)
    file.write_bytes(file.read_bytes()[:-7])
    with pytest.raises(BadDataError):
        read_token_map(file)
