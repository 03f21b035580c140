"""The token cache gives back what the tokenizer says, from any shard, in any order."""

import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from sentemb_core import schemas
from sentemb_core.configs import ValidationConfig
from sentemb_core.corpus import tokens as tokens_module
from sentemb_core.corpus.benchmark import Benchmark, write_benchmark
from sentemb_core.corpus.table import Document, DocumentWriter, sentence_count
from sentemb_core.corpus.tokens import TokenCorpus, TokenReport, vocabulary_texts, write_tokens
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.encoder.static import StaticTable
from sentemb_core.errors import StorageError
from tests.corpus.made import WORDS, tokenizer_json
from tests.mapped import mapped_files

TEXTS = [
    ["A B.", "C", "A B C one two three A B C one two three"],
    ["zzz", "A  B ."],
    ["one", "two", "three", "one two", "two three"],
    ["A B.", "\u2003"],
]


def cache(folder: Path, texts: list[list[str]] = TEXTS, *, special: bool = True, **options):
    rows = [Document(f"d{k}", sentences, f"T {k}", k) for k, sentences in enumerate(texts)]
    with DocumentWriter(folder / "documents.parquet") as writer:
        for row in rows:
            writer.write(row)
    for name in ("benchmark", "tokens"):
        (folder / name).mkdir()
    write_benchmark(folder / "documents.parquet", ValidationConfig(**options), folder / "benchmark")
    report = write_tokens(
        folder / "documents.parquet", folder / "benchmark", tokenizer_json(folder), 8,
        folder / "tokens", add_special_tokens=special, unknown=WORDS.index("[UNK]"),
    )  # fmt: skip
    return report, TokenCorpus.open(folder / "tokens")


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens_module, "SHARD_SENTENCES", 4)
    monkeypatch.setattr("sentemb_core.corpus.table.READ_ROWS", 1)


@pytest.mark.parametrize("special", [True, False])
@pytest.mark.usefixtures("small_shards")
def test_tokens_are_those_of_the_tokenizer(tmp_path: Path, special: bool) -> None:
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


