"""The fixed retrieval task of a corpus: which documents ask, what they look for, who decides."""

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
from sentemb_core.corpus.table import document_batches, read_documents
from sentemb_core.errors import EmptyPairsError
from sentemb_core.types import Value

log = logging.getLogger(__name__)

Kind = Literal["counterpart", "halves"]
Split = Literal["validation", "gate", "test"]

SIDES: Mapping[Kind, tuple[str, str]] = {
    "counterpart": ("document", "counterpart"),
    "halves": ("first half", "second half"),
}
"""What looks for what, in a person's words."""

REPEATED = "repeated.parquet"
"""Beside the queries, if there are any: documents outside the pool that repeat one in it."""

COUNTED = "labels.json"
"""Beside documents whose counterparts a file of labels gave: its `LabelCounts`."""

LABEL = "label"
"""Salt of the hash that draws labels, and orders them."""

HELD_OUT_SHARE = 0.2  # of the documents at most: halves are never trained on


class PoolReport(Value):
    """Sizes of the pool and its splits; also its pool.json."""

    kind: Kind
    n_candidates: int
    n_queries: dict[Split, int]
    merged: int
    in_other_documents: int = Field(
        default=0, description="Candidates that are a sentence of another document, too."
    )

    def summary(self) -> str:
        """One line for the log."""
        splits = " / ".join(f"{count:,} {split}" for split, count in self.n_queries.items())
        said = f"; sentences of other documents among them: {self.in_other_documents:,}"
        return (
            f"pool of {self.n_candidates:,} candidates; {splits} documents; {self.merged} merged"
            f"{said if self.in_other_documents else ''}"
        )


class PoolEntry(NamedTuple):
    """A document of the pool: ordered by the hash that draws it."""

    rank: float
    document: int
    doc_id: str
    text: str | None


def write_validation_pool(documents: Path, config: ValidationConfig, out: Path) -> PoolReport:
    """Draw the pool from documents.parquet; write queries, candidates, pool.json to `out`.

    Each document of the pool is a query in one split and its counterpart a candidate; equal
    counterparts (letter case and white space apart) are one candidate. With fewer than two, or
    with `config.halves`, the first half of a document's sentences looks for the second half; then
    at most a fifth of the documents is drawn, since those are held out of training, and so is every
    document of the same sentences, which would teach the answer. Membership and split depend on
    the document id alone.

    Raises:
        EmptyPairsError: E102, fewer than two documents could take part.
    """
    kind, pool = _pool(documents, config)
    texts = [same_text(entry.text) if entry.text is not None else None for entry in pool]
    keys = [text or entry.doc_id for text, entry in zip(texts, pool, strict=True)]
    candidate_of = {key: k for k, key in enumerate(dict.fromkeys(keys))}
    candidates = [candidate_of[key] for key in keys]
    splits = query_splits([entry.doc_id for entry in pool], config)
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
        log.info("%d documents repeat one of the pool: they are held out, too", len(again))
        repeated = {"document": pa.array(again, pa.int64())}
        pq.write_table(pa.table(repeated), out / REPEATED, compression="zstd")
    counts = Counter(splits)
    report = PoolReport(
        kind=kind,
        n_candidates=len(firsts),
        n_queries={"validation": counts["validation"], "gate": counts["gate"],
                   "test": counts["test"]},
        merged=len(pool) - len(firsts),
        in_other_documents=_count_found(documents, [entry.text for entry in pool if entry.text]),
    )  # fmt: skip
    (out / "pool.json").write_text(report.model_dump_json(indent=1), encoding="utf-8")
    log.info("%s", report.summary())
    return report


def repeating(documents: Path, pool: Collection[int]) -> list[int]:
    """Documents outside the pool that have all sentences of one in it, and maybe more.

    Each of the pool is met at its longest sentence, which few share.
    """
    known: defaultdict[bytes, list[frozenset[bytes]]] = defaultdict(list)
    for row, found in enumerate(read_documents(documents)):
        if row in pool:
            longest = digest(max(found.sentences, key=len))
            known[longest].append(frozenset(map(digest, found.sentences)))
    repeated: list[int] = []
    for row, found in enumerate(read_documents(documents)):
        said = set() if row in pool else set(map(digest, found.sentences))
        if any(all_of_one <= said for each in said for all_of_one in known.get(each, ())):
            repeated.append(row)
    return repeated


