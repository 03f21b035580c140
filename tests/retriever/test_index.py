"""An index finds what the retriever's scores say, and is refused where it cannot be trusted."""

import json
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from sentemb_core.corpus.table import Document
from sentemb_core.errors import (
    BadDataError,
    DuplicateIdError,
    EmptyCorpusError,
    OtherEncoderError,
    StorageError,
    UnreadableSourceError,
    UsageError,
)
from sentemb_core.retriever import index as index_module
from sentemb_core.retriever.folder import load_retriever, retriever_digest
from sentemb_core.retriever.index import Index, parts_of
from sentemb_core.retriever.index_files import is_index_folder
from sentemb_core.retriever.retriever import Retriever
from sentemb_core.retriever.scores import scores_of_documents
from sentemb_core.retriever.spec import RetrieverSpec, Vectors
from sentemb_core.store.locks import file_lock
from tests.retriever import made
from tests.second_device import THERE, SecondDevice

ROOT = (Vectors(folder=""),)
SPECS = {
    "whole": made.WHOLE,
    "dense": RetrieverSpec(vectors=ROOT),
    "best sentence": RetrieverSpec(vectors=ROOT, best_sentence=0.5),
    "tokens without words": RetrieverSpec(vectors=ROOT, tokens=True),
    "table": RetrieverSpec(vectors=(Vectors(folder="table"),), words="stems_and_letters"),
    "words": RetrieverSpec(words="bm25"),
    "whole texts": RetrieverSpec(vectors=ROOT, unit="text", words="bm25", best_sentence=0.2),
    "both": RetrieverSpec(vectors=ROOT, unit="both", words="bm25", best_sentence=0.5),
}
retriever = cache(made.retriever)


def scores(retriever: Retriever, spec: RetrieverSpec, query: str, documents: list[Document]):
    """Return the score of each document by `scores_of_documents`."""
    read = retriever.read_documents([document.sentences for document in documents])
    return scores_of_documents(spec, retriever.read_texts([query]), read)(np.array([0]))[0]


@pytest.fixture
def whole_precision(monkeypatch):
    """Store sentence vectors in float32, so that scores are equal to the last digits."""
    monkeypatch.setattr("sentemb_core.retriever.index_build.SENTENCE_TYPE", np.dtype(np.float32))


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    spec=st.sampled_from(list(SPECS.values())),
    count=st.integers(1, 150),
    seed=st.integers(0, 10**6),
    by=st.sampled_from(["hybrid", "dense", "words"]),
)
def test_hits_have_the_order_and_the_scores_of_the_retriever(
    whole_precision, spec, count, seed, by
):
    assume(by == "hybrid" or (spec.vectors if by == "dense" else spec.words))
    documents, mine, part = made.documents(count, seed), retriever(spec), parts_of(spec, by)
    query = made.sentence(np.random.default_rng(seed), range(4, 60))
    with TemporaryDirectory() as name:
        hits = Index.build(mine, documents, Path(name) / "index").search(query, count, by)
    ids = [document.doc_id for document in documents]
    expected = dict(zip(ids, scores(mine, part, query, documents).tolist(), strict=True))
    best = sorted(expected.values(), reverse=True)[: len(hits)]
    assert [hit.score for hit in hits] == pytest.approx(best, abs=1e-4)
    assert [hit.score for hit in hits] == pytest.approx(
        [expected[hit.doc_id] for hit in hits], abs=1e-4
    )
    assert len(hits) == count or not part.vectors


def test_float16_sentences_change_a_cosine_by_little(tmp_path):
    documents, mine = made.documents(60), retriever(SPECS["best sentence"])
    stored = Index.build(mine, documents, tmp_path / "index").search("w5 w9 w20", 60)
    exact = scores(mine, mine.spec, "w5 w9 w20", documents)
    assert [hit.score for hit in stored] == pytest.approx(sorted(exact)[::-1], abs=5e-4)


@pytest.fixture
def index(tmp_path) -> Index:
    return Index.build(retriever(), made.documents(120), tmp_path / "index", model="mine")


@pytest.mark.parametrize("query", ["w5 w9 w20", "w31", "w40 w41 w42 w43 w44 w45"])
def test_candidates_are_the_first_by_vectors_and_by_words(index, monkeypatch, query):
    stored, count = index._stored, 15
    by_vectors = stored.nearest.first(index.retriever.encode_queries([query]), count)[0]
    words = [part.scores(query)[None] for part in stored.words]
    by_words = index_module._first_by_words(words, np.arange(120), count)
    assert len(by_words) <= count
    union = [stored.ids[row] for row in {*by_vectors.tolist(), *by_words.tolist()}]
    expected = index.search(query, count, among=union)
    monkeypatch.setattr(index_module, "CANDIDATES", count)
    hits = index.search(query, count)
    assert [hit.doc_id for hit in hits] == [hit.doc_id for hit in expected]
    assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in expected], abs=1e-4)


