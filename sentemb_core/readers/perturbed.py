"""ConSERT's augmentations (Yan et al. 2021), made on what the embedding layer hands on.

All act behind its layer norm and dropout, as in the code; special tokens are tokens here.
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sentemb_core.encoder.backbones import first_position
from sentemb_core.encoder.encoder import Encoder, Reading
from sentemb_core.errors import RecipeError
from sentemb_core.methods.method import Learner, Reader

StateEdit = Callable[
    [Float[Tensor, "rows time dim"], Int[Tensor, "rows time"]], Float[Tensor, "rows time dim"]
]
"""(states, mask) -> the states that the layers shall see."""


def perturbed(*edits: StateEdit, shuffled: bool = False) -> Reader:
    """The encoder, with its embedded tokens edited one edit after the other.

    Args:
        edits: See `token_cutoff`, `feature_cutoff`, `entry_dropout`; none leaves all as it is.
        shuffled: Whether position ids are permuted among the real tokens of each row.
    """

    def reader(learner: Learner, ids: Tensor, mask: Tensor | None, layers: bool) -> Reading:
        real = torch.ones_like(ids) if mask is None else mask

        def edited(states: Tensor) -> Tensor:
            for edit in edits:
                states = edit(states, real)
            return states

        return learner.encoder.read(
            ids,
            mask,
            layers=layers,
            edit=edited if edits else None,
            positions=_shuffled_positions(learner.encoder, real) if shuffled else None,
        )

    return reader


def token_cutoff(rate: float) -> StateEdit:
    """All states of int(rate x length) random tokens of each row become 0."""
    _require_share(rate)

    def edit(states: Tensor, mask: Tensor) -> Tensor:
        key = torch.rand(mask.shape, device=mask.device).masked_fill(mask == 0, 2.0)
        cut = _least(key, _share(rate, mask.sum(1)))
        return states.masked_fill(cut[:, :, None], 0.0)

    return edit


def feature_cutoff(rate: float) -> StateEdit:
    """int(rate x dim) random features of each row become 0 in all its tokens."""
    _require_share(rate)

    def edit(states: Tensor, mask: Tensor) -> Tensor:
        rows, _, dim = states.shape
        key = torch.rand(rows, dim, device=states.device)
        cut = _least(key, _share(rate, torch.full_like(mask[:, 0], dim)))
        return states.masked_fill(cut[:, None, :], 0.0)

    return edit


def entry_dropout(rate: float) -> StateEdit:
    """int(rate x length x dim) random entries of each row become 0; the others are not rescaled."""
    _require_share(rate)

    def edit(states: Tensor, mask: Tensor) -> Tensor:
        key = torch.rand(states.shape, device=states.device)
        key = key.masked_fill(mask[:, :, None] == 0, 2.0).flatten(1)
        cut = _least(key, _share(rate, mask.sum(1) * states.shape[2]))
        return states.masked_fill(cut.view(states.shape), 0.0)

    return edit


def _require_share(rate: float) -> None:
    if not 0 <= rate < 1:
        raise RecipeError(
            f"A cutoff takes a share of a row and leaves something to read; found rate {rate}: "
            "take .2 as ConSERT does"
        )


def _share(rate: float, sizes: Int[Tensor, " rows"]) -> Int[Tensor, " rows"]:
    """int(rate x size), as Python computes it."""
    return (rate * sizes.double()).long()


def _least(
    key: Float[Tensor, "rows items"], counts: Int[Tensor, " rows"]
) -> Bool[Tensor, "rows items"]:
    """Marks the `counts` smallest of each row."""
    marked = torch.zeros_like(key, dtype=torch.bool)
    for count in counts.unique().tolist():  # selecting takes a fifth of the time of sorting
        rows = (counts == count).nonzero()
        chosen = key[rows[:, 0]].topk(count, largest=False, sorted=False).indices
        marked[rows, chosen] = True
    return marked


def _shuffled_positions(
    encoder: Encoder, mask: Int[Tensor, "rows time"]
) -> Int[Tensor, "rows time"]:
    """Every row's positions in random order; padding stays behind."""
    place = torch.arange(mask.shape[1], device=mask.device)
    key = torch.where(mask.bool(), torch.rand(mask.shape, device=mask.device), 1.0 + place)
    return key.argsort(dim=1) + first_position(encoder.backbone)
