"""What a corpus source is: its format, its files, and the digest of its bytes."""

import gzip
import hashlib
import os
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any, Literal, cast

from sentemb_core.config.run import CorpusConfig
from sentemb_core.encoder.names import PUBLISHED
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


def source_format(source: str) -> Format:
    """How to read the source.

    Raises:
        UnreadableSourceError: E103, nothing readable is there.
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
                f"found {path.name!r}. Rename or convert it; texts (.txt, .md) are read as a "
                "folder of them."
            )
        if path.stat().st_size == 0:
            raise EmptyCorpusError(f"A table holds at least one row; {source} has 0 bytes.")
        return SUFFIXES[suffix]
    if suffix not in SUFFIXES and PUBLISHED.fullmatch(source):
        return "hub"
    raise UnreadableSourceError(
        f"No file or folder at {source}. Check the path (this process runs in {Path.cwd()})."
    )


def text_files(folder: Path) -> Iterator[Path]:
    """The .txt and .md files under the folder in a fixed order.

    Hidden names and symbolic links are left out: a link could lead outside the folder.
    """
    for root, folders, names in os.walk(folder, followlinks=False, onerror=_refuse_folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(root, name)
            if _is_text(path):
                yield path


def source_digest(config: CorpusConfig) -> str:
    """SHA-256 over format and bytes of the source; where it lies does not enter.

    A folder counts with the sorted relative names of the files that would be read, a data set of
    the hub with its name, split and the fingerprint of its builder.
    """
    kind = source_format(config.source)
    path = Path(config.source)
    state = hashlib.sha256(kind.encode())
    if kind == "hub":
        state.update(f"\0{config.source}\0{config.split}\0{_hub_fingerprint(config)}".encode())
    elif path.is_dir():
        for file in text_files(path) if kind == "folder" else _all_files(path):
            name = os.fsencode(file.relative_to(path).as_posix())
            state.update(b"\0" + name + b"\0" + bytes.fromhex(file_digest(file)))
    else:
        state.update(b"\0gz\0" if path.suffix == ".gz" else b"\0")
        state.update(bytes.fromhex(file_digest(path)))
    return state.hexdigest()


def _suffix(path: Path) -> str:
    """The suffix that tells the format: that of `a.jsonl` for `a.jsonl.gz`."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    zipped = suffixes[-1:] == [".gz"] and suffixes[-2:-1] != [".parquet"]
    return "".join(suffixes[-2:-1] if zipped else suffixes[-1:])


def _folder_format(path: Path) -> Format:
    if (path / "dataset_info.json").is_file() or (path / "dataset_dict.json").is_file():
        return "saved"
    if next(text_files(path), None) is not None:
        return "folder"
    files = [file for file in path.iterdir() if file.is_file()]
    found = sorted({file.suffix or file.name for file in files})
    links = sum(file.is_symlink() for file in files)
    raise UnreadableSourceError(
        f"A corpus folder holds .txt or .md files, or is a saved data set; in {path} there are "
        f"{', '.join(found[:5]) or 'no files'}"
        f"{f' ({links} are links, which are not followed)' if links else ''}. Give one file, or "
        "another folder."
    )


def _refuse_folder(error: OSError) -> None:
    raise UnreadableSourceError(
        f"Every folder of a corpus is read; {error.filename} is not: {error.strerror}. Let this "
        "user read it, or move it elsewhere."
    ) from error


def _is_text(path: Path) -> bool:
    visible = path.suffix.lower() in TEXT_SUFFIXES and not path.name.startswith(".")
    return visible and not path.is_symlink() and path.is_file()


def _all_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _hub_fingerprint(config: CorpusConfig) -> str:
    builder: Any = call_datasets("load_dataset_builder", config.source)
    return str(builder.hash)


def call_datasets(function: str, name: str, **options: Any) -> Any:
    """Call a loading function of `datasets`; UnreadableSourceError (E103) when it fails."""
    import datasets  # half a second: paid by those who name a data set

    try:
        return getattr(datasets, function)(name, **options)
    except Exception as error:
        offline = os.environ.get("HF_HUB_OFFLINE", "unset")
        raise UnreadableSourceError(
            f"`datasets` cannot load {name!r} ({type(error).__name__}: {str(error)[:200]}; "
            f"HF_HUB_OFFLINE is {offline}). Check the path; to fetch a data set by its name set "
            "HF_HUB_OFFLINE=0, or save it where there is a network, and give its folder."
        ) from error


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
