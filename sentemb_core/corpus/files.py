"""The bytes of a file, cut at line ends that no long row can hide."""

import gzip
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any, cast

from sentemb_core.config.run import CorpusConfig
from sentemb_core.errors import UnreadableSourceError, UsageError

ROW_BYTES = 64 << 20  # a longer line comes in parts: memory stays bounded
BOM = "\ufeff"


def require_encoding(name: str) -> None:
    """Refuse an encoding that Python does not know.

    Raises:
        UsageError: with two that it does.
    """
    try:
        "\n".encode(name)
    except (LookupError, UnicodeError) as error:
        raise UsageError(f"Unknown encoding {name!r}: try utf-8 or cp1252.") from error


def open_bytes(config: CorpusConfig) -> BufferedReader:
    """The bytes of a file, unzipped; refuses an encoding whose lines cannot be told apart."""
    require_encoding(config.encoding)
    mark = "".encode(config.encoding)  # utf-8-sig writes one at the beginning
    if "\n".encode(config.encoding) != mark + b"\n":
        raise UsageError(
            f"Rows are cut at the byte 0x0A, which {config.encoding!r} does not use as line end: "
            "convert the file to UTF-8 first."
        )
    path = Path(config.source)
    if path.suffix.lower() == ".gz":
        return _of_whole_bytes(BufferedReader(cast(Any, gzip.open(path))), path)
    return _of_whole_bytes(path.open("rb"), path)


def _of_whole_bytes(file: BufferedReader, path: Path) -> BufferedReader:
    """The file, unless it begins as spreadsheets begin their "Unicode text"."""
    if file.peek(2).startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        file.close()
        raise UnreadableSourceError(
            f"Text is read as UTF-8, or as --encoding says; {path} begins with the mark of "
            "UTF-16, whose rows cannot be told apart: convert it to UTF-8 first."
        )
    return file


def lines(file: BufferedReader) -> Iterator[bytes]:
    """Lines with their ends; one longer than ROW_BYTES comes in parts."""
    return iter(lambda: file.readline(ROW_BYTES), b"")
