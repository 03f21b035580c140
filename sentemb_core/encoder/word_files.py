"""Readers of word vector files: GloVe, word2vec (text and binary), fastText (.vec and .bin).

A text file has a line a word: the word and its numbers. In files of word2vec and fastText, a first
line states count and dimension. A binary file (.bin) has that line too, then each word, a blank and
its float32 numbers; or it is a fastText model. All except fastText models may be gzipped.

Files are read as a stream. A word may contain blanks (as in GloVe 840B). Words that are repeated or
not UTF-8 are left out; a file with more than 1 % of them is refused.
"""

import logging
from array import array
from collections import Counter
from collections.abc import Iterator
from io import BufferedReader
from itertools import chain, islice
from pathlib import Path

import numpy as np

from sentemb_core.config.run import CorpusConfig
from sentemb_core.corpus.source import lines, open_bytes
from sentemb_core.encoder.fasttext_model import MAGIC, fasttext_rows
from sentemb_core.encoder.word_vectors import WordVectors
from sentemb_core.errors import BadDataError, UnreadableSourceError

MOST_LEFT_OUT = 0.01
WIDEST = 65_536
LONGEST_WORD = 65_536
ZIP = b"PK\x03\x04"

log = logging.getLogger(__name__)

Rows = Iterator[tuple[bytes, bytes]]
"""Words and their vectors as the bytes of float32 numbers."""


def read_word_vectors(path: Path, limit: int | None = None) -> WordVectors:
    """Return at most `limit` words and vectors in the order of the file: the most frequent first.

    A binary file ends in .bin or .bin.gz, in any case. 400,000 rows of 300 numbers take 480 MB.

    Raises:
        UnreadableSourceError: No such file, another format, no header where one is needed, or a
            truncated file.
        BadDataError: A row of another dimension, a value that is not a finite number, or too many
            words that are repeated or not UTF-8.
    """
    try:
        with open_bytes(CorpusConfig(source=str(path))) as file:
            return _collected(islice(_rows(file, path), limit), path)
    except (OSError, EOFError) as error:
        if isinstance(error, UnreadableSourceError):
            raise
        raise UnreadableSourceError(
            f"{path} cannot be read to its end: {error}. Check the path, or download the file "
            "again."
        ) from error


def _rows(file: BufferedReader, path: Path) -> Rows:
    start = file.peek(4)[:4]
    name = path.name.lower()  # as `names.is_word_file` and `open_bytes` read it
    gzipped = name.endswith(".gz")
    if start == ZIP or (gzipped and start == MAGIC):
        kind = "a zip archive" if start == ZIP else "a gzipped fastText model"
        raise UnreadableSourceError(f"{path} is {kind}. Unpack it first.")
    if start == MAGIC:
        return fasttext_rows(path)
    binary = name.removesuffix(".gz").endswith(".bin")
    return _binary_rows(file, path) if binary else _text_rows(file, path)


def _collected(rows: Rows, path: Path) -> WordVectors:
    """The rows with distinct words; their numbers are appended to one array."""
    known: dict[str, None] = {}
    numbers, left_out = array("f"), Counter[str]()
    for word, vector in rows:
        try:
            text = word.decode("utf-8")
        except UnicodeDecodeError:
            left_out["not UTF-8"] += 1
            continue
        if text in known:
            left_out["repeated"] += 1
            continue
        known[text] = None
        numbers.frombytes(vector)
    _refuse_many(left_out, len(known), path)
    vectors = np.frombuffer(numbers, np.float32).reshape(len(known), -1)
    if not np.isfinite(vectors).all():
        row = int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])
        raise BadDataError(
            f"Word vectors must be finite; in {path} the vector of {list(known)[row]!r} is not. "
            "Remove the line, or download the file again."
        )
    return WordVectors(list(known), vectors)


