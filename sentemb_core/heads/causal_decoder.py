"""A decoder that writes a sentence again from nothing but its vector (product_thesis; TSDAE)."""

from typing import Any, cast

from jaxtyping import Float, Int
from torch import Tensor, nn

from sentemb_core.encoder.encoder import Encoder
from sentemb_core.errors import RecipeError
from sentemb_core.heads.language_head import LanguageHead
from sentemb_core.heads.layers import (
    blind_to_the_future,
    embedded,
    entrance,
    layers_of,
    new_layers,
    require_table,
    shape_of,
    token_table,
)
from sentemb_core.heads.weights import draw_weights
from sentemb_core.views.batch import IGNORED


def require_decodable(encoder: Encoder, *, tied: bool) -> None:
    """That a decoder can stand on the encoder or, tied, use its layers.

    Raises:
        RecipeError: it has no such layers or table, or they do not come apart as BERT's do.
    """
    require_table(encoder)
    if tied and not hasattr(layers_of(encoder)[0], "feed_forward_chunk"):
        raise RecipeError(
            "A tied decoder reads the vector between attention and feed-forward of the encoder's "
            f"own layers, which must come apart as BERT's do; those of "
            f"{type(encoder.backbone).__name__} do not: leave method.tied out"
        )


class CausalDecoder(nn.Module):
    """Layers that see the tokens so far and, by cross-attention, one vector.

    Tokens enter by the encoder's embedding layer and leave by its token table.

    Args:
        encoder: Whose vectors it reads.
        layers: How many of its own, 2 in product_thesis; none: all of the encoder's (TSDAE), so
            that the cross-attention and the language head alone are new.

    Raises:
        RecipeError: As `require_decodable`.
    """

    def __init__(self, encoder: Encoder, layers: int | None = 2) -> None:
        from transformers.models.bert.modeling_bert import BertAttention

        super().__init__()
        require_decodable(encoder, tied=layers is None)
        shape = shape_of(encoder)
        count = len(layers_of(encoder)) if layers is None else layers
        self.layers = None if layers is None else new_layers(encoder, layers)
        self.memory = nn.ModuleList(
            BertAttention(shape, is_cross_attention=True) for _ in range(count)
        )
        draw_weights(self)
        self.entrance = entrance(encoder)
        self.language = LanguageHead(encoder)

    def forward(
        self,
        encoder: Encoder,
        vectors: Float[Tensor, "rows dim"],
        ids: Int[Tensor, "rows time"],
    ) -> Float[Tensor, "rows time hidden"]:
        """States that tell the next token each.

        Padding at the right needs no mask: nobody to the left of it sees it.
        """
        states, sentence = embedded(encoder, ids), self.entrance(vectors).unsqueeze(1)
        hidden = blind_to_the_future(states)
        layers = cast(Any, layers_of(encoder) if self.layers is None else self.layers)
        for layer, memory in zip(layers, self.memory, strict=True):
            states = layer.attention(states, hidden)[0]
            states = memory(states, encoder_hidden_states=sentence)[0]
            states = layer.feed_forward_chunk(states)
        return states

    def loss(
        self,
        encoder: Encoder,
        vectors: Float[Tensor, "rows dim"],
        first: Int[Tensor, " rows"],
        targets: Int[Tensor, "rows time"],
    ) -> Float[Tensor, ""]:
        """The sum over all targets behind the first, which begins the sentence and is not told.

        Args:
            encoder: Lends embeddings, token table and, when tied, layers.
            vectors: Of the sentences, or of what was left of them.
            first: Their first token ([CLS]).
            targets: Their tokens; `IGNORED` behind their ends, and maybe at the first.
        """
        ids = targets.masked_fill(targets == IGNORED, 0)
        ids[:, 0] = first
        states = self(encoder, vectors, ids)
        return self.language.loss(states[:, :-1], targets[:, 1:], token_table(encoder))
