"""Diagnostics of vectors without a task: spread, shape, neighbours, and the collapse alarm.

All functions take directions (rows of length 1, made by `directions`), also for encoders that are
compared by inner product. Pairwise measures cost n^2, so they are computed on a seeded sample of a
few thousand. A zero vector (a static encoder knows no word of the text) is left out.
"""

import numpy as np
from jaxtyping import Float32, Float64, Int64

from sentemb_core.errors import BadEmbeddingError
from sentemb_core.evaluation.ranking import Relevant, ranks_of_relevant
from sentemb_core.types import Value

SAMPLE = 2_000
"""Vectors in a sample: 2 million pairs, 32 MB."""

BINS: Float64[np.ndarray, " 41"] = np.linspace(-1.0, 1.0, 41)
"""Edges of the similarity histograms: 0.05 wide, the same in all reports."""

LEAST_RANK = 0.05
"""Least effective rank as a share of the dimensions. MiniLM has 77 % on blog sentences, random
static vectors 87 %, a transformer with random weights 18 %; dimensional collapse (Jing et al. 2022)
leaves a few dimensions."""

MOST_COSINE = 0.95
"""Largest mean cosine of random pairs. MiniLM has 0.13, random static vectors 0.16, a transformer
with random weights 0.96, which is indeed useless before training."""


class Shape(Value):
    """The shape of one encoder's vectors.

    uniformity: log mean exp(-2 |x - y|^2), lower is more uniform (Wang and Isola 2020).
    effective_rank: number of directions in use, 1 to dim (Roy and Vetterli 2007).
    mean_cosine: of random pairs, 0 if isotropic (the anisotropy of Ethayarajh 2019).
    zero_vectors: their number in the sample; the other measures leave them out.
    """

    uniformity: float
    effective_rank: float
    mean_cosine: float
    collapsed: bool
    zero_vectors: int = 0


def shape_of(vectors: Float32[np.ndarray, "n dim"], seed: int) -> Shape:
    """Return uniformity, effective rank, mean cosine and the collapse alarm of a seeded sample.

    Raises:
        BadEmbeddingError: a vector is not finite, or fewer than two are not zero.
    """
    drawn = directions(sample(vectors, seed))
    unit = drawn[drawn.any(axis=1)]
    if len(unit) < 2:
        raise BadEmbeddingError(
            f"A shape needs two vectors that are not zero; found {len(unit)} in a sample of "
            f"{len(drawn)}. Look for texts without a word that the encoder knows."
        )
    rank, cosine = effective_rank(unit), mean_cosine(unit)
    return Shape(
        uniformity=uniformity(unit),
        effective_rank=rank,
        mean_cosine=cosine,
        collapsed=has_collapsed(rank, cosine, *unit.shape),
        zero_vectors=len(drawn) - len(unit),
    )


def has_collapsed(rank: float, cosine: float, n: int, dim: int) -> bool:
    """Return whether the vectors are nearly equal (mean cosine) or nearly flat (effective rank)."""
    return cosine > MOST_COSINE or rank < max(2.0, LEAST_RANK * min(n, dim))


def sample(vectors: Float32[np.ndarray, "n dim"], seed: int) -> Float32[np.ndarray, "m dim"]:
    """Return at most `SAMPLE` rows, drawn without replacement."""
    rng = np.random.default_rng(seed)
    return vectors[rng.choice(len(vectors), min(SAMPLE, len(vectors)), replace=False)]


