"""DiffCSE (Chuang et al. 2022): the sentence vector helps to detect edited tokens."""

from collections.abc import Callable
from typing import Any, Literal, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from sentemb_core.config.methods import DiffCSE, SimCSE
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.encoder.packing import padded
from sentemb_core.methods.parts.copies import FrozenCopy, twin
from sentemb_core.methods.parts.heads import batch_norm_mlp, draw_weights
from sentemb_core.methods.parts.masked_language import (
    LanguageHead,
    load_head,
    masking,
    starting_head,
    with_masked_inputs,
)
from sentemb_core.methods.parts.method import (
    CrossSampleTerm,
    HeadState,
    Learner,
    LossAndMetrics,
    Method,
    Vectors,
)
from sentemb_core.methods.parts.transformer_layers import (
    entrance,
    layers_of,
    require_table,
    token_table,
    with_first,
)
from sentemb_core.methods.parts.views import Batch, first
from sentemb_core.methods.simcse import simcse


def diffcse(settings: DiffCSE, encoder: Encoder, pretrained: HeadState | None = None) -> Method:
    """SimCSE, plus lambda times the loss of a discriminator on the vector after the head.

    `encoder` and `pretrained` are of a Condenser stage: its late language head is the generator.

    Raises:
        RecipeError: there is no head, and `random_head` is not set.
    """
    require_table(encoder)
    head = starting_head(pretrained, random_head=settings.random_head)
    text = with_masked_inputs(first, masking(encoder, settings.mask_rate))
    base = simcse(SimCSE(temperature=settings.temperature), encoder, text)
    return base.joined(
        name="diffcse",
        head=batch_norm_mlp,
        terms={"edits": (settings.weight, edit_detection(*base.views))},
        networks=lambda encoder: {
            "discriminator": Discriminator(encoder, Generator(encoder, head, settings.sample))
        },
    )


Edit = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(ids, mask, masked ids) -> edited ids, all [rows, time]: a `Generator`"""


class Discriminator(nn.Module):
    """A second encoder, at first equal, that separates replaced from original tokens."""

    def __init__(self, encoder: Encoder, edit: Edit) -> None:
        super().__init__()
        layers_of(encoder)
        self.edit = edit
        self.encoder = twin(encoder)
        self.entrance = entrance(encoder)
        self.classifier = nn.Linear(encoder.hidden_dim, 2)
        draw_weights(self.classifier)

    def forward(
        self,
        vectors: Float[Tensor, "rows dim"],
        edited: Int[Tensor, "rows time"],
        mask: Int[Tensor, "rows time"],
    ) -> Float[Tensor, "rows time 2"]:
        """Return logits of original and replaced; the vector takes the first token's place."""
        knowing = self.entrance(vectors)
        reading = self.encoder.read(
            edited, mask, layers=True, edit=lambda states: with_first(knowing, states)
        )
        return self.classifier(reading.layers[-1])

    def loss(
        self,
        vectors: Float[Tensor, "rows dim"],
        ids: Int[Tensor, "rows time"],
        mask: Int[Tensor, "rows time"],
        inputs: Int[Tensor, "rows time"],
    ) -> Float[Tensor, ""]:
        """Return the sum over real tokens; padding never counts (in DiffCSE's code it does).

        `inputs` are the token ids with masks.
        """
        edited = self.edit(ids, mask, inputs)
        real = mask.bool()
        logits = self(vectors, edited, mask)[real].float()
        return F.cross_entropy(logits, (edited != ids)[real].long(), reduction="sum")


def edit_detection(*views: str) -> CrossSampleTerm:
    """Return the term of edit detection: the mean over all real tokens of these views.

    A head with batch norm needs the whole batch, and so does this term. Under a gradient cache the
    `Discriminator` still takes all rows at once.
    """

    def term(vectors: Vectors, batch: Batch, learner: Learner) -> LossAndMetrics:
        judge = cast(Any, learner.networks.get_submodule("discriminator"))
        total, tokens = torch.zeros((), device=vectors[views[0]].device), 0
        for name in views:
            view = batch.views[name]
            assert view.inputs is not None, "a view whose edits are detected has masked inputs"
            ids, mask = padded(view.tokens, learner.encoder.pad_id)
            inputs, _ = padded(view.inputs, learner.encoder.pad_id)
            real = torch.ones_like(ids) if mask is None else mask
            tensors = (part.to(total.device) for part in (ids, real, inputs))
            total = total + judge.loss(vectors[name], *tensors)
            tokens += int(real.sum())
        return total / tokens, {}

    return term


class Generator(nn.Module):
    """A frozen copy of an encoder with the language head of its Condenser stage.

    DiffCSE uses a published DistilBERT; the late head of our own Condenser needs no download.

    Args:
        encoder: The encoder as the stage left it; a `FrozenCopy` is used as it is, and the
            generator becomes its owner.
        head: State dict of the stage's `MaskFiller`; None: a random head, whose edits are noise.
        sample: `argmax`, as in the code: the likeliest token everywhere, masked or not; or
            `multinomial`, as in the paper: a random token in place of each mask.

    Raises:
        RecipeError: the head does not fit.
    """

    def __init__(
        self,
        encoder: Encoder,
        head: HeadState | None,
        sample: Literal["argmax", "multinomial"] = "argmax",
    ) -> None:
        super().__init__()
        self.sample = sample
        self.language = LanguageHead(encoder)
        part = head and {
            name.removeprefix("language."): weight
            for name, weight in head.items()
            if name.startswith("language.")
        }
        load_head(self.language, part)
        self.language.requires_grad_(requires_grad=False)
        self.encoder = encoder if isinstance(encoder, FrozenCopy) else FrozenCopy(encoder)

    def forward(
        self,
        ids: Int[Tensor, "rows time"],
        mask: Int[Tensor, "rows time"],
        inputs: Int[Tensor, "rows time"],
    ) -> Int[Tensor, "rows time"]:
        """Return the edited sentences; the first token and padding never change.

        `inputs` are the token ids with masks.
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
