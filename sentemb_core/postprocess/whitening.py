"""BERT-whitening: the affine map after which a set of vectors has mean 0 and covariance 1.

y = (x - mean) W with W = U diag(1 / sqrt(lambda)), from the eigenvectors U and eigenvalues lambda
of the covariance, largest first; its first k columns also reduce the dimension (Su et al. 2021,
Algorithm 1). It is fitted on pooled vectors before they are normalised, and cosine compares what
comes out.

A soft one (ours) stops half way: y = (x - mean) U diag(lambda^(-1/4)), so that a direction's
deviation becomes its own square root. What all texts have in common still counts less, and
directions of little but noise are not blown up to the size of all others.

Products and eigenvectors are torch's, in float64 on one thread: on several their last digits
change with the number of threads, which no key of a whitening knows.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from sentemb_core.encoder.dense import linear
from sentemb_core.encoder.devices import threads
from sentemb_core.errors import BadEmbeddingError, UsageError

LEAST_DEVIATION = 1e-6
"""Of the largest: below it a direction of float32 vectors shows nothing but rounding (MiniLM's 381
others have 1e-2 or more, and three 1e-9), which must not be blown up to variance 1."""

SOFT = 0.5
"""Of five powers the best in the mean over six corpora, above none on each of them; a whole
whitening is above it on one and below none on two (MiniLM; docs/results, "Behind a map")."""

BLOCK = 65_536
"""Vectors held in float64 at once: 400 MB at 768 dimensions."""


@dataclass(frozen=True)
class Whitening:
    """y = (x - mean) @ weights."""

    mean: Float64[np.ndarray, " dim"]
    weights: Float64[np.ndarray, "dim kept"]

    def transformed(self, vectors: Float[np.ndarray, "n dim"]) -> Float64[np.ndarray, "n kept"]:
        """The vectors, whitened.

        A static table whitened row by row gives the whitened sentence vectors, for these are means
        of its rows and the map is affine.
        """
        return _product(vectors - self.mean, self.weights)

    def linear(self) -> nn.Linear:
        """The same map as a layer in float32: a Dense module without activation."""
        offset = -_product(self.mean, self.weights)
        return linear(*(torch.from_numpy(a.astype(np.float32)) for a in (self.weights.T, offset)))


def fitted_whitening(
    vectors: Float[np.ndarray, "n dim"], keep: int | None = None, power: float = 1.0
) -> Whitening:
    """The whitening of these vectors.

    Args:
        vectors: Pooled, not normalised.
        keep: Dimensions that stay, those of the largest variance (256 for a base and 384 for a
            large BERT in the paper). None: all in which the vectors vary, 381 of MiniLM's 384.
        power: Of its variance, by whose root each direction is divided: 1 in the paper, `SOFT`.

    Raises:
        UsageError: `keep` lies outside 1..dim.
        BadEmbeddingError: A vector is not finite, or they vary in fewer than `keep` directions, or
            in none.
    """
    n, dim = vectors.shape
    if keep is not None and not 1 <= keep <= dim:
        raise UsageError(f"A whitening of {dim} dimensions keeps 1 to {dim} of them, not {keep}.")
    mean = vectors.mean(axis=0, dtype=np.float64)
    if not np.isfinite(mean).all():
        raise BadEmbeddingError(
            "A whitening is fitted on finite vectors, and some are not: look for a training that "
            "diverged."
        )
    with threads(1):
        found = torch.linalg.eigh(_covariance(vectors, mean))
    values, directions = (np.flip(part.numpy(), axis=-1) for part in found)
    varying = int((values > values[0] * LEAST_DEVIATION**2).sum())
    kept = keep or max(varying, 1)
    if varying < kept:
        raise BadEmbeddingError(
            f"A whitening keeps only directions in which the vectors vary: {n} vectors of {dim} "
            f"dimensions vary in {varying}, {kept} were to be kept. Take more texts, or keep fewer."
        )
    signs = np.sign(directions[np.abs(directions).argmax(axis=0), np.arange(dim)])
    return Whitening(mean, (directions * signs)[:, :kept] / values[:kept] ** (power / 2))


def _covariance(
    vectors: Float[np.ndarray, "n dim"], mean: Float64[np.ndarray, " dim"]
) -> Float64[Tensor, "dim dim"]:
    total = torch.zeros(len(mean), len(mean), dtype=torch.float64)
    for block in torch.from_numpy(vectors).split(BLOCK):
        centred = block - torch.from_numpy(mean)
        total += centred.T @ centred
    return total / max(len(vectors) - 1, 1)


def _product(
    left: Float64[np.ndarray, "*rows dim"], right: Float64[np.ndarray, "dim kept"]
) -> Float64[np.ndarray, "*rows kept"]:
    with threads(1):
        return (torch.tensor(left) @ torch.tensor(right)).numpy()