@pytest.mark.parametrize("candidates", [15, 1_000])
@pytest.mark.parametrize("by", ["hybrid", "dense", "words"])
def test_queries_at_once_have_the_hits_of_each(index, monkeypatch, candidates, by):
    monkeypatch.setattr(index_module, "CANDIDATES", candidates)
    monkeypatch.setattr("sentemb_core.retriever.nearest.QUERIES", 2)
    queries = ["w5 w9", "w20", "w31 w32", "w70 w5 w6", "w44"]
    for query, hits in zip(queries, index.search_all(queries, 5, by), strict=True):
        alone = index.search(query, 5, by)
        assert [hit.doc_id for hit in hits] == [hit.doc_id for hit in alone]
        scores = [hit.score for hit in alone]
        assert [hit.score for hit in hits] == pytest.approx(scores, abs=1e-4)


def query_vector(index: Index, query: str) -> np.ndarray:
    return index.retriever.encode_queries([query])


def test_a_hit_has_its_counterpart_and_its_best_sentence(index):
    documents = {document.doc_id: document for document in made.documents(120)}
    (query,) = query_vector(index, "w5 w9 w20")
    for hit in index.search("w5 w9 w20"):
        document = documents[hit.doc_id]
        side = index.retriever.read_documents([document.sentences]).side(index.retriever.spec)
        assert hit.counterpart == document.counterpart
        assert hit.sentence == document.sentences[int((side.sentences @ query).argmax())]


@pytest.mark.parametrize(("spec", "share"), [("whole", ["25.0%"]), ("words", [])])
def test_an_index_logs_the_share_of_texts_that_its_encoder_cuts(spec, share, tmp_path, caplog):
    caplog.set_level("INFO")
    documents = [
        Document("long", ["w5 " * 40, "w6"], None, 0),
        Document("d", ["w7", "w8"], None, 1),
    ]
    Index.build(retriever(SPECS[spec]), documents, tmp_path / "index")
    lines = [line for line in caplog.messages if "18 tokens" in line]
    assert len(lines) == len(share)
    assert all(
        one in line and "--max-length" in line for one, line in zip(share, lines, strict=True)
    )


def test_without_texts_no_sentence_is_stored(tmp_path):
    secret = Document("a", ["w5 secretword"], None, 0)
    index = Index.build(retriever(), [secret], tmp_path / "index", texts=False)
    assert index.search("w5")[0].sentence is None
    whole = b"".join(file.read_bytes() for file in index.folder.rglob("*.arrow"))
    assert b"secretword" not in whole + (index.folder / "documents.parquet").read_bytes()


@pytest.mark.parametrize("by", ["hybrid", "dense", "words"])
@pytest.mark.parametrize("candidates", [5, 1_000])
def test_only_documents_among_the_ids_are_found(index, monkeypatch, by, candidates):
    monkeypatch.setattr(index_module, "CANDIDATES", candidates)
    some = [f"d{k}" for k in range(3, 40)]
    hits = index.search("w5 w9 w20", 5, by, some)
    assert hits
    assert {hit.doc_id for hit in hits} <= {*some}
    assert index.search("w5", 5, by, []) == []
    with pytest.raises(BadDataError):
        index.search("w5", 5, by, ["nosuch"])


def changed(documents: list[Document]) -> list[Document]:
    """Return other documents: one is new, one changed, one moved, one gone, one got a title."""
    new = Document("new", ["w70 w71", "w72"], "w70", 0)
    first, second, third, *others = documents
    return [
        *others[1:],
        new,
        second._replace(sentences=["w50 w51 w52"]),
        first,
        third._replace(counterpart="another"),
    ]


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_an_update_equals_a_new_index(tmp_path, monkeypatch, spec):
    documents = made.documents(30)
    index = Index.build(retriever(spec), documents, tmp_path / "index", model="mine")
    read: list[int] = []
    original = Retriever.read_documents
    monkeypatch.setattr(
        Retriever,
        "read_documents",
        lambda self, some, *others: read.append(len(some)) or original(self, some, *others),
    )
    written = index.update(changed(documents))
    assert (len(index), written.encoded, written.dropped) == (30, 2, 1)
    assert read == ([2] if spec.vectors else [])
    fresh = Index.build(retriever(spec), changed(documents), tmp_path / "fresh", model="mine")
    assert_same(index.folder, fresh.folder)
    assert index.search("w50 w51 w70") == fresh.search("w50 w51 w70")
    assert {file.name for file in tmp_path.iterdir()} == {"index", "fresh"}


