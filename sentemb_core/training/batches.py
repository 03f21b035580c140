"""Samplers: `batch(step)` is a pure function of (seed, step), so resuming needs only the step."""

import logging
from collections.abc import Callable, Sequence
from typing import Protocol, cast, runtime_checkable

import numpy as np
from jaxtyping import Bool, Int64

from sentemb_core.annotation.pairs import StoredAnnotation
from sentemb_core.config.method_list import LEAST_CLUSTER_BATCH, cluster_batch_refused
from sentemb_core.config.methods import InfoCSEIDCPairs
from sentemb_core.config.run import TrainingConfig
from sentemb_core.corpus.tokens import AT_ONCE, TokenCorpus
from sentemb_core.documents import Documents
from sentemb_core.errors import EmptyPairsError, NoNegativesError
from sentemb_core.formats import counted
from sentemb_core.methods.parts.method import Method
from sentemb_core.methods.parts.pairs import LEAST_SHARE, Annotation, PairTable, require_annotation
from sentemb_core.methods.parts.views import Batch, Draw, owners, ranks

log = logging.getLogger(__name__)

LOGGED_BATCHES = 1_000
"""Batches that the log's averages cover."""


@runtime_checkable
class Sampler(Protocol):
    """The source of the loop's batches."""

    def batch(self, step: int) -> Batch: ...


def sampler_for(
    config: TrainingConfig,
    method: Method,
    corpus: Documents,
    annotation: Annotation | None = None,
) -> "PairBatches | ClusterBatches":
    """Return the sampler of a configuration.

    Raises:
        EmptyPairsError: too few documents give a pair.
        NoNegativesError: fewer than two documents give a pair.
        RecipeError: the method needs an annotation, which is absent.
    """
    if isinstance(config.method, InfoCSEIDCPairs) and config.method.batches == "cluster":
        return ClusterBatches(
            method,
            corpus,
            require_annotation(annotation).labels.astype(np.int64),
            config.batch_size,
            config.method.max_per_cluster,
            config.seed,
        )
    pairs = method.pairs(corpus, annotation)
    return PairBatches(method, corpus, pairs, config.batch_size, config.seed)


class PairBatches:
    """Every pair once per epoch, in random orientation. The last short batch is dropped.

    The pairs of a document are spread evenly over the epoch, so a batch prefers distinct documents.
    The loss masks the remaining pairs of one document.
    """

    def __init__(
        self, method: Method, corpus: Documents, pairs: PairTable, batch_size: int, seed: int
    ) -> None:
        document = corpus.document_of[pairs.i]
        _check_documents(corpus, document)
        document = document if pairs.document is None else pairs.document
        self._method, self._corpus, self._pairs, self._seed = method, corpus, pairs, seed
        self._by_document = np.argsort(document, kind="stable")
        self._counts = np.unique(document, return_counts=True)[1]
        self.batch_size = _feasible(batch_size, len(pairs), "pairs")
        self.batches_per_epoch = len(pairs) // self.batch_size
        self._epoch, self._order = -1, np.empty(0, np.int64)
        self._log_epoch(document)

    def batch(self, step: int) -> Batch:
        """Return the views of step `step`, counted from 0."""
        epoch, place = divmod(step, self.batches_per_epoch)
        rows = self._order_of(epoch)[place * self.batch_size :][: self.batch_size]
        rng = np.random.default_rng([self._seed, 1, step])
        swap = rng.random(len(rows)) < 0.5
        i, j = self._pairs.i[rows], self._pairs.j[rows]
        draw = Draw(np.where(swap, j, i), np.where(swap, i, j), np.arange(len(rows)))
        return _viewed(self._method, self._corpus, draw, rng, pairs=len(rows))

    def _log_epoch(self, document: Int64[np.ndarray, " pairs"]) -> None:
        rows = self._order_of(0)[: min(self.batches_per_epoch, LOGGED_BATCHES) * self.batch_size]
        ordered = np.sort(document[rows].reshape(-1, self.batch_size), axis=1)
        repeats = (ordered[:, 1:] == ordered[:, :-1]).sum(axis=1).mean()
        log.info(
            "an epoch has %d batches of %d pairs, %d pairs left out; same-document pairs per "
            "batch: %.1f (masked, not used as negatives)",
            self.batches_per_epoch, self.batch_size, len(document) % self.batch_size, repeats,
        )  # fmt: skip

    def _order_of(self, epoch: int) -> Int64[np.ndarray, " pairs"]:
        if epoch != self._epoch:
            rng = np.random.default_rng([self._seed, 0, epoch])
            self._epoch, self._order = epoch, self._by_document[_spread(self._counts, rng)]
        return self._order


