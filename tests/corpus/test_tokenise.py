"""Writing a token cache: counts, token types, bounded memory, equal bytes."""

import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from sentemb_core import schemas
from sentemb_core.corpus import tokenise
from sentemb_core.corpus.table import Document
from sentemb_core.corpus.tokenise import TokenReport
from sentemb_core.corpus.validation_pool import ValidationPool
from sentemb_core.encoder.backbones import StaticTable
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.errors import StorageError
from tests.corpus.token_caches import WORDS, cache, tokenised, tokenizer_json


def test_a_full_disk_is_e601_before_anything_is_written(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=100))
    with pytest.raises(StorageError, match=r"E601 .* 12 sentences"):
        cache(tmp_path)
    assert not [*(tmp_path / "tokens").iterdir()]


def test_the_report_counts_tokens_and_truncations(tmp_path: Path) -> None:
    report, corpus = cache(tmp_path)
    assert (report.sentences, report.documents, report.truncated) == (12, 4, 1)
    assert report.tokens == int(corpus.lengths.sum())
    assert corpus.lengths.max() == 8
    assert re.search(r"8\.3% .* 8 tokens.* 2\.1% .*encoder\.max_length", report.summary())
    assert TokenReport.model_validate_json((tmp_path / "tokens/meta.json").read_text()) == report


@pytest.mark.parametrize(
    ("prompts", "before"),
    [
        ({}, ["", ""]),
        ({"prompt": "A "}, ["A ", "A "]),
        ({"prompt": "A ", "counterpart": ("one ", 8)}, ["A ", "one "]),
        ({"prompt": "A ", "counterpart": ("", 20)}, ["A ", ""]),
        ({"counterpart": ("one ", 4)}, ["", "one "]),
    ],
)
def test_every_sentence_has_its_prompt_and_a_counterpart_its_own(prompts, before, tmp_path: Path):
    tokenizer_json(tmp_path)
    rows = [Document(f"d{k}", texts, None, k) for k, texts in enumerate([["B", "C"], ["two"]])]
    _, corpus = tokenised(tmp_path, rows, **prompts)
    assert corpus.texts(range(3)) == ["B", "C", "two"]
    each, last = before
    tiny_tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    expected = tiny_tokenizer.encode_batch([f"{each}B", f"{last}C", f"{last}two"])
    assert [ids.tolist() for ids in corpus.tokens(range(3))] == [one.ids for one in expected]


@pytest.mark.parametrize("longest", [4, 12])
def test_a_counterpart_has_a_length_of_its_own(longest: int, tmp_path: Path):
    tokenizer_json(tmp_path)
    rows = [Document("d", ["A " * 15, "B " * 15], None, 0)]
    report, corpus = tokenised(tmp_path, rows, counterpart=("", longest))
    assert corpus.lengths.tolist() == [8, longest]
    assert corpus.uncut_lengths.tolist() == [17, 17]
    assert report.truncated == 2


def test_many_unknown_tokens_give_a_warning(tmp_path: Path, caplog) -> None:
    report, _ = cache(tmp_path, [["A B", "one"], ["zzz yyy xxx www", "A A"], ["two", "B A"]])
    assert (report.unknown, report.tokens) == (4, 12 + 12)  # two special ones a sentence
    assert "17 %" in caplog.text


def test_only_pools_of_halves_are_held_out(tmp_path: Path) -> None:
    (tmp_path / "titles").mkdir()
    (tmp_path / "halves").mkdir()
    texts = [[f"A {k}", "B"] for k in range(20)]
    report, corpus = cache(tmp_path / "titles", texts)
    assert (report.held_out, corpus.held_out.any()) == (0, False)
    report, corpus = cache(tmp_path / "halves", texts, halves=True)
    held_out = ValidationPool.open(tmp_path / "halves" / "pool").held_out_documents
    assert np.flatnonzero(corpus.held_out).tolist() == held_out.tolist()
    assert report.held_out == len(held_out) == 4


def test_long_documents_are_tokenised_in_pieces(tmp_path: Path, monkeypatch) -> None:
    texts = [["A B C D"] * count for count in (3, 1, 40, 2, 2, 2, 1, 9)]
    monkeypatch.setattr("sentemb_core.corpus.tokenise.PIECE", 10 * (64 + 7))
    once: list[int] = []
    encoded = tokenise._Encode.__call__

    def noted(self, batch: list[str], last: np.ndarray) -> object:
        once.append(len(batch))
        return encoded(self, batch, last)

    monkeypatch.setattr(tokenise._Encode, "__call__", noted)
    _, corpus = cache(tmp_path, texts)
    assert once == [4, 44, 3, 9]
    assert np.diff(corpus.offsets).tolist() == [len(each) for each in texts]


def test_long_sentences_close_a_shard_earlier(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(tokenise, "SHARD_BYTES", 1_000)
    monkeypatch.setattr("sentemb_core.corpus.table.READ_ROWS", 1)
    _, corpus = cache(tmp_path, [["A " * 400], ["B"], ["C", "A " * 400], ["B"]])
    assert [shard.documents for shard in corpus.shards] == [slice(0, 3), slice(3, 4)]


@pytest.mark.parametrize(("size", "token_type"), [(65_536, "uint16"), (65_537, "uint32")])
def test_large_vocabularies_take_wider_tokens(tmp_path: Path, size: int, token_type: str) -> None:
    words = WORDS + [f"w{k}" for k in range(size - len(WORDS))]
    tokenizer_json(tmp_path, words)
    rows = [Document("d", ["A", words[-1]], None, 0)]
    report, corpus = tokenised(tmp_path, rows, special=False)
    assert report.token_type == token_type
    assert corpus.tokens([1])[0].tolist() == [size - 1]


def test_the_cache_has_equal_bytes_each_time(tmp_path: Path) -> None:
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


def test_uncut_tokens_without_special_tokens(tmp_path: Path) -> None:
    plain = json.loads(tokenizer_json(tmp_path).read_text()) | {"post_processor": None}
    (tmp_path / "tokenizer.json").write_text(json.dumps(plain))
    rows = [Document("d", ["A B C one two three A B C one"], None, 0)]
    report, corpus = tokenised(tmp_path, rows)
    assert not report.special_tokens
    (whole,) = corpus.uncut_tokens([0])
    assert [WORDS[k] for k in whole] == ["A", "B", "C", "one", "two", "three", "A", "B", "C", "one"]


@pytest.mark.parametrize("config", [{}, {"unk_token": "<unk>"}])
@pytest.mark.parametrize("unknown", ["<unk>", "[UNK]", None])
def test_an_empty_text_equals_that_of_a_static_encoder(
    tmp_path: Path, unknown: str | None, config: dict[str, str]
) -> None:
    vocabulary = {"<pad>": 0, "a": 1, "<unk>": 2, "[UNK]": 3}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, **{"unk_token": unknown} if unknown else {}))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    encoder = Encoder(
        StaticTable.random(4, 8, 0), tokenizer, pooling="mean", similarity="cosine",
        max_length=8, tokenizer_config=config,
    )  # fmt: skip
    rows = [Document("d", ["\u2003", "a"], None, 0)]
    report, corpus = tokenised(tmp_path, rows, special=False, unknown=encoder.unknown_id)
    if unknown is None:  # a table of words drops unknown words
        assert report.unknown == 1
    for ids, own in zip(corpus.tokens([0, 1]), encoder.tokenise(["\u2003", "a"]), strict=True):
        np.testing.assert_array_equal(ids, own)
