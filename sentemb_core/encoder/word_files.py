"""Files of word vectors: text of GloVe and fastText, text and binary of word2vec, models.

Text has a line for every word: the word and its numbers, after a line with count and dimension in
the files of word2vec and fastText. Binary (a name in .bin) has that line too, then every word, a
blank and its float32 numbers; or it is a model of fastText. All but the last may be gzipped.

They are read as a stream. A word may hold blanks (GloVe 840B has such). Words that are repeated or
not UTF-8 are left out and counted; a file where they are more than 1 % is not what it seems.
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
"""Words and their vectors, as the bytes of float32 numbers."""


def read_word_vectors(path: Path, limit: int | None = None) -> WordVectors:
    """Words and vectors in the order of the file: the most frequent first.

    Args:
        path: Ends in .bin or .bin.gz if binary, in whatever case.
        limit: Rows to read at most; 400,000 of 300 numbers take 480 MB.

    Raises:
        UnreadableSourceError: No such file, another format, no header where one must be, or an end
            before the end.
        BadDataError: A row of another dimension, a value that is no finite number, or too many
            words that are repeated or not UTF-8.
    """
    try:
        with open_bytes(CorpusConfig(source=str(path))) as file:
            return _collected(islice(_rows(file, path), limit), path)
    except (OSError, EOFError) as error:
        if isinstance(error, UnreadableSourceError):
            raise
        raise UnreadableSourceError(f"{path} cannot be read to its end: {error}") from error


def _rows(file: BufferedReader, path: Path) -> Rows:
    start = file.peek(4)[:4]
    name = path.name.lower()  # as `names.is_word_file` and `open_bytes` read it
    packed = name.endswith(".gz")
    if start == ZIP or (packed and start == MAGIC):
        kind = "a zip archive" if start == ZIP else "a packed model of fastText"
        raise UnreadableSourceError(f"{path} is {kind}: unpack it first.")
    if start == MAGIC:
        return fasttext_rows(path)
    binary = name.removesuffix(".gz").endswith(".bin")
    return _binary_rows(file, path) if binary else _text_rows(file, path)


def _collected(rows: Rows, path: Path) -> WordVectors:
    """The rows with a word of their own; numbers grow in one array, held once."""
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
            f"Every number of a word vector must be finite; in {path} those of "
            f"{list(known)[row]!r} are not: take the line out, or the file anew."
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
            f"Every word of {path} has {dim} numbers, as its first line says; vector {number} has "
            f"{found}: {line[:40]!r}. Check that it is one file of one dimension, not cut."
        )
    try:
        return word, np.array(values, np.float32).tobytes()
    except ValueError as error:
        raise BadDataError(
            f"Vector {number} of {path} is no list of numbers ({error}): check the file there, or "
            "whether it is one of word vectors."
        ) from error


def _binary_rows(file: BufferedReader, path: Path) -> Rows:
    header = _header(file.readline(64))
    if header is None:
        raise UnreadableSourceError(
            f"A binary file of word vectors begins with its count and dimension, and {path} does "
            "not: if it is text, drop .bin from its name."
        )
    count, dim = header
    _refuse_dim(dim, path)
    for number in range(count):
        word = _word(file)
        vector = file.read(4 * dim)
        if word is None or len(vector) < 4 * dim:
            raise UnreadableSourceError(
                f"{_cut_off(path, count, number)} Or they have fewer than {dim} dimensions."
            )
        yield word, vector
    if file.read(2).strip():
        raise UnreadableSourceError(
            f"The header of {path} tells of {count:,} word vectors in {dim} dimensions, and more "
            "follows: they are more, or wider."
        )


def _word(file: BufferedReader) -> bytes | None:
    """Up to the next blank, without the line end that may stand before it."""
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
    """Whether a word with blanks took in what must be one number too many."""
    start, _, end = word.rpartition(b" ")
    try:
        float(end)
    except ValueError:
        return False
    return bool(start)


def _refuse_dim(dim: int, path: Path) -> None:
    if not 1 <= dim <= WIDEST:
        raise UnreadableSourceError(
            f"A file of word vectors has a word and 1 to {WIDEST:,} numbers a line; the first line "
            f"of {path} tells {dim}."
        )


def _refuse_many(left_out: Counter[str], kept: int, path: Path) -> None:
    total = left_out.total()
    told = ", ".join(f"{count:,} {reason}" for reason, count in sorted(left_out.items()))
    if not kept or total > MOST_LEFT_OUT * (kept + total):
        raise BadDataError(
            f"The words of {path} must be distinct and UTF-8, save 1 % of them; of "
            f"{kept + total:,} there are {told or 'none'}. Check the encoding of the file, or "
            "the dimension that the header of a binary one tells."
        )
    if total:
        log.warning("%s: %s words left out", path, told)


def _cut_off(path: Path, count: int, found: int) -> str:
    return (
        f"The header of {path} tells of {count:,} word vectors, and {found:,} are there: the "
        "download may be cut off."
    )
