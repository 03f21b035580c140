"""Files that are small and hold much, types without a text, and paths that never end."""

import gzip
import json
import os
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentemb_core.config.run import CorpusConfig
from sentemb_core.corpus import documents, json_rows, parquet_rows, source
from sentemb_core.corpus.readers import rows
from sentemb_core.encoder.safety import refuse_outside
from sentemb_core.errors import (
    BadDataError,
    EmptyCorpusError,
    UnreadableSourceError,
    UnsafeModelError,
    UsageError,
)
from sentemb_core.vector_index import is_index
from tests.corpus.made import read

TEXTS = ["One. Two.", "Three. Four.", "Five. Six."]
LARGE = pa.array([2**62, -(2**62), 0])
SMALL = pa.array([2**31 - 1, -(2**31), 0], pa.int32())


def arrays() -> list[pa.Array]:
    """Return columns of all types that Parquet has, with values outside what Python has."""
    zones = ["UTC", "+99:99", "No/Zone", "", "x" * 300]
    found = [
        *(LARGE.cast(pa.timestamp(unit, zone)) for unit in ("ns", "us", "ms") for zone in zones),
        *(LARGE.cast(pa.duration(unit)) for unit in ("s", "ns")),
        *(LARGE.view(kind) for kind in (pa.date64(), pa.time64("us"), pa.float64(), pa.uint64())),
        *(SMALL.view(kind) for kind in (pa.date32(), pa.time32("ms"), pa.float32())),
        *(pa.array([kind] * 3) for kind in ({"en": "One."}, [["One."]], [1, 2], [b"a\xff"], True)),
        *(pa.array(TEXTS, kind) for kind in (pa.large_string(), pa.string_view(), pa.binary())),
        pa.array([[("a", "b")]] * 3, pa.map_(pa.string(), pa.string())),
        pa.array([b"a\xff", b"\0", b""]),
        pa.array([b"a\xff", b"\0", b""]).view(pa.string()),
        pa.array([["One.", None], [], None], pa.large_list(pa.string())),
        pa.array([["One.", "Two."]] * 3, pa.list_(pa.string(), 2)),
        pa.array([1, None, 3]).cast(pa.decimal128(38, 10)),
        pa.array(TEXTS).dictionary_encode(),
        pa.nulls(3),
        pa.nulls(3, pa.list_(pa.timestamp("ns"))),
        pa.array(["a" * 5_000, "\ufeff", "\u200b"]),
    ]
    return [each.combine_chunks() if isinstance(each, pa.ChunkedArray) else each for each in found]


ARRAYS = arrays()
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "id_column": st.just("id"),
        "counterpart_column": st.just("title"),
        "sentences_column": st.just("title"),
        "text_column": st.just("text"),
        "strip_html": st.just(True),
        "max_characters": st.just(1),
        "max_documents": st.just(2),
        "on_duplicate": st.just("error"),
        "encoding": st.sampled_from(["idna", "utf-7", "a\0b", "utf-16", "hz", "", "iso2022_kr"]),
    },
)


@given(st.tuples(*[st.sampled_from(range(len(ARRAYS)))] * 3), OPTIONS)
def test_any_types_are_read_or_refused(
    columns: tuple[int, ...], options: dict[str, object]
) -> None:
    names = ("id", "text", "title")
    with TemporaryDirectory() as folder:
        path = Path(folder, "a.parquet")
        table = {name: ARRAYS[column] for name, column in zip(names, columns, strict=True)}
        pq.write_table(pa.table(table), path, store_schema=columns[0] % 2 == 0)
        with suppress(UsageError, BadDataError):
            report, found, _ = read(path, **options)
            assert report.rows_read == 3 >= len(found)


@given(OPTIONS, st.binary(max_size=60), st.sampled_from(["a.csv", "a.json", "a.jsonl", "a.txt"]))
def test_any_encoding_reads_or_refuses(options: dict[str, object], data: bytes, name: str) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(b'text,title,id\n{"text": "+AGE- xn--a.b"}\n' * (name != "a.json") + data)
        with suppress(UsageError, BadDataError):
            read(path.parent if name == "a.txt" else path, **options)


def test_a_repeated_text_is_measured_before_it_is_decoded(tmp_path: Path) -> None:
    places = pa.array([0] * 1024 + [1], pa.int32())
    text = pa.DictionaryArray.from_arrays(places, ["x" * 5_000_000, "A b. C."])
    pq.write_table(pa.table({"text": text}), tmp_path / "a.parquet", compression="zstd")
    pool, before = pa.proxy_memory_pool(pa.default_memory_pool()), pa.default_memory_pool()
    pa.set_memory_pool(pool)
    try:
        report, [document], _ = read(tmp_path / "a.parquet")
    finally:
        pa.set_memory_pool(before)
    assert (report.quarantined, document.sentences) == ({"over-long": 1024}, ["A b.", "C."])
    assert pool.max_memory() < 200 << 20