class ClusterBatches:
    """Whole documents up to a budget of sentences; every sentence is encoded once.

    A cluster gives at most `max_per_cluster` sentences, and a document at most half a budget, so
    that a batch has several documents. Singletons are dropped. A batch may exceed the budget by the
    sentences of one document.
    """

    def __init__(
        self,
        method: Method,
        corpus: Documents,
        labels: Int64[np.ndarray, " sentences"],
        budget: int,
        max_per_cluster: int,
        seed: int,
    ) -> None:
        self._method, self._corpus, self._seed = method, corpus, seed
        clusters = corpus.document_of * (labels.max(initial=0) + 1) + labels
        self._sentences = _in_shared_clusters(clusters, ~corpus.held_out[corpus.document_of])
        self._cluster = np.unique(clusters[self._sentences], return_inverse=True)[1]
        document = corpus.document_of[self._sentences]
        _check_documents(corpus, document)
        if budget < LEAST_CLUSTER_BATCH:
            raise NoNegativesError(cluster_batch_refused(budget))
        self._starts = np.flatnonzero(np.diff(document, prepend=-1))
        self._ends = np.append(self._starts[1:], len(document))
        self._per_document = budget // 2
        self._per_cluster = min(max_per_cluster, self._per_document)
        self._costs = self._costs_of_documents()
        self.batch_size = _feasible(budget, int(self._costs.sum()), "sentences")
        self.batches_per_epoch = int(self._costs.sum()) // self.batch_size
        self._epoch, self._order, self._batch_of = -1, self._starts, self._starts

    def batch(self, step: int) -> Batch:
        """Return the views of step `step`, counted from 0."""
        epoch, place = divmod(step, self.batches_per_epoch)
        rng = np.random.default_rng([self._seed, 1, step])
        documents = self._documents_of(epoch, place)
        rows = np.concatenate([np.arange(self._starts[d], self._ends[d]) for d in documents])
        rows = rows[self._drawn(rows, rng)]
        sentences, group = self._sentences[rows], self._cluster[rows]
        sizes = np.unique(group, return_counts=True)[1]
        draw = Draw(sentences, sentences, group)
        pairs = int((sizes * (sizes - 1) // 2).sum())
        return _viewed(self._method, self._corpus, draw, rng, pairs=pairs)

    def _costs_of_documents(self) -> Int64[np.ndarray, " documents"]:
        """Return the largest number of sentences that each document gives to a batch."""
        first, sizes = np.unique(self._cluster, return_index=True, return_counts=True)[1:]
        owner = np.searchsorted(self._starts, first, side="right") - 1
        brought = np.minimum(sizes, self._per_cluster)
        costs = np.bincount(owner, weights=brought, minlength=len(self._starts))
        return np.minimum(costs.astype(np.int64), self._per_document)

    def _documents_of(self, epoch: int, place: int) -> list[int]:
        """Return the documents whose part of the epoch begins inside this batch's budget."""
        if epoch != self._epoch:
            rng = np.random.default_rng([self._seed, 0, epoch])
            self._epoch, self._order = epoch, rng.permutation(len(self._starts))
            costs = self._costs[self._order]
            self._batch_of = (np.cumsum(costs) - costs) // self.batch_size
        bounds = np.searchsorted(self._batch_of, [place, place + 1])
        return self._order[bounds[0] : bounds[1]].tolist()

    def _drawn(
        self, rows: Int64[np.ndarray, " rows"], rng: np.random.Generator
    ) -> Bool[np.ndarray, " rows"]:
        """Return the rows to keep: some of each cluster, and some clusters of a long document."""
        clusters, cluster = np.unique(self._cluster[rows], return_inverse=True)
        kept = ranks(cluster, rng.random(len(rows))) < self._per_cluster
        sizes = np.bincount(cluster[kept], minlength=len(clusters))
        first = np.unique(cluster, return_index=True)[1]
        owner = np.searchsorted(self._starts, rows[first], side="right")
        order = np.lexsort((rng.random(len(clusters)), owner))
        total = np.cumsum(sizes[order])
        before = np.concatenate([[0], total])[np.searchsorted(owner[order], owner[order])]
        fits = np.empty(len(clusters), dtype=bool)
        fits[order] = total - before <= self._per_document
        return kept & fits[cluster]


def _viewed(
    method: Method, corpus: Documents, draw: Draw, rng: np.random.Generator, *, pairs: int
) -> Batch:
    views = {name: make(corpus, draw, rng) for name, make in method.views.items()}
    sums = {name: owners(views[segments]) for name, segments in method.aggregate.items()}
    return Batch(views | sums, pairs)


def _spread(
    counts: Int64[np.ndarray, " documents"], rng: np.random.Generator
) -> Int64[np.ndarray, " pairs"]:
    """Return an order of pairs, grouped by document, that spreads each document's pairs evenly.

    A document's pairs are shuffled; the r-th of c goes to (r + uniform) / c of the epoch.
    """
    n = int(counts.sum())
    owner = np.repeat(np.arange(len(counts)), counts)
    rank = ranks(owner, rng.random(n))
    return np.argsort((rank + rng.random(n)) / counts[owner], kind="stable")


def _in_shared_clusters(
    clusters: Int64[np.ndarray, " sentences"], trainable: Bool[np.ndarray, " sentences"]
) -> Int64[np.ndarray, " kept"]:
    """Return the trainable sentences whose cluster has another sentence."""
    _, inverse, sizes = np.unique(clusters, return_inverse=True, return_counts=True)
    return np.flatnonzero(trainable & (sizes[inverse] >= 2))


def _check_documents(corpus: Documents, document: Int64[np.ndarray, " n"]) -> None:
    giving, usable = len(np.unique(document)), int((~corpus.held_out).sum())
    if giving < LEAST_SHARE * usable or giving == 0:
        longest = int(np.diff(corpus.offsets)[~corpus.held_out].max(initial=0))
        raise EmptyPairsError(
            f"At least {LEAST_SHARE:.0%} of the documents must give a pair. Found {giving} of "
            f"{usable}; the longest has {counted(longest, 'sentence')}. Check the sentence "
            "splitter, or use a corpus of longer documents."
        )
    if giving < 2:
        raise NoNegativesError(
            "A batch needs pairs of at least two documents, or it has no negatives. Found "
            f"{giving} of {usable} documents with a pair. Add documents."
        )


def _feasible(wanted: int, available: int, what: str) -> int:
    """Return the batch size, reduced with a warning to the available number.

    The number of pairs is known only in the middle of a run: a round must not fail because it has a
    few pairs less than a batch.
    """
    if wanted <= available:
        return wanted
    log.warning("batch_size %d reduced to the available %d %s", wanted, available, what)
    return available


Batches = PairBatches | ClusterBatches


def corpus_sampler(
    config: TrainingConfig,
    method: Method,
    corpus: TokenCorpus,
    stored: StoredAnnotation | None = None,
) -> Sampler:
    """Return the sampler of a configuration (`sampler_for`) for a corpus larger than memory.

    Raises:
        EmptyPairsError, NoNegativesError, RecipeError: as `sampler_for`.
    """

    def of(shards: Sequence[int], seed: int) -> Batches:
        annotation = stored.part(shards) if stored else None
        own = config.model_copy(update={"seed": seed})
        part = cast(Documents, corpus.part(shards))  # to pyright no cached property is one
        return sampler_for(own, method, part, annotation)

    if len(corpus.shards) <= AT_ONCE:
        return of(range(len(corpus.shards)), config.seed)
    return PartBatches(of, len(corpus.shards), config.seed)


def some(corpus: TokenCorpus, seed: int) -> TokenCorpus:
    """Return the corpus, or `AT_ONCE` random shards of a larger corpus."""
    count = len(corpus.shards)
    drawn = np.random.default_rng(seed).permutation(count)[:AT_ONCE]
    return corpus.part(np.sort(drawn).tolist())


class PartBatches:
    """Batches of one part of the corpus after another. Each epoch deals the shards into new parts.

    A part has up to `AT_ONCE` shards. `batch(step)` is a pure function of (seed, step). The number
    of a part's batches is known once it is open, so a resumed training opens all earlier parts.
    """

    def __init__(self, of: Callable[[Sequence[int], int], Batches], shards: int, seed: int) -> None:
        self._of, self._shards, self._seed = of, shards, seed
        self._parts = -(-shards // AT_ONCE)
        self._open(0, 0)

    def batch(self, step: int) -> Batch:
        """Return the views of step `step`, counted from 0."""
        if step < self._begin:
            self._open(0, 0)
        while step >= self._end:
            self._open(self._number + 1, self._end)
        assert self._batches is not None, "a part was opened"
        return self._batches.batch(step - self._begin)

    def _open(self, number: int, begin: int) -> None:
        """Open part `number`, or the next part with pairs, as the batches from step `begin` on."""
        self._batches: Batches | None = None  # frees the memory of the last part
        last = number + 2 * self._parts - 2  # usable parts may end one epoch and begin the next
        for tried in range(number, last + 1):
            shards, seed = self._dealt(tried)
            log.info("part %d of the corpus: %d of %d shards", tried + 1, len(shards), self._shards)
            try:
                self._batches = self._of(shards, seed)
            except (EmptyPairsError, NoNegativesError) as error:
                if tried == last:
                    raise
                log.warning("part %d skipped: %s", tried + 1, error)
                continue
            self._number, self._begin = tried, begin
            self._end = begin + self._batches.batches_per_epoch
            return

    def _dealt(self, number: int) -> tuple[list[int], int]:
        """Return a part's shards and the seed of its batches; parts count over all epochs."""
        epoch, place = divmod(number, self._parts)
        order = np.random.default_rng([self._seed, 2, epoch]).permutation(self._shards)
        seed = np.random.default_rng([self._seed, 3, number]).integers(1 << 32)
        return sorted(np.array_split(order, self._parts)[place].tolist()), int(seed)
