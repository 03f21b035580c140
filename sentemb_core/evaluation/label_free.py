"""Diagnostics of an encoder without labels, and their agreement with labelled scores.

The positives are pairs of sentences that people call similar, as in SimCSE's plots, or the halves
of a user's own documents, which need no labels.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float32

from sentemb_core.corpus.table import read_documents
from sentemb_core.corpus.validation_pool import halves_pool, has_counterparts
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.errors import EmptyPairsError
from sentemb_core.evaluation.diagnostics import (
    alignment,
    directed,
    directions,
    duplicate_rate,
    hubness,
    positives_found,
    sample,
    shape_of,
)
from sentemb_core.evaluation.sts import StsPairs, spearman
from sentemb_core.evaluation.vectors import encode_texts
from sentemb_core.types import Value

ALIKE = 4.0
"""Least gold score, of 5, of a positive pair (SimCSE, section 2.3)."""

DOCUMENTS = 1_000
"""Documents in a sample of halves."""

ENOUGH = 100
"""Held-out documents that suffice as the sample; with fewer, all documents are drawn from."""

LONGEST = 16
"""Sentences kept of each document."""

SEED = 0


class Diagnosis(Value):
    """One encoder's vectors on one sample of texts.

    alignment: mean squared distance of positives, lower is closer.
    uniformity: log mean exp(-2 |x - y|^2) of all pairs, lower is more uniform.
    effective_rank: number of directions in use.
    mean_cosine: of random pairs; 0 if isotropic (anisotropy).
    hubness: skewness of the 10-occurrence.
    duplicate_rate: share of texts with a cosine of at least 0.99 to another text.
    positives_at_5: share of positives among the five nearest.
    held_out: for halves, whether a run with at least `DOCUMENTS` candidates trains on none of these
        documents; None for pairs.
    """

    alignment: float
    uniformity: float
    effective_rank: float
    mean_cosine: float
    hubness: float
    duplicate_rate: float
    positives_at_5: float
    texts: int
    positives: int
    held_out: bool | None = None


MEASURES = (
    "alignment",
    "uniformity",
    "effective_rank",
    "mean_cosine",
    "hubness",
    "duplicate_rate",
    "positives_at_5",
)
"""The measures of a diagnosis, in the order of tables; other fields describe its sample."""


def diagnosis(
    texts: Float32[np.ndarray, "texts dim"],
    first: Float32[np.ndarray, "pairs dim"],
    second: Float32[np.ndarray, "pairs dim"],
) -> Diagnosis:
    """Return all measures of the vectors of different texts, and of both sides of the positives.

    Of more than 2,000 texts or pairs a seeded sample is taken.

    Raises:
        BadEmbeddingError: a vector is not finite, or without zero vectors fewer than two texts or
            no pair are left.
    """
    shape = shape_of(texts, SEED)
    drawn = directions(sample(texts, SEED))
    unit = drawn[drawn.any(axis=1)]
    left, right = directed(directions(sample(first, SEED)), directions(sample(second, SEED)))
    return Diagnosis(
        alignment=alignment(left, right),
        uniformity=shape.uniformity,
        effective_rank=shape.effective_rank,
        mean_cosine=shape.mean_cosine,
        hubness=hubness(unit),
        duplicate_rate=duplicate_rate(unit),
        positives_at_5=positives_found(left, right, 5),
        texts=len(unit),
        positives=len(left),
    )


def pairs_diagnosis(encoder: Encoder, pairs: StsPairs) -> Diagnosis:
    """Return the diagnosis of a set of pairs; pairs with a gold score of at least 4 are positives.

    Raises:
        EmptyPairsError: no pair is positive.
    """
    places = np.flatnonzero(pairs.gold >= ALIKE).tolist()
    if not places:
        raise EmptyPairsError(
            f"A positive pair has a score of at least {ALIKE:g}; found none of {len(pairs)}. Check "
            "that scores go from 0 to 5."
        )
    texts = list(dict.fromkeys([*pairs.first, *pairs.second]))
    row = {text: place for place, text in enumerate(texts)}
    vectors = encode_texts(encoder, texts, "the texts of pairs")
    first, second = ([row[side[k]] for k in places] for side in (pairs.first, pairs.second))
    return diagnosis(vectors, vectors[first], vectors[second])


def halves_diagnosis(encoder: Encoder, documents: Path) -> Diagnosis:
    """Return the diagnosis of a corpus; the two halves of a document are a positive pair.

    A half is the mean of its sentence vectors; an odd sentence belongs to the first half. 1,000
    documents are drawn by their ids, from those that a run would hold out if there are 100 of them,
    else from all. `documents` is a folder that `write_documents` wrote.

    Raises:
        EmptyPairsError: no document has two sentences.
    """
    drawn, held_out = drawn_documents(documents)
    texts = list(dict.fromkeys(sentence for document in drawn for sentence in document))
    row = {text: place for place, text in enumerate(texts)}
    vectors = encode_texts(encoder, texts, "the sentences of halves", "sentence")
    halves = [
        [[row[text] for text in half] for half in (document[:middle], document[middle:])]
        for document in drawn
        for middle in [(len(document) + 1) // 2]
    ]
    first, second = (
        np.stack([vectors[pair[side]].mean(axis=0) for pair in halves]) for side in range(2)
    )
    return diagnosis(vectors, first, second).model_copy(update={"held_out": held_out})


def drawn_documents(documents: Path) -> tuple[list[list[str]], bool]:
    """Return the sentences of the drawn documents, and whether a run would hold them all out.

    A run with counterparts trains on all documents, and a run with fewer candidates than
    `DOCUMENTS` on some of these.
    """
    file = documents / "documents.parquet"
    pool = halves_pool(file, DOCUMENTS)
    held_out = len(pool) >= ENOUGH and not has_counterparts(file)
    if len(pool) < ENOUGH:
        pool = halves_pool(file, DOCUMENTS, share=1.0)
    rows = {entry.document for entry in pool}
    drawn = [document.sentences for row, document in enumerate(read_documents(file)) if row in rows]
    if not drawn:
        raise EmptyPairsError(
            "Halves need documents of two sentences; the corpus has none. Check the splitter."
        )
    return [sentences[:LONGEST] for sentences in drawn], held_out


def agreement(values: Sequence[float], scores: Sequence[float]) -> float:
    """Return Spearman's correlation of a diagnostic with a labelled score over encoders."""
    return spearman(np.array(values, np.float64), np.array(scores, np.float64))