def _count_found(documents: Path, texts: list[str]) -> int:
    """How many of these counterparts are a sentence of the corpus, letter case apart.

    It is a sentence of another document: reading drops those that equal their own counterpart.
    """
    if not texts:
        return 0
    arrow: Any = pc
    wanted = arrow.utf8_lower(pa.array([" ".join(text.split()) for text in texts])).unique()
    found = np.zeros(len(wanted), dtype=bool)
    for batch in document_batches(documents, ["sentences"]):
        places = arrow.index_in(arrow.utf8_lower(batch.column("sentences").flatten()), wanted)
        found[places.drop_null().to_numpy()] = True
    return int(found.sum())


def _pool(documents: Path, config: ValidationConfig) -> tuple[Kind, list[PoolEntry]]:
    """The documents that take part, in canonical order."""
    different: set[str] = set()
    if not config.halves:
        judging = (
            entry
            for entry in _with_counterpart(documents)
            if not is_label(entry.doc_id, config.label_share)
        )
        pool = heapq.nsmallest(config.candidates, judging)
        different = {same_text(entry.text or "") for entry in pool}
        if len(different) >= 2:
            return "counterpart", sorted(pool, key=lambda entry: entry.document)
        log.info("%d different counterparts: held-out halves validate", len(different))
    pool = halves_pool(documents, config.candidates)
    if len(pool) < 2:
        raise EmptyPairsError(
            "Validation by halves needs two documents of at least two sentences; found "
            f"{len(pool)}{_told_of(different, config)}, or check the sentence splitter."
        )
    return "halves", sorted(pool, key=lambda entry: entry.document)


def halves_pool(documents: Path, most: int, share: float = HELD_OUT_SHARE) -> list[PoolEntry]:
    """At most this share of the documents of two sentences and more, by the pool's hash."""
    eligible = sum(1 for _ in _with_halves(documents))
    size = min(most, max(2, int(share * eligible)))
    return heapq.nsmallest(size, _with_halves(documents))


def has_counterparts(documents: Path) -> bool:
    """Whether any document has one."""
    batches = document_batches(documents, ["counterpart"])
    return any(batch.column("counterpart").null_count < len(batch) for batch in batches)


def _told_of(different: Collection[str], config: ValidationConfig) -> str:
    """What became of validation by counterparts, and the way out."""
    if config.halves:
        return ". Give more documents"
    if not different:
        return (
            ", and no counterpart. Sentences alone want a column of counterparts "
            "(--counterpart-column: a title, a headline or a query of each row), or several of "
            "them joined to a document"
        )
    return (
        f", and {len(different)} counterpart where two different ones would do. Give more documents"
    )


def _with_counterpart(documents: Path) -> Iterator[PoolEntry]:
    first = silent = 0
    for batch in document_batches(documents, ["doc_id", "counterpart"]):
        ids, texts = (batch.column(name).to_pylist() for name in ("doc_id", "counterpart"))
        silent += texts.count(None)
        for row, (doc_id, text) in enumerate(zip(ids, texts, strict=True), first):
            if text is not None:
                yield PoolEntry(unit_hash("pool", doc_id), row, doc_id, text)
        first += len(batch)
    if 0 < silent < first:
        what = "label" if documents.with_name(COUNTED).exists() else "counterpart"
        log.warning("%d of %d documents without a %s: they ask nothing", silent, first, what)


def _with_halves(documents: Path) -> Iterator[PoolEntry]:
    first = 0
    for batch in document_batches(documents, ["doc_id", "sentences"]):
        counts = batch.column("sentences").value_lengths().to_pylist()
        ids = batch.column("doc_id").to_pylist()
        for row, (doc_id, count) in enumerate(zip(ids, counts, strict=True), first):
            if count >= 2:
                yield PoolEntry(unit_hash("pool", doc_id), row, doc_id, None)
        first += len(batch)


