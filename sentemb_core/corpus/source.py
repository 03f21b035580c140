"""A corpus source: its format, its files, their bytes and digest."""

import codecs
import gzip
import hashlib
import os
import string
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any, Literal, cast

from sentemb_core.config.run import CorpusConfig
from sentemb_core.encoder.names import PUBLISHED
from sentemb_core.encoder.safety import require_ordinary
from sentemb_core.errors import EmptyCorpusError, UnreadableSourceError, UsageError
from sentemb_core.store.objects import file_digest

Format = Literal["jsonl", "json", "csv", "tsv", "parquet", "folder", "saved", "hub"]

SUFFIXES: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
}
TEXT_SUFFIXES = (".txt", ".md")
ROW_BYTES = 32 << 20
"""A longer line comes in parts and its row is refused. A line of JSON takes up to 36 times its
bytes in memory (`[[]]` repeated)."""

MOST_BYTES, MOST_RATIO = 256 << 20, 100
"""Most text of a compressed file, the larger of the two. Texts are compressed to a third or, if
they repeat, to a thirtieth."""

BOM = "\ufeff"
LETTERS = string.ascii_letters + string.digits + '\t,;:"+-.{}[]'
"""Letters of ASCII that a reader looks for, or that begin an escape in some encodings."""


def source_format(source: str) -> Format:
    """Return the format of a source.

    Raises:
        UnreadableSourceError: E103, no readable source.
        EmptyCorpusError: E101, a file of 0 bytes.
    """
    path = Path(source)
    if path.is_dir():
        return _folder_format(path)
    suffix = _suffix(path)
    if path.is_file():
        if suffix not in SUFFIXES:
            raise UnreadableSourceError(
                f"A corpus file ends in one of {', '.join(SUFFIXES)} (JSON and CSV may add .gz); "
                f"found {path.name!r}. Rename or convert it. Texts (.txt, .md) are read as a "
                "folder."
            )
        if path.stat().st_size == 0:
            raise EmptyCorpusError(
                f"A table has at least one row; {source} has 0 bytes. Write the file again, or "
                "name another one."
            )
        return SUFFIXES[suffix]
    _require_ordinary(path)
    if suffix not in SUFFIXES and PUBLISHED.fullmatch(source):
        return "hub"
    raise UnreadableSourceError(
        f"No file or folder at {source}. Check the path (this process runs in {Path.cwd()})."
    )