def assert_same(one: Path, other: Path) -> None:
    """Compare all files of two indexes; vectors depend in their last digits on the batch."""
    tables = [pq.read_table(folder / "documents.parquet").to_pydict() for folder in (one, other)]
    vectors = [np.array(table.pop("vector", [])) for table in tables]
    assert tables[0] == tables[1]
    assert vectors[0] == pytest.approx(vectors[1], abs=1e-5)
    files = [file.relative_to(one) for file in one.rglob("*") if file.is_file()]
    assert len(files) == sum(file.is_file() for file in other.rglob("*"))
    for file in files:
        if file.suffix == ".npy":
            first, second = (np.load(folder / file).astype(float) for folder in (one, other))
            assert np.abs(first - second).max(initial=0) <= (1 if "tokens" in file.name else 1e-3)
        elif file.suffix == ".arrow" or file.name == "vocab.index.json":
            assert (one / file).read_bytes() == (other / file).read_bytes()


def test_a_token_map_that_the_spec_leaves_out_is_unused(tmp_path):
    whole = made.retriever()
    unused = replace(whole, spec=whole.spec.model_copy(update={"tokens": False}))
    assert retriever_digest(unused) == retriever_digest(replace(unused, token_map=None))
    index = Index.build(unused, made.documents(3), tmp_path / "index")
    assert not (index.folder / "tokens.npy").exists()
    assert index.update(made.documents(5)).encoded == 2
    unused.save(tmp_path / "saved")
    assert load_retriever(tmp_path / "saved").spec == unused.spec
    with pytest.raises(UsageError):
        Index.build(replace(whole, token_map=None), made.documents(3), tmp_path / "new")


@pytest.mark.parametrize(("title", "warnings"), [("w6", 0), (None, 1)])
def test_an_update_that_drops_all_counterparts_gives_a_warning(index, caplog, title, warnings):
    same = [Document(f"d{k}", ["w5"], title, k) for k in range(len(index))]
    index.update(same)
    assert sum(record.levelname == "WARNING" for record in caplog.records) == warnings
    index.update(same)
    assert sum(record.levelname == "WARNING" for record in caplog.records) == warnings


@pytest.mark.parametrize(("left", "warnings"), [(1, 1), (19, 1), (20, 0), (40, 0)])
def test_an_update_that_drops_more_than_it_keeps_gives_a_warning(tmp_path, caplog, left, warnings):
    index = Index.build(made.retriever(), made.documents(40), tmp_path / "index")
    index.update(made.documents(40)[:left])
    records = [record for record in caplog.records if record.args == (40 - left, left)]
    assert len(records) == warnings


def test_an_update_without_a_document_leaves_the_index(index):
    before = index.search("w5 w9")
    with pytest.raises(EmptyCorpusError):
        index.update([])
    assert Index.open(index.folder, index.retriever).search("w5 w9") == before
    assert [file.name for file in index.folder.parent.iterdir()] == ["index"]


def test_the_vectors_are_those_of_the_retriever(index):
    table = pq.read_table(index.folder / "documents.parquet")
    assert table.column_names == ["doc_id", "counterpart", "digest", "vector"]
    vectors = np.stack(table["vector"].to_numpy())
    documents = [document.sentences for document in made.documents(120)]
    assert vectors == pytest.approx(index.retriever.encode_documents(documents), abs=1e-5)


def test_sizes_are_those_of_the_files(index):
    stated = json.loads((index.folder / "index.json").read_text())
    assert stated["model"] == "mine"
    assert (stated["documents"], stated["dim"]) == (120, 32)
    whole = sum(file.stat().st_size for file in index.folder.rglob("*") if file.is_file())
    assert sum(stated["bytes"].values()) + (index.folder / "index.json").stat().st_size == whole
    parts = index.stated.bytes_by_part
    assert {*parts} == {"documents", "texts", "sentences", "tokens", "words"}
    assert sum(parts.values()) * 120 == pytest.approx(sum(stated["bytes"].values()))


def test_a_corpus_of_one_document_is_found(tmp_path):
    index = Index.build(retriever(), [Document("only", ["w5 w6"], None, 0)], tmp_path / "index")
    assert [hit.doc_id for hit in index.search("w5")] == ["only"]
    assert [hit.doc_id for hit in index.search("w5", by="words")] == ["only"]
    assert index.search("w70", by="words") == []