def query_splits(doc_ids: list[str], config: ValidationConfig) -> list[Split]:
    """The split of each document, by a hash of its id.

    A document keeps its split when others come or go. Only a pool too small for its hashes to
    fill every split is cut by their ranks instead.
    """
    hashes = [unit_hash("split", doc_id) for doc_id in doc_ids]
    splits: list[Split] = [_split(value, config) for value in hashes]
    wanted = {_split(value, config) for value in (0.0, config.validation_share, 1.0)}
    if wanted <= set(splits):
        return splits
    order = {k: rank for rank, k in enumerate(np.argsort(hashes, kind="stable").tolist())}
    return [_split((order[k] + 0.5) / len(hashes), config) for k in range(len(hashes))]


def _split(value: float, config: ValidationConfig) -> Split:
    if value < config.validation_share:
        return "validation"
    return "gate" if value < config.validation_share + config.gate_share else "test"


def is_label(doc_id: str, share: float) -> bool:
    """Whether the document's counterpart is there to learn from, not to be looked for."""
    return unit_hash(LABEL, doc_id) < share


def unit_hash(salt: str, doc_id: str) -> float:
    """A number in [0, 1) out of 53 bits of SHA-256: the same wherever the id turns up."""
    digest = hashlib.sha256(f"{salt}\0{doc_id}".encode()).digest()
    return (int.from_bytes(digest[:8]) >> 11) / (1 << 53)


@dataclass(frozen=True)
class ValidationPool:
    """A written benchmark as arrays, one entry a query or one a candidate."""

    kind: Kind
    query_document: Int64[np.ndarray, " queries"]
    query_split: np.ndarray  # of str, [queries]
    query_candidate: Int64[np.ndarray, " queries"]
    query_doc_id: list[str]
    candidate_text: list[str | None]
    candidate_document: Int64[np.ndarray, " candidates"]
    in_other_documents: int = 0
    """Candidates that are a sentence of another document, too."""
    repeated: tuple[int, ...] = ()
    """Documents outside the pool that repeat one in it, where halves look for each other."""
    whole: "ValidationPool | None" = None
    """What this is a part of, by whose documents candidates are told apart at a tie."""

    @classmethod
    def open(cls, path: Path) -> "ValidationPool":
        """The benchmark that `write_validation_pool` wrote into folder `path`."""
        queries = pq.read_table(path / "queries.parquet")
        candidates = pq.read_table(path / "candidates.parquet")
        report = PoolReport.model_validate_json((path / "pool.json").read_bytes())
        return cls(
            kind=report.kind,
            query_document=queries["document"].to_numpy(),
            query_split=np.array(queries["split"].to_pylist()),
            query_candidate=queries["candidate"].to_numpy(),
            query_doc_id=queries["doc_id"].to_pylist(),
            candidate_text=candidates["text"].to_pylist(),
            candidate_document=candidates["document"].to_numpy(),
            in_other_documents=report.in_other_documents,
            repeated=_read_repeated(path / REPEATED),
        )

    @property
    def n_candidates(self) -> int:
        return len(self.candidate_text)

    @property
    def held_out_documents(self) -> Int64[np.ndarray, " held_out"]:
        """Documents that no training may see; none with counterparts.

        They are the pool of halves, and those that repeat one of it.
        """
        if self.kind == "counterpart":
            return self.query_document[:0]
        return np.append(self.query_document, np.array(self.repeated, np.int64))

    def of_split(self, split: Split) -> "ValidationPool":
        """The same candidates with this split's queries alone."""
        return self.with_queries(self.queries(split))

    def with_queries(self, places: Int64[np.ndarray, " n"]) -> "ValidationPool":
        """The same candidates with these queries alone."""
        return replace(
            self,
            query_document=self.query_document[places],
            query_split=self.query_split[places],
            query_candidate=self.query_candidate[places],
            query_doc_id=[self.query_doc_id[place] for place in places.tolist()],
            whole=self.whole or self,
        )

    def outside_labels(self, share: float) -> Bool[np.ndarray, " queries"]:
        """Whether each query's counterpart is none of the labels of this share."""
        return np.array([not is_label(doc_id, share) for doc_id in self.query_doc_id], np.bool_)

    def queries(self, split: Split) -> Int64[np.ndarray, " n"]:
        """Places of this split's queries in the query arrays."""
        return np.flatnonzero(self.query_split == split)


def _read_repeated(path: Path) -> tuple[int, ...]:
    return tuple(pq.read_table(path)["document"].to_pylist()) if path.exists() else ()
