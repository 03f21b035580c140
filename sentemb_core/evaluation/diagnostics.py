"""What the vectors look like, whatever the task: spread, shape, and the alarm for a collapse.

All functions work on directions (rows of length 1), also for encoders compared by inner product:
`directions` makes them. Pairwise averages are taken over a seeded sample, since they cost n^2.
A zero vector (a static encoder knows no word of the text) has no direction: it is left out.
"""

import numpy as np
from jaxtyping import Float32, Float64, Int64

from sentemb_core.errors import BadEmbeddingError
from sentemb_core.evaluation.ranking import Relevant, ranks_of_relevant
from sentemb_core.types import Value

SAMPLE = 2_000
"""Vectors in a sample: 2 million pairs, 32 MB."""

BINS: Float64[np.ndarray, " 41"] = np.linspace(-1.0, 1.0, 41)
"""Edges of the similarity histograms: 0.05 wide, so that two reports compare."""

LEAST_RANK = 0.05
"""Of dim, in effective rank. MiniLM uses 77 % of its dimensions on blog sentences, random static
vectors 87 %, a transformer from random weights 18 %; dimensional collapse (Jing et al. 2022) leaves
a handful."""

MOST_COSINE = 0.95
"""Of random pairs: MiniLM 0.13, random static vectors 0.16, a transformer from random weights 0.96,
which is indeed of no use before it is trained."""


class Shape(Value):
    """One encoder's vectors in a few numbers.

    uniformity: log mean exp(-2 |x - y|^2), lower is more even (Wang and Isola 2020).
    effective_rank: directions really used, 1 to dim (Roy and Vetterli 2007).
    mean_cosine: of random pairs, 0 when isotropic (Ethayarajh 2019 calls it anisotropy).
    zero_vectors: of the sample, left out of all of these.
    """

    uniformity: float
    effective_rank: float
    mean_cosine: float
    collapsed: bool
    zero_vectors: int = 0


