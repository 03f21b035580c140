"""An index: what a retriever stores of documents, in one folder, and the search in it.

A query's candidates are the first `CANDIDATES` documents by vectors, and as many by words. Their
scores are those of `retriever.scores`, standardised over the candidates.
"""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from jaxtyping import Bool, Float, Float32, Int64

from sentemb_core.corpus.given import Given
from sentemb_core.document_vectors import Hit
from sentemb_core.errors import BadDataError, OtherEncoderError, UsageError
from sentemb_core.retrieval.dense import search
from sentemb_core.retriever.folder import retriever_digest
from sentemb_core.retriever.fusion import Among, Scores
from sentemb_core.retriever.index_build import Written, write_index
from sentemb_core.retriever.index_files import IndexFile, drafted, read_index_file, stated_model
from sentemb_core.retriever.nearest import EXACT
from sentemb_core.retriever.queries import check_queries, warn_of_tokens, warn_of_words
from sentemb_core.retriever.retriever import Retriever
from sentemb_core.retriever.scores import combined
from sentemb_core.retriever.spec import RetrieverSpec
from sentemb_core.retriever.start import start_retriever
from sentemb_core.retriever.stored import Rows, Stored
from sentemb_core.retriever.tokens import late_interaction
from sentemb_core.retriever.words import summed

log = logging.getLogger(__name__)

By = Literal["hybrid", "dense", "words"]
"""hybrid: all parts of the retriever; dense: without words; words: these alone."""

CANDIDATES = 1_000
"""First documents by vectors, and by words, that a search scores: over more, standardised scores
change figures by at most .002 (docs/results/retriever.md)."""


@dataclass(frozen=True)
class Query:
    """A query as the parts of a retriever read it."""

    text: str
    vector: Float32[np.ndarray, " dim"]
    tokens: Float32[np.ndarray, "tokens width"] | None


