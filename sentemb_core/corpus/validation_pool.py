"""The validation pool: a corpus's own retrieval task, with queries, candidates and splits."""

import hashlib
import heapq
import logging
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from jaxtyping import Bool, Int64
from pydantic import Field

from sentemb_core.config.run import ValidationConfig
from sentemb_core.corpus.dedup import digest
from sentemb_core.corpus.sentences import same_text
from sentemb_core.corpus.table import counterparts, document_batches, read_documents
from sentemb_core.errors import EmptyPairsError
from sentemb_core.formats import counted
from sentemb_core.types import Value

log = logging.getLogger(__name__)

Kind = Literal["counterpart", "halves"]
Split = Literal["validation", "gate", "test"]

SIDES: Mapping[Kind, tuple[str, str]] = {
    "counterpart": ("document", "counterpart"),
    "halves": ("first half", "second half"),
}
"""Names of query and candidate."""

REPEATED = "repeated.parquet"
"""File with the documents outside the pool that repeat a document of it, if there are any."""

COUNTED = "labels.json"
"""File beside documents with the `LabelCounts` of their label file, if there is one."""

LABEL = "label"
"""Salt of the hash that draws labels and orders them."""

HELD_OUT_SHARE = 0.2
"""Largest share of the documents whose halves form the pool: they are never trained on."""


class PoolReport(Value):
    """Sizes of the pool and its splits; also its pool.json."""

    kind: Kind
    n_candidates: int
    n_queries: dict[Split, int]
    merged: int
    in_other_documents: int = Field(
        default=0, description="Candidates that are also a sentence of another document."
    )

    def summary(self) -> str:
        """Return one line for the log."""
        splits = " / ".join(f"{count:,} {split}" for split, count in self.n_queries.items())
        return (
            f"validation pool: {self.n_candidates:,} candidates; queries: {splits}; "
            f"merged counterparts: {self.merged}; candidates that are sentences of other "
            f"documents: {self.in_other_documents:,}"
        )


class PoolEntry(NamedTuple):
    """A document of the pool. Entries are ordered by the hash that draws them."""

    rank: float
    document: int
    doc_id: str
    text: str | None


def write_validation_pool(documents: Path, config: ValidationConfig, out: Path) -> PoolReport:
    """Draw the pool from documents.parquet; write queries, candidates and pool.json to `out`.

    Each document of the pool is a query in one split, and its counterpart is a candidate. Equal
    counterparts (apart from letter case and white space) form one candidate.

    With fewer than two counterparts, or with `config.halves`, the first half of a document's
    sentences is the query for its second half. Then at most a fifth of the documents is drawn,
    since they are held out of training. Documents that repeat all their sentences are held out as
    well. Membership depends only on the document id. The split depends on the id, too, or on the
    counterpart if documents share it: a counterpart is in one split.

    Raises:
        EmptyPairsError: E102, fewer than two documents could take part.
    """
    kind, pool = _pool(documents, config)
    keys = [same_text(entry.text or "") or entry.doc_id for entry in pool]
    candidate_of = {key: k for k, key in enumerate(dict.fromkeys(keys))}
    candidates = [candidate_of[key] for key in keys]
    documents_of = Counter(keys)
    splits = query_splits(
        [
            key if documents_of[key] > 1 else entry.doc_id
            for key, entry in zip(keys, pool, strict=True)
        ],
        config,
    )
    queries = {
        "document": pa.array([entry.document for entry in pool], pa.int64()),
        "doc_id": pa.array([entry.doc_id for entry in pool], pa.string()),
        "split": pa.array(splits, pa.string()),
        "candidate": pa.array(candidates, pa.int64()),
    }
    firsts = np.unique(candidates, return_index=True)[1].tolist()
    table = {
        "candidate": pa.array(range(len(firsts)), pa.int64()),
        "text": pa.array([pool[first].text for first in firsts], pa.string()),
        "document": pa.array([pool[first].document for first in firsts], pa.int64()),
    }
    pq.write_table(pa.table(queries), out / "queries.parquet", compression="zstd")
    pq.write_table(pa.table(table), out / "candidates.parquet", compression="zstd")
    if kind == "halves" and (again := repeating(documents, {entry.document for entry in pool})):
        log.info("documents that repeat a document of the pool, also held out: %d", len(again))
        repeated = {"document": pa.array(again, pa.int64())}
        pq.write_table(pa.table(repeated), out / REPEATED, compression="zstd")
    counts = Counter(splits)
    names: tuple[Split, ...] = ("validation", "gate", "test")
    report = PoolReport(
        kind=kind,
        n_candidates=len(firsts),
        n_queries={split: counts[split] for split in names},
        merged=len(pool) - len(firsts),
        in_other_documents=_count_sentences(
            documents, [entry.text for entry in pool if entry.text is not None]
        ),
    )
    (out / "pool.json").write_text(report.model_dump_json(indent=1), encoding="utf-8")
    log.info("%s", report.summary())
    return report