def shape_of(vectors: Float32[np.ndarray, "n dim"], seed: int) -> Shape:
    """Uniformity, effective rank, mean cosine and the collapse alarm of a seeded sample.

    Raises:
        BadEmbeddingError: a vector is not finite, or fewer than two are not zero.
    """
    drawn = directions(sample(vectors, seed))
    unit = drawn[drawn.any(axis=1)]
    if len(unit) < 2:
        raise BadEmbeddingError(
            f"Vectors have a shape if two of them are not zero; of {len(drawn)} looked at "
            f"{len(unit)} are not. Look for texts without a word that the encoder knows."
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
    """Whether all vectors are nearly one (mean cosine) or span next to nothing (effective rank)."""
    return cosine > MOST_COSINE or rank < max(2.0, LEAST_RANK * min(n, dim))


def sample(vectors: Float32[np.ndarray, "n dim"], seed: int) -> Float32[np.ndarray, "m dim"]:
    """At most `SAMPLE` rows, without replacement."""
    rng = np.random.default_rng(seed)
    return vectors[rng.choice(len(vectors), min(SAMPLE, len(vectors)), replace=False)]


def spread(n: int, count: int) -> list[int]:
    """At least `count` of n places, evenly apart; of fewer all."""
    return list(range(0, n, max(1, n // count)))


def directions(vectors: Float32[np.ndarray, "n dim"]) -> Float32[np.ndarray, "n dim"]:
    """Rows divided by their length; zero rows stay zero, so that their cosine with any is 0.

    Raises:
        BadEmbeddingError: a row that is not finite.
    """
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    bad = np.flatnonzero(~np.isfinite(lengths))
    if len(bad):
        raise BadEmbeddingError(
            f"A vector must be finite to have a direction; {len(bad)} of {len(vectors)} are not "
            f"(first: row {bad[0]}): look for an encoder whose training diverged."
        )
    return np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)


def directed(
    first: Float32[np.ndarray, "pairs dim"], second: Float32[np.ndarray, "pairs dim"]
) -> tuple[Float32[np.ndarray, "kept dim"], Float32[np.ndarray, "kept dim"]]:
    """The pairs of which neither side is zero.

    Raises:
        BadEmbeddingError: there is none.
    """
    both = np.asarray(first.any(axis=1) & second.any(axis=1))
    if not both.any():
        raise BadEmbeddingError(
            f"Similarities are looked at in pairs whose vectors are not zero, and none of "
            f"{len(both)} is such. Look for texts without a word that the encoder knows."
        )
    return first[both], second[both]


def alignment(
    first: Float32[np.ndarray, "pairs dim"], second: Float32[np.ndarray, "pairs dim"]
) -> float:
    """Mean squared distance of positives, 0 to 4, lower is closer (Wang and Isola 2020, Eq. 2)."""
    apart = first.astype(np.float64) - second
    return float((apart * apart).sum(axis=1).mean())


def uniformity(unit: Float32[np.ndarray, "n dim"]) -> float:
    """Log of the mean of exp(-2 |x - y|^2) of all pairs of different rows (Wang and Isola 2020)."""
    return float(np.log(np.exp(4 * (_cosines(unit) - 1)).mean()))  # |x - y|^2 = 2 - 2 cos


def mean_cosine(unit: Float32[np.ndarray, "n dim"]) -> float:
    """Over all pairs of different rows: 0 for even directions, 1 for a single one."""
    return float(_cosines(unit).mean())


def _cosines(unit: Float32[np.ndarray, "n dim"]) -> Float64[np.ndarray, " pairs"]:
    rows = unit.astype(np.float64)
    return (rows @ rows.T)[np.triu_indices(len(rows), 1)]


def effective_rank(unit: Float32[np.ndarray, "n dim"]) -> float:
    """Exp of the entropy of the singular values' shares (Roy and Vetterli 2007, Eq. 3)."""
    values = np.linalg.svd(unit.astype(np.float64), compute_uv=False)
    shares = values[values > 0] / values.sum()
    return float(np.exp(-(shares * np.log(shares)).sum()))


def similarity_histogram(
    first: Float32[np.ndarray, "pairs dim"], second: Float32[np.ndarray, "pairs dim"]
) -> Int64[np.ndarray, " bins"]:
    """How many pairs of directions have a cosine in each of the 40 bins of `BINS`."""
    cosines = np.einsum("pd,pd->p", first, second, dtype=np.float64)
    return np.histogram(cosines.clip(-1, 1), BINS)[0].astype(np.int64)


NEIGHBOURS = 10
"""k of the k-occurrence, as in Radovanović et al. (2010)."""

SAME = 0.99
"""Cosine from which two different texts are one to an encoder. 0.01 is what bfloat16 may lose."""


def hubness(unit: Float32[np.ndarray, "n dim"], k: int = NEIGHBOURS) -> float:
    """Skewness of the k-occurrence: how often a vector is among the k nearest of another.

    0 where all are equally often; a few vectors that are near to everything make it large
    (Radovanović et al. 2010, section 2.2). Among equal cosines the lower index is the nearer.
    """
    from scipy.stats import skew  # slow to import

    counts = np.bincount(nearest(unit, min(k, len(unit) - 1)).ravel(), minlength=len(unit))
    return float(skew(counts)) if counts.std() else 0.0


def duplicate_rate(unit: Float32[np.ndarray, "n dim"]) -> float:
    """Share of vectors, of different texts, that are one with another to the encoder (`SAME`)."""
    cosines = unit @ unit.T
    np.fill_diagonal(cosines, -1)
    return float((cosines.max(axis=1) >= SAME).mean())


def positives_found(
    first: Float32[np.ndarray, "pairs dim"], second: Float32[np.ndarray, "pairs dim"], k: int
) -> float:
    """Share of the first sides that have their second side among the k nearest of all of them."""
    places = np.arange(len(first))
    asked = Relevant(places, places, np.arange(len(first) + 1))
    return float((ranks_of_relevant(first, second, asked, places).best <= k).mean())


def nearest(unit: Float32[np.ndarray, "n dim"], k: int) -> Int64[np.ndarray, "n k"]:
    """Places of each row's k nearest others."""
    cosines = unit @ unit.T
    np.fill_diagonal(cosines, -np.inf)
    return np.argsort(-cosines, axis=1, kind="stable")[:, :k].astype(np.int64)
