"""What can be said of an encoder without labels, in one row, and how far it agrees with labels.

The same measures on two kinds of positives: pairs of sentences that people call alike, as SimCSE
plots them, and the halves of a user's own documents, for which nobody is asked.
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
"""Gold score, of 5, from which a pair is positive (SimCSE, section 2.3)."""

DOCUMENTS = 1_000
"""Documents in a sample of halves."""

ENOUGH = 100
"""Documents that a run would hold out, from which on these alone are the sample."""

LONGEST = 16
"""Sentences kept of a document."""

SEED = 0

MEASURES = (
    "alignment",
    "uniformity",
    "effective_rank",
    "mean_cosine",
    "hubness",
    "duplicate_rate",
    "positives_at_5",
)
"""Of a diagnosis, in a table's order."""


class Diagnosis(Value):
    """One encoder's vectors on one sample of texts.

    alignment: mean squared distance of positives, lower is closer.
    uniformity: log mean exp(-2 |x - y|^2) of all pairs, lower is more even.
    effective_rank: directions really used.
    mean_cosine: of random pairs; 0 when isotropic (anisotropy).
    hubness: skewness of the 10-occurrence.
    duplicate_rate: share of texts that are one with another to the encoder (cosine from 0.99).
    positives_at_5: share of positives that find each other among five.
    held_out: of halves alone: whether a run on the corpus, of as many candidates as `DOCUMENTS` or
        more, keeps their documents from training.
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


def diagnosis(
    texts: Float32[np.ndarray, "texts dim"],
    first: Float32[np.ndarray, "pairs dim"],
    second: Float32[np.ndarray, "pairs dim"],
) -> Diagnosis:
    """All measures; of more than 2,000 texts, or pairs, a seeded sample.

    Args:
        texts: Vectors of different texts.
        first: Vectors of one side of the positives.
        second: Of the other.

    Raises:
        BadEmbeddingError: a vector is not finite, or fewer than two texts or no pair are left
            without a zero vector.
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
    """Of the sentences of a set of pairs; those with a gold score from 4 on are positives.

    Raises:
        EmptyPairsError: there is none.
    """
    places = np.flatnonzero(pairs.gold >= ALIKE).tolist()
    if not places:
        raise EmptyPairsError(
            f"Positives are pairs with a score of {ALIKE:g} and more; of {len(pairs)} there is "
            "none: check that scores go from 0 to 5."
        )
    texts = list(dict.fromkeys([*pairs.first, *pairs.second]))
    row = {text: place for place, text in enumerate(texts)}
    vectors = encode_texts(encoder, texts, "the texts of pairs")
    first, second = ([row[side[k]] for k in places] for side in (pairs.first, pairs.second))
    return diagnosis(vectors, vectors[first], vectors[second])


def halves_diagnosis(encoder: Encoder, documents: Path) -> Diagnosis:
    """Of the sentences of documents; the two halves of a document are a positive pair.

    A half is the mean of its sentence vectors; the longer one of an odd number comes first.

    Args:
        encoder: What is looked at.
        documents: A folder that `write_documents` filled, of which 1,000 are drawn by their ids.
            They are among those that a run holds out where halves judge; where these are fewer
            than 100, among all of them.

    Raises:
        EmptyPairsError: no document has two sentences.
    """
    drawn, held_out = drawn_documents(documents)
    texts = list(dict.fromkeys(sentence for document in drawn for sentence in document))
    row = {text: place for place, text in enumerate(texts)}
    vectors = encode_texts(encoder, texts, "the sentences of halves")
    halves = [
        [[row[text] for text in half] for half in (document[:middle], document[middle:])]
        for document in drawn
        for middle in [(len(document) + 1) // 2]
    ]
    first, second = (
        np.stack([vectors[pair[side]].mean(axis=0) for pair in halves]) for side in range(2)
    )
    found = diagnosis(vectors, first, second)
    return found.model_copy(update={"held_out": held_out})


def drawn_documents(documents: Path) -> tuple[list[list[str]], bool]:
    """Sentences of the documents drawn, and whether a run on the corpus trains on none of them.

    Where counterparts judge, it trains on all; where it has fewer candidates than `DOCUMENTS`, on
    some.
    """
    file = documents / "documents.parquet"
    pool = halves_pool(file, DOCUMENTS)
    held_out = len(pool) >= ENOUGH and not has_counterparts(file)
    if len(pool) < ENOUGH:
        pool = halves_pool(file, DOCUMENTS, share=1.0)
    rows = {entry.document for entry in pool}
    drawn = [found.sentences for row, found in enumerate(read_documents(file)) if row in rows]
    if not drawn:
        raise EmptyPairsError(
            "Halves need documents of at least two sentences, and the corpus has none: check the "
            "splitter."
        )
    return [sentences[:LONGEST] for sentences in drawn], held_out


def agreement(values: Sequence[float], scores: Sequence[float]) -> float:
    """Spearman's correlation of a diagnostic with a labelled score over encoders."""
    return spearman(np.array(values, np.float64), np.array(scores, np.float64))
