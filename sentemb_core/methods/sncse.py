"""SNCSE (Wang et al. 2022): a prompted sentence, itself, and its negation as a soft negative."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from sentemb_core.config.methods import SNCSE
from sentemb_core.documents import Documents
from sentemb_core.encoder.encoder import Encoder, Reading
from sentemb_core.errors import RecipeError
from sentemb_core.methods.parts.heads import mlp
from sentemb_core.methods.parts.info_nce import contrast
from sentemb_core.methods.parts.method import CrossSampleTerm, ForwardPass, Learner, Method
from sentemb_core.methods.parts.negation import Negate, negations
from sentemb_core.methods.parts.pairs import identity
from sentemb_core.methods.parts.tokenizer_tools import ids_of, mask_id, texts_of, tokens_of
from sentemb_core.methods.parts.views import (
    Batch,
    Draw,
    View,
    ViewMaker,
    first,
    frame_of,
    text_hashes,
)
from sentemb_core.methods.simcse import require_dropout

ADDED = 3
"""Tokens that a negation adds to its sentence: `did not`, and one more piece of the verb."""


def sncse(settings: SNCSE, encoder: Encoder, negate: Negate | None = None) -> Method:
    """SimCSE on the state at [MASK], plus a bidirectional margin between positive and negation.

    Sentences are truncated before they are negated, so that no negation is cut off.

    Args:
        settings: Prompts, margins and their weight.
        encoder: Needs a mask token, and room for prompt and text in its max_length.
        negate: Sentence to its opposite, for example by spaCy's parse; default: our own rules.

    Raises:
        RecipeError: the prompt leaves no room for the text.
    """
    require_dropout(encoder, "sncse")
    text = shortened(first, text_tokens(settings, encoder), special_tokens=encoder.framed)
    return soft_negated(settings, encoder, text, opposite(text, encoder, negate))


def soft_negated(settings: SNCSE, encoder: Encoder, text: ViewMaker, negation: ViewMaker) -> Method:
    """Return SNCSE on passes over `text`, with `negation` as its opposite; neither has a prompt."""
    behind = behind_text(settings, encoder)

    def within(before: str, text: ViewMaker) -> ViewMaker:
        return prompted(
            text,
            ids_of(encoder, before),
            behind,
            encoder.max_length,
            special_tokens=encoder.framed,
        )

    at_mask = at_token(mask_id(encoder))
    margin = soft_negative("anchor", "positive", "negation", low=settings.alpha, high=settings.beta)
    return Method(
        name="sncse",
        pairs=identity,
        views={
            "anchor": within(settings.before, text),
            "positive": within(settings.before_positive, text),
            "negation": within(settings.before_positive, negation),
        },
        forward_passes={"anchor": at_mask, "positive": at_mask, "negation": at_mask},
        terms={
            "contrast": (
                1.0,
                contrast("anchor", "positive", settings.temperature, encoder.similarity),
            ),
            "margin": (settings.weight, margin),
        },
        head=mlp,
    )


def opposite(text: ViewMaker, encoder: Encoder, negate: Negate | None = None) -> ViewMaker:
    """Return a view of `text` with negated words."""
    return negations(text, texts_of(encoder), tokens_of(encoder), negate)


def text_tokens(settings: SNCSE, encoder: Encoder) -> int:
    """Return the content tokens of a sentence that leave room for the prompt and a negation.

    Raises:
        RecipeError: nothing is left.
    """
    special, prompt = 2 * encoder.framed, prompt_tokens(settings, encoder)
    room = encoder.max_length - special - prompt - ADDED
    if room < 1:
        raise RecipeError(
            f"A prompt must leave room for the text; found {prompt} prompt tokens, {special} "
            f"special tokens and {ADDED} for a negation in rows of {encoder.max_length}. Raise "
            "encoder.max_length, or shorten the prompt"
        )
    return room


def behind_text(settings: SNCSE, encoder: Encoder) -> list[int]:
    """Return the token ids of the prompt after the text, with the mask."""
    mask = mask_id(encoder)
    return [*ids_of(encoder, settings.behind), mask, *ids_of(encoder, settings.end)]


def prompt_tokens(settings: SNCSE, encoder: Encoder) -> int:
    """Return the tokens of the longer prompt, without special tokens."""
    before = max(len(ids_of(encoder, b)) for b in (settings.before, settings.before_positive))
    return before + len(behind_text(settings, encoder))


def shortened(text: ViewMaker, most: int, *, special_tokens: bool) -> ViewMaker:
    """Return a view of `text` cut after `most` content tokens, inside its frame.

    Texts that differ only after the cut are equal.
    """

    def view(corpus: Documents, draw: Draw, rng: np.random.Generator) -> View:
        seen = text(corpus, draw, rng)
        left, right = frame_of(seen, special_tokens=special_tokens)
        ends = [len(row) - right for row in seen.tokens]
        tokens = [
            np.concatenate([row[: min(left + most, end)], row[end:]])
            for row, end in zip(seen.tokens, ends, strict=True)
        ]
        return replace(seen, tokens=tokens, text=text_hashes(tokens))

    return view


def prompted(
    text: ViewMaker,
    prefix: Sequence[int],
    suffix: Sequence[int],
    max_length: int,
    *,
    special_tokens: bool,
) -> ViewMaker:
    """Return a view of `prefix`, the content of `text`, and `suffix`, inside its special tokens.

    Args:
        text: View to prompt; truncated if the whole would be too long.
        prefix: Token ids before it, without special tokens.
        suffix: Token ids after it, with the mask (SNCSE: `" means [MASK] .`).
        max_length: Tokens of the whole row (SNCSE: 32).
        special_tokens: Whether rows start and end with one.

    Raises:
        RecipeError: the prompt leaves no room for a text.
    """
    before, after = np.asarray(prefix, np.int64), np.asarray(suffix, np.int64)
    room = max_length - len(before) - len(after) - 2 * special_tokens
    if room < 1:
        raise RecipeError(
            f"A prompt must leave room for the text; found {len(before) + len(after)} prompt "
            f"tokens and {2 * special_tokens} special tokens in rows of {max_length}. "
            "Raise max_length, or shorten the prompt"
        )

    def view(corpus: Documents, draw: Draw, rng: np.random.Generator) -> View:
        seen = text(corpus, draw, rng)
        left, right = frame_of(seen, special_tokens=special_tokens)
        tokens = [
            np.concatenate(
                [
                    row[:left],
                    before,
                    row[left : len(row) - right][:room],
                    after,
                    row[len(row) - right :],
                ]
            )
            for row in seen.tokens
        ]
        return replace(seen, tokens=tokens, frame=(left + len(before), len(after) + right))

    return view


def at_token(token: int) -> ForwardPass:
    """Return a forward pass that pools the last state of `token`: the mask (SNCSE).

    The state goes through the encoder's Dense layers, as pooled states do.

    Raises:
        RecipeError: a row does not contain the token.
    """

    def forward(learner: Learner, ids: Tensor, mask: Tensor | None, layers: bool) -> Reading:
        found = ids == token
        if not bool(found.any(dim=1).all()):
            raise RecipeError(
                f"Every row needs the token {token} that is pooled; found a row without it. Put it "
                "into the prompt, and keep max_length as long as the prompt"
            )
        read = learner.encoder.read(ids, mask, layers=True)
        place = torch.arange(ids.shape[1], device=ids.device)
        last = torch.where(found, place, 0).argmax(dim=1)
        states = read.layers[-1][torch.arange(len(ids), device=ids.device), last]
        pooled = learner.encoder.finished(states.float())
        return Reading(pooled, read.layers if layers else ())

    return forward


def bidirectional_margin(
    positive: Float[Tensor, " n"], soft_negative: Float[Tensor, " n"], *, low: float, high: float
) -> Float[Tensor, ""]:
    """The soft negative is less similar than the positive, by at least `low` and at most `high`.

    mean[ReLU(d + low) + ReLU(-d - high)] with d = soft negative - positive (SNCSE, Wang et al.
    2022; .1 and .3 there).

    Args:
        positive: Cosine of each anchor and its positive.
        soft_negative: Cosine of each anchor and its negated sentence.
        low: Smallest gap without a loss.
        high: Largest gap without a loss.
    """
    difference = soft_negative - positive
    return ((difference + low).relu() + (-difference - high).relu()).mean()


def soft_negative(
    anchors: str, partners: str, soft_negatives: str, *, low: float, high: float
) -> CrossSampleTerm:
    """Margin term of SNCSE, row by row, between `low` and `high` below the positive."""

    def term(
        vectors: Mapping[str, Tensor], batch: Batch, _: Learner
    ) -> tuple[Tensor, dict[str, float]]:
        anchor = vectors[anchors]
        near = F.cosine_similarity(anchor, vectors[partners])
        far = F.cosine_similarity(anchor, vectors[soft_negatives])
        return bidirectional_margin(near, far, low=low, high=high), {}

    return term
