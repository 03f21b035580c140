"""Layers, embeddings and masks of an encoder's transformer, for networks on top of it."""

from typing import TYPE_CHECKING, Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from sentemb_core.encoder.encoder import Encoder
from sentemb_core.errors import RecipeError
from sentemb_core.methods.parts.heads import draw_weights

if TYPE_CHECKING:
    from transformers import BertConfig


WITHOUT_THEM = "take a method without them"
"""Advice, beside another encoder, if a network does not fit an encoder."""


def layers_of(encoder: Encoder, otherwise: str = WITHOUT_THEM) -> nn.ModuleList:
    """Return the layers of a BERT-like encoder, lowest first.

    Raises:
        RecipeError: it is a static table or has another structure; `otherwise` ends the message.
    """
    stack = getattr(getattr(encoder.backbone, "encoder", None), "layer", None)
    if not isinstance(stack, nn.ModuleList):
        raise RecipeError(
            "Auxiliary networks need the layers of a BERT-like transformer; found "
            f"{type(encoder.backbone).__name__}. Start from 'transformer' or 'minilm', or "
            f"{otherwise}"
        )
    return stack


def skip_layer(encoder: Encoder, asked: int | None = None) -> int:
    """Return the number of layers below the states that a Condenser head takes; default: half.

    Raises:
        RecipeError: there is no layer below, or none above.
    """
    depth = len(layers_of(encoder))
    layer = depth // 2 if asked is None else asked
    if not 1 <= layer < depth:
        raise RecipeError(
            "The Condenser head needs a layer below the top: 1 <= skip_from < layers; found "
            f"skip_from {layer} and {depth} layers. Change skip_from, or use a deeper encoder"
        )
    return layer


def require_table(encoder: Encoder, otherwise: str = WITHOUT_THEM) -> None:
    """Check that networks fit on the encoder's layers and can predict tokens with its table.

    Recipes call it before a run, because the networks are made much later.

    Raises:
        RecipeError: the encoder is not BERT-like, or its token table has another width than its
            states; `otherwise` ends the message.
    """
    layers_of(encoder, otherwise)
    width, states = token_table(encoder).shape[1], cast(Any, encoder.backbone).config.hidden_size
    if width != states:
        raise RecipeError(
            "Auxiliary networks need a token table as wide as the states; found "
            f"{width} and {states} ({type(encoder.backbone).__name__}). Start from 'minilm', or "
            f"{otherwise}"
        )


def shape_of(encoder: Encoder) -> "BertConfig":
    """Return width, heads, dropout and vocabulary of a new BERT layer on this encoder.

    Raises:
        RecipeError: as `require_table`.
    """
    from transformers import BertConfig

    require_table(encoder)
    config = cast(Any, encoder.backbone).config
    return cast(Any, BertConfig)(
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        num_attention_heads=config.num_attention_heads,
        intermediate_size=config.intermediate_size,
        hidden_act=config.hidden_act,
        layer_norm_eps=config.layer_norm_eps,
        hidden_dropout_prob=config.hidden_dropout_prob,
        attention_probs_dropout_prob=config.attention_probs_dropout_prob,
        attn_implementation="sdpa",
    )


def new_layers(encoder: Encoder, count: int) -> nn.ModuleList:
    """Return new layers, [rows, time, dim] to the same, for states of this encoder."""
    from transformers.models.bert.modeling_bert import BertLayer

    shape = shape_of(encoder)
    return nn.ModuleList(BertLayer(shape) for _ in range(count))


def embedded(encoder: Encoder, ids: Int[Tensor, "rows time"]) -> Float[Tensor, "rows time dim"]:
    """Return the output of the embedding layer: words, positions, layer norm, dropout."""
    return cast(Any, encoder.backbone).embeddings(input_ids=ids)


def token_table(encoder: Encoder) -> Float[Tensor, "vocabulary dim"]:
    """Return the encoder's token embeddings: the output layer of every tied head."""
    return cast(Any, encoder.backbone).get_input_embeddings().weight


def entrance(encoder: Encoder) -> nn.Module:
    """Return a map [rows, dim] to [rows, hidden], so that vectors are as wide as states.

    It is a new layer if Dense layers of the encoder change the width, else the identity.
    """
    if encoder.dim == encoder.hidden_dim:
        return nn.Identity()
    layer = nn.Linear(encoder.dim, encoder.hidden_dim, bias=False)
    draw_weights(layer)
    return layer


def with_first(
    vectors: Float[Tensor, "rows dim"], states: Float[Tensor, "rows time dim"]
) -> Float[Tensor, "rows time dim"]:
    """Return the states with `vectors` in place of the first token."""
    return torch.cat([vectors.to(states.dtype).unsqueeze(1), states[:, 1:]], dim=1)


def blind_to_padding(
    mask: Int[Tensor, "rows time"], like: Float[Tensor, "rows time dim"]
) -> Float[Tensor, "rows 1 1 time"]:
    """Return the attention bias that hides padding."""
    return _added(mask[:, None, None, :].bool(), like)


def blind_to_the_future(like: Float[Tensor, "rows time dim"]) -> Float[Tensor, "1 1 time time"]:
    """Return the attention bias that shows each token itself and its predecessors only."""
    time = like.shape[1]
    seen = torch.ones(time, time, dtype=torch.bool, device=like.device).tril()
    return _added(seen[None, None], like)


def _added(seen: Tensor, like: Tensor) -> Tensor:
    """Return a boolean mask as an additive one, which all attentions of transformers accept."""
    nothing = torch.zeros(seen.shape, dtype=like.dtype, device=like.device)
    return nothing.masked_fill(~seen, torch.finfo(like.dtype).min)