def _text_rows(file: BufferedReader, path: Path) -> Rows:
    first = next(lines(file), b"")
    header = _header(first)
    dim = header[1] if header else len(_stripped(first).split(b" ")) - 1
    _refuse_dim(dim, path)
    rest = lines(file) if header else chain([first], lines(file))
    number = 0
    for number, line in enumerate(filter(bytes.strip, rest), 1):
        yield _text_row(line, dim, path, number)
    if header and number != header[0]:
        raise UnreadableSourceError(_cut_off(path, header[0], number))


def _text_row(line: bytes, dim: int, path: Path, number: int) -> tuple[bytes, bytes]:
    word, *values = _stripped(line).rsplit(b" ", dim)
    if len(values) < dim or _ends_in_number(word):
        found = len(_stripped(line).split(b" ")) - 1
        raise BadDataError(
            f"Every word of {path} must have {dim} numbers, as in its first line; vector {number} "
            f"has {found}: {line[:40]!r}. Check that the file has one dimension and is complete."
        )
    try:
        return word, np.array(values, np.float32).tobytes()
    except ValueError as error:
        raise BadDataError(
            f"Vector {number} of {path} must be a list of numbers ({error}). Check that line, and "
            "that the file has word vectors."
        ) from error


def _binary_rows(file: BufferedReader, path: Path) -> Rows:
    header = _header(file.readline(64))
    if header is None:
        raise UnreadableSourceError(
            f"A binary file of word vectors begins with its count and dimension, and {path} does "
            "not. If it is text, remove .bin from its name."
        )
    count, dim = header
    _refuse_dim(dim, path)
    for number in range(count):
        word = _word(file)
        vector = file.read(4 * dim)
        if word is None or len(vector) < 4 * dim:
            raise UnreadableSourceError(
                f"{_cut_off(path, count, number)} If that does not help, correct the header: the "
                f"vectors may have fewer than {dim} dimensions."
            )
        yield word, vector
    if file.read(2).strip():
        raise UnreadableSourceError(
            f"The header of {path} states {count:,} word vectors of {dim} dimensions, and the file "
            "is longer: it has more vectors, or wider ones. Correct the header, or download the "
            "file again."
        )


def _word(file: BufferedReader) -> bytes | None:
    """The bytes up to the next blank, without a leading line end."""
    word = bytearray()
    while (letter := file.read(1)) != b" ":
        if not letter or len(word) > LONGEST_WORD:
            return None
        word += letter
    return bytes(word).lstrip(b"\n")


def _header(line: bytes) -> tuple[int, int] | None:
    parts = line.split()
    if len(parts) == 2 and parts[0].isdigit() and parts[1].isdigit():
        return int(parts[0]), int(parts[1])
    return None


def _stripped(line: bytes) -> bytes:
    return line.rstrip(b" \t\r\n")


def _ends_in_number(word: bytes) -> bool:
    """Whether a word with blanks ends in a number, so that the line has too many numbers."""
    start, _, end = word.rpartition(b" ")
    try:
        float(end)
    except ValueError:
        return False
    return bool(start)


def _refuse_dim(dim: int, path: Path) -> None:
    if not 1 <= dim <= WIDEST:
        raise UnreadableSourceError(
            f"A file of word vectors has a word and 1 to {WIDEST:,} numbers a line, found {dim} in "
            f"the first line of {path}. Check that it has word vectors; the name of a binary file "
            "ends in .bin."
        )


def _refuse_many(left_out: Counter[str], kept: int, path: Path) -> None:
    total = left_out.total()
    counts = ", ".join(f"{count:,} {reason}" for reason, count in sorted(left_out.items()))
    if not kept or total > MOST_LEFT_OUT * (kept + total):
        raise BadDataError(
            f"At least 99 % of the words of {path} must be distinct and UTF-8, found "
            f"{counts or 'none'} of {kept + total:,}. Check the encoding of the file, or the "
            "dimension in the header of a binary file."
        )
    if total:
        log.warning("words left out of %s: %s", path, counts)


def _cut_off(path: Path, count: int, found: int) -> str:
    return (
        f"The header of {path} states {count:,} word vectors, found {found:,}: the download may "
        "be incomplete. Download the file again."
    )