@pytest.mark.parametrize("most", [1, 5, 100, 599, 600])
def test_a_vocabulary_is_learnt_from_every_kth_sentence_of_a_larger_corpus(
    tmp_path: Path, most: int
) -> None:
    cache(tmp_path, [[f"A {d} {k}" for k in range(1 + d % 5)] for d in range(200)])
    documents = tmp_path / "documents.parquet"
    everything = list(vocabulary_texts(documents))
    assert sentence_count(documents) == len(everything) == 600
    assert list(vocabulary_texts(documents, most)) == everything[:: -(-600 // most)]


@pytest.mark.usefixtures("small_shards")
def test_shards_hold_whole_documents_and_all_of_them(tmp_path: Path) -> None:
    _, corpus = cache(tmp_path)
    assert [(shard.index, shard.documents, shard.sentences) for shard in corpus.shards] == [
        (0, slice(0, 2), slice(0, 5)),
        (1, slice(2, 3), slice(5, 10)),
        (2, slice(3, 4), slice(10, 12)),
    ]
    assert corpus.offsets.tolist() == [0, 3, 5, 10, 12]
    assert corpus.document_of.tolist() == [0] * 3 + [1] * 2 + [2] * 5 + [3] * 2
    assert (len(corpus), corpus.n_documents) == (12, 4)
    assert corpus.doc_ids == ["d0", "d1", "d2", "d3"]
    places = [(f"d{d}", k) for d, count in enumerate([3, 2, 5, 2]) for k in range(count)]
    assert [corpus.place(sentence) for sentence in range(12)] == places
    assert [corpus.part([1, 2]).place(sentence) for sentence in range(7)] == places[5:]


@pytest.mark.usefixtures("small_shards")
def test_a_pass_over_the_shards_gives_all_tokens_and_offsets(tmp_path: Path) -> None:
    _, corpus = cache(tmp_path)
    shards = range(len(corpus.shards))
    passed = [ids.tolist() for k in shards for ids in corpus.shard_tokens(k)]
    assert passed == [ids.tolist() for ids in corpus.tokens(range(12))]
    assert [corpus.shard_offsets(k).tolist() for k in shards] == [[0, 3, 5], [5, 10], [10, 12]]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_pass_over_the_shards_leaves_none_mapped(tmp_path: Path) -> None:
    _, corpus = cache(tmp_path)
    kept = corpus.shard_tokens(0), corpus.shard_offsets(0), corpus.texts([0]), corpus.text_hashes
    assert all(map(len, kept))
    assert not mapped_files(tmp_path, 0)
    corpus.tokens([0])  # training comes back: this one stays
    assert mapped_files(tmp_path / "tokens", 1)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.usefixtures("small_shards")
def test_some_shards_stay_mapped_and_the_tokens_are_the_same(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(tokens_module, "AT_ONCE", 2)
    _, corpus = cache(tmp_path)
    assert len(corpus.shards) == 3
    every = [list(ids) for ids in corpus.tokens(range(12))]
    assert [list(ids) for k in range(12) for ids in corpus.tokens([11 - k])] == every[::-1]
    assert len(mapped_files(tmp_path, 2)) == 2


@pytest.mark.usefixtures("small_shards")
def test_any_sentences_can_be_asked_for_in_any_order(tmp_path: Path) -> None:
    _, corpus = cache(tmp_path)
    every = corpus.tokens(range(12))
    flat = [sentence for sentences in TEXTS for sentence in sentences]

    @settings(max_examples=60, deadline=None)
    @given(wanted=st.lists(st.integers(0, 11), max_size=30))
    def check(wanted: list[int]) -> None:
        found = corpus.tokens(np.array(wanted, dtype=np.int64))
        assert [ids.tolist() for ids in found] == [every[k].tolist() for k in wanted]
        assert corpus.texts(wanted) == [flat[k] for k in wanted]

    check()


@pytest.mark.usefixtures("small_shards")
def test_some_shards_are_a_corpus_of_their_own(tmp_path: Path) -> None:
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
    with DocumentWriter(tmp_path / "documents.parquet") as writer:
        for row in rows:
            writer.write(row)
    (tmp_path / "tokens").mkdir()
    write_tokens(
        tmp_path / "documents.parquet", None, tokenizer_json(tmp_path), 8,
        tmp_path / "tokens", add_special_tokens=True, unknown=0,
    )  # fmt: skip
    corpus = TokenCorpus.open(tmp_path / "tokens")
    assert len(corpus.shards) == 3, "copies in two shards"
    assert corpus.original_of.tolist() == [0, 1, 1, 1, 4, 5]
    assert corpus.part([1, 2]).original_of.tolist() == [0, 0, 2, 3]


@pytest.mark.usefixtures("small_shards")
def test_documents_are_found_by_their_index_and_by_their_sentences(tmp_path: Path) -> None:
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
            with pytest.raises(IndexError, match=r"A document index lies in 0\.\.3"):
                every.spans(np.array([outside]))


def test_an_index_outside_the_corpus_is_an_error(tmp_path: Path) -> None:
    _, corpus = cache(tmp_path)
    for wanted in ([12], [-1], [0, 99]):
        with pytest.raises(IndexError, match=r"lies in 0\.\.11"):
            corpus.tokens(wanted)


def test_hashes_are_equal_exactly_when_tokens_are(tmp_path: Path) -> None:
    _, corpus = cache(tmp_path)
    tokens = [tuple(ids) for ids in corpus.tokens(range(12))]
    hashes = corpus.text_hashes.tolist()
    for i in range(12):
        for j in range(12):
            assert (tokens[i] == tokens[j]) == (hashes[i] == hashes[j])
    assert hashes[0] == hashes[4]  # "A B." and "A  B ." differ in white space alone


@pytest.mark.parametrize("special", [True, False])
def test_whole_sentences_are_what_the_tokenizer_says_without_a_limit(
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


def test_a_disk_too_small_for_the_texts_is_told_before_anything_is_written(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=100))
    with pytest.raises(
        StorageError, match="E601 The texts alone of 12 sentences, beside their tokens, take"
    ):
        cache(tmp_path)
    assert not [*(tmp_path / "tokens").iterdir()]


def test_the_report_counts_what_was_cut(tmp_path: Path) -> None:
    report, corpus = cache(tmp_path)
    assert (report.sentences, report.documents, report.truncated) == (12, 4, 1)
    assert report.tokens == int(corpus.lengths.sum())
    assert corpus.lengths.max() == 8
    assert "8.3% of sentences truncated at 8 tokens, 2.1% of tokens unknown" in report.summary()
    assert TokenReport.model_validate_json((tmp_path / "tokens/meta.json").read_text()) == report


def test_a_corpus_of_unknown_tokens_is_warned_about(tmp_path: Path, caplog) -> None:
    report, _ = cache(tmp_path, [["A B", "one"], ["zzz yyy xxx www", "A A"], ["two", "B A"]])
    assert (report.unknown, report.tokens) == (4, 12 + 12)  # two special ones a sentence
    assert "17 % of the corpus's tokens are unknown to the encoder" in caplog.text


def test_halves_are_held_out_and_counterparts_are_not(tmp_path: Path) -> None:
    (tmp_path / "titles").mkdir()
    (tmp_path / "halves").mkdir()
    texts = [[f"A {k}", "B"] for k in range(20)]
    report, corpus = cache(tmp_path / "titles", texts)
    assert (report.held_out, corpus.held_out.any()) == (0, False)
    report, corpus = cache(tmp_path / "halves", texts, halves=True)
    held_out = Benchmark.open(tmp_path / "halves" / "benchmark").held_out_documents
    assert np.flatnonzero(corpus.held_out).tolist() == held_out.tolist()
    assert report.held_out == len(held_out) == 4


@pytest.mark.usefixtures("small_shards")
def test_shards_say_which_of_their_documents_are_held_out(tmp_path: Path) -> None:
    _, corpus = cache(tmp_path, [[f"A {k}", "B"] for k in range(20)], halves=True)
    parts = [corpus.shard_held_out(shard.index) for shard in corpus.shards]
    assert len(parts) > 1
    assert sum(int(part.sum()) for part in parts) == 4
    assert np.concatenate(parts).tolist() == corpus.held_out.tolist()
    assert corpus.part([1, 3]).held_out.tolist() == [*parts[1], *parts[3]]


def test_long_documents_are_tokenised_a_few_at_a_time(tmp_path: Path, monkeypatch) -> None:
    texts = [["A B C D"] * count for count in (3, 1, 40, 2, 2, 2, 1, 9)]
    monkeypatch.setattr("sentemb_core.corpus.tokens.PIECE", 10 * (64 + 7))
    once: list[int] = []
    encoded = tokens_module._Encode.__call__

    def noted(self, batch: list[str]) -> object:
        once.append(len(batch))
        return encoded(self, batch)

    monkeypatch.setattr(tokens_module._Encode, "__call__", noted)
    _, corpus = cache(tmp_path, texts)
    assert once == [4, 44, 3, 9]
    assert np.diff(corpus.offsets).tolist() == [len(each) for each in texts]


@pytest.mark.parametrize(("size", "token_type"), [(40_000, "uint16"), (70_000, "uint32")])
def test_large_vocabularies_take_wider_tokens(tmp_path: Path, size: int, token_type: str) -> None:
    words = WORDS + [f"w{k}" for k in range(size - len(WORDS))]
    path = tokenizer_json(tmp_path, words)
    with DocumentWriter(tmp_path / "documents.parquet") as writer:
        for k in range(3):
            writer.write(Document(f"d{k}", ["A", words[-1]], f"T {k}", k))
    (tmp_path / "out").mkdir()
    write_benchmark(tmp_path / "documents.parquet", ValidationConfig(), tmp_path)
    report = write_tokens(
        tmp_path / "documents.parquet", tmp_path, path, 8, tmp_path / "out",
        add_special_tokens=False, unknown=0,
    )  # fmt: skip
    corpus = TokenCorpus.open(tmp_path / "out")
    assert report.token_type == token_type
    assert corpus.tokens([1])[0].tolist() == [size - 1]


def test_the_cache_is_the_same_bytes_each_time_and_has_its_schemas(tmp_path: Path) -> None:
    written = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        cache(tmp_path / name)
        files = (tmp_path / name / "tokens").iterdir()
        written.append({path.name: path.read_bytes() for path in files})
    assert written[0] == written[1]
    assert set(written[0]) == {"documents.parquet", "meta.json", "sentences-00000.arrow"}
    index = pq.read_schema(tmp_path / "one" / "tokens" / "documents.parquet")
    assert index.equals(schemas.DOCUMENT_INDEX)


@pytest.mark.parametrize("told", [{}, {"unk_token": "<unk>"}])
@pytest.mark.parametrize("unknown", ["<unk>", "[UNK]", None])
def test_an_empty_text_is_to_the_cache_what_it_is_to_a_static_encoder(
    tmp_path: Path, unknown: str | None, told: dict[str, str]
) -> None:
    vocabulary = {"<pad>": 0, "a": 1, "<unk>": 2, "[UNK]": 3}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, **{"unk_token": unknown} if unknown else {}))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "cache").mkdir()
    with DocumentWriter(tmp_path / "documents.parquet") as writer:
        writer.write(Document("d", ["\u2003", "a"], None, 0))
    encoder = Encoder(
        StaticTable.random(4, 8, 0), tokenizer, pooling="mean", similarity="cosine",
        max_length=8, tokenizer_config=told,
    )  # fmt: skip
    write_tokens(
        tmp_path / "documents.parquet",
        None,
        tmp_path / "tokenizer.json",
        8,
        tmp_path / "cache",
        add_special_tokens=False,
        unknown=encoder.unknown_id,
    )
    cached = TokenCorpus.open(tmp_path / "cache").tokens([0, 1])
    for ids, own in zip(cached, encoder.tokenise(["\u2003", "a"]), strict=True):
        np.testing.assert_array_equal(ids, own)
