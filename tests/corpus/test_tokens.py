"""Reading a token cache: any sentences, from any shard, in any order."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from sentemb_core.corpus import tokenise
from sentemb_core.corpus import tokens as tokens_module
from sentemb_core.corpus.table import Document, sentence_count, vocabulary_texts
from tests.corpus.token_caches import TEXTS, WORDS, cache, tokenised, tokenizer_json
from tests.mapped import mapped_files


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenise, "SHARD_SENTENCES", 4)
    monkeypatch.setattr("sentemb_core.corpus.table.READ_ROWS", 1)


@pytest.mark.parametrize("special", [True, False])
@pytest.mark.usefixtures("small_shards")
def test_tokens_equal_those_of_the_tokenizer(tmp_path: Path, special: bool) -> None:
    _, corpus = cache(tmp_path, special=special)
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    tokenizer.enable_truncation(8)
    flat = [sentence for sentences in TEXTS for sentence in sentences]
    wanted = [tokenizer.encode(text, add_special_tokens=special).ids for text in flat]
    if not special:
        assert wanted[-1] == []
        wanted[-1] = [WORDS.index("[UNK]")]
    found = corpus.tokens(range(len(flat)))
    assert [ids.tolist() for ids in found] == wanted
    assert {ids.dtype for ids in found} == {np.dtype(np.int64)}
    assert corpus.lengths.tolist() == [len(ids) for ids in wanted]
    assert (
        corpus.texts(range(len(flat)))
        == flat
        == list(vocabulary_texts(tmp_path / "documents.parquet"))
    )


@pytest.mark.usefixtures("small_shards")
def test_shards_hold_all_documents_whole(tmp_path: Path) -> None:
    _, corpus = cache(tmp_path)
    assert [(shard.index, shard.documents, shard.sentences) for shard in corpus.shards] == [
        (0, slice(0, 2), slice(0, 5)),
        (1, slice(2, 3), slice(5, 10)),
        (2, slice(3, 4), slice(10, 12)),
    ]
    shards = range(len(corpus.shards))
    passed = [ids.tolist() for k in shards for ids in corpus.shard_tokens(k)]
    assert passed == [ids.tolist() for ids in corpus.tokens(range(12))]
    assert [corpus.shard_offsets(k).tolist() for k in shards] == [[0, 3, 5], [5, 10], [10, 12]]
    assert corpus.offsets.tolist() == [0, 3, 5, 10, 12]
    assert corpus.document_of.tolist() == [0] * 3 + [1] * 2 + [2] * 5 + [3] * 2
    assert (len(corpus), corpus.n_documents) == (12, 4)
    assert corpus.doc_ids == ["d0", "d1", "d2", "d3"]
    places = [(f"d{d}", k) for d, count in enumerate([3, 2, 5, 2]) for k in range(count)]
    assert [corpus.place(sentence) for sentence in range(12)] == places
    assert [corpus.part([1, 2]).place(sentence) for sentence in range(7)] == places[5:]


def test_a_cache_is_read_wherever_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also right below the root, as in a temporary folder: few folders are above it."""
    cache(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert len(tokens_module.TokenCorpus.open(Path("tokens"))) == 12


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_pass_over_the_shards_leaves_no_file_mapped(tmp_path: Path) -> None:
    _, corpus = cache(tmp_path)
    kept = corpus.shard_tokens(0), corpus.shard_offsets(0), corpus.texts([0]), corpus.text_hashes
    assert all(map(len, kept))
    assert not mapped_files(tmp_path, 0)
    corpus.tokens([0])  # training comes back: this one stays
    assert mapped_files(tmp_path / "tokens", 1)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.usefixtures("small_shards")
def test_at_most_at_once_shards_stay_mapped(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(tokens_module, "AT_ONCE", 2)
    _, corpus = cache(tmp_path)
    assert len(corpus.shards) == 3
    every = [list(ids) for ids in corpus.tokens(range(12))]
    assert [list(ids) for k in range(12) for ids in corpus.tokens([11 - k])] == every[::-1]
    assert len(mapped_files(tmp_path, 2)) == 2


@pytest.mark.usefixtures("small_shards")
def test_any_sentences_in_any_order(tmp_path: Path) -> None:
    _, corpus = cache(tmp_path)
    every = corpus.tokens(range(12))
    flat = [sentence for sentences in TEXTS for sentence in sentences]

    @given(wanted=st.lists(st.integers(0, 11), max_size=30))
    def check(wanted: list[int]) -> None:
        found = corpus.tokens(np.array(wanted, dtype=np.int64))
        assert [ids.tolist() for ids in found] == [every[k].tolist() for k in wanted]
        assert corpus.texts(wanted) == [flat[k] for k in wanted]

    check()


@pytest.mark.usefixtures("small_shards")
def test_a_part_is_a_corpus_of_its_shards(tmp_path: Path) -> None:
    _, corpus = cache(tmp_path)
    part = corpus.part([0, 2])
    assert (len(part), part.n_documents) == (7, 3)
    assert part.doc_ids == ["d0", "d1", "d3"]
    assert part.offsets.tolist() == [0, 3, 5, 7]
    assert part.document_of.tolist() == [0] * 3 + [1] * 2 + [2] * 2
    rows = [0, 1, 2, 3, 4, 10, 11]
    assert part.texts(range(7)) == corpus.texts(rows)
    assert part.uncut_lengths.tolist() == corpus.uncut_lengths[rows].tolist()
    assert part.text_hashes.tolist() == corpus.text_hashes[rows].tolist()
    some = np.array([6, 0, 3])
    assert part.text_hashes_of(some).tolist() == part.text_hashes[some].tolist()
    assert list(map(list, part.tokens([6, 0]))) == list(map(list, corpus.tokens([11, 0])))
    assert [shard.sentences for shard in part.shards] == [slice(0, 5), slice(5, 7)]


@pytest.mark.usefixtures("small_shards")
def test_adjacent_documents_of_one_id_are_copies_of_the_first(tmp_path: Path) -> None:
    rows = [Document(name, ["A B.", "C"], None, k) for k, name in enumerate("abbbcb")]
    tokenizer_json(tmp_path)
    _, corpus = tokenised(tmp_path, rows)
    assert len(corpus.shards) == 3, "copies in two shards"
    assert corpus.original_of.tolist() == [0, 1, 1, 1, 4, 5]
    assert corpus.part([1, 2]).original_of.tolist() == [0, 0, 2, 3]


@pytest.mark.usefixtures("small_shards")
def test_spans_of_documents_and_sentences(tmp_path: Path) -> None:
    _, corpus = cache(tmp_path)
    for every in (corpus, corpus.part([2, 0, 1])):
        documents = np.array([3, 0, 2, 0])
        first, last = every.spans(documents)
        assert first.tolist() == every.offsets[documents].tolist()
        assert last.tolist() == every.offsets[documents + 1].tolist()
        sentences = np.array([11, 0, 4, 5, 7])
        found = every.spans_of(sentences)
        assert [side.tolist() for side in found] == [
            side.tolist() for side in every.spans(every.document_of[sentences])
        ]
        for outside in (4, -1):
            with pytest.raises(IndexError, match=r"0\.\.3"):
                every.spans(np.array([outside]))


@pytest.mark.parametrize("most", [1, 5, 100, 599, 600])
def test_a_vocabulary_is_learnt_from_every_kth_sentence(tmp_path: Path, most: int) -> None:
    cache(tmp_path, [[f"A {d} {k}" for k in range(1 + d % 5)] for d in range(200)])
    documents = tmp_path / "documents.parquet"
    sentences = list(vocabulary_texts(documents))
    assert sentence_count(documents) == len(sentences) == 600
    assert list(vocabulary_texts(documents, most)) == sentences[:: -(-600 // most)]


def test_an_index_outside_the_corpus_is_an_error(tmp_path: Path) -> None:
    _, corpus = cache(tmp_path)
    for wanted in ([12], [-1], [0, 99]):
        with pytest.raises(IndexError, match=r"0\.\.11"):
            corpus.tokens(wanted)


def test_text_hashes_are_equal_exactly_for_equal_tokens(tmp_path: Path) -> None:
    _, corpus = cache(tmp_path)
    tokens = [tuple(ids) for ids in corpus.tokens(range(12))]
    hashes = corpus.text_hashes.tolist()
    for i in range(12):
        for j in range(12):
            assert (tokens[i] == tokens[j]) == (hashes[i] == hashes[j])
    assert hashes[0] == hashes[4]  # "A B." and "A  B ." differ in white space alone


@pytest.mark.parametrize("special", [True, False])
def test_uncut_tokens_equal_those_without_truncation(
    tmp_path: Path, small_shards, special: bool
) -> None:
    texts = [[" ".join(WORDS[:length]) for length in (1, 5, 6, 7, 8, 9)], [" ".join(WORDS * 4)]]
    _, corpus = cache(tmp_path, texts, special=special)
    tokenizer = Tokenizer.from_file(str(tokenizer_json(tmp_path)))
    tokenizer.no_truncation()
    flat = [text for document in texts for text in document]
    expected = [tokenizer.encode(text, add_special_tokens=special).ids for text in flat]
    order = [6, 0, 5, 3, 3]
    found = corpus.uncut_tokens(np.array(order))
    assert [tokens.tolist() for tokens in found] == [expected[k] for k in order]
    assert corpus.uncut_lengths.tolist() == [len(ids) for ids in expected]
    assert corpus.lengths.tolist() == [min(8, len(ids)) for ids in expected]


@pytest.mark.usefixtures("small_shards")
def test_a_part_holds_out_its_own_documents(tmp_path: Path) -> None:
    _, corpus = cache(tmp_path, [[f"A {k}", "B"] for k in range(20)], halves=True)
    parts = [corpus.held_out[shard.documents] for shard in corpus.shards]
    assert len(parts) > 3
    assert corpus.held_out.sum() == 4
    assert corpus.part([1, 3]).held_out.tolist() == [*parts[1], *parts[3]]