class Index:
    """An open index.

    Attributes:
        folder: The folder.
        retriever: The retriever that wrote it.
        stated: Its index.json.
    """

    def __init__(self, folder: Path, retriever: Retriever, stated: IndexFile) -> None:
        self.folder, self.retriever, self.stated = folder, retriever, stated
        self._stored = Stored(folder, retriever.spec, stated)

    def __len__(self) -> int:
        return self.stated.documents

    @classmethod
    def build(
        cls,
        retriever: Retriever,
        documents: Iterable[Given],
        folder: str | Path,
        *,
        texts: bool = True,
        model: str | None = None,
        exact: int = EXACT,
        total: int = 0,
        corpus: Mapping[str, str | bool] | None = None,
    ) -> "Index":
        """Write an index into a new folder, and open it.

        Args:
            retriever: Encodes the documents.
            documents: Texts, lists of sentences, or mappings (`corpus.given`), or rows of a corpus.
                Each has an id of its own.
            folder: New, or empty.
            texts: Whether to store the sentences, so that hits show the best one.
            model: Name of the retriever, under which a later call finds it.
            exact: With more documents, a graph finds the first ones by vectors.
            total: Number of sentences, for the progress.
            corpus: Options that read the documents (`IndexFile.corpus`).

        Raises:
            UsageError: the folder is not empty.
            EmptyCorpusError, DuplicateIdError: the documents.
            StorageError: another process writes this index, or the disk is full.
        """
        folder = Path(folder)
        settings = {
            "retriever": retriever_digest(retriever),
            "model": model,
            "dim": retriever.dim,
            "exact": exact,
            "corpus": dict(corpus or {}),
        }
        with drafted(folder, replace=False) as draft:
            written = write_index(
                draft, retriever, documents, None, settings, texts=texts, total=total
            )
        return cls(folder, retriever, written.stated)

    @classmethod
    def open(cls, folder: str | Path, retriever: Retriever | None = None) -> "Index":
        """Open an index with the retriever that wrote it; None: that of its stated name.

        Raises:
            UsageError, MissingEncoderError: as `stated_model`, if no retriever is given.
            UnreadableSourceError: there is no index, or it is damaged.
            OtherEncoderError: another retriever wrote it.
        """
        folder = Path(folder)
        stated = read_index_file(folder)
        retriever = retriever or start_retriever(stated_model(folder))
        digest = retriever_digest(retriever)
        if stated.retriever != digest:
            writer = f"{stated.model}, " if stated.model else ""
            raise OtherEncoderError(
                f"Only the retriever that wrote an index searches and updates it. {folder} was "
                f"written by {writer}{stated.retriever[:12]}, and this retriever is {digest[:12]} "
                "(SHA-256 of its parts and weights). Use that retriever, or write a new index with "
                "`python -m flows index`."
            )
        return cls(folder, retriever, stated)

    def update(
        self,
        documents: Iterable[Given],
        *,
        total: int = 0,
        corpus: Mapping[str, str | bool] | None = None,
    ) -> Written:
        """Replace the documents by these. Only new and changed texts are encoded.

        Documents that are not among them are dropped. `total` and `corpus` are as in `build`;
        without `corpus` the index keeps its options.

        Raises:
            EmptyCorpusError, DuplicateIdError, StorageError: as `build`; the index stays as it was.
        """
        earlier, own = self._stored, {"retriever", "model", "dim", "exact", "corpus"}
        settings = self.stated.model_dump(include=own)
        if corpus is not None:
            settings["corpus"] = dict(corpus)
        with drafted(self.folder, replace=True) as draft:
            written = write_index(
                draft,
                self.retriever,
                documents,
                earlier,
                settings,
                texts=earlier.has_texts,
                total=total,
            )
        self.stated = written.stated
        self._stored = Stored(self.folder, self.retriever.spec, self.stated)
        if written.dropped > len(self):
            log.warning(
                "%d documents left the index, which has %d. An update drops what its documents "
                "lack. If these are changes alone, update again with all documents.",
                written.dropped,
                len(self),
            )
        if earlier.has_counterparts and not self._stored.has_counterparts:
            log.warning(
                "No document has a counterpart any more: hits show none. If the documents have "
                "titles, update again with --counterpart-column."
            )
        return written

    def search(
        self, query: str, top: int = 10, by: By = "hybrid", among: Collection[str] | None = None
    ) -> list[Hit]:
        """Return the first documents for a query, best first: `search_all` of one query."""
        return self.search_all([query], top, by, among)[0]

    def search_all(
        self,
        queries: Sequence[str],
        top: int = 10,
        by: By = "hybrid",
        among: Collection[str] | None = None,
    ) -> list[list[Hit]]:
        """Return the first documents for each of several queries, best first.

        A document that shares no term with the query is no hit of a search by words. Terms are
        words, or the first letters of words and letter 4-grams, as `spec.words` states.

        Args:
            queries: Texts, which are encoded together.
            top: Number of documents.
            by: Parts that score.
            among: Ids of the documents to search in; None: all.

        Raises:
            UsageError: a query is empty, or the retriever lacks the part.
            BadDataError: the index lacks an id of `among`.
        """
        check_queries(queries)
        spec, allowed = parts_of(self.retriever.spec, by), self._allowed(among)
        if not len(allowed):
            return [[] for _ in queries]
        if spec.words:
            warn_of_words(self._stored.words, queries)
        if not spec.vectors:
            return [self._by_words(text, allowed, top) for text in queries]
        warn_of_tokens(self.retriever.encoders[spec.vectors[0].folder], queries)
        reading = self.retriever.read_texts(queries)
        vectors = reading.side(spec).vectors
        first = self._nearest(vectors, allowed, max(CANDIDATES, top))
        tokens = reading.tokens.get(spec.vectors[0].folder)
        return [
            self._by_vectors(
                spec,
                Query(text, vectors[k], tokens.of(np.array([k])).rows if tokens else None),
                first[k],
                allowed,
                top,
            )
            for k, text in enumerate(queries)
        ]

    def _by_words(self, text: str, allowed: Rows, top: int) -> list[Hit]:
        words = self._word_scores(text)
        rows = allowed
        if len(allowed) > max(CANDIDATES, top):
            rows = _first_by_words(words, allowed, max(CANDIDATES, top))
        scores = summed([part[:, rows] for part in words])[0]
        found = _with_a_term(words)[rows]
        return self._hits(scores[found], rows[found], top)

    def _by_vectors(
        self, spec: RetrieverSpec, query: Query, first: Rows, allowed: Rows, top: int
    ) -> list[Hit]:
        words = self._word_scores(query.text) if spec.words else []
        rows = allowed
        if len(allowed) > max(CANDIDATES, top):
            by_words = _first_by_words(words, allowed, max(CANDIDATES, top))
            rows = np.union1d(first[first >= 0], by_words)
        semantic = self._stored.cosines(query.vector, rows)
        if spec.best_sentence:
            best = self._stored.best_sentences(query.vector, rows)
            semantic = semantic + np.float32(spec.best_sentence) * best
        lexical = summed([part[:, rows] for part in words]) if words else None
        late = partial(self._late, query, rows) if spec.tokens else None
        scores = combined(spec.shares[0], semantic[None], lexical, late)
        return self._hits(scores[0], rows, top, query.vector)

    def _word_scores(self, text: str) -> list[Scores]:
        return [part.scores(text)[None] for part in self._stored.words]

    def _late(self, query: Query, rows: Rows, among: Among) -> Float32[np.ndarray, "1 candidates"]:
        tokens = self._stored.tokens
        assert tokens is not None, "the index has token vectors"
        assert query.tokens is not None, "the query has token vectors"
        scores = np.zeros(among.shape, np.float32)
        scores[among] = late_interaction(query.tokens, tokens.of(rows[among[0]]))
        return scores

    def _nearest(
        self, vectors: Float32[np.ndarray, "queries dim"], allowed: Rows, count: int
    ) -> Int64[np.ndarray, "queries _"]:
        """Return the first rows by vectors; none where all allowed rows are candidates."""
        if len(allowed) <= count:
            return np.empty((len(vectors), 0), np.int64)
        nearest = self._stored.nearest
        assert nearest, "the index has vectors"
        if len(allowed) == len(self):
            return nearest.first(vectors, count)
        return allowed[search(vectors, nearest.of(allowed), count)[0]]

    def _allowed(self, among: Collection[str] | None) -> Rows:
        if among is None:
            return np.arange(len(self))
        rows = self._stored.row_of
        if unknown := [doc_id for doc_id in among if doc_id not in rows]:
            raise BadDataError(
                f"The index has the documents to search in; {self.folder} lacks {len(unknown)} of "
                f"{len(among)} ids, first {unknown[:3]}. Leave them out, or update the index."
            )
        return np.unique(np.array([rows[doc_id] for doc_id in among], np.int64))

    def _hits(
        self,
        scores: Float[np.ndarray, " candidates"],
        rows: Int64[np.ndarray, " candidates"],
        top: int,
        query: Float32[np.ndarray, " dim"] | None = None,
    ) -> list[Hit]:
        stored = self._stored
        order = np.argsort(-scores, kind="stable")[:top]
        return [
            Hit(
                doc_id=stored.ids[row],
                score=score,
                counterpart=stored.counterparts[row],
                sentence=None if query is None else stored.sentence(query, row),
            )
            for row, score in zip(rows[order].tolist(), scores[order].tolist(), strict=True)
        ]


