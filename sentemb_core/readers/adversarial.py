"""An adversarial view: tokens move where the loss of the step grows fastest.

ConSERT's own follows the gradient of a supervised loss and so needs labels. This one follows the
contrastive loss itself, as it stands: with the other view, and with all that is no negative.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from sentemb_core.encoder.encoder import Encoder, Reading
from sentemb_core.errors import RecipeError
from sentemb_core.methods.method import FullBatchForward, Learner, LossOfRows

SMALLEST_NORM = 1e-10
"""Added to a gradient's norm, as in ConSERT's code: a token without gradient stays."""


def adversarial(epsilon: float) -> FullBatchForward:
    """The encoder, twice: for the gradient at its embedded tokens, and moved along it.

    The noise of a token is epsilon g / |g|, with g of the step's loss. A row that the loss does not
    depend on stays as it is.

    Args:
        epsilon: Length of the noise of a token.

    Raises:
        RecipeError: It is not above 0.
    """
    if epsilon <= 0:
        raise RecipeError(
            f"An adversarial view differs from the text; found epsilon {epsilon}: take 1, or no "
            "adversarial view"
        )

    def reader(
        learner: Learner, ids: Tensor, mask: Tensor | None, layers: bool, loss: LossOfRows
    ) -> Reading:
        gradient = _gradient(learner.encoder, ids, mask, loss)
        noise = epsilon * gradient / (gradient.norm(dim=-1, keepdim=True) + SMALLEST_NORM)

        def moved(states: Tensor) -> Tensor:
            return states + noise.to(states.dtype)

        return learner.encoder.read(ids, mask, layers=layers, edit=moved)

    return FullBatchForward(reader)


def _gradient(
    encoder: Encoder, ids: Tensor, mask: Tensor | None, loss: LossOfRows
) -> Float[Tensor, "rows time dim"]:
    """Of the loss at the embedded tokens; also where a gradient cache has switched them off."""
    leaves: list[Tensor] = []

    def caught(states: Tensor) -> Tensor:
        leaves.append(states.detach().requires_grad_())
        return leaves[-1]

    with torch.enable_grad():
        found = loss(encoder.read(ids, mask, edit=caught).pooled)
        return torch.autograd.grad(found, leaves)[0]
