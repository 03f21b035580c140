"""Autoencoders (product_thesis): a small decoder restores the sentence from its vector."""

from dataclasses import replace
from typing import Any, cast

import numpy as np
from jaxtyping import Bool, Float, Int, Int64
from torch import Tensor, nn

from sentemb_core.config.methods import CLMAutoencoder, MLMAutoencoder
from sentemb_core.documents import Documents
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.errors import RecipeError
from sentemb_core.methods.parts.heads import draw_weights
from sentemb_core.methods.parts.info_nce import contrast
from sentemb_core.methods.parts.masked_language import (
    LanguageHead,
    MaskFiller,
    masking,
    with_masked_inputs,
)
from sentemb_core.methods.parts.method import Learner, Method, Rows, SampleTerm
from sentemb_core.methods.parts.pairs import identity
from sentemb_core.methods.parts.tokenizer_tools import (
    begins_word,
    require_frame,
    require_positions,
)
from sentemb_core.methods.parts.transformer_layers import (
    blind_to_the_future,
    embedded,
    entrance,
    layers_of,
    new_layers,
    require_table,
    shape_of,
    token_table,
)
from sentemb_core.methods.parts.views import (
    IGNORED,
    Content,
    Draw,
    View,
    ViewMaker,
    content_of,
    first,
    rows_of,
)
from sentemb_core.methods.simcse import require_dropout


def clm_autoencoder(settings: CLMAutoencoder, encoder: Encoder) -> Method:
    """The decoder predicts token after token; with `noise` this is TSDAE."""
    require_decodable(encoder, tied=settings.tied)
    require_frame(encoder)
    if settings.noise and not encoder.framed:
        raise RecipeError(
            "Word deletion needs a tokenizer that starts every text with a special token; "
            f"{type(encoder.backbone).__name__}'s adds none. Start from 'minilm', or set "
            "method.noise=0"
        )
    text = reconstructed(first)
    if settings.noise:
        text = deleted(text, settings.noise, begins_word(encoder))
    layers = None if settings.tied else settings.layers
    method = Method(
        name="clm_autoencoder",
        pairs=identity,
        views={"anchor": text},
        sample_terms={
            "rewritten": (settings.weight, SampleTerm("anchor", rewritten, settings.per))
        },
        networks=lambda encoder: {"decoder": CausalDecoder(encoder, layers)},
    )
    return beside_simcse(method, settings, encoder)


def mlm_autoencoder(settings: MLMAutoencoder, encoder: Encoder) -> Method:
    """The decoder fills the masks of bare embeddings."""
    require_positions(encoder, "mlm_autoencoder's decoder")
    require_table(encoder)
    method = Method(
        name="mlm_autoencoder",
        pairs=identity,
        views={"anchor": with_masked_inputs(first, masking(encoder, settings.mask_rate))},
        sample_terms={"filled_in": (settings.weight, SampleTerm("anchor", filled_in, "row"))},
        networks=lambda encoder: {"decoder": MaskFiller(encoder, settings.layers)},
    )
    return beside_simcse(method, settings, encoder)


def beside_simcse(
    method: Method, settings: CLMAutoencoder | MLMAutoencoder, encoder: Encoder
) -> Method:
    """Return the multi-task form of product_thesis: SimCSE on the same vectors, without a head."""
    if not settings.simcse:
        return method
    require_dropout(encoder, method.name)
    term = contrast("anchor", "positive", settings.temperature)
    return method.joined(views={"positive": first}, terms={"contrast": (settings.simcse, term)})


def reconstructed(text: ViewMaker) -> ViewMaker:
    """Return a view of `text` whose own tokens are the decoder's targets (product_thesis).

    The first is no target: the decoder is given it.
    """

    def view(corpus: Documents, draw: Draw, rng: np.random.Generator) -> View:
        seen = text(corpus, draw, rng)
        return replace(seen, targets=[np.append(IGNORED, row[1:]) for row in seen.tokens])

    return view


