"""BERT-flow: an invertible network under which sentence vectors follow a standard normal.

Glow on vectors (Kingma and Dhariwal 2018; Li et al. 2020). Every step scales and shifts each
coordinate (actnorm), permutes the coordinates, and adds a small network's output for one half to
the other half (additive coupling, Dinh et al. 2015). A level has `depth` steps; the next level
continues with the first half of the coordinates. Only actnorms have a log-determinant: that of a
permutation and of an additive coupling is 0.
"""

import math
from collections.abc import Callable
from typing import cast

import numpy as np
import torch
from jaxtyping import Float, Float32, Int64
from torch import Tensor, nn

from sentemb_core.encoder.dense import linear
from sentemb_core.encoder.devices import threads
from sentemb_core.errors import BadEmbeddingError, DivergedError, UsageError

LEAST_DEVIATION = 1e-6
"""Least deviation relative to the largest; below it float32 vectors have only rounding."""


class Step(nn.Module):
    """Actnorm, permutation and additive coupling of `dim` coordinates."""

    def __init__(self, dim: int, width: int) -> None:
        super().__init__()
        self.dim, self.kept = dim, dim // 2
        self.shift = nn.Parameter(torch.zeros(dim))
        self.log_scale = nn.Parameter(torch.zeros(dim))
        self.order: Int64[Tensor, " dim"]
        self.register_buffer("order", torch.randperm(dim))
        self.first = nn.Linear(self.kept, width)
        self.second = nn.Linear(width, width)
        self.last = nn.Linear(width, dim - self.kept)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def added(self, kept: Float[Tensor, "n kept"]) -> Float[Tensor, "n moved"]:
        """Return the coupling's addition to the second half."""
        return self.last(self.second(self.first(kept).relu()).relu())

    def forward(self, vectors: Float[Tensor, "n dim"]) -> Float[Tensor, "n dim"]:
        normal = ((vectors + self.shift) * self.log_scale.exp())[:, self.order]
        kept, moved = normal[:, : self.kept], normal[:, self.kept :]
        return torch.cat([kept, moved + self.added(kept)], dim=1)


