"""Pair sources: from documents to positive pairs."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Int32, Int64

from sentemb_core.documents import Documents
from sentemb_core.errors import EmptyPairsError, RecipeError


@dataclass(frozen=True)
class PairTable:
    """Unordered positive pairs of sentence indices; both sentences belong to one document.

    If the second text is derived from the first (dropout, inverse cloze), i = j. If documents are
    copies of one document, `document` names the original of each pair.
    """

    i: Int64[np.ndarray, " pairs"]
    j: Int64[np.ndarray, " pairs"]
    document: Int64[np.ndarray, " pairs"] | None = None

    def __len__(self) -> int:
        return len(self.i)


@dataclass(frozen=True)
class Annotation:
    """The annotation of a corpus: pairs (mutual, Eq. 4) and their clusters.

    `labels` count from 0 in each document. Pair batches use i and j, cluster batches use labels.
    """

    i: Int64[np.ndarray, " pairs"]
    j: Int64[np.ndarray, " pairs"]
    labels: Int32[np.ndarray, " sentences"]


PairSource = Callable[[Documents, Annotation | None], PairTable]
"""(corpus, annotation) -> pairs; held-out documents give none"""


log = logging.getLogger(__name__)

LEAST_SHARE = 0.02
"""Minimum share of documents with pairs; below it, corpus or splitter is probably wrong."""


def identity(corpus: Documents, _: Annotation | None = None) -> PairTable:
    """Every sentence with itself: dropout makes the two views (SimCSE)."""
    return _with_itself(np.flatnonzero(_trainable(corpus)))


def cloze_queries(corpus: Documents, _: Annotation | None = None) -> PairTable:
    """Every sentence of a document with at least two sentences (ICT)."""
    company = np.diff(corpus.offsets)[corpus.document_of] >= 2
    return _with_itself(np.flatnonzero(_trainable(corpus) & company))


def with_past(corpus: Documents, _: Annotation | None = None) -> PairTable:
    """Every sentence with a preceding sentence in its document (CPC)."""
    later = np.arange(len(corpus.document_of)) > corpus.offsets[corpus.document_of]
    return _with_itself(np.flatnonzero(_trainable(corpus) & later))


def whole_documents(corpus: Documents, _: Annotation | None = None) -> PairTable:
    """Every document once, represented by its first sentence (HiCL)."""
    return _with_itself(corpus.offsets[:-1][~corpus.held_out & (np.diff(corpus.offsets) > 0)])


def labelled_documents(corpus: Documents, _: Annotation | None = None) -> PairTable:
    """Every label once, as in `whole_documents`; the labels of one document are its copies."""
    table = whole_documents(corpus)
    return replace(table, document=corpus.original_of[corpus.document_of[table.i]])


def content_tokens(corpus: Documents) -> Int64[np.ndarray, " documents"]:
    """Return the tokens of every document, without special tokens of its sentences."""
    ends = np.cumsum(np.append(0, corpus.uncut_lengths - 2 * corpus.special_tokens))
    return np.diff(ends[corpus.offsets])


def long_documents(least_tokens: int) -> PairSource:
    """Every document of `least_tokens` for DeCLUTR's spans, represented by its first sentence."""

    def pairs(corpus: Documents, annotation: Annotation | None = None) -> PairTable:
        everyone = whole_documents(corpus, annotation)
        tokens = content_tokens(corpus)[corpus.document_of[everyone.i]]
        long = everyone.i[tokens >= least_tokens]
        if len(long) < max(2, LEAST_SHARE * len(everyone)):
            raise EmptyPairsError(
                f"declutr needs documents of at least {least_tokens} tokens, at least two and "
                f"{LEAST_SHARE:.0%} of all; found {len(long)} of {len(everyone)}, the longest has "
                f"{tokens.max(initial=0)} tokens. Lower training.method.longest or "
                "training.method.anchors (2 x anchors x longest tokens are needed), or use longer "
                "documents"
            )
        if dropped := len(everyone) - len(long):
            log.warning(
                "%d of %d documents have fewer than %d tokens and give no spans for declutr",
                dropped,
                len(everyone),
                least_tokens,
            )
        return _with_itself(long)

    return pairs


def neighbours(window: int) -> PairSource:
    """Sentences at most `window` apart in their document (CONPONO)."""

    def pairs(corpus: Documents, _: Annotation | None = None) -> PairTable:
        document, trainable = corpus.document_of, _trainable(corpus)
        firsts = [
            np.flatnonzero((document[:-gap] == document[gap:]) & trainable[:-gap])
            for gap in range(1, window + 1)
        ]
        i = np.concatenate(firsts)
        j = np.concatenate([first + gap for gap, first in enumerate(firsts, start=1)])
        order = np.lexsort((j, i))
        return PairTable(i[order], j[order])

    return pairs


def cluster_pairs(corpus: Documents, annotation: Annotation | None) -> PairTable:
    """The annotated pairs (mutual, Eq. 4)."""
    found = require_annotation(annotation)
    kept = _trainable(corpus)[found.i]
    return PairTable(found.i[kept], found.j[kept])


def require_annotation(annotation: Annotation | None) -> Annotation:
    """Return the annotation that infocse_idc trains on.

    Raises:
        RecipeError: there is no annotation.
    """
    if annotation is None:
        raise RecipeError(
            "infocse_idc trains on an annotation, and none is given. Run annotate first, or use "
            "conpono, simcse or ict"
        )
    return annotation


def _trainable(corpus: Documents) -> Bool[np.ndarray, " sentences"]:
    return ~corpus.held_out[corpus.document_of]


def _with_itself(sentences: Int64[np.ndarray, " rows"]) -> PairTable:
    return PairTable(sentences, sentences)
