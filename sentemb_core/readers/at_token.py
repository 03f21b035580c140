"""A sentence vector at one token of the row."""

import torch
from torch import Tensor

from sentemb_core.encoder.encoder import Reading
from sentemb_core.errors import RecipeError
from sentemb_core.methods.method import Learner, Reader


def at_token(token: int) -> Reader:
    """The last layer's state at the last place of `token`: a prompt's mask (SNCSE).

    It goes through the encoder's Dense layers, as its pooled states do.

    Raises:
        RecipeError: a row lacks it, when it is read.
    """

    def reader(learner: Learner, ids: Tensor, mask: Tensor | None, layers: bool) -> Reading:
        found = ids == token
        if not bool(found.any(dim=1).all()):
            raise RecipeError(
                f"A row is read at its token {token}; found one without it: put it into the "
                "prompt, and keep max_length as long as the prompt needs"
            )
        read = learner.encoder.read(ids, mask, layers=True)
        place = torch.arange(ids.shape[1], device=ids.device)
        last = torch.where(found, place, 0).argmax(dim=1)
        states = read.layers[-1][torch.arange(len(ids), device=ids.device), last]
        pooled = learner.encoder.finished(states.float())
        return Reading(pooled, read.layers if layers else ())

    return reader
