"""Ranks: processes that train one encoder together, each on its own rows of every batch.

A step of n ranks has the loss and the gradients of one process on the whole batch:

1. All ranks draw the same batch. Each encodes its own rows.
2. `joined` gives every rank the vectors of all rows, in the order of the batch. So each computes
   the same loss between all rows: masks, batch norms and queues see the whole batch.
3. Each rank backpropagates its `share` 1/n of that loss, and the losses of its own rows.
4. `sum_gradients` adds up the ranks' gradients, so that all take the same optimiser step.
"""

import os
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import torch
import torch.distributed as dist
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from sentemb_core.encoder.devices import compute_device

CPU = torch.device("cpu")

PATIENCE = timedelta(days=30)
"""How long a rank waits for the others: rank 0 may validate for hours. A lost rank ends the wait at
once, because torchrun ends the others."""


@dataclass(frozen=True)
class Ranks:
    """This process among the processes of one training: number `rank` of `count`."""

    rank: int = 0
    count: int = 1
    device: torch.device = CPU

    def joined(
        self, own: Float[Tensor, "own ..."], places: Int64[Tensor, " own"], total: int
    ) -> Float[Tensor, "total ..."]:
        """Return the rows of all ranks, each in its place. The gradient reaches the own rows."""
        if self.count == 1:
            return own[places.argsort()]
        return cast(Tensor, _Joined.apply(own, places.to(own.device), total, self.count))

    def share(self, loss: Float[Tensor, ""]) -> Float[Tensor, ""]:
        """Return this rank's share of a loss that every rank computes."""
        return loss if self.count == 1 else loss / self.count

    def sum_gradients(self, weights: Iterable[nn.Parameter]) -> None:
        """Replace each gradient by its sum over the ranks. It stays None if no rank has one."""
        if self.count == 1:
            return
        learning = [weight for weight in weights if weight.requires_grad]
        found = [weight.grad is not None for weight in learning]
        having = torch.tensor(found, dtype=torch.int32, device=self.device)
        dist.all_reduce(having)
        for weight, number in zip(learning, having.tolist(), strict=True):
            if number:
                own = torch.zeros_like(weight) if weight.grad is None else weight.grad
                weight.grad = own.contiguous()
                dist.all_reduce(weight.grad)

    def summed(self, numbers: Mapping[str, float]) -> dict[str, float]:
        """Return the sum of each number over the ranks. All ranks have the same names."""
        if self.count == 1:
            return dict(numbers)
        sums = torch.tensor([*numbers.values()], dtype=torch.float64, device=self.device)
        dist.all_reduce(sums)
        return dict(zip(numbers, sums.tolist(), strict=True))

    def from_first(self, number: Callable[[], float]) -> float:
        """Return a number that rank 0 alone computes."""
        return self.summed({"": number() if self.rank == 0 else 0.0})[""]


ALONE = Ranks()
"""A training in one process."""


class _Joined(torch.autograd.Function):
    """Rows of all ranks. Each rank's loss has the same gradient at a row; their sum is n times it.

    Adding up rows, with zeros for those of other ranks, changes no bit of them.
    """

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride] - torch calls it by place
        ctx: Any, own: Tensor, places: Tensor, total: int, count: int
    ) -> Tensor:
        ctx.save_for_backward(places)
        ctx.count = count
        rows = own.new_zeros(total, *own.shape[1:])
        rows[places] = own
        dist.all_reduce(rows)
        return rows

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride] - as above
        ctx: Any, gradient: Tensor
    ) -> tuple[Tensor | None, ...]:
        (places,) = ctx.saved_tensors
        return gradient[places] * ctx.count, None, None, None


@contextmanager
def connected(meeting: Path) -> Generator[Ranks]:
    """Connect this process, which torchrun started, with the other ranks: gloo, or nccl on CUDA.

    Args:
        meeting: A file that does not exist yet, where the ranks find each other. They listen on
            the loopback interface alone (`torchrun.train_on_devices` sets it).
    """
    rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    ranks, backend = Ranks(rank, count), "gloo"
    if compute_device().type == "cuda":
        torch.cuda.set_device(rank)
        ranks, backend = Ranks(rank, count, torch.device("cuda", rank)), "nccl"
    dist.init_process_group(
        backend,
        init_method=meeting.absolute().as_uri(),
        rank=ranks.rank,
        world_size=ranks.count,
        timeout=PATIENCE,
    )
    try:
        yield ranks
    finally:
        dist.destroy_process_group()
