"""Every form of word vector file gives the same table, and every broken file is refused."""

import gzip
import re
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sentemb_core.encoder.fasttext_model import MAGIC
from sentemb_core.encoder.names import is_word_file
from sentemb_core.encoder.word_files import read_word_vectors
from sentemb_core.errors import BadDataError, UnreadableSourceError

Table = dict[bytes, list[float]]

THREE: Table = {b"the": [1, 2], b"\xc3\xbcber": [-0.5, 1e-3], b"can't": [3, -4]}


def glove(table: Table) -> bytes:
    return b"".join(b"%s %s\n" % (w, b" ".join(b"%r" % v for v in vs)) for w, vs in table.items())


def header(table: Table) -> bytes:
    return b"%d %d\n" % (len(table), len(next(iter(table.values()))))


def word2vec_text(table: Table) -> bytes:
    return header(table) + glove(table)


def fasttext_vec(table: Table) -> bytes:
    return header(table) + glove(table).replace(b"\n", b" \n")


def binary(table: Table, end: bytes = b"\n") -> bytes:
    rows = (w + b" " + struct.pack(f"<{len(vs)}f", *vs) + end for w, vs in table.items())
    return header(table) + b"".join(rows)


def binary_without_line_ends(table: Table) -> bytes:
    return binary(table, end=b"")


FORMS = [
    (glove, "glove.txt"),
    (word2vec_text, "vectors.txt"),
    (fasttext_vec, "crawl.vec"),
    (binary, "news.bin"),
    (binary_without_line_ends, "news.bin"),
    (glove, "news.bin.txt"),
    (binary, "NEWS.BIN"),
]


def saved(folder: Path, content: bytes, name: str = "glove.txt") -> Path:
    (folder / name).write_bytes(content)
    return folder / name


@pytest.mark.parametrize(("form", "name"), FORMS)
@pytest.mark.parametrize("packed", ["", ".gz", ".GZ"])
def test_every_form_gives_the_same_words_and_vectors(
    form: Callable[[Table], bytes], name: str, packed: str, tmp_path: Path
):
    content = gzip.compress(form(THREE)) if packed else form(THREE)
    path = saved(tmp_path, content, name + packed)
    found = read_word_vectors(path)
    assert is_word_file(str(path))
    assert found.words == ["the", "über", "can't"]
    np.testing.assert_array_equal(found.vectors, np.array(list(THREE.values()), np.float32))


@settings(max_examples=40)
@given(
    words=st.lists(st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1),
                   min_size=1, max_size=12, unique=True),
    dim=st.integers(2, 5),
    seed=st.integers(0, 1000),
    form=st.sampled_from(FORMS),
)  # fmt: skip
def test_drawn_tables_are_read_back(words, dim, seed, form, tmp_path_factory):
    write, name = form
    rows = np.random.default_rng(seed).normal(size=(len(words), dim)).astype(np.float32)
    table = dict(zip([w.encode() for w in words], rows.astype(float).tolist(), strict=True))
    found = read_word_vectors(saved(tmp_path_factory.mktemp("words"), write(table), name))
    assert found.words == words
    np.testing.assert_array_equal(found.vectors, rows)


@pytest.mark.parametrize(("form", "name"), FORMS)
def test_a_limit_reads_the_first_words_only(form, name: str, tmp_path: Path):
    content = form(THREE)
    cut = content[: content.rindex(b"can't")]
    assert read_word_vectors(saved(tmp_path, cut, name), limit=2).words == ["the", "über"]


def test_a_word_may_contain_blanks_as_in_glove_840b(tmp_path: Path):
    found = read_word_vectors(saved(tmp_path, glove(THREE | {b". . .": [5, 6], b"on it": [7, 8]})))
    assert found.words[3:] == [". . .", "on it"]


