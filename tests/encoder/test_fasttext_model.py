"""fastText models: vectors equal those of a slow loop and of gensim; broken models are refused."""

import struct
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentemb_core.encoder.fasttext_model import BATCH, MAGIC, Subwords, subword_rows
from sentemb_core.encoder.word_files import read_word_vectors
from sentemb_core.errors import UnreadableSourceError

WORDS = ["</s>", "the", "über", "straße", "a", "東京", "internationalisation", "don't"]


@dataclass(frozen=True)
class Written:
    """The content of a model file; the matrix has a row for each word and bucket."""

    words: tuple[str, ...] = tuple(WORDS)
    buckets: int = 20
    shortest: int = 3
    longest: int = 6
    version: int = 12
    kind: int = 2
    labels: tuple[str, ...] = ()
    pruned: int = -1
    quantised: bool = False

    def matrix(self) -> np.ndarray:
        rng = np.random.default_rng(5)
        return rng.normal(size=(len(self.words) + self.buckets, 4)).astype(np.float32)

    def bytes(self) -> bytes:
        args = [4, 5, 5, 1, 5, 1, 2, self.kind, self.buckets, self.shortest, self.longest, 100]
        entries = [(word, 0) for word in self.words] + [(label, 1) for label in self.labels]
        return b"".join(
            [
                MAGIC,
                struct.pack("<13id", self.version, *args, 1e-4),
                struct.pack("<3i2q", len(entries), len(self.words), len(self.labels), 99,
                            self.pruned),
                *(word.encode() + b"\0" + struct.pack("<qb", 7, kind) for word, kind in entries),
                struct.pack("<?2q", self.quantised, *self.matrix().shape),
                self.matrix().tobytes(),
            ]
        )  # fmt: skip

    def saved(self, folder: Path) -> Path:
        (folder / "model.bin").write_bytes(self.bytes())
        return folder / "model.bin"


def fnv(text: str) -> int:
    """FNV-1a, each byte widened with its sign."""
    found = 2_166_136_261
    for byte in text.encode():
        widened = byte | 0xFFFFFF00 if byte > 127 else byte
        found = (found ^ widened) * 16_777_619 % 2**32
    return found


def slow_subwords(word: str, subwords: Subwords) -> list[int]:
    """Buckets of a word's subwords, letter by letter."""
    if word == "</s>":
        return []
    framed = f"<{word}>"
    runs = [
        (first, first + length)
        for first in range(len(framed))
        for length in range(subwords.shortest, subwords.longest + 1)
        if first + length <= len(framed)
    ]
    kept = [
        (first, end)
        for first, end in runs
        if not (end - first == 1 and (first == 0 or end == len(framed)))
    ]
    return [fnv(framed[first:end]) % subwords.buckets for first, end in kept]


@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0")), min_size=1),
    st.integers(1, 4),
    st.integers(0, 7),
)
def test_subwords_equal_a_loop_over_letters(words: list[str], shortest: int, longest: int):
    subwords = Subwords(1_000, shortest, longest)
    place, bucket = subword_rows([word.encode() for word in words], subwords)
    found = [sorted(bucket[place == k].tolist()) for k in range(len(words))]
    assert found == [sorted(slow_subwords(word, subwords)) for word in words]


@pytest.mark.parametrize(
    "model", [Written(), Written(labels=("__label__x",)), Written(shortest=1), Written(longest=0)]
)
def test_a_vector_is_the_mean_of_its_row_and_its_subwords(model: Written, tmp_path: Path):
    read = read_word_vectors(model.saved(tmp_path))
    matrix, count = model.matrix(), len(model.words)
    subwords = Subwords(model.buckets, model.shortest, model.longest)
    for row, word in enumerate(model.words):
        rows = [row, *(count + bucket for bucket in slow_subwords(word, subwords))]
        np.testing.assert_allclose(read.vectors[row], matrix[rows].mean(axis=0), atol=1e-6)
    assert read.words == list(model.words)


def test_an_old_classifier_has_no_subwords(tmp_path: Path):
    model = Written(version=11, kind=3)
    read = read_word_vectors(model.saved(tmp_path))
    np.testing.assert_array_equal(read.vectors, model.matrix()[: len(model.words)])


def test_more_words_than_one_batch(tmp_path: Path):
    model = Written(words=tuple(f"word{k}" for k in range(BATCH + 3)))
    read = read_word_vectors(model.saved(tmp_path))
    alone = replace(model, words=model.words[-1:])
    assert len(read.words) == BATCH + 3
    rows = [BATCH + 2] + [
        BATCH + 3 + bucket for bucket in slow_subwords(alone.words[0], Subwords(20, 3, 6))
    ]
    np.testing.assert_allclose(read.vectors[-1], model.matrix()[rows].mean(axis=0), atol=1e-6)


@pytest.mark.parametrize("minn", [1, 3])
def test_gensim_reads_the_same_vectors(minn: int, tmp_path: Path):
    fasttext = pytest.importorskip("gensim.models.fasttext")
    texts = [["über", "the", "internationalisation", "東京"], ["the", "don't", "a", "über"]] * 5
    model = fasttext.FastText(
        texts, vector_size=8, min_count=1, min_n=minn, max_n=5, bucket=50, workers=1, seed=1
    )
    fasttext.save_facebook_model(model, str(tmp_path / "model.bin"))
    theirs = fasttext.load_facebook_vectors(str(tmp_path / "model.bin"))
    ours = read_word_vectors(tmp_path / "model.bin")
    assert set(ours.words) == set(theirs.index_to_key)
    for word, vector in zip(ours.words, ours.vectors, strict=True):
        np.testing.assert_allclose(vector, theirs[word], atol=1e-6)


BROKEN = [
    ("cut in its matrix", Written().bytes()[:-1], r"model\.bin"),
    ("cut in its words", Written().bytes()[:110], r"model\.bin"),
    ("cut in its head", Written().bytes()[:20], r"model\.bin"),
    ("another version", Written(version=13).bytes(), r"version 13.*\.vec"),
    ("pruned", Written(pruned=0).bytes(), r"\.ftz.*\.vec"),
    ("quantised", Written(quantised=True).bytes(), r"\.ftz"),
    ("fewer buckets than stated", Written().bytes().replace(
        struct.pack("<4i", 2, 20, 3, 6), struct.pack("<4i", 2, 19, 3, 6)), "19 buckets.*28 rows"),
    ("fewer rows than words", Written(buckets=-3).bytes(), "-3 buckets.*5 rows"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "values"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN]
)
def test_a_broken_model_is_refused(content: bytes, values: str, tmp_path: Path):
    (tmp_path / "model.bin").write_bytes(content)
    with pytest.raises(UnreadableSourceError, match=values):
        read_word_vectors(tmp_path / "model.bin")


def test_the_hash_of_the_slow_loop_is_that_of_fasttext():
    """FNV-1a of 32 bits; a byte above 127 is widened with its sign, which plain FNV-1a is not."""
    assert fnv("a") == 0xE40C292C
    assert fnv("ü") != 0xE40C292C
    assert fnv("ü") == ((((2_166_136_261 ^ 0xFFFFFFC3) * 16_777_619) % 2**32 ^ 0xFFFFFFBC)
                        * 16_777_619) % 2**32  # fmt: skip


def test_a_limit_reads_the_first_words(tmp_path: Path):
    assert read_word_vectors(Written().saved(tmp_path), limit=2).words == WORDS[:2]