@pytest.mark.parametrize("spec", ["dense", "best sentence"])
@pytest.mark.parametrize("count", [12, 90, 150])
def test_a_graph_of_few_documents_finds_them_all(tmp_path, spec, count):
    documents, mine = made.documents(count), retriever(SPECS[spec])
    found = Index.build(mine, documents, tmp_path / "index", exact=10).stated.approximate
    assert found is not None
    assert found.recall == 1


@pytest.mark.parametrize("exact", [10, 1_000])
def test_a_graph_finds_the_first_documents(tmp_path, monkeypatch, exact):
    monkeypatch.setattr(index_module, "CANDIDATES", 30)
    documents = made.documents(300)
    index = Index.build(retriever(), documents, tmp_path / "index", exact=exact)
    found = index.stated.approximate
    assert (found is None) == (exact == 1_000)
    assert (found is None) or found.recall > 0.95
    whole = Index.build(retriever(), documents, tmp_path / "whole")
    hits, expected = (each.search("w5 w9 w20", 10) for each in (index, whole))
    assert [hit.doc_id for hit in hits] == [hit.doc_id for hit in expected]
    index.update(documents[:200])
    assert (index.stated.approximate is None) == (exact == 1_000)
    assert Index.open(index.folder, index.retriever).search("w5")


def cut(name: str):
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:-5])


def turn_a_byte(folder: Path) -> None:
    file = folder / "documents.parquet"
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 0xFF
    file.write_bytes(content)


@pytest.mark.parametrize(
    "damage",
    [
        cut("sentences.npy"),
        cut("texts.arrow"),
        cut("index.json"),
        turn_a_byte,
    ],
)
def test_a_damaged_index_is_refused(index, damage):
    damage(index.folder)
    with pytest.raises(UnreadableSourceError):
        Index.open(index.folder, index.retriever)


def test_a_flipped_bit_in_any_file_of_an_index_is_found(index):
    """A wrong bound in a list of words would end the process."""
    files = sorted(file for file in index.folder.rglob("*") if file.is_file())
    for number, file in enumerate(files):
        content = file.read_bytes()
        for at in (7 * number % len(content), len(content) // 2, len(content) - 1):
            flipped = bytearray(content)
            flipped[at] ^= 1 << number % 8
            file.write_bytes(flipped)
            if file.name == "index.json":
                with suppress(UnreadableSourceError, OtherEncoderError):
                    Index.open(index.folder, index.retriever)
            else:
                with pytest.raises(UnreadableSourceError, match=file.name):
                    Index.open(index.folder, index.retriever)
        file.write_bytes(content)
    assert len(Index.open(index.folder, index.retriever)) == 120


def test_every_file_of_an_index_is_needed(tmp_path):
    index = Index.build(retriever(), made.documents(30), tmp_path / "index", exact=10)
    files = [file for file in index.folder.rglob("*") if file.is_file()]
    assert {"vectors.faiss", "texts.arrow", "tokens_starts.npy"} <= {file.name for file in files}
    for file in files:
        file.rename(tmp_path / "away")
        with pytest.raises(UnreadableSourceError):
            Index.open(index.folder, index.retriever)
        (tmp_path / "away").rename(file)
    assert len(Index.open(index.folder, index.retriever)) == 30


def test_an_index_of_another_retriever_is_refused(index):
    other = made.retriever(made.WHOLE.model_copy(update={"best_sentence": 0.4}))
    with pytest.raises(OtherEncoderError):
        Index.open(index.folder, other)


def test_one_process_writes_at_a_time(index, tmp_path):
    with file_lock(tmp_path / ".index.lock"), pytest.raises(StorageError):
        index.update(made.documents(3))
    with file_lock(tmp_path / ".new.lock"), pytest.raises(StorageError):
        Index.build(retriever(), made.documents(3), tmp_path / "new")
    assert len(index) == 120


def test_an_existing_folder_is_not_replaced(index, tmp_path):
    with pytest.raises(UsageError):
        Index.build(retriever(), made.documents(3), index.folder)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError):
        Index.build(retriever(), made.documents(3), tmp_path / "file")


@pytest.mark.parametrize("interrupted", [KeyboardInterrupt, OSError])
def test_an_interrupted_build_leaves_nothing(tmp_path, interrupted):
    def documents():
        yield from made.documents(3)
        raise interrupted

    with pytest.raises(interrupted):
        Index.build(retriever(), documents(), tmp_path / "index")
    assert [*tmp_path.iterdir()] == []


class Killed(BaseException):
    """The end of a process."""