def _first_by_words(words: Sequence[Scores], allowed: Rows, count: int) -> Rows:
    """Return the first rows among those that have a term of the query."""
    if not words:
        return np.empty(0, np.int64)
    shared = allowed[_with_a_term(words)[allowed]]
    if len(shared) <= count:
        return shared
    total = summed([part[:, shared] for part in words])[0]
    return np.sort(shared[np.argpartition(-total, count)[:count]])


def _with_a_term(words: Sequence[Scores]) -> Bool[np.ndarray, " documents"]:
    """Return which documents have a term of the query."""
    return np.any(np.concatenate(words) > 0, axis=0)


def parts_of(spec: RetrieverSpec, by: By) -> RetrieverSpec:
    """Return the parts of a retriever that a search uses.

    Raises:
        UsageError: the retriever lacks them.
    """
    if by == "hybrid":
        return spec
    if by == "dense" and spec.vectors:
        return spec.model_copy(update={"words": None})
    if by == "words" and spec.words:
        return RetrieverSpec(words=spec.words)
    if by not in get_args(By):
        raise UsageError(f"`by` is one of {', '.join(get_args(By))}; found {by!r}.")
    part = "no encoder" if by == "dense" else "no lexical part"
    raise UsageError(
        f"This retriever has {part}, so it cannot search by {by}. Search by hybrid, which takes "
        "all of its parts."
    )