def deleted(
    text: ViewMaker, rate: float, begins_word: Bool[np.ndarray, " vocabulary"]
) -> ViewMaker:
    """Return a view of `text` with deleted words and the same targets (TSDAE, Wang et al. 2021).

    Args:
        text: View to delete words from.
        rate: Probability that a word is deleted, .6 in TSDAE; at least one word of a row stays.
        begins_word: Whether each token id starts a word; the pieces of a word are deleted together.
    """

    def view(corpus: Documents, draw: Draw, rng: np.random.Generator) -> View:
        seen = text(corpus, draw, rng)
        content = content_of(seen)
        word = _words(content, begins_word)
        chance = rng.random(int(word[-1]) + 1)
        last_hope = np.zeros(len(content.lengths))  # a row's largest draw stays, whatever it is
        np.maximum.at(last_hope, content.row[content.inner], chance[word[content.inner]])
        stays = (chance >= rate)[word] | (chance[word] == last_hope[content.row]) | ~content.inner
        lengths = np.bincount(content.row[stays], minlength=len(content.lengths))
        return replace(seen, tokens=rows_of(content.ids[stays], lengths))

    return view


def _words(
    content: Content, begins_word: Bool[np.ndarray, " vocabulary"]
) -> Int64[np.ndarray, " tokens"]:
    """Return the word index of every token; no word spans two rows."""
    first = np.diff(content.inner, prepend=False) | (np.diff(content.row, prepend=-1) != 0)
    return np.cumsum(begins_word[content.ids] | first) - 1


def require_decodable(encoder: Encoder, *, tied: bool) -> None:
    """Check that a decoder fits on the encoder or, if tied, can use its layers.

    Raises:
        RecipeError: the encoder has no such layers or table, or its layers differ from BERT's.
    """
    require_table(encoder)
    if tied and not hasattr(layers_of(encoder)[0], "feed_forward_chunk"):
        raise RecipeError(
            "A tied decoder needs separate attention and feed-forward layers, as BERT's; "
            f"found {type(encoder.backbone).__name__}. Leave method.tied out"
        )


class CausalDecoder(nn.Module):
    """Layers with causal self-attention, and cross-attention to one vector.

    Tokens enter by the encoder's embedding layer and leave by its token table.

    Args:
        encoder: The encoder whose vectors it decodes.
        layers: Number of own layers, 2 in product_thesis; None uses all layers of the encoder
            (TSDAE), so only the cross-attention and the language head are new.

    Raises:
        RecipeError: as `require_decodable`.
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
        """Return states that predict the next token.

        Padding at the right needs no mask: no earlier token attends to it.
        """
        states, sentence = embedded(encoder, ids), self.entrance(vectors).unsqueeze(1)
        hidden = blind_to_the_future(states)
        layers = cast(Any, layers_of(encoder) if self.layers is None else self.layers)
        for layer, memory in zip(layers, self.memory, strict=True):
            states = layer.attention(states, hidden)[0]
            states = memory(states, encoder_hidden_states=sentence)[0]
            states = layer.feed_forward_chunk(states)
        return states

    def loss(self, encoder: Encoder, rows: Rows) -> Float[Tensor, ""]:
        """Return the sum over all targets after the first token, which is given."""
        ids = rows.targets.masked_fill(rows.targets == IGNORED, 0)
        ids[:, 0] = rows.ids[:, 0]
        states = self(encoder, rows.reading.pooled, ids)
        return self.language.loss(states[:, :-1], rows.targets[:, 1:], token_table(encoder))


def rewritten(learner: Learner, rows: Rows) -> Tensor:
    """The CLM autoencoder's loss: a `CausalDecoder` predicts targets from the sentence vector."""
    return cast(CausalDecoder, learner.networks["decoder"]).loss(learner.encoder, rows)


def filled_in(learner: Learner, rows: Rows) -> Tensor:
    """The MLM autoencoder's loss: a `MaskFiller` on the bare embeddings of `inputs`."""
    decoder = cast(MaskFiller, learner.networks["decoder"])
    early, table = embedded(learner.encoder, rows.inputs), token_table(learner.encoder)
    return decoder.loss(rows.reading.pooled, early, rows.mask, rows.targets, table)
