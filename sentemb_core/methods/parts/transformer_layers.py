"""The transformer inside an encoder, for networks that sit on it: its layers, embeddings, masks."""

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
"""The way out of a network that does not fit an encoder, beside another encoder."""


def layers_of(encoder: Encoder, otherwise: str = WITHOUT_THEM) -> nn.ModuleList:
    """The layers of a BERT-like encoder, lowest first.

    Raises:
        RecipeError: It is a static table, or built in another way; `otherwise` ends the sentence.
    """
    stack = getattr(getattr(encoder.backbone, "encoder", None), "layer", None)
    if not isinstance(stack, nn.ModuleList):
        raise RecipeError(
            "Auxiliary networks sit on the layers of a BERT-like transformer (embeddings, "
            f"encoder.layer); this encoder is {type(encoder.backbone).__name__}: start from a "
            f"transformer such as 'transformer' or 'minilm', or {otherwise}."
        )
    return stack


def skip_layer(encoder: Encoder, asked: int | None = None) -> int:
    """How many layers lie below the states that a Condenser head sees: as asked, or half of them.

    Raises:
        RecipeError: There is no layer below, or none above them.
    """
    depth = len(layers_of(encoder))
    layer = depth // 2 if asked is None else asked
    if not 1 <= layer < depth:
        raise RecipeError(
            "The head's tokens come from some layer below the top of the encoder, so that what "
            f"they lack must come through the sentence vector; found skip_from = {layer} and "
            f"{depth} layers: take a skip_from of at least 1 and less than {depth}, or a deeper "
            "encoder."
        )
    return layer


def require_table(encoder: Encoder, otherwise: str = WITHOUT_THEM) -> None:
    """That networks can stand on the encoder's layers, and tell tokens by its table.

    Recipes ask it, so that it is told before a run; the networks themselves are made much later.

    Raises:
        RecipeError: It is not BERT-like, or its token table has another width than its states;
            `otherwise` ends the sentence.
    """
    layers_of(encoder, otherwise)
    width, states = token_table(encoder).shape[1], cast(Any, encoder.backbone).config.hidden_size
    if width != states:
        raise RecipeError(
            "Auxiliary networks tell tokens by the encoder's own table, whose rows must be as wide "
            f"as its states; found {width} and {states} "
            f"({type(encoder.backbone).__name__}): start from a transformer such as 'minilm', or "
            f"{otherwise}"
        )


def shape_of(encoder: Encoder) -> "BertConfig":
    """Of a new BERT layer on top of this encoder: its width, heads, dropout and vocabulary.

    Raises:
        RecipeError: As `require_table`.
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
    """Layers [rows, time, dim] to the same, for states of this encoder."""
    from transformers.models.bert.modeling_bert import BertLayer

    shape = shape_of(encoder)
    return nn.ModuleList(BertLayer(shape) for _ in range(count))


def embedded(encoder: Encoder, ids: Int[Tensor, "rows time"]) -> Float[Tensor, "rows time dim"]:
    """What the embedding layer hands to the layers: words, positions, layer norm, dropout."""
    return cast(Any, encoder.backbone).embeddings(input_ids=ids)


def token_table(encoder: Encoder) -> Float[Tensor, "vocabulary dim"]:
    """The encoder's token embeddings: the output layer of every head that is tied to it."""
    return cast(Any, encoder.backbone).get_input_embeddings().weight


def entrance(encoder: Encoder) -> nn.Module:
    """[rows, dim] to [rows, hidden]: sentence vectors as wide as the states they join.

    Where an encoder's Dense layers change the width it is a new layer, else nothing.
    """
    if encoder.dim == encoder.hidden_dim:
        return nn.Identity()
    layer = nn.Linear(encoder.dim, encoder.hidden_dim, bias=False)
    draw_weights(layer)
    return layer


def with_first(
    vectors: Float[Tensor, "rows dim"], states: Float[Tensor, "rows time dim"]
) -> Float[Tensor, "rows time dim"]:
    """The states with `vectors` in the place of the first token."""
    return torch.cat([vectors.to(states.dtype).unsqueeze(1), states[:, 1:]], dim=1)


def blind_to_padding(
    mask: Int[Tensor, "rows time"], like: Float[Tensor, "rows time dim"]
) -> Float[Tensor, "rows 1 1 time"]:
    """What is added to attention scores so that nobody looks at padding."""
    return _added(mask[:, None, None, :].bool(), like)


def blind_to_the_future(like: Float[Tensor, "rows time dim"]) -> Float[Tensor, "1 1 time time"]:
    """What is added to attention scores so that a token sees itself and what precedes it."""
    time = like.shape[1]
    seen = torch.ones(time, time, dtype=torch.bool, device=like.device).tril()
    return _added(seen[None, None], like)


def _added(seen: Tensor, like: Tensor) -> Tensor:
    """A mask to add to scores: all attentions of transformers take it, not all a boolean one."""
    nothing = torch.zeros(seen.shape, dtype=like.dtype, device=like.device)
    return nothing.masked_fill(~seen, torch.finfo(like.dtype).min)
