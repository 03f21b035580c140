"""BERT-whitening: the affine map that gives a set of vectors mean 0 and covariance 1.

y = (x - mean) W with W = U diag(1 / sqrt(lambda)), from the eigenvectors U and the eigenvalues
lambda of the covariance, largest first. Its first k columns also reduce the dimension (Su et al.
2021, Algorithm 1). It is fitted on pooled vectors before normalisation; cosine compares the result.

A soft whitening (ours) stops halfway: y = (x - mean) U diag(lambda^(-1/4)), so a direction's
deviation becomes its own square root. Directions that all texts share are damped, and directions
with little more than noise are not enlarged to the size of the others.

Products and eigenvectors are torch's, in float64 on one thread: on several threads their last
digits depend on the number of threads, which is not part of a cache key.
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
"""Least deviation of a direction relative to the largest. Below it float32 vectors have only
rounding, which must not be enlarged to variance 1 (three of MiniLM's directions have 1e-9, the
other 381 at least 1e-2)."""

SOFT = 0.5
"""The best of five powers in the mean over six corpora with MiniLM; it improves each of them. A
full whitening is better on one, and worse than no map on two (docs/results)."""

BLOCK = 65_536
"""Vectors in float64 at once: 400 MB at 768 dimensions."""


@dataclass(frozen=True)
class Whitening:
    """y = (x - mean) @ weights."""

    mean: Float64[np.ndarray, " dim"]
    weights: Float64[np.ndarray, "dim kept"]

    def transformed(self, vectors: Float[np.ndarray, "n dim"]) -> Float64[np.ndarray, "n kept"]:
        """Return the whitened vectors.

        Whitening a static table row by row whitens the sentence vectors, because these are means
        of its rows and the map is affine.
        """
        return _product(vectors - self.mean, self.weights)

    def linear(self) -> nn.Linear:
        """Return the same map as a layer in float32: a Dense module without activation."""
        offset = -_product(self.mean, self.weights)
        return linear(*(torch.from_numpy(a.astype(np.float32)) for a in (self.weights.T, offset)))


def fitted_whitening(
    vectors: Float[np.ndarray, "n dim"], keep: int | None = None, power: float = 1.0
) -> Whitening:
    """Return the whitening of these vectors.

    Args:
        vectors: Pooled, not normalised.
        keep: Dimensions to keep, those of the largest variance (in the paper 256 for a base and 384
            for a large BERT). Default: all in which the vectors vary, 381 of MiniLM's 384.
        power: Each direction is divided by sqrt(variance ** power): 1 in the paper, or `SOFT`.

    Raises:
        UsageError: `keep` is not in 1..dim.
        BadEmbeddingError: a vector is not finite, or the vectors vary in fewer than `keep`
            directions, or in none.
    """
    n, dim = vectors.shape
    if keep is not None and not 1 <= keep <= dim:
        raise UsageError(f"A whitening of {dim} dimensions keeps 1 to {dim} of them, not {keep}.")
    mean = vectors.mean(axis=0, dtype=np.float64)
    if not np.isfinite(mean).all():
        raise BadEmbeddingError(
            "A whitening needs finite vectors; some are not finite. Look for a training that "
            "diverged."
        )
    with threads(1):
        decomposition = torch.linalg.eigh(_covariance(vectors, mean))
    values, directions = (np.flip(part.numpy(), axis=-1) for part in decomposition)
    varying = int((values > values[0] * LEAST_DEVIATION**2).sum())
    kept = keep or max(varying, 1)
    if varying < kept:
        raise BadEmbeddingError(
            f"A whitening keeps directions in which the vectors vary; {n} vectors of {dim} "
            f"dimensions vary in {varying}, not {kept}. Take more texts, or keep fewer."
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
