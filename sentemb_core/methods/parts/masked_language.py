"""Masked language modelling: masks, and heads from token states to the hidden tokens."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from sentemb_core.config.method_list import HEADLESS
from sentemb_core.config.methods import DeCLUTR, SimCSE
from sentemb_core.documents import Documents, Tokens
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.errors import RecipeError
from sentemb_core.methods.parts.heads import draw_weights
from sentemb_core.methods.parts.method import (
    HeadState,
    Learner,
    Method,
    Rows,
    SampleLoss,
    SampleTerm,
)
from sentemb_core.methods.parts.tokenizer_tools import mask_id
from sentemb_core.methods.parts.transformer_layers import (
    blind_to_padding,
    entrance,
    new_layers,
    require_table,
    shape_of,
    token_table,
    with_first,
)
from sentemb_core.methods.parts.views import IGNORED, Draw, View, ViewMaker, content_of, rows_of


@dataclass(frozen=True)
class Masking:
    """BERT's noise: of the chosen tokens 80 % become the mask, 10 % a random token, 10 % stay.

    Attributes:
        rate: Share of chosen tokens.
        mask_id: Id of [MASK].
        special: Ids that are never chosen.
        vocabulary: Number of ids.
    """

    rate: float
    mask_id: int
    special: tuple[int, ...]
    vocabulary: int

    def __post_init__(self) -> None:
        if not 0 < self.rate < 1:
            raise RecipeError(
                f"A masking rate is above 0 and below 1; found {self.rate}. BERT uses .15; leave "
                "the term out for 0"
            )

    def noise(self, view: View, rng: np.random.Generator) -> tuple[list[Tokens], list[Tokens]]:
        """Return the rows with noise, and the chosen tokens as targets (`IGNORED` elsewhere)."""
        content = content_of(view)
        n = len(content.ids)
        chosen = (rng.random(n) < self.rate) & ~np.isin(content.ids, self.special)
        fate = rng.random(n)
        noisy = np.where(chosen & (fate < 0.8), self.mask_id, content.ids)
        other = chosen & (fate >= 0.9)
        noisy[other] = rng.integers(0, self.vocabulary, int(other.sum()))
        targets = np.where(chosen, content.ids, IGNORED)
        return rows_of(noisy, content.lengths), rows_of(targets, content.lengths)


def masking(encoder: Encoder, rate: float) -> Masking:
    """Return BERT's masking for this vocabulary."""
    added = encoder.tokenizer.get_added_tokens_decoder()
    special = {number for number, token in added.items() if token.special}
    special |= {encoder.pad_id, mask_id(encoder)}
    vocabulary = encoder.tokenizer.get_vocab_size()
    return Masking(rate, mask_id(encoder), tuple(sorted(special)), vocabulary)


def masked(text: ViewMaker, masking: Masking) -> ViewMaker:
    """Return a view of `text` with noise for the encoder; targets are the chosen tokens."""

    def view(corpus: Documents, draw: Draw, rng: np.random.Generator) -> View:
        seen = text(corpus, draw, rng)
        tokens, targets = masking.noise(seen, rng)
        return replace(seen, tokens=tokens, targets=targets)

    return view


def with_masked_inputs(text: ViewMaker, masking: Masking) -> ViewMaker:
    """Return a view of `text` without noise, and with noisy `inputs` for an auxiliary network."""

    def view(corpus: Documents, draw: Draw, rng: np.random.Generator) -> View:
        seen = text(corpus, draw, rng)
        inputs, targets = masking.noise(seen, rng)
        return replace(seen, inputs=inputs, targets=targets)

    return view


AT_ONCE = 1 << 22
"""Logits in memory at a time: 16 MB of float32. 1,700 targets of 16,000 tokens in bfloat16 took
0.43 CPU s in one piece and 0.26 in pieces; 1,300 of 30,522 took 0.76 and 0.64 (forward and
backward). Larger blocks are allocated again at every step. Under autocast
`torch.nn.functional.linear_cross_entropy` stays in float32 and is slower (1.2 s).
"""


