"""An adversarial view without labels: tokens move where a contrastive surrogate grows fastest.

ConSERT's adversarial view follows the gradient of a supervised loss and so needs labels. The
surrogate is our choice: one-way InfoNCE of the view against itself. The step's own loss is more: it
has a second view, and masks that keep duplicates and the own document from being negatives. A
reader sees neither, only the rows of its view.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from sentemb_core.encoder.encoder import Encoder, Reading
from sentemb_core.errors import RecipeError
from sentemb_core.losses.info_nce import info_nce
from sentemb_core.methods.method import AtOnce, Learner

SMALLEST_NORM = 1e-10
"""Added to a gradient's norm, as in ConSERT's code: a token without gradient stays."""


def adversarial(epsilon: float, temperature: float) -> AtOnce:
    """The encoder, twice: for the gradient at its embedded tokens, and moved along it.

    The noise of a token is epsilon g / |g|, with g of InfoNCE in one direction among the rows read
    together, each its own positive: all rows of the view. A row read alone stays as it is, for it
    has no negatives.

    Args:
        epsilon: Length of the noise of a token.
        temperature: Of that loss.
    """
    if epsilon <= 0:
        raise RecipeError(
            f"An adversarial view differs from the text; found epsilon {epsilon}: take 1, or no "
            "adversarial view"
        )

    def reader(learner: Learner, ids: Tensor, mask: Tensor | None, layers: bool) -> Reading:
        gradient = _gradient(learner.encoder, ids, mask, temperature)
        noise = epsilon * gradient / (gradient.norm(dim=-1, keepdim=True) + SMALLEST_NORM)

        def moved(states: Tensor) -> Tensor:
            return states + noise.to(states.dtype)

        return learner.encoder.read(ids, mask, layers=layers, edit=moved)

    return AtOnce(reader)


def _gradient(
    encoder: Encoder, ids: Tensor, mask: Tensor | None, temperature: float
) -> Float[Tensor, "rows time dim"]:
    """Of the loss at the embedded tokens; also where a gradient cache has switched them off."""
    leaves: list[Tensor] = []

    def caught(states: Tensor) -> Tensor:
        leaves.append(states.detach().requires_grad_())
        return leaves[-1]

    with torch.enable_grad():
        pooled = encoder.read(ids, mask, edit=caught).pooled
        own = torch.eye(len(pooled), dtype=torch.bool, device=pooled.device)
        loss = info_nce(
            pooled,
            pooled,
            own,
            ~own,
            temperature=temperature,
            similarity=encoder.similarity,
        )
        return torch.autograd.grad(loss, leaves)[0]
