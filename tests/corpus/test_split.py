"""A corpus in shards: their bounds, and the join of what was tokenised shard by shard."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentemb_core.config.run import ValidationConfig
from sentemb_core.corpus.split import shard_ends, shard_size, shards_of, write_shard
from sentemb_core.corpus.table import Document, read_documents, write_rows
from sentemb_core.corpus.tokenise import join_tokens, write_tokens
from sentemb_core.corpus.tokens import TokenCorpus
from sentemb_core.corpus.validation_pool import unit_hash, write_validation_pool
from sentemb_core.errors import UsageError
from sentemb_core.store.objects import Store
from sentemb_core.store.parts import write_parts
from tests.corpus.token_caches import WORDS, tokenised, tokenizer_json

FULL = 40
LISTS_OF_SIZES = st.lists(st.integers(1, 12), min_size=1, max_size=400)


def bounds(sizes: list[int], names: range | list[int]) -> list[int]:
    hashes = np.array([unit_hash("shard", str(name)) for name in names])
    return shard_ends(np.array(sizes), hashes, FULL)


@given(LISTS_OF_SIZES)
def test_every_document_is_in_one_shard_of_at_least_half_a_full_one(sizes: list[int]):
    ends = bounds(sizes, range(len(sizes)))
    assert ends == sorted({*ends})
    assert ends[-1] == len(sizes)
    of_shards = [sum(part) for part in np.split(sizes, ends)[:-1]]
    assert all(FULL / 2 <= size <= FULL for size in of_shards[:-1])


@given(LISTS_OF_SIZES, st.lists(st.integers(1, 12), max_size=100))
def test_appended_documents_leave_all_shards_but_the_last(sizes: list[int], more: list[int]):
    before = bounds(sizes, range(len(sizes)))
    after = bounds(sizes + more, range(len(sizes) + len(more)))
    assert after[: len(before) - 1] == before[:-1]


def test_a_removed_document_changes_the_shards_near_it():
    """Bounds are found again after it: of some 70 shards, few differ."""
    rng = np.random.default_rng(0)
    names, sizes = list(range(500)), rng.integers(1, 12, 500).tolist()

    def shards(left: list[int]) -> set[tuple[int, ...]]:
        ends = bounds([sizes[name] for name in left], left)
        return {tuple(part.tolist()) for part in np.split(np.array(left), ends)[:-1]}

    whole = shards(names)
    changed = [len(whole - shards([*names[:k], *names[k + 1 :]])) for k in range(0, 500, 25)]
    assert len(whole) > 50
    assert max(changed) <= 8
    assert np.median(changed) <= 2


def test_the_size_of_a_shard_doubles_with_a_large_corpus():
    assert [shard_size(corpus, 4, 10) for corpus in (1, 40, 41, 80, 81)] == [10, 10, 20, 20, 40]


def documents_of(count: int) -> list[Document]:
    """Documents of random words; counterpart and row differ in every reading of the same text."""
    rng = np.random.default_rng(3)
    texts = [
        [" ".join(rng.choice(WORDS[4:], rng.integers(1, 12))) for _ in range(rng.integers(1, 8))]
        for _ in range(count)
    ]
    return [Document(f"d{k}", text, f"title {count}", count + k) for k, text in enumerate(texts)]


def written_shards(folder: Path, count: int, full: int = FULL) -> list[Path]:
    folder.mkdir()
    write_rows(folder / "documents.parquet", documents_of(count))
    parts: list[Path] = []
    for k, table in enumerate(shards_of(folder / "documents.parquet", full)):
        parts.append(folder / str(k))
        parts[-1].mkdir()
        write_shard(table, parts[-1])
    return parts


def test_a_shard_has_the_same_bytes_in_a_longer_corpus(tmp_path: Path):
    short, long = written_shards(tmp_path / "a", 150), written_shards(tmp_path / "b", 170)
    assert len(short) > 5
    read = [[*read_documents(part / "documents.parquet")] for part in short]
    assert [(one.doc_id, one.sentences) for part in read for one in part] == [
        (one.doc_id, one.sentences) for one in documents_of(150)
    ]
    equal = [
        (one / "documents.parquet").read_bytes() == (other / "documents.parquet").read_bytes()
        for one, other in zip(short, long, strict=False)
    ]
    assert equal == [True] * (len(short) - 1) + [False]


def test_too_many_shards_are_refused(tmp_path: Path):
    with pytest.raises(UsageError, match="shard_sentences to"):
        written_shards(tmp_path / "a", 150, full=2)


def test_the_join_of_tokenised_shards_is_the_tokenised_corpus(tmp_path: Path):
    """Every number of a document or a sentence is that of the whole."""
    pool = tmp_path / "pool"
    pool.mkdir()
    write_rows(tmp_path / "documents.parquet", documents_of(90))
    halves = ValidationConfig(halves=True, candidates=12)
    write_validation_pool(tmp_path / "documents.parquet", halves, pool)
    json = tokenizer_json(tmp_path)
    report, whole = tokenised(tmp_path, documents_of(90), pool=pool)
    store, refs = Store(tmp_path / "home"), []
    for part in written_shards(tmp_path / "shards", 90):
        with store.writing("sentences") as draft:
            write_tokens(
                part / "documents.parquet", None, json, 8, draft.path,
                add_special_tokens=True, unknown=1,
            )  # fmt: skip
        refs.append(draft.ref)
    with store.writing("sentences") as draft:
        found = join_tokens([store.path(ref) for ref in refs], pool, draft.path)
        write_parts(refs, draft.path)
    joined = TokenCorpus.open(store.path(draft.ref))
    assert found == report
    assert joined.held_out.sum() == 12
    for name in ("doc_ids", "offsets", "held_out", "lengths", "text_hashes", "document_of"):
        np.testing.assert_array_equal(getattr(joined, name), getattr(whole, name), name)
    rows = np.random.default_rng(0).permutation(len(whole))
    assert joined.texts(rows) == whole.texts(rows)
    assert [joined.place(k) for k in range(0, len(whole), 17)] == [
        whole.place(k) for k in range(0, len(whole), 17)
    ]
    last = len(joined.shards) - 1
    part = joined.part([1, last])
    documents = [*range(len(whole.doc_ids))]
    wanted = documents[joined.shards[1].documents] + documents[joined.shards[last].documents]
    assert part.doc_ids == [whole.doc_ids[k] for k in wanted]
    assert part.held_out.tolist() == whole.held_out[wanted].tolist()
    assert pq.read_table(store.path(draft.ref) / "documents.parquet").equals(
        pq.read_table(tmp_path / "tokens" / "documents.parquet")
    )