class NormalizingFlow(nn.Module):
    """Steps on the first dim, dim / 2, dim / 4, ... coordinates: `depth` steps a level.

    `width` is that of the couplings' two hidden layers. Levels, depth and width are those of the
    paper's code. The seed draws the permutations and the couplings' first layers.
    """

    def __init__(
        self, dim: int, seed: int, *, levels: int = 3, depth: int = 3, width: int = 32
    ) -> None:
        super().__init__()
        if dim < 2**levels:
            raise UsageError(
                f"A flow of {levels} levels needs {2**levels} dimensions; found {dim}. Use a "
                "whitening, or a wider encoder."
            )
        self.dim = dim
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.steps = nn.ModuleList(
                [Step(dim // 2**level, width) for level in range(levels) for _ in range(depth)]
            )

    def forward(self, vectors: Float[Tensor, "n dim"]) -> Float[Tensor, "n dim"]:
        """Return the latent vectors, which replace the vectors in comparisons."""
        for step in self._steps():
            vectors = torch.cat([step(vectors[:, : step.dim]), vectors[:, step.dim :]], dim=1)
        return vectors

    def log_determinant(self) -> Float[Tensor, ""]:
        """Return the log-determinant of the Jacobian, the same at every vector."""
        return torch.stack([step.log_scale.sum() for step in self._steps()]).sum()

    def negative_log_likelihood(self, vectors: Float[Tensor, "n dim"]) -> Float[Tensor, " n"]:
        """Return -log p(u) = |z|^2 / 2 + dim / 2 log(2 pi) - log |dz / du|, in nats."""
        squares = self(vectors).square().sum(dim=1)
        return squares / 2 + self.dim / 2 * math.log(2 * math.pi) - self.log_determinant()

    def layers(self) -> nn.Sequential:
        """Return the same map as Linear and ReLU layers, which Dense modules can store.

        x = relu(x) - relu(-x) passes a step's coordinates through the hidden layers.
        """
        return nn.Sequential(
            *(layer for step in self._steps() for layer in _step_layers(step, self.dim))
        )

    def normalise_first(self, data: Float[Tensor, "n dim"]) -> None:
        """Set the first actnorm so that these vectors have mean 0 and variance 1 (Glow, 3.1).

        As long as the couplings add nothing, the later actnorms stay the identity. Constant
        coordinates (three of MiniLM's) are only shifted.

        Raises:
            BadEmbeddingError: a vector is not finite, or all are equal.
        """
        deviation, mean = torch.std_mean(data, dim=0)
        varies = deviation > deviation.max() * LEAST_DEVIATION
        if not torch.isfinite(deviation).all() or not varies.any():
            raise BadEmbeddingError(
                f"A flow needs finite vectors that differ; {len(data)} vectors do not. Take more "
                "texts, or look for a training that diverged."
            )
        first = self._steps()[0]
        with torch.no_grad():
            first.shift.copy_(-mean)
            first.log_scale.copy_(-deviation.where(varies, 1.0).log())

    def _steps(self) -> list[Step]:
        return cast("list[Step]", list(self.steps))


@threads(1)
def fitted_flow(
    vectors: Float32[np.ndarray, "n dim"],
    seed: int,
    *,
    epochs: int = 1,
    batch_size: int = 32,
    learning_rate: float = 1e-3,
    progress: Callable[[int], None] | None = None,
) -> NormalizingFlow:
    """Return a flow that maximises the likelihood of these vectors, trained with Adam.

    Shape and defaults are those of the paper's code. One thread makes a seed reproducible.

    The vectors are pooled and not normalised. `progress` is called with the number of processed
    vectors, over all epochs.

    Raises:
        BadEmbeddingError: a vector is not finite, or all are equal.
        DivergedError: a loss is not finite.
    """
    flow = NormalizingFlow(vectors.shape[1], seed)
    data = torch.tensor(vectors)
    flow.normalise_first(data)
    order = torch.Generator().manual_seed(seed)
    adam = torch.optim.Adam(flow.parameters(), lr=learning_rate)
    processed = 0
    for _ in range(epochs):
        for rows in torch.randperm(len(data), generator=order).split(batch_size):
            loss = flow.negative_log_likelihood(data[rows]).mean()
            if not torch.isfinite(loss):
                raise DivergedError(
                    f"A flow's likelihood must be finite; found {loss.item()} at a learning "
                    f"rate of {learning_rate:g}. Use a whitening instead."
                )
            adam.zero_grad()
            loss.backward()
            adam.step()
            processed += len(rows)
            if progress:
                progress(processed)
    return flow.eval().requires_grad_(False)


def _step_layers(step: Step, full: int) -> list[nn.Module]:
    """Return a step on the first coordinates of `full` as Linear, ReLU, Linear, ReLU, Linear."""
    dim, kept, width = step.dim, step.kept, step.first.out_features
    eye, still = torch.eye(full).to(step.shift), torch.zeros(full).to(step.shift)
    normal, offset = eye.clone(), still.clone()
    normal[:dim, :dim] = torch.diag(step.log_scale.exp())[step.order]
    offset[:dim] = (step.shift * step.log_scale.exp())[step.order]
    into = torch.cat([normal, -normal, step.first.weight @ normal[:kept]])
    onto = torch.cat([offset, -offset, step.first.bias + step.first.weight @ offset[:kept]])
    carry = torch.block_diag(eye, eye, step.second.weight)
    back, add = torch.cat([eye, -eye, eye.new_zeros(full, width)], dim=1), still.clone()
    back[kept:dim, 2 * full :] = step.last.weight
    add[kept:dim] = step.last.bias
    second = torch.cat([still, still, step.second.bias])
    return [linear(into, onto), nn.ReLU(), linear(carry, second), nn.ReLU(), linear(back, add)]
