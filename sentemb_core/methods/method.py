"""What a method is made of."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor, nn

from sentemb_core.pairs.table import PairSource
from sentemb_core.views.batch import Batch, ViewMaker

CrossSampleTerm = Callable[[Mapping[str, Tensor], Batch], tuple[Tensor, Mapping[str, float]]]
"""(vectors of every view [rows, dim], batch) -> (loss, metrics). It sees the whole batch at once,
so under a gradient cache it runs on the loss side of the boundary."""


@dataclass(frozen=True)
class Method:
    """A way to train: which texts are positives, how they become views, what the loss adds up.

    Attributes:
        name: As in the configuration and the paper index.
        pairs: Documents to positive pairs.
        views: Under each name, how drawn sentences become token sequences.
        terms: Under each name, (weight, term); the loss is their weighted sum.
        head: From the encoder's dimension to a train-only module on its vectors.
    """

    name: str
    pairs: PairSource
    views: Mapping[str, ViewMaker]
    terms: Mapping[str, tuple[float, CrossSampleTerm]]
    head: Callable[[int], nn.Module] | None = None


def loss_of(
    method: Method, vectors: Mapping[str, Tensor], batch: Batch
) -> tuple[Tensor, dict[str, float]]:
    """The weighted sum of the method's terms, and their metrics."""
    metrics: dict[str, float] = {}
    losses: list[Tensor] = []
    for name, (weight, term) in method.terms.items():
        value, found = term(vectors, batch)
        losses.append(weight * value)
        metrics |= {name: value.item(), **found}
    return sum(losses[1:], start=losses[0]), metrics