def text_files(folder: Path) -> Iterator[Path]:
    """Yield the .txt and .md files under the folder in a fixed order.

    Hidden names and symbolic links are left out: a link could lead outside the folder.
    """
    for root, folders, names in os.walk(folder, followlinks=False, onerror=_refuse_folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(root, name)
            visible = path.suffix.lower() in TEXT_SUFFIXES and not name.startswith(".")
            if visible and not path.is_symlink() and path.is_file():
                yield path


def passed_over(folder: Path) -> Counter[str]:
    """Return the endings of the files under a folder that are not read as texts, with counts.

    A file without an ending counts by its name. Hidden files do not count.
    """
    read = set(text_files(folder))
    others = (path for path in folder.rglob("*") if path not in read and path.is_file())
    parts = ((path, path.relative_to(folder).parts) for path in others)
    seen = (path for path, names in parts if not any(name.startswith(".") for name in names))
    return Counter("links" if path.is_symlink() else path.suffix or path.name for path in seen)


def source_digest(config: CorpusConfig) -> str:
    """Return the SHA-256 of the source's format and bytes. Its path does not enter.

    A folder counts with the sorted relative names of its readable files. A data set of the hub
    counts with its name, its split and the fingerprint of its builder.
    """
    kind = source_format(config.source)
    path = Path(config.source)
    state = hashlib.sha256(kind.encode())
    if kind == "hub":
        builder: Any = call_datasets("load_dataset_builder", config.source)
        state.update(f"\0{config.source}\0{config.split}\0{builder.hash}".encode())
    elif path.is_dir():
        saved = (file for file in sorted(path.rglob("*")) if file.is_file())
        for file in text_files(path) if kind == "folder" else saved:
            name = os.fsencode(file.relative_to(path).as_posix())
            state.update(b"\0" + name + b"\0" + bytes.fromhex(file_digest(file)))
    else:
        state.update(b"\0gz\0" if path.suffix == ".gz" else b"\0")
        state.update(bytes.fromhex(file_digest(path)))
    return state.hexdigest()


def _suffix(path: Path) -> str:
    """Return the suffix of the format: `.jsonl` for `a.jsonl.gz`."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    zipped = suffixes[-1:] == [".gz"] and suffixes[-2:-1] != [".parquet"]
    return "".join(suffixes[-2:-1] if zipped else suffixes[-1:])


def _folder_format(path: Path) -> Format:
    if (path / "dataset_info.json").is_file() or (path / "dataset_dict.json").is_file():
        for file in path.rglob("*"):
            _require_ordinary(file)
        return "saved"
    if next(text_files(path), None) is not None:
        return "folder"
    files = [file for file in path.iterdir() if file.is_file()]
    suffixes = sorted({file.suffix or file.name for file in files})
    links = sum(file.is_symlink() for file in files)
    raise UnreadableSourceError(
        "A corpus folder has .txt or .md files, or is a saved data set. Found in "
        f"{path}: {', '.join(suffixes[:5]) or 'no files'}"
        f"{f' ({links} are links, which are not followed)' if links else ''}. Name a file or "
        "another folder."
    )


def _require_ordinary(path: Path) -> None:
    """Refuse a path that could block or never end.

    Raises:
        UnreadableSourceError: E103.
    """
    try:
        require_ordinary(path)
    except OSError as error:
        raise UnreadableSourceError(
            f"A corpus is a file or a folder; of {path}, {error}. Write its content to a file."
        ) from error


def _refuse_folder(error: OSError) -> None:
    raise UnreadableSourceError(
        f"All folders of a corpus must be readable; {error.filename} is not: {error.strerror}. "
        "Let this user read it, or move it elsewhere."
    ) from error


def call_datasets(function: str, name: str, **options: Any) -> Any:
    """Call a loading function of `datasets`; raise UnreadableSourceError (E103) if it fails."""
    import datasets  # half a second

    try:
        return getattr(datasets, function)(name, **options)
    except Exception as error:
        offline = os.environ.get("HF_HUB_OFFLINE", "unset")
        raise UnreadableSourceError(
            f"`datasets` cannot load {name!r} ({type(error).__name__}: {str(error)[:200]}; "
            f"HF_HUB_OFFLINE is {offline}). Check the path. To download a data set by its name, "
            "set HF_HUB_OFFLINE=0, or save it on another machine and name its folder."
        ) from error


def require_encoding(name: str) -> None:
    """Check that Python knows the encoding, and that it is one of text files.

    Every line is decoded alone, and a broken one is refused alone. So ASCII must be itself, which
    it is not in idna, utf-7, hz or EBCDIC.

    Raises:
        UsageError: it is no such encoding.
    """
    try:
        "\n".encode(name)
        codec = codecs.lookup(name).name
        keeps = LETTERS.encode(name).endswith(LETTERS.encode())
    except (LookupError, ValueError) as error:  # a ValueError: NUL in the name
        raise UsageError(f"Unknown encoding {name!r}: try utf-8 or cp1252.") from error
    if not (keeps or codec.startswith(("utf-16", "utf-32"))):
        raise UsageError(
            f"Text files have an encoding that keeps ASCII; {name!r} does not. Convert the file to "
            "UTF-8 first."
        )


def open_bytes(config: CorpusConfig) -> BufferedReader:
    """Return the unzipped bytes of a file. An encoding without the line end 0x0A is refused."""
    require_encoding(config.encoding)
    mark = "".encode(config.encoding)  # utf-8-sig begins with one
    if "\n".encode(config.encoding) != mark + b"\n":
        raise UsageError(
            f"Rows end with the byte 0x0A, which is no line end in {config.encoding!r}. Convert "
            "the file to UTF-8 first."
        )
    path = Path(config.source)
    zipped = path.suffix.lower() == ".gz"
    file = BufferedReader(cast(Any, _Unzipped(path))) if zipped else path.open("rb")
    if file.peek(2).startswith((BOM_UTF16_LE, BOM_UTF16_BE)):  # "Unicode text" of spreadsheets
        file.close()
        raise UnreadableSourceError(
            f"Text is read as UTF-8, or in the --encoding. {path} begins with the mark of UTF-16, "
            "which has no line end 0x0A. Convert it to UTF-8 first."
        )
    return file


def most_text(path: Path) -> int:
    """Return how many bytes of text a compressed file may have."""
    return max(MOST_BYTES, MOST_RATIO * path.stat().st_size)


class _Unzipped(gzip.GzipFile):
    """A gzipped file that ends with an error where it has more bytes than texts can have."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._left = most_text(path)

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self._left -= len(data)
        if self._left < 0:
            raise UnreadableSourceError(
                f"A gzipped file of texts has at most {MOST_RATIO} times its own bytes, or "
                f"{MOST_BYTES >> 20} MB; {self.name} has more. Unzip it first."
            )
        return data


def lines(file: BufferedReader) -> Iterator[bytes]:
    """Yield lines with their ends; a line longer than ROW_BYTES comes in parts."""
    return iter(lambda: file.readline(ROW_BYTES), b"")