@pytest.mark.parametrize("renames", [1, 2])
@pytest.mark.parametrize("next_call", [Index.open, Index.update, is_index_folder])
def test_an_update_that_is_killed_between_renames_loses_nothing(
    index, monkeypatch, renames, next_call
):
    made_so_far = []

    def perform(operation, *args, **kwargs):
        if operation.__name__ == "rename_to":
            made_so_far.append(args)
        if len(made_so_far) > renames:  # also the removal of the draft
            raise Killed
        return operation(*args, **kwargs)

    place, mine, documents = index.folder, index.retriever, made.documents(20)
    monkeypatch.setattr("sentemb_core.store.disk.perform", perform)
    with pytest.raises(Killed):
        index.update(documents)
    monkeypatch.undo()
    assert place.exists() == (renames == 2)
    if next_call is Index.update:
        with pytest.raises(UsageError):
            Index.build(mine, documents, place)
    elif next_call is Index.open:
        Index.open(place, mine)
    else:
        assert is_index_folder(str(place))
    assert len(Index.open(place, mine)) == (120 if renames == 1 else 20)
    assert Index.open(place, mine).update(documents).stated.documents == 20
    assert [file.name for file in place.parent.iterdir()] == ["index"]


def test_no_index_is_restored_while_a_process_writes_it(index):
    earlier = index.folder.rename(index.folder.with_name(".index.old-0"))
    with file_lock(index.folder.with_name(".index.lock")):
        assert not is_index_folder(index.folder)
    assert earlier.exists()


def test_drafts_of_killed_builds_are_removed(tmp_path):
    (tmp_path / ".index.draft-0" / "words").mkdir(parents=True)
    (tmp_path / ".other.draft-0").mkdir()
    Index.build(retriever(), made.documents(3), tmp_path / "index")
    assert {path.name for path in tmp_path.iterdir()} == {"index", ".other.draft-0"}


@pytest.mark.parametrize(("text", "warnings"), [("w5", 0), ("!!! \u2014", 1), ("the of", 1)])
def test_texts_without_a_word_give_a_warning(tmp_path, caplog, text, warnings):
    documents = [*made.documents(5), Document("last", [text], None, 5)]
    Index.build(retriever(SPECS["words"]), documents, tmp_path / "index")
    assert sum(record.levelname == "WARNING" for record in caplog.records) == warnings


@pytest.mark.parametrize(("text", "warnings"), [("w5 w6", 0), ("w5 unknown", 1), ("nothing", 1)])
def test_documents_of_another_language_give_a_warning(tmp_path, caplog, text, warnings):
    Index.build(retriever(SPECS["dense"]), [Document("a", [text], None, 0)], tmp_path / "index")
    assert sum(record.levelname == "WARNING" for record in caplog.records) == warnings


def test_an_index_does_not_depend_on_the_device(tmp_path):
    documents, query = made.documents(20), "w5 w9 w20"
    here = Index.build(retriever(), documents, tmp_path / "here").search(query)
    there = made.retriever()
    with SecondDevice():
        moved = {name: encoder.to(THERE) for name, encoder in there.encoders.items()}
        there = replace(there, encoders=moved)
        hits = Index.build(there, documents, tmp_path / "there").search(query)
    assert hits == here


def test_two_documents_with_one_id_are_refused(tmp_path):
    with pytest.raises(DuplicateIdError):
        Index.build(retriever(), made.documents(3) * 2, tmp_path / "index")


@pytest.mark.parametrize("query", ["", " \n\t"])
def test_an_empty_query_is_refused(index, query):
    with pytest.raises(UsageError):
        index.search(query)
    with pytest.raises(UsageError):
        index.search_all(["w5", query])


@pytest.mark.parametrize(
    ("query", "warnings"),
    [
        ("w5 w6", 0),
        ("w5 " * 40, 1),
        ("unknown nonsense", 2),
        ("w5 unknown nonsense", 1),
        ("xw5 w5x", 2),  # letter 4-grams alone
    ],
)
def test_a_query_that_a_part_cannot_read_gives_a_warning(index, caplog, query, warnings):
    index.search(query)
    assert len(caplog.records) == warnings


@pytest.mark.parametrize(("spec", "by"), [("dense", "words"), ("words", "dense")])
def test_a_part_that_the_retriever_lacks_is_refused(tmp_path, spec, by):
    index = Index.build(retriever(SPECS[spec]), made.documents(3), tmp_path / "index")
    with pytest.raises(UsageError):
        index.search("w5", by=by)


def test_a_script_without_spaces_has_words(tmp_path):
    documents = [Document("a", ["今天天气很好"], None, 0), Document("b", ["股票下跌了"], None, 1)]
    index = Index.build(retriever(SPECS["words"]), documents, tmp_path / "index")
    assert [hit.doc_id for hit in index.search("股票")] == ["b"]