def test_a_file_that_repeats_too_much_is_refused(tmp_path: Path, monkeypatch) -> None:
    pq.write_table(pa.table({"text": ["A b " * 22_000] * 100}), tmp_path / "a.parquet")
    lines = gzip.compress(b'{"text": "%s"}\n' % (b"A b " * 22_000) * 100)
    (tmp_path / "a.jsonl.gz").write_bytes(lines)
    for name in ("a.parquet", "a.jsonl.gz"):
        with monkeypatch.context() as patched:
            patched.setattr(source, "MOST_BYTES", 1 << 20)
            with pytest.raises(UnreadableSourceError, match="100 times"):
                read(tmp_path / name)
        assert read(tmp_path / name, splitter="none")[0].documents == 100


@pytest.mark.parametrize("limit", ["CHUNK_BYTES", "CHUNK_VALUES"])
def test_a_row_group_too_large_for_memory_is_refused(tmp_path: Path, monkeypatch, limit) -> None:
    table = pa.table({"text": [["x" * 1_000, None] * 500] * 3})
    pq.write_table(table, tmp_path / "a.parquet", compression="zstd", use_dictionary=False)
    options = {"sentences_column": "text", "splitter": "none"}
    assert read(tmp_path / "a.parquet", **options)[0].rows_read == 3
    monkeypatch.setattr(parquet_rows, limit, 1_000)
    with pytest.raises(UnreadableSourceError, match="row_group_size"):
        read(tmp_path / "a.parquet", **options)


def test_a_list_of_millions_of_nulls_is_over_long(tmp_path: Path) -> None:
    nulls = pa.array([[None] * 5_000_000, ["One.", "Two."]], pa.list_(pa.string()))
    pq.write_table(pa.table({"sentences": nulls}), tmp_path / "a.parquet")
    report, [document], _ = read(tmp_path / "a.parquet")
    assert (report.quarantined, document.sentences) == ({"over-long": 1}, ["One.", "Two."])


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.parquet"])
def test_a_hopeless_source_is_not_read_to_its_end(tmp_path: Path, monkeypatch, name: str) -> None:
    monkeypatch.setattr(documents, "HOPELESS_ROWS", 2_000)
    rows_of = {
        "a.jsonl": b'{"text": "One. Two."}\n' + b"{}\n" * 5_000,
        "a.csv": b"text,id\nOne. Two.,1\n" + b",\n" * 5_000,
    }
    if name in rows_of:
        (tmp_path / name).write_bytes(rows_of[name])
    else:
        pq.write_table(pa.table({"text": ["One. Two."] + [None] * 5_000}), tmp_path / name)
    with pytest.raises(EmptyCorpusError, match="first 2,000 rows"):
        read(tmp_path / name)


@pytest.mark.parametrize(("text", "refused"), [("A. B", True), ("A b. C", False)])
def test_texts_of_a_few_characters_are_not_read_to_their_end(
    tmp_path: Path, monkeypatch, text: str, refused: bool
) -> None:
    monkeypatch.setattr(documents, "HOPELESS_ROWS", 200)
    (tmp_path / "a.csv").write_text("text\n" + f"{text}\n" * 300)
    if not refused:
        assert read(tmp_path / "a.csv")[0].documents == 300
        return
    with pytest.raises(EmptyCorpusError, match="first 200 rows"):
        read(tmp_path / "a.csv")


def test_the_head_of_a_file_holds_no_record(tmp_path: Path, monkeypatch) -> None:
    """A hundred records of 30 MB each would take 3 GB."""
    monkeypatch.setattr(json_rows, "ROW_BYTES", 1_000)
    path = tmp_path / "a.json"
    path.write_text(json.dumps([{"text": "One. Two."}, {"text": "x" * 2_000_000}]))
    with pytest.raises(UnreadableSourceError, match="element 1"):
        list(rows(CorpusConfig(source=str(path))))


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet", "noend", "a.csv.gz"])
def test_a_path_that_never_ends_is_not_opened(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(UnreadableSourceError, match="FIFO"):
        read(tmp_path / name)
    assert not is_index(str(tmp_path / name))
    saved = tmp_path / "saved"
    saved.mkdir()
    (saved / "dataset_info.json").write_text("{}")
    os.mkfifo(saved / "data.arrow")
    with pytest.raises(UnreadableSourceError, match=r"data\.arrow"):
        read(saved)
    with pytest.raises(UnsafeModelError, match=r"data\.arrow"):
        refuse_outside(saved)
