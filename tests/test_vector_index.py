"""An index is searched only by the encoder that wrote it, and gives what its corpus gives."""

import json
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentemb_core import document_vectors, schemas
from sentemb_core.document_vectors import (
    Hit,
    Piece,
    encoded,
    indexed,
    nearest_documents,
    query_vector,
    write_vectors,
)
from sentemb_core.encoder.checkpoint import encoder_digest, load_encoder, save_encoder
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.errors import (
    BadDataError,
    OtherEncoderError,
    SentembError,
    UnreadableSourceError,
)
from sentemb_core.vector_index import CELLS, is_index, require_writer, row_groups
from tests.tiny import bert, static


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Forty documents of one to four sentences, every second one with a title."""
    rng = np.random.default_rng(0)
    rows = [
        {
            "doc_id": f"d{k}",
            "sentences": [
                " ".join(f"w{word}" for word in rng.integers(4, 80, size=3))
                for _ in range(k % 4 + 1)
            ],
            "counterpart": f"Title {k}" if k % 2 else None,
            "source_row": k,
        }
        for k in range(40)
    ]
    pq.write_table(pa.Table.from_pylist(rows, schemas.DOCUMENTS), tmp_path / "documents.parquet")
    return tmp_path


def index_of(encoder: Encoder, corpus: Path, by: str = "sentence") -> Path:
    path = corpus / f"{by}.parquet"
    write_vectors(encoder, corpus, path, by, counterparts=True)
    return path


@pytest.fixture(params=["cosine", "dot"])
def encoder(request) -> Encoder:
    return static(similarity=request.param)


def found_in(encoder: Encoder, index: Path, query: str) -> list[Hit]:
    return nearest_documents(query_vector(encoder, query), indexed(encoder, index), 7)


@pytest.mark.parametrize("query", ["w5 w6 w7", "w70", "unheard"])
def test_an_index_of_sentences_finds_what_its_corpus_does(encoder, corpus, query, monkeypatch):
    monkeypatch.setattr(document_vectors, "DOCUMENTS_AT_ONCE", 7)  # several row groups
    index = index_of(encoder, corpus)
    assert pq.ParquetFile(index).num_row_groups == 6
    asked = query_vector(encoder, query)
    direct = nearest_documents(asked, encoded(encoder, corpus), 7)
    assert found_in(encoder, index, query) == direct
    assert [hit.sentence for hit in direct].count(None) == 0


def test_an_index_of_documents_finds_the_same_without_sentences(encoder, corpus):
    whole = found_in(encoder, index_of(encoder, corpus), "w5 w6")
    found = found_in(encoder, index_of(encoder, corpus, "document"), "w5 w6")
    assert [(hit.doc_id, hit.counterpart) for hit in found] == [
        (hit.doc_id, hit.counterpart) for hit in whole
    ]
    np.testing.assert_allclose([h.score for h in found], [h.score for h in whole], rtol=1e-6)
    assert {hit.sentence for hit in found} == {None}


@given(
    seed=st.integers(0, 2**32 - 1),
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=8),
    top=st.integers(1, 9),
)
def test_the_best_hits_of_all_pieces_equal_a_full_sort(seed: int, sizes: list[int], top: int):
    rng = np.random.default_rng(seed)
    every = [rng.integers(-2, 3, (size, 2)).astype(np.float32) for size in sizes]  # many ties
    query = np.array([2, 1], np.float32)
    names = [[f"{k}-{row}" for row in range(size)] for k, size in enumerate(sizes)]
    pieces = [
        Piece(pa.table({"doc_id": ids}), vectors, np.arange(len(vectors) + 1), vectors)
        for ids, vectors in zip(names, every, strict=True)
    ]
    found = nearest_documents(query, pieces, top)
    scores, flat = np.concatenate(every) @ query, [name for some in names for name in some]
    expected = sorted(range(len(flat)), key=lambda j: (-scores[j], j))[:top]
    assert [(hit.doc_id, hit.score) for hit in found] == [(flat[j], scores[j]) for j in expected]


def test_the_digest_of_an_encoder_survives_saving(tmp_path: Path):
    for name, made in {"static": static(), "bert": bert()}.items():
        save_encoder(made, tmp_path / name, "card")
        assert encoder_digest(load_encoder(tmp_path / name)) == encoder_digest(made)


def test_every_setting_that_changes_vectors_changes_the_digest():
    cut, pooled = static(), bert()
    cut.max_length = 5
    pooled.pooling = "cls_before_pooler"
    others = [static(), static(seed=1), static(similarity="dot"), cut, bert(), pooled]
    assert len({encoder_digest(one) for one in others}) == len(others)


def test_only_the_encoder_that_wrote_an_index_may_search_it(corpus: Path):
    index = index_of(static(), corpus)
    own, other = encoder_digest(static()), encoder_digest(static(seed=1))
    require_writer(index, own)
    bare = corpus / "bare.parquet"
    pq.write_table(pq.read_table(index).replace_schema_metadata(None), bare)
    with pytest.raises(OtherEncoderError, match=rf"E202 .*{own[:12]}.*{other[:12]}"):
        require_writer(index, other)
    with pytest.raises(OtherEncoderError, match=r"E202 .*bare\.parquet"):
        require_writer(bare, own)


@pytest.mark.parametrize("by", ["document", "sentence"])
def test_only_files_of_encode_are_indexes(corpus: Path, by: str):
    assert is_index(str(index_of(static(), corpus, by)))
    assert not is_index(str(corpus / "documents.parquet"))
    assert not is_index(str(corpus))
    assert not is_index("nowhere.parquet")
    assert not is_index("a question " * 400)
    text = corpus / "text.jsonl"
    text.write_text(json.dumps({"doc_id": "a", "embedding": [1.0]}))
    assert not is_index(str(text))


def test_an_index_is_readable_without_an_encoder(corpus: Path):
    table = pa.concat_tables(row_groups(index_of(static(), corpus)))
    assert table.column_names == ["doc_id", "counterpart", "position", "sentence", "embedding"]
    metadata = table.schema.metadata
    assert metadata[b"sentemb.similarity"] == b"cosine"
    assert metadata[b"sentemb.encoder"].decode() == encoder_digest(static())


def test_memory_holds_at_most_two_row_groups(corpus: Path, monkeypatch):
    monkeypatch.setattr(document_vectors, "DOCUMENTS_AT_ONCE", 2)
    index, encoder = index_of(static(), corpus), static()
    largest = max(table.nbytes for table in row_groups(index))
    before = pa.total_allocated_bytes()
    held = [pa.total_allocated_bytes() - before for _ in indexed(encoder, index)]
    assert len(held) == 20
    assert max(held) < 4 * largest  # of twenty: rows and their vectors, here and next


def test_a_changed_byte_is_refused_or_changes_no_hit(corpus: Path):
    index = index_of(static(), corpus)
    content, answer = index.read_bytes(), found_in(static(), index, "w5")
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    refused: list[str] = []
    places = range(100, footer, 211)
    for place in places:
        index.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        try:
            assert found_in(static(), index, "w5") == answer, place
        except UnreadableSourceError as error:
            refused.append(str(error))
    assert len(refused) >= 0.9 * len(places)  # a page's header has unused numbers
    assert not any("\n" in message for message in refused)


def test_half_an_index_is_no_index(corpus: Path):
    index = index_of(static(), corpus)
    index.write_bytes(index.read_bytes()[: index.stat().st_size // 2])
    assert not is_index(str(index))


def test_a_document_of_a_million_sentences_is_one_row_group(tmp_path, monkeypatch):
    """Parquet writers begin another row group at 1,048,576 rows by default."""
    encoder, count = static(), (1 << 20) + 2
    columns = [["book"] * count, [None] * count, range(count), ["."] * count]
    cells = zip(columns, CELLS.values(), strict=True)
    rows = pa.table([pa.array(column, kind) for column, kind in cells], names=list(CELLS))
    vectors = np.ones((count, encoder.dim), np.float32)
    bounds = np.array([0, count])
    book = Piece(rows, vectors, bounds, vectors[:1])
    monkeypatch.setattr(document_vectors, "encoded", lambda *_: iter([book]))
    index = tmp_path / "index.parquet"
    assert write_vectors(encoder, tmp_path, index, "sentence") == count
    assert [len(piece.rows) for piece in indexed(encoder, index)] == [count]


def test_a_piece_ends_at_its_limit_of_sentences_or_letters(corpus: Path, monkeypatch):
    whole = [piece.vectors for piece in encoded(static(), corpus)]
    for limit, most in (("SENTENCES_AT_ONCE", 10), ("LETTERS_AT_ONCE", 1)):
        with monkeypatch.context() as patched:
            patched.setattr(document_vectors, limit, most)
            pieces = list(encoded(static(), corpus))
        if limit == "SENTENCES_AT_ONCE":
            assert [len(piece.rows) for piece in pieces] == [10] * 10
        assert len(pieces) > len(whole) == 1
        assert (np.concatenate([piece.vectors for piece in pieces]) == whole[0]).all()


def test_a_row_group_that_begins_inside_a_document_is_refused(corpus: Path):
    index = index_of(static(), corpus)
    pq.write_table(pq.read_table(index), index, row_group_size=5)
    with pytest.raises(BadDataError) as error:
        found_in(static(), index, "w5")
    assert "'d2'" in str(error.value)


def test_a_flipped_footer_is_refused_or_read(encoder: Encoder, corpus: Path):
    """The pages have checksums, and the footer has none."""
    index = index_of(encoder, corpus)
    content = index.read_bytes()
    size = int.from_bytes(content[-8:-4], "little") + 8
    for at in range(len(content) - size, len(content), 3):
        flipped = bytearray(content)
        flipped[at] ^= 1 << at % 8
        index.write_bytes(flipped)
        with suppress(SentembError):
            if is_index(str(index)):
                require_writer(index, encoder_digest(encoder))
                nearest_documents(np.ones(16, np.float32), indexed(encoder, index), 3)
