"""The pair sources: identity, neighbours, cloze queries and cluster pairs."""

import numpy as np
from jaxtyping import Bool, Int64

from sentemb_core.errors import RecipeError
from sentemb_core.pairs.documents import Documents
from sentemb_core.pairs.table import Annotation, PairSource, PairTable


def identity(corpus: Documents, _: Annotation | None = None) -> PairTable:
    """Every sentence with itself: dropout makes the two views (SimCSE)."""
    return _with_itself(np.flatnonzero(_trainable(corpus)))


def cloze_queries(corpus: Documents, _: Annotation | None = None) -> PairTable:
    """Every sentence that has a rest of its document to be found by (ICT; METHODS.md 1.4)."""
    company = np.diff(corpus.offsets)[corpus.document_of] >= 2
    return _with_itself(np.flatnonzero(_trainable(corpus) & company))


def neighbours(window: int) -> PairSource:
    """Sentences at most `window` apart in their document (CONPONO; METHODS.md 1.6)."""

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
    """The pairs that the last encoder annotated (seed 000, Eq. 4)."""
    if annotation is None:
        raise RecipeError(
            "infocse_idc trains on what an encoder annotated, and no annotation was given: "
            "run annotate first, or take conpono, simcse or ict"
        )
    kept = _trainable(corpus)[annotation.i]
    return PairTable(annotation.i[kept], annotation.j[kept])


def _trainable(corpus: Documents) -> Bool[np.ndarray, " sentences"]:
    return ~corpus.held_out[corpus.document_of]


def _with_itself(sentences: Int64[np.ndarray, " rows"]) -> PairTable:
    return PairTable(sentences, sentences)
