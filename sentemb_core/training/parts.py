"""Batches of a corpus larger than memory: some of its shards at a time."""

import logging
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from sentemb_core.annotation.stored import StoredAnnotation
from sentemb_core.config.run import TrainingConfig
from sentemb_core.corpus.tokens import AT_ONCE, TokenCorpus
from sentemb_core.errors import EmptyPairsError, NoNegativesError
from sentemb_core.methods.method import Method
from sentemb_core.pairs.documents import Documents
from sentemb_core.training.batches import ClusterBatches, PairBatches, Sampler, sampler_for
from sentemb_core.views.batch import Batch

log = logging.getLogger(__name__)

Batches = PairBatches | ClusterBatches


def corpus_sampler(
    config: TrainingConfig,
    method: Method,
    corpus: TokenCorpus,
    found: StoredAnnotation | None = None,
) -> Sampler:
    """The sampler of a configuration (`sampler_for`), in flat memory whatever the corpus's size.

    Raises:
        EmptyPairsError: too few documents give a pair.
        NoNegativesError: fewer than two documents give one.
        RecipeError: the method needs an annotation and there is none.
    """

    def of(shards: Sequence[int], seed: int) -> Batches:
        annotation = found.part(shards) if found else None
        own = config.model_copy(update={"seed": seed})
        part = cast(Documents, corpus.part(shards))  # to pyright no cached property is one
        return sampler_for(own, method, part, annotation)

    if len(corpus.shards) <= AT_ONCE:
        return of(range(len(corpus.shards)), config.seed)
    return PartBatches(of, len(corpus.shards), config.seed)


def some(corpus: TokenCorpus, seed: int) -> TokenCorpus:
    """The corpus, or of a larger one `AT_ONCE` shards drawn at random."""
    count = len(corpus.shards)
    drawn = np.random.default_rng(seed).permutation(count)[:AT_ONCE]
    return corpus.part(np.sort(drawn).tolist())


class PartBatches:
    """Part after part; every epoch deals the shards out anew into parts of up to `AT_ONCE`.

    `batch(step)` is a pure function of (seed, step): how many batches a part has is known once it
    was opened, so a training that goes on opens those again that it has passed.
    """

    def __init__(self, of: Callable[[Sequence[int], int], Batches], shards: int, seed: int) -> None:
        self._of, self._shards, self._seed = of, shards, seed
        self._parts = -(-shards // AT_ONCE)
        self._open(0, 0)

    def batch(self, step: int) -> Batch:
        """The views of step `step`, counted from 0."""
        if step < self._begin:
            self._open(0, 0)
        while step >= self._end:
            self._open(self._number + 1, self._end)
        assert self._batches is not None, "a part was opened"
        return self._batches.batch(step - self._begin)

    def _open(self, number: int, begin: int) -> None:
        """Part `number`, or the next one that has something to learn from, from step `begin` on."""
        self._batches: Batches | None = None  # before another is held
        last = number + 2 * self._parts - 2  # usable ones may end an epoch and begin one
        for tried in range(number, last + 1):
            shards, seed = self._dealt(tried)
            log.info("part %d of the corpus: %d of %d shards", tried + 1, len(shards), self._shards)
            try:
                self._batches = self._of(shards, seed)
            except (EmptyPairsError, NoNegativesError) as error:
                if tried == last:
                    raise
                log.warning("it is passed over: %s", error)
                continue
            self._number, self._begin = tried, begin
            self._end = begin + self._batches.batches_per_epoch
            return

    def _dealt(self, number: int) -> tuple[list[int], int]:
        """The shards of a part, counted over all epochs, and the seed of its batches."""
        epoch, place = divmod(number, self._parts)
        order = np.random.default_rng([self._seed, 2, epoch]).permutation(self._shards)
        seed = np.random.default_rng([self._seed, 3, number]).integers(1 << 32)
        return sorted(np.array_split(order, self._parts)[place].tolist()), int(seed)
