"""A frozen masked language model that edits sentences (DiffCSE)."""

from collections.abc import Mapping
from typing import Literal

import torch
from jaxtyping import Int
from torch import Tensor, nn

from sentemb_core.encoder.encoder import Encoder
from sentemb_core.heads.copies import FrozenCopy
from sentemb_core.heads.language_head import LanguageHead
from sentemb_core.heads.layers import token_table
from sentemb_core.heads.mask_filler import load_head

PART = "language."
"""Where a `MaskFiller` keeps its language head."""


class Generator(nn.Module):
    """A frozen copy of an encoder under the language head of the Condenser stage that made it.

    DiffCSE takes a published DistilBERT; the late head of our own Condenser needs no download.

    Args:
        encoder: As the stage left it; a `FrozenCopy` is taken as it is, and its owner from then on
            is the generator.
        head: State dict of the stage's `MaskFiller`.
        random_head: Whether to start without one: its edits are noise then.
        sample: `argmax`, as the code: the likeliest token everywhere, masked or not; or
            `multinomial`, as the paper: a token drawn wherever the input hides one.

    Raises:
        RecipeError: There is no such head, or it does not fit.
    """

    def __init__(
        self,
        encoder: Encoder,
        head: Mapping[str, Tensor] | None,
        *,
        random_head: bool = False,
        sample: Literal["argmax", "multinomial"] = "argmax",
    ) -> None:
        super().__init__()
        self.sample = sample
        self.language = LanguageHead(encoder)
        load_head(self.language, head and _language_part(head), random_head=random_head)
        self.language.requires_grad_(requires_grad=False)
        self.encoder = encoder if isinstance(encoder, FrozenCopy) else FrozenCopy(encoder)

    def forward(
        self,
        ids: Int[Tensor, "rows time"],
        mask: Int[Tensor, "rows time"],
        inputs: Int[Tensor, "rows time"],
    ) -> Int[Tensor, "rows time"]:
        """The edited sentences; never another first token, nor other padding.

        Args:
            ids: The sentences.
            mask: 1 on real tokens.
            inputs: The sentences with masks in them.
        """
        states = self.encoder.read(inputs, mask, layers=True).layers[-1]
        place = mask.bool() if self.sample == "argmax" else mask.bool() & (inputs != ids)
        place[:, 0] = False
        return ids.masked_scatter(place, self._tokens(states[place]))

    def _tokens(self, states: Tensor) -> Tensor:
        logits = self.language(states, token_table(self.encoder))
        if self.sample == "argmax":
            return logits.argmax(-1)
        return torch.multinomial(logits.softmax(-1), 1).squeeze(-1)


def _language_part(head: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(PART): head[name] for name in head if name.startswith(PART)}
