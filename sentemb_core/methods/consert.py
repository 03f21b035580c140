"""ConSERT (Yan et al. 2021): two perturbations of the embedding layer's output."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sentemb_core.config.methods import Augmentation, ConSERT
from sentemb_core.encoder.backbones import first_position
from sentemb_core.encoder.encoder import Encoder, Reading
from sentemb_core.errors import RecipeError
from sentemb_core.methods.parts.info_nce import all_pairs
from sentemb_core.methods.parts.method import (
    ForwardPass,
    FullBatchForward,
    Learner,
    LossOfRows,
    Method,
)
from sentemb_core.methods.parts.pairs import identity
from sentemb_core.methods.parts.tokenizer_tools import (
    require_embedding_layer,
    require_movable_positions,
)
from sentemb_core.methods.parts.views import first
from sentemb_core.methods.simcse import require_dropout


def consert(settings: ConSERT, encoder: Encoder) -> Method:
    """NT-Xent between both views (twice the mean of all rows)."""
    if settings.first or settings.second:
        require_embedding_layer(encoder, "consert")
    if "shuffle" in (*settings.first, *settings.second):
        require_movable_positions(encoder, "consert's shuffle")
    if "adversarial" in settings.first and "adversarial" in settings.second:
        if not settings.dropout:
            raise RecipeError(
                "Two adversarial views differ by dropout only; found method.dropout=false. Set it "
                "to true, or change one view"
            )
        require_dropout(encoder, "consert")
    term = all_pairs("anchor", "positive", settings.temperature)
    return Method(
        name="consert",
        pairs=identity,
        views={"anchor": first, "positive": first},
        forward_passes={
            "anchor": augmented(settings.first, settings),
            "positive": augmented(settings.second, settings),
        },
        terms={"contrast": (2 * settings.weight, term)},
        dropout=settings.dropout,
    )


def augmented(names: tuple[Augmentation, ...], settings: ConSERT) -> ForwardPass | FullBatchForward:
    """Return a forward pass with these perturbations, one after the other.

    Raises:
        RecipeError: an adversarial view is combined with others.
    """
    if "adversarial" in names:
        if len(names) > 1:
            raise RecipeError(
                "An adversarial view cannot be combined with other perturbations; found "
                f"{', '.join(names)}. Use it alone"
            )
        return adversarial(settings.epsilon)
    edits = [EDITS[name](settings.rate) for name in names if name != "shuffle"]
    return perturbed(*edits, shuffled="shuffle" in names)


StateEdit = Callable[
    [Float[Tensor, "rows time dim"], Int[Tensor, "rows time"]], Float[Tensor, "rows time dim"]
]
"""(states, mask) -> states for the layers"""


def perturbed(*edits: StateEdit, shuffled: bool = False) -> ForwardPass:
    """Return a forward pass that edits the embedded tokens, one edit after the other.

    If `shuffled`, position ids are permuted among the real tokens of each row.
    """

    def forward(learner: Learner, ids: Tensor, mask: Tensor | None, layers: bool) -> Reading:
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

    return forward


def token_cutoff(rate: float) -> StateEdit:
    """Set the states of int(rate x length) random tokens of each row to 0."""

    def edit(states: Tensor, mask: Tensor) -> Tensor:
        key = torch.rand(mask.shape, device=mask.device).masked_fill(mask == 0, 2.0)
        cut = _least(key, _share(rate, mask.sum(1)))
        return states.masked_fill(cut[:, :, None], 0.0)

    return edit


def feature_cutoff(rate: float) -> StateEdit:
    """Set int(rate x dim) random features of each row to 0 in all its tokens."""

    def edit(states: Tensor, mask: Tensor) -> Tensor:
        rows, _, dim = states.shape
        key = torch.rand(rows, dim, device=states.device)
        cut = _least(key, _share(rate, torch.full_like(mask[:, 0], dim)))
        return states.masked_fill(cut[:, None, :], 0.0)

    return edit


def entry_dropout(rate: float) -> StateEdit:
    """Set int(rate x length x dim) random entries of each row to 0, without rescaling."""

    def edit(states: Tensor, mask: Tensor) -> Tensor:
        key = torch.rand(states.shape, device=states.device)
        key = key.masked_fill(mask[:, :, None] == 0, 2.0).flatten(1)
        cut = _least(key, _share(rate, mask.sum(1) * states.shape[2]))
        return states.masked_fill(cut.view(states.shape), 0.0)

    return edit


def _share(rate: float, sizes: Int[Tensor, " rows"]) -> Int[Tensor, " rows"]:
    """Return int(rate x size), as Python computes it."""
    return (rate * sizes.double()).long()


def _least(
    key: Float[Tensor, "rows items"], counts: Int[Tensor, " rows"]
) -> Bool[Tensor, "rows items"]:
    """Mark the `counts` smallest entries of each row."""
    marked = torch.zeros_like(key, dtype=torch.bool)
    for count in counts.unique().tolist():  # selecting takes a fifth of the time of sorting
        rows = (counts == count).nonzero()
        chosen = key[rows[:, 0]].topk(count, largest=False, sorted=False).indices
        marked[rows, chosen] = True
    return marked


def _shuffled_positions(
    encoder: Encoder, mask: Int[Tensor, "rows time"]
) -> Int[Tensor, "rows time"]:
    """Return the positions of every row in random order; padding stays at the end."""
    place = torch.arange(mask.shape[1], device=mask.device)
    key = torch.where(mask.bool(), torch.rand(mask.shape, device=mask.device), 1.0 + place)
    return key.argsort(dim=1) + first_position(encoder.backbone)


SMALLEST_NORM = 1e-10
"""Added to the norm of a gradient, as in ConSERT's code: a token without gradient stays."""


def adversarial(epsilon: float) -> FullBatchForward:
    """Return a forward pass whose embedded tokens move along the gradient of the loss.

    The noise of a token is epsilon g / |g|, where g is the gradient of the step's loss. Rows
    without influence on the loss stay unchanged. The encoder runs twice.
    """

    def forward(
        learner: Learner, ids: Tensor, mask: Tensor | None, layers: bool, loss: LossOfRows
    ) -> Reading:
        gradient = _gradient(learner.encoder, ids, mask, loss)
        noise = epsilon * gradient / (gradient.norm(dim=-1, keepdim=True) + SMALLEST_NORM)

        def moved(states: Tensor) -> Tensor:
            return states + noise.to(states.dtype)

        return learner.encoder.read(ids, mask, layers=layers, edit=moved)

    return FullBatchForward(forward)


def _gradient(
    encoder: Encoder, ids: Tensor, mask: Tensor | None, loss: LossOfRows
) -> Float[Tensor, "rows time dim"]:
    """Return the gradient of the loss at the embedded tokens, also inside a gradient cache."""
    leaves: list[Tensor] = []

    def caught(states: Tensor) -> Tensor:
        leaves.append(states.detach().requires_grad_())
        return leaves[-1]

    with torch.enable_grad():
        found = loss(encoder.read(ids, mask, edit=caught).pooled)
        return torch.autograd.grad(found, leaves)[0]


EDITS = {
    "token_cutoff": token_cutoff,
    "feature_cutoff": feature_cutoff,
    "dropout": entry_dropout,
}
