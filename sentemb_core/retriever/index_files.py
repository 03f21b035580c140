"""The folder of an index: its files, written as a draft and renamed at the end.

An update renames the earlier folder to `.NAME.old-*` first. If it is killed before the draft has
its name, the next call that opens or writes the index restores the earlier folder.

    index.json          format, digest of the retriever, counts, bytes of every file
    documents.parquet   doc_id, counterpart, digest (of the text), vector
    texts.arrow         sentences of every document (optional)
    sentences.npy       sentence vectors in float16, for the best sentence
    tokens.npy          token vectors in int8, for late interaction
    words_*/            BM25 by bm25s, one folder for each kind of term
    vectors.faiss       graph of the document vectors, above `nearest.EXACT` documents

`*_starts.npy` has the first row of each document and, last, the number of rows. All arrays are
memory-mapped.
"""

import glob
import json
import logging
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Float32, Int64
from numpy.lib import format as npy
from pydantic import Field, ValidationError

from sentemb_core.encoder.folder_files import read_json
from sentemb_core.errors import (
    MissingEncoderError,
    StorageError,
    UnreadableSourceError,
    UsageError,
)
from sentemb_core.store import disk
from sentemb_core.store.locks import lock_if_free
from sentemb_core.types import Value

log = logging.getLogger(__name__)

INDEX = "index.json"
DOCUMENTS, TEXTS, FAISS = "documents.parquet", "texts.arrow", "vectors.faiss"
SENTENCES, TOKENS = "sentences", "tokens"

CHECKED = 32 << 20
"""Bytes at each end of a file that an index compares when it is opened, in .05 s."""

SENTENCE_TYPE = np.dtype(np.float16)
"""A cosine changes by at most .0005. With MiniLM and all parts, the first ten of 300 blog posts
stay the same for every title."""


class Approximate(Value):
    """Settings of the graph that finds the first documents by their vectors, and its recall."""

    kind: Literal["HNSW"] = "HNSW"
    links: int
    build_depth: int
    search_depth: int
    recall: float
    """Share of the exact first 100 documents that it finds, for drawn queries."""


class IndexFile(Value):
    """The content of index.json."""

    format: Literal[1] = 1
    retriever: str
    """SHA-256 (`folder.retriever_digest`)."""
    model: str | None = None
    """Name under which the retriever was opened."""
    documents: int
    sentences: int
    dim: int
    exact: int
    """Most documents without a graph of their vectors."""
    bytes: dict[str, int]
    """Bytes of each file."""
    checksums: dict[str, int]
    """CRC-32 of each file (`checksums_below`)."""
    approximate: Approximate | None = None
    corpus: dict[str, str | bool] = Field(default_factory=dict[str, str | bool])
    """Options that read the source (`options.CorpusOptions`), for an update; empty for documents
    from Python."""

    @property
    def bytes_by_part(self) -> dict[str, float]:
        """Bytes a document of each part: documents, texts, sentences, tokens, words, vectors."""
        parts: dict[str, float] = {}
        for name, size in self.bytes.items():
            part = Path(name).parts[0].partition(".")[0].partition("_")[0]
            parts[part] = parts.get(part, 0) + size / max(self.documents, 1)
        return parts


class RaggedWriter:
    """Writes rows of documents to NAME.npy, and where each document starts to NAME_starts.npy."""

    def __init__(self, folder: Path, name: str, dtype: np.dtype, width: int) -> None:
        self._dtype, self._width = dtype, width
        self._sizes = [0]
        self._starts = folder / f"{name}_starts.npy"
        self._file: IO[bytes] = (folder / f"{name}.npy").open("wb")
        self._write_header()

    def __enter__(self) -> "RaggedWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.seek(0)  # the header leaves room for a longer number
        self._write_header()
        self._file.close()
        np.save(self._starts, np.cumsum(self._sizes, dtype=np.int64))

    def write(self, rows: Sequence[np.ndarray]) -> None:
        """Append the rows of some documents."""
        self._sizes += [len(each) for each in rows]
        self._file.write(np.ascontiguousarray(np.concatenate(rows), self._dtype).tobytes())

    def _write_header(self) -> None:
        header = {
            "descr": npy.dtype_to_descr(self._dtype),
            "fortran_order": False,
            "shape": (sum(self._sizes), self._width),
        }
        npy.write_array_header_1_0(self._file, header)