def repeating(documents: Path, pool: Collection[int]) -> list[int]:
    """Return the documents outside the pool that contain all sentences of a document in it.

    A document of the pool is looked up by its longest sentence, which few others share.
    """
    known: defaultdict[bytes, list[frozenset[bytes]]] = defaultdict(list)
    for row, document in enumerate(read_documents(documents)):
        if row in pool:
            longest = digest(max(document.sentences, key=len))
            known[longest].append(frozenset(map(digest, document.sentences)))
    repeated: list[int] = []
    for row, document in enumerate(read_documents(documents)):
        sentences = set() if row in pool else set(map(digest, document.sentences))
        if any(copied <= sentences for key in sentences for copied in known.get(key, ())):
            repeated.append(row)
    return repeated


def _count_sentences(documents: Path, texts: list[str]) -> int:
    """Return how many of these counterparts are a sentence of the corpus, apart from letter case.

    It is a sentence of another document: reading drops sentences that equal their counterpart.
    """
    if not texts:
        return 0
    arrow: Any = pc
    wanted = arrow.utf8_lower(pa.array([" ".join(text.split()) for text in texts])).unique()
    occurs = np.zeros(len(wanted), dtype=bool)
    for batch in document_batches(documents, ["sentences"]):
        places = arrow.index_in(arrow.utf8_lower(batch.column("sentences").flatten()), wanted)
        occurs[places.drop_null().to_numpy()] = True
    return int(occurs.sum())


def _pool(documents: Path, config: ValidationConfig) -> tuple[Kind, list[PoolEntry]]:
    """Return the kind of the pool and its documents in canonical order."""
    different: set[str] = set()
    if not config.halves:
        queries = (
            entry
            for entry in _with_counterpart(documents)
            if not is_label(entry.doc_id, config.label_share)
        )
        pool = heapq.nsmallest(config.candidates, queries)
        different = {same_text(entry.text or "") for entry in pool}
        if len(different) >= 2:
            return "counterpart", sorted(pool, key=lambda entry: entry.document)
        log.info("different counterparts: %d; validation uses held-out halves", len(different))
    pool = halves_pool(documents, config.candidates)
    if len(pool) < 2:
        raise EmptyPairsError(
            "Validation needs two different counterparts, or two documents of at least two "
            f"sentences for halves. Found {counted(len(different), 'different counterpart')} and "
            f"{counted(len(pool), 'such document')}. "
            "Name a --counterpart-column (a title, headline or query of each row), give more "
            "documents, or check the sentence splitter."
        )
    return "halves", sorted(pool, key=lambda entry: entry.document)


def halves_pool(documents: Path, most: int, share: float = HELD_OUT_SHARE) -> list[PoolEntry]:
    """Return at most this share of the documents with two sentences, drawn by the pool's hash."""
    eligible = sum(1 for _ in _with_halves(documents))
    size = min(most, max(2, int(share * eligible)))
    return heapq.nsmallest(size, _with_halves(documents))


def has_counterparts(documents: Path) -> bool:
    """Return whether any document has a counterpart."""
    batches = document_batches(documents, ["counterpart"])
    return any(batch.column("counterpart").null_count < len(batch) for batch in batches)


def _with_counterpart(documents: Path) -> Iterator[PoolEntry]:
    total = without = 0
    for row, doc_id, text in counterparts(documents):
        total += 1
        if text is None:
            without += 1
        else:
            yield PoolEntry(unit_hash("pool", doc_id), row, doc_id, text)
    if 0 < without < total:
        what = "label" if documents.with_name(COUNTED).exists() else "counterpart"
        log.warning("documents without a %s, which give no query: %d of %d", what, without, total)


def _with_halves(documents: Path) -> Iterator[PoolEntry]:
    first = 0
    for batch in document_batches(documents, ["doc_id", "sentences"]):
        counts = batch.column("sentences").value_lengths().to_pylist()
        ids = batch.column("doc_id").to_pylist()
        for row, (doc_id, count) in enumerate(zip(ids, counts, strict=True), first):
            if count >= 2:
                yield PoolEntry(unit_hash("pool", doc_id), row, doc_id, None)
        first += len(batch)