def spread(n: int, count: int) -> list[int]:
    """Return at least `count` evenly spaced places of n; all if n is smaller."""
    return list(range(0, n, max(1, n // count)))


def directions(vectors: Float32[np.ndarray, "n dim"]) -> Float32[np.ndarray, "n dim"]:
    """Return rows divided by their length; zero rows stay zero, so their cosines are 0.

    Raises:
        BadEmbeddingError: a row that is not finite.
    """
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    bad = np.flatnonzero(~np.isfinite(lengths))
    if len(bad):
        raise BadEmbeddingError(
            f"A vector must be finite to have a direction; {len(bad)} of {len(vectors)} are not "
            f"(first: row {bad[0]}). Look for an encoder whose training diverged."
        )
    return np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)


def directed(
    first: Float32[np.ndarray, "pairs dim"], second: Float32[np.ndarray, "pairs dim"]
) -> tuple[Float32[np.ndarray, "kept dim"], Float32[np.ndarray, "kept dim"]]:
    """Return the pairs without a zero vector.

    Raises:
        BadEmbeddingError: every pair has one.
    """
    both = np.asarray(first.any(axis=1) & second.any(axis=1))
    if not both.any():
        raise BadEmbeddingError(
            f"A similarity needs two vectors that are not zero; all {len(both)} pairs have a zero "
            "vector. Look for texts without a word that the encoder knows."
        )
    return first[both], second[both]


def alignment(
    first: Float32[np.ndarray, "pairs dim"], second: Float32[np.ndarray, "pairs dim"]
) -> float:
    """Return the mean squared distance of positives, 0 to 4 (Wang and Isola 2020, Eq. 2)."""
    apart = first.astype(np.float64) - second
    return float((apart * apart).sum(axis=1).mean())


def uniformity(unit: Float32[np.ndarray, "n dim"]) -> float:
    """Return log mean exp(-2 |x - y|^2) over all pairs of rows (Wang and Isola 2020)."""
    return float(np.log(np.exp(4 * (_cosines(unit) - 1)).mean()))  # |x - y|^2 = 2 - 2 cos


def mean_cosine(unit: Float32[np.ndarray, "n dim"]) -> float:
    """Return the mean over all pairs of rows: 0 if isotropic, 1 for a single direction."""
    return float(_cosines(unit).mean())


def _cosines(unit: Float32[np.ndarray, "n dim"]) -> Float64[np.ndarray, " pairs"]:
    rows = unit.astype(np.float64)
    return (rows @ rows.T)[np.triu_indices(len(rows), 1)]


def effective_rank(unit: Float32[np.ndarray, "n dim"]) -> float:
    """Return exp of the entropy of the singular values' shares (Roy and Vetterli 2007, Eq. 3)."""
    rows = unit.astype(np.float64)
    squares = np.linalg.eigvalsh(rows @ rows.T if len(rows) < rows.shape[1] else rows.T @ rows)
    values = np.sqrt(squares[squares > len(unit) * np.finfo(np.float64).eps * squares.max()])
    shares = values / values.sum()
    return float(np.exp(-(shares * np.log(shares)).sum()))


def similarity_histogram(
    first: Float32[np.ndarray, "pairs dim"], second: Float32[np.ndarray, "pairs dim"]
) -> Int64[np.ndarray, " bins"]:
    """Return the number of pairs with a cosine in each of the 40 bins of `BINS`."""
    cosines = np.einsum("pd,pd->p", first, second, dtype=np.float64)
    return np.histogram(cosines.clip(-1, 1), BINS)[0].astype(np.int64)


NEIGHBOURS = 10
"""k of the k-occurrence (Radovanović et al. (2010)."""

SAME = 0.99
"""Least cosine of two different texts that count as duplicates; bfloat16 may lose 0.01."""


def hubness(unit: Float32[np.ndarray, "n dim"], k: int = NEIGHBOURS) -> float:
    """Return the skewness of the k-occurrence: how often a vector is among the k nearest of others.

    0 if all occur equally often; large if a few vectors are near to all others (Radovanović et al.
    2010, section 2.2). Among equal cosines the lower index is nearer.
    """
    from scipy.stats import skew  # slow to import

    counts = np.bincount(nearest(unit, min(k, len(unit) - 1)).ravel(), minlength=len(unit))
    return float(skew(counts)) if counts.std() else 0.0


def duplicate_rate(unit: Float32[np.ndarray, "n dim"]) -> float:
    """Return the share of vectors with a cosine of at least `SAME` to another vector."""
    cosines = unit @ unit.T
    np.fill_diagonal(cosines, -1)
    return float((cosines.max(axis=1) >= SAME).mean())


def positives_found(
    first: Float32[np.ndarray, "pairs dim"], second: Float32[np.ndarray, "pairs dim"], k: int
) -> float:
    """Return the share of first sides with their second side among the k nearest second sides."""
    places = np.arange(len(first))
    partners = Relevant(places, places, np.arange(len(first) + 1))
    return float((ranks_of_relevant(first, second, partners, places).best <= k).mean())


def nearest(unit: Float32[np.ndarray, "n dim"], k: int) -> Int64[np.ndarray, "n k"]:
    """Return the places of each row's k nearest other rows."""
    cosines = unit @ unit.T
    np.fill_diagonal(cosines, -np.inf)
    return np.argsort(-cosines, axis=1, kind="stable")[:, :k].astype(np.int64)
