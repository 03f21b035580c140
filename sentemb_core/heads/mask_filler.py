"""The head of a Condenser: few layers that fill masks from early tokens and a sentence vector."""

from collections.abc import Mapping

from jaxtyping import Float, Int
from torch import Tensor, nn

from sentemb_core.encoder.encoder import Encoder
from sentemb_core.errors import RecipeError
from sentemb_core.heads.language_head import LanguageHead
from sentemb_core.heads.layers import blind_to_padding, entrance, new_layers, with_first
from sentemb_core.heads.weights import draw_weights
from sentemb_core.methods.listing import HEADLESS


class MaskFiller(nn.Module):
    """New bidirectional layers over [sentence vector ; token states without the first].

    What early states know too little of must come through the vector: on states of the middle
    layer it is the Condenser's head (Gao and Callan 2021), on a frozen copy's InfoCSE-aux's, on
    bare embeddings the decoder of product_thesis's MLM autoencoder.

    Args:
        encoder: Whose states it reads.
        layers: How many; 2 in all three papers.
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
        """States of the last layer; `early` of the first token is never looked at."""
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
        """The sum over targets."""
        return self.language.loss(self(vectors, early, mask), targets, table)


def require_head(head: Mapping[str, Tensor] | None, *, random_head: bool) -> None:
    """That a Condenser stage left a head, or that none is wanted.

    Raises:
        RecipeError: None is given and none was waived.
    """
    if head is None and not random_head:
        raise RecipeError(HEADLESS)


def load_head(network: nn.Module, head: Mapping[str, Tensor] | None, *, random_head: bool) -> None:
    """Put the weights that a Condenser stage learnt into `network`.

    Args:
        network: A `MaskFiller`, or its language head alone.
        head: State dict of the stage's `MaskFiller`, or the part of it for `network`.
        random_head: Whether it stays as it is, whatever is given.

    Raises:
        RecipeError: No head is given and none was waived, or it is of another shape.
    """
    require_head(head, random_head=random_head)
    if head is None or random_head:
        return
    expected = {name: tuple(weight.shape) for name, weight in network.state_dict().items()}
    found = {name: tuple(weight.shape) for name, weight in head.items()}
    if expected != found:
        wrong = sorted(set(expected.items()) ^ set(found.items()))
        raise RecipeError(
            f"The head of a Condenser stage must fit the network that starts from it; "
            f"parameters differ, first {wrong[0]}: take the head that was trained on this encoder, "
            "with the same head_layers."
        )
    network.load_state_dict(head)