def query_splits(names: list[str], config: ValidationConfig) -> list[Split]:
    """Return the split of each document, by a hash of its name; equal names have one split.

    A name keeps its split when others come or go; a document has another name once its counterpart
    is shared. If the pool is too small for its hashes to fill every split, it is cut by their ranks
    instead.
    """
    hashes = [unit_hash("split", name) for name in names]
    splits: list[Split] = [_split(value, config) for value in hashes]
    wanted = {_split(value, config) for value in (0.0, config.validation_share, 1.0)}
    if wanted <= set(splits):
        return splits
    distinct, ranks = np.unique(hashes, return_inverse=True)
    return [_split((rank + 0.5) / len(distinct), config) for rank in ranks.tolist()]


def _split(value: float, config: ValidationConfig) -> Split:
    if value < config.validation_share:
        return "validation"
    return "gate" if value < config.validation_share + config.gate_share else "test"


def is_label(doc_id: str, share: float) -> bool:
    """Return whether the document's counterpart is a label to train on, and not a candidate."""
    return unit_hash(LABEL, doc_id) < share


def unit_hash(salt: str, doc_id: str) -> float:
    """Return a number in [0, 1) from 53 bits of SHA-256, the same wherever the id occurs."""
    digest = hashlib.sha256(f"{salt}\0{doc_id}".encode()).digest()
    return (int.from_bytes(digest[:8]) >> 11) / (1 << 53)


def read_report(path: Path) -> PoolReport:
    """Return what `write_validation_pool` reported of the pool in a folder."""
    return PoolReport.model_validate_json((path / "pool.json").read_bytes())


@dataclass(frozen=True)
class ValidationPool:
    """A validation pool as arrays, with one entry per query or candidate.

    Attributes:
        in_other_documents: Candidates that are also a sentence of another document.
        repeated: Documents outside a pool of halves that repeat a document of it.
        whole: The pool that this is a part of. Its documents break ties between candidates.
    """

    kind: Kind
    query_document: Int64[np.ndarray, " queries"]
    query_split: np.ndarray  # of str, [queries]
    query_candidate: Int64[np.ndarray, " queries"]
    query_doc_id: list[str]
    candidate_text: list[str | None]
    candidate_document: Int64[np.ndarray, " candidates"]
    in_other_documents: int = 0
    repeated: tuple[int, ...] = ()
    whole: "ValidationPool | None" = None

    @classmethod
    def open(cls, path: Path) -> "ValidationPool":
        """Return the pool in folder `path` of `write_validation_pool`."""
        queries = pq.read_table(path / "queries.parquet")
        candidates = pq.read_table(path / "candidates.parquet")
        report = read_report(path)
        repeated = path / REPEATED
        rows = pq.read_table(repeated)["document"].to_pylist() if repeated.exists() else ()
        return cls(
            kind=report.kind,
            query_document=queries["document"].to_numpy(),
            query_split=np.array(queries["split"].to_pylist()),
            query_candidate=queries["candidate"].to_numpy(),
            query_doc_id=queries["doc_id"].to_pylist(),
            candidate_text=candidates["text"].to_pylist(),
            candidate_document=candidates["document"].to_numpy(),
            in_other_documents=report.in_other_documents,
            repeated=tuple(rows),
        )

    @property
    def n_candidates(self) -> int:
        return len(self.candidate_text)

    @property
    def held_out_documents(self) -> Int64[np.ndarray, " held_out"]:
        """Return the documents that no training may read: a pool of halves and its repetitions."""
        if self.kind == "counterpart":
            return self.query_document[:0]
        return np.append(self.query_document, np.array(self.repeated, np.int64))

    def of_split(self, split: Split) -> "ValidationPool":
        """Return all candidates with the queries of this split."""
        return self.with_queries(self.queries(split))

    def with_queries(self, places: Int64[np.ndarray, " n"]) -> "ValidationPool":
        """Return all candidates with these queries."""
        return replace(
            self,
            query_document=self.query_document[places],
            query_split=self.query_split[places],
            query_candidate=self.query_candidate[places],
            query_doc_id=[self.query_doc_id[place] for place in places.tolist()],
            whole=self.whole or self,
        )

    def outside_labels(self, share: float) -> Bool[np.ndarray, " queries"]:
        """Return for each query whether its counterpart is outside the labels of this share."""
        return np.array([not is_label(doc_id, share) for doc_id in self.query_doc_id], np.bool_)

    def queries(self, split: Split) -> Int64[np.ndarray, " n"]:
        """Return the positions of this split's queries in the query arrays."""
        return np.flatnonzero(self.query_split == split)


def pool_sentences(documents: Path, pool: ValidationPool) -> dict[int, list[str]]:
    """Return the sentences of every document of a pool, by its row.

    `documents` is a folder that `write_documents` wrote.
    """
    wanted = {*pool.query_document.tolist(), *pool.candidate_document.tolist()}
    return {
        row: document.sentences
        for row, document in enumerate(read_documents(documents / "documents.parquet"))
        if row in wanted
    }