def test_one_broken_word_in_a_hundred_is_left_out(tmp_path: Path, caplog):
    many: Table = {b"w%d" % k: [k, 1] for k in range(400)}
    content = glove(many) + b"w7 0 0\n\xff\xfe 0 0\n"
    found = read_word_vectors(saved(tmp_path, content))
    assert len(found.words) == 400
    assert found.vectors[7].tolist() == [7, 1]
    [record] = caplog.records
    assert re.findall(r"\d+", record.args[1].replace("UTF-8", "")) == ["1", "1"]


BROKEN = [
    ("a number too few", "glove.txt", glove(THREE) + b"tax 1\n", BadDataError,
     r"E100 .*2 numbers.*vector 4 has 1"),
    ("a number too many", "glove.txt", glove(THREE) + b"tax 1 2 3\n", BadDataError,
     r"E100 .*vector 4 has 3"),
    ("a header of another dimension", "w.txt", b"3 4\n" + glove(THREE), BadDataError,
     r"E100 .*4 numbers.*vector 1 has 2"),
    ("no number", "glove.txt", glove(THREE) + b"tax 1 x\n", BadDataError,
     "E100 Vector 4 "),
    ("no finite number", "glove.txt", glove(THREE) + b"tax 1 nan\n", BadDataError,
     "E100 .*'tax'"),
    ("a repeated word", "glove.txt", glove(THREE) + b"the 1 2\n", BadDataError,
     r"E100 .*\b1 repeated\b.* of 4\b"),
    ("a word in Latin-1", "glove.txt", glove(THREE) + b"\xfcber 1 2\n", BadDataError,
     r"E100 .*\b1 not UTF-8.* of 4\b"),
    ("text cut off", "w.txt", b"4 2\n" + glove(THREE), UnreadableSourceError,
     r"E103 .*\b4\b.*\b3\b"),
    ("binary cut off", "w.bin", binary(THREE)[:-3], UnreadableSourceError,
     r"E103 .*\b3\b.*\b2\b"),
    ("binary of fewer numbers than stated", "w.bin", b"3 9" + binary(THREE)[3:],
     UnreadableSourceError, r"E103 .*\b9\b"),
    ("binary of more numbers than stated", "w.bin", b"3 1" + binary(THREE)[3:],
     UnreadableSourceError, r"E103 .*\b3\b.*\b1\b"),
    ("binary of more vectors than stated", "w.bin", b"2 2" + binary(THREE)[3:],
     UnreadableSourceError, r"E103 .*\b2\b.*\b2\b"),
    ("binary without a header", "w.bin", glove(THREE), UnreadableSourceError,
     r"E103 .*w\.bin"),
    ("an absurd dimension", "w.bin", b"3 99999999\nthe ", UnreadableSourceError,
     "E103 .*found 99999999"),
    ("a packed model of fastText", "w.bin.gz", gzip.compress(MAGIC + b"..."),
     UnreadableSourceError, r"E103 .*w\..*"),
    ("a gzipped model in capitals", "w.BIN.GZ", gzip.compress(MAGIC + b"..."),
     UnreadableSourceError, r"E103 .*w\..*"),
    ("a zip archive", "w.txt", b"PK\x03\x04...", UnreadableSourceError, r"E103 .*w\..*"),
    ("half a gzip file", "w.txt.gz", gzip.compress(glove(THREE))[:-12], UnreadableSourceError,
     r"E103 .*w\.txt\.gz"),
    ("nothing", "w.txt", b"", UnreadableSourceError, r"E103 .*found 0\b"),
    ("a header alone", "w.txt", b"0 2\n", BadDataError, r"E100 .* of 0\b"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "content", "error", "values"),
    [case[1:] for case in BROKEN],
    ids=[c[0] for c in BROKEN],
)
def test_a_broken_file_is_refused(name, content, error, values, tmp_path: Path):
    with pytest.raises(error, match=values) as refused:
        read_word_vectors(saved(tmp_path, content, name))
    assert refused.value.code == error.code


def test_an_absent_file_is_refused(tmp_path: Path):
    with pytest.raises(UnreadableSourceError, match=r"E103 .*nowhere\.txt"):
        read_word_vectors(tmp_path / "nowhere.txt")