class LanguageHead(nn.Module):
    """BERT's head: dense, GELU, layer norm, and a token table that the caller passes.

    Tied to the token embeddings, it adds no second table to memory, and a checkpoint holds each
    weight once.
    """

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        shape = shape_of(encoder)
        self.dense = nn.Linear(shape.hidden_size, shape.hidden_size)
        self.norm = nn.LayerNorm(shape.hidden_size, eps=shape.layer_norm_eps)
        draw_weights(self)
        self.bias = nn.Parameter(self.dense.weight.new_zeros(shape.vocab_size))

    def forward(
        self, states: Float[Tensor, "n dim"], table: Float[Tensor, "vocabulary dim"]
    ) -> Float[Tensor, "n vocabulary"]:
        """Return logits in float32."""
        return F.linear(self.norm(F.gelu(self.dense(states))), table, self.bias).float()

    def loss(
        self,
        states: Float[Tensor, "rows time dim"],
        targets: Int[Tensor, "rows time"],
        table: Float[Tensor, "vocabulary dim"],
    ) -> Float[Tensor, ""]:
        """Return the sum of -log p(target) over all targets except `IGNORED`; 0 without targets.

        Logits are the largest tensor, so they are computed for the targets only, `AT_ONCE` at a
        time, and again in the backward pass.
        """
        wanted = targets != IGNORED
        rows = max(1, AT_ONCE // len(table))
        pieces = list(zip(states[wanted].split(rows), targets[wanted].split(rows), strict=True))
        if len(pieces) == 1:
            return self._surprise(*pieces[0], table)
        losses = [
            checkpoint(self._surprise, *piece, table, use_reentrant=False) for piece in pieces
        ]
        return torch.stack(losses).sum()

    def _surprise(
        self,
        states: Float[Tensor, "n dim"],
        targets: Int[Tensor, " n"],
        table: Float[Tensor, "vocabulary dim"],
    ) -> Float[Tensor, ""]:
        return F.cross_entropy(self(states, table), targets, reduction="sum")


class MaskFiller(nn.Module):
    """New bidirectional layers over [sentence vector ; token states without the first].

    The vector must supply what the early states lack. On states of the middle layer it is the
    Condenser's head (Gao and Callan 2021), on a frozen copy InfoCSE-aux's. On bare embeddings it is
    the decoder of product_thesis's MLM autoencoder. All three papers have 2 layers.
    """

    def __init__(self, encoder: Encoder, layers: int = 2) -> None:
        super().__init__()
        self.entrance = entrance(encoder)
        self.layers = new_layers(encoder, layers)
        draw_weights(self.layers)
        self.language = LanguageHead(encoder)

    def forward(
        self,
        vectors: Float[Tensor, "rows dim"],
        early: Float[Tensor, "rows time hidden"],
        mask: Int[Tensor, "rows time"],
    ) -> Float[Tensor, "rows time hidden"]:
        """Return the states of the last layer; `early` of the first token is not used."""
        states = with_first(self.entrance(vectors), early)
        hidden = blind_to_padding(mask, states)
        for layer in self.layers:
            states = layer(states, hidden)
        return states

    def loss(
        self,
        vectors: Float[Tensor, "rows dim"],
        early: Float[Tensor, "rows time hidden"],
        mask: Int[Tensor, "rows time"],
        targets: Int[Tensor, "rows time"],
        table: Float[Tensor, "vocabulary hidden"],
    ) -> Float[Tensor, ""]:
        """Return the sum over targets."""
        return self.language.loss(self(vectors, early, mask), targets, table)


def starting_head(pretrained: HeadState | None, *, random_head: bool) -> HeadState | None:
    """Return the head of a Condenser stage; None if a method starts with a random one.

    Raises:
        RecipeError: the stage left no head, and `random_head` is not set.
    """
    if pretrained is None and not random_head:
        raise RecipeError(HEADLESS)
    return None if random_head else pretrained


def load_head(network: nn.Module, head: HeadState | None) -> None:
    """Load the weights that a Condenser stage trained into `network`; None: it keeps its own.

    Args:
        network: A `MaskFiller`, or only its language head.
        head: State dict of the stage's `MaskFiller`, or the part of it for `network`.

    Raises:
        RecipeError: the head does not fit.
    """
    if head is None:
        return
    expected = {name: tuple(weight.shape) for name, weight in network.state_dict().items()}
    found = {name: tuple(weight.shape) for name, weight in head.items()}
    if expected != found:
        wrong = sorted(set(expected.items()) ^ set(found.items()))
        raise RecipeError(
            f"The Condenser head must fit the network; found different parameters, first "
            f"{wrong[0]}. Use the head of this encoder, with the same head_layers"
        )
    network.load_state_dict(head)


def masked_language(head: str = "language") -> SampleLoss:
    """BERT's masked-language loss: a `LanguageHead` on the last layer predicts masked tokens."""

    def loss(learner: Learner, rows: Rows) -> Tensor:
        states = rows.reading.layers[-1]
        language: Any = learner.networks.get_submodule(head)
        return language.loss(states, rows.targets, token_table(learner.encoder))

    return loss


def with_masked_language(
    method: Method, settings: SimCSE | DeCLUTR, encoder: Encoder, view: str, text: ViewMaker
) -> Method:
    """Return the method with a masked-language term on `view`: `text` with masks.

    Raises:
        RecipeError: the encoder has no token table for it.
    """
    require_table(encoder, "leave the masked-language term out (--set training.method.mlm=0)")
    return method.joined(
        views={view: masked(text, masking(encoder, settings.mask_rate))},
        sample_terms={"mlm": (settings.mlm, SampleTerm(view, masked_language()))},
        networks=lambda encoder: {"language": LanguageHead(encoder)},
    )