def open_ragged(folder: Path, name: str) -> tuple[np.ndarray, Int64[np.ndarray, " bounds"]]:
    """Return the memory-mapped rows of a `RaggedWriter`, and the bounds of the documents."""
    rows = np.load(folder / f"{name}.npy", mmap_mode="r")
    return np.asarray(rows), np.load(folder / f"{name}_starts.npy")


def sizes_below(folder: Path) -> dict[str, int]:
    """Return the bytes of all files below a folder, by their relative paths."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {file.relative_to(folder).as_posix(): file.stat().st_size for file in files}


def checksums_below(folder: Path) -> dict[str, int]:
    """Return the CRC-32 of each file below a folder: of its first and its last `CHECKED` bytes.

    A wrong bound in a list of words would end the process, and a wrong vector is not noticed. Large
    arrays are memory-mapped, and are not read whole for this.
    """
    found: dict[str, int] = {}
    for name, size in sizes_below(folder).items():
        with (folder / name).open("rb") as file:
            start = file.read(CHECKED)
            file.seek(max(len(start), size - CHECKED))
            found[name] = zlib.crc32(file.read(), zlib.crc32(start))
    return found


def read_index_file(folder: Path) -> IndexFile:
    """Return index.json, after a check that every file has its size.

    Raises:
        UnreadableSourceError: there is no index, or it is damaged or incomplete.
    """
    restore_earlier(folder)
    if not (folder / INDEX).is_file():
        raise UnreadableSourceError(
            f"An index is a folder with {INDEX}; {folder} has none. `python -m flows index` writes "
            "one."
        )
    try:
        stated = IndexFile.model_validate(read_json(folder / INDEX))
    except (ValidationError, ValueError) as error:
        raise damaged(folder, f"{INDEX} is broken") from error
    found = sizes_below(folder)
    if other := [name for name, size in stated.bytes.items() if found.get(name) != size]:
        raise damaged(folder, f"missing or cut: {', '.join(other)}")
    sums = checksums_below(folder)
    if other := [name for name, value in stated.checksums.items() if sums.get(name) != value]:
        raise damaged(folder, f"other bytes than were written: {', '.join(other)}")
    return stated


def stated_model(folder: Path) -> str:
    """Return the name of the retriever that wrote an index.

    Raises:
        UnreadableSourceError: as `read_index_file`.
        UsageError: the index names no retriever.
        MissingEncoderError: it names a folder or a file that is gone.
    """
    model = read_index_file(folder).model
    if model is None:
        raise UsageError(
            f"{folder} does not name the retriever that wrote it. Name its folder (--model, or "
            "MODEL of `sentemb`), or load it and pass it."
        )
    if Path(model).is_absolute() and not Path(model).exists():
        raise MissingEncoderError(
            f"{folder} was written with the retriever {model}, which is gone. Name its new place "
            "(--model, or MODEL of `sentemb`)."
        )
    return model


def damaged(folder: Path, reason: str) -> UnreadableSourceError:
    """Return the error of an index with missing or broken files."""
    return UnreadableSourceError(
        f"The index {folder} is damaged or incomplete: {reason}. Copy it again, or write it again "
        "with `python -m flows index`."
    )


def is_index_folder(path: str | Path) -> bool:
    """Whether a folder has the description of an index."""
    try:
        restore_earlier(Path(path))
        return (Path(path) / INDEX).is_file()
    except OSError:  # a text longer than any path
        return False


def restore_earlier(folder: Path) -> None:
    """Restore the index whose update was killed between its renames, unless a process writes it."""
    folder = folder.absolute()
    if folder.exists() or not _earlier(folder):
        return
    lock = _lock_of(folder)
    with lock_if_free(lock) as is_free:
        earlier = _earlier(folder) if is_free and not folder.exists() else []
        if earlier:
            disk.rename_to(max(earlier, key=lambda path: path.stat().st_ctime_ns), folder)
            log.warning("An update of %s was killed: the index is as before. Repeat it.", folder)
        if is_free:
            lock.unlink(missing_ok=True)


def _earlier(folder: Path) -> list[Path]:
    return [*folder.parent.glob(f".{glob.escape(folder.name)}.old-*")]


def _lock_of(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.lock")


@contextmanager
def drafted(folder: Path, *, replace: bool) -> Generator[Path, None, None]:
    """Yield a draft folder that becomes `folder` when the block succeeds.

    Raises:
        UsageError: `folder` exists, is not empty, and is not to be replaced.
        StorageError: another process writes this index, or the disk refuses.
    """
    restore_earlier(folder)
    if not replace and folder.exists() and (folder.is_file() or any(folder.iterdir())):
        raise UsageError(f"{folder} exists. Name a new folder, or update the index in it.")
    folder = folder.absolute()
    lock = _lock_of(folder)
    with lock_if_free(lock) as is_free:
        if not is_free:
            raise StorageError(
                f"One process at a time writes an index; another one writes {folder} now. Wait "
                "until it is done."
            )
        killed = [*folder.parent.glob(f".{glob.escape(folder.name)}.draft-*")]
        for path in [*killed, *(_earlier(folder) if folder.exists() else [])]:
            disk.remove(path)
        draft = folder.with_name(disk.unique(f".{folder.name}.draft"))
        try:
            disk.make_folder(draft)
            with disk.storage_errors(folder.parent):
                yield draft
            if replace and folder.exists():
                earlier = folder.with_name(disk.unique(f".{folder.name}.old"))
                disk.rename_to(folder, earlier)
                disk.rename_to(draft, folder)
                disk.rename_to(earlier, draft)  # `.old-*` is always a whole index
            else:
                disk.rename_to(draft, folder)
        finally:
            disk.remove(draft)
            lock.unlink(missing_ok=True)


def write_index_file(folder: Path, stated: IndexFile) -> None:
    text = json.dumps(stated.model_dump(mode="json"), indent=1)
    (folder / INDEX).write_text(text + "\n", encoding="utf-8")


TEXT_SCHEMA = pa.schema([pa.field("sentences", pa.list_(pa.string()))])


def document_schema(dim: int) -> Any:
    """Return the schema of documents.parquet; without vectors if `dim` is 0."""
    fields = [pa.field(name, pa.string()) for name in ("doc_id", "counterpart", "digest")]
    fields += [pa.field("vector", pa.list_(pa.float32(), dim))] if dim else []
    return pa.schema(fields)


def vector_blocks(folder: Path) -> Iterator[Float32[np.ndarray, "documents dim"]]:
    """Yield the vectors of documents.parquet in blocks.

    Raises:
        UnreadableSourceError: bytes are changed.
    """
    try:
        with pq.ParquetFile(folder / DOCUMENTS, page_checksum_verification=True) as file:
            for k in range(file.num_row_groups):
                column = file.read_row_group(k, columns=["vector"])["vector"].combine_chunks()
                yield column.flatten().to_numpy().reshape(len(column), -1)
    except (OSError, pa.ArrowException) as error:
        raise damaged(folder, f"{DOCUMENTS}: {error}") from error


def words_folder(folder: Path, terms: Callable[[str], Iterator[str]]) -> Path:
    """Return the folder of the BM25 of these terms."""
    return folder / f"words_{terms.__name__}"
