"""SNCSE (Wang et al. 2022): a prompted sentence, itself, and its negation as a soft negative."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from sentemb_core.config.methods import SNCSE
from sentemb_core.documents import Documents, Tokens
from sentemb_core.encoder.encoder import Encoder, Reading
from sentemb_core.errors import RecipeError
from sentemb_core.methods.parts.heads import mlp
from sentemb_core.methods.parts.info_nce import contrast
from sentemb_core.methods.parts.method import (
    CrossSampleTerm,
    ForwardPass,
    Learner,
    LossAndMetrics,
    Method,
    Vectors,
)
from sentemb_core.methods.parts.negation import negated
from sentemb_core.methods.parts.pairs import identity
from sentemb_core.methods.parts.tokenizer_tools import ids_of, mask_id, texts_of, tokens_of
from sentemb_core.methods.parts.views import Batch, Draw, View, ViewMaker, first, text_hashes
from sentemb_core.methods.simcse import require_dropout

Negate = Callable[[str], str]
"""sentence -> its opposite"""

ADDED = 3
"""Tokens that a negation adds to its sentence: `did not`, and one more piece of the verb."""


def sncse(settings: SNCSE, encoder: Encoder, negate: Negate = negated) -> Method:
    """SimCSE on the state at [MASK], plus a bidirectional margin between positive and negation.

    Sentences are truncated before they are negated, so that no negation is cut off.

    `negate` maps a sentence to its opposite, for example by spaCy's parse; default: our own rules.

    Raises:
        RecipeError: the prompt leaves no room for the text.
    """
    require_dropout(encoder, "sncse")
    text = shortened(first, text_tokens(settings, encoder))
    return soft_negated(settings, encoder, text, opposite(text, encoder, negate))


def soft_negated(settings: SNCSE, encoder: Encoder, text: ViewMaker, negation: ViewMaker) -> Method:
    """Return SNCSE on passes over `text`, with `negation` as its opposite; neither has a prompt."""

    def within(before: str, text: ViewMaker) -> ViewMaker:
        prompt = ids_of(encoder, before), behind_text(settings, encoder)
        return prompted(text, *prompt, encoder.max_length)

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
            "contrast": (1.0, contrast("anchor", "positive", settings.temperature)),
            "margin": (settings.weight, margin),
        },
        head=mlp,
    )


def opposite(text: ViewMaker, encoder: Encoder, negate: Negate = negated) -> ViewMaker:
    """Return a view of `text` with the opposite meaning, computed on its words.

    `text` must have no prompt and no slices, so that no word is cut.

    Raises:
        RecipeError: as `Encoder.framed`.
    """
    decode, encode = texts_of(encoder), tokens_of(encoder)

    def view(corpus: Documents, draw: Draw, rng: np.random.Generator) -> View:
        seen = text(corpus, draw, rng)
        return replace(seen, tokens=encode(list(map(negate, decode(seen.tokens)))))

    return view


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


def shortened(text: ViewMaker, most: int) -> ViewMaker:
    """Return a view of `text` cut after `most` content tokens, inside its frame.

    Texts that differ only after the cut are equal.
    """

    def view(corpus: Documents, draw: Draw, rng: np.random.Generator) -> View:
        seen = text(corpus, draw, rng)
        left, right = seen.frame
        ends = [len(row) - right for row in seen.tokens]
        tokens = [
            np.concatenate([row[: min(left + most, end)], row[end:]])
            for row, end in zip(seen.tokens, ends, strict=True)
        ]
        return replace(seen, tokens=tokens, text=text_hashes(tokens))

    return view


def prompted(text: ViewMaker, prefix: list[int], suffix: list[int], max_length: int) -> ViewMaker:
    """Return a view of `prefix`, the content of `text`, and `suffix`, inside its special tokens.

    A text is truncated so that the whole row has at most `max_length` tokens (SNCSE: 32). The
    suffix has the mask (SNCSE: `" means [MASK] .`).
    """
    before, after = np.asarray(prefix, np.int64), np.asarray(suffix, np.int64)

    def view(corpus: Documents, draw: Draw, rng: np.random.Generator) -> View:
        seen = text(corpus, draw, rng)
        left, right = seen.frame
        most = max_length - right - len(after) - len(before)
        tokens: list[Tokens] = []
        for row in seen.tokens:
            end = len(row) - right
            parts = [row[:left], before, row[left : min(end, most)], after, row[end:]]
            tokens.append(np.concatenate(parts))
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
    2022; .1 and .3 there), for the cosines of each anchor to both.
    """
    difference = soft_negative - positive
    return ((difference + low).relu() + (-difference - high).relu()).mean()


def soft_negative(
    anchors: str, partners: str, soft_negatives: str, *, low: float, high: float
) -> CrossSampleTerm:
    """Margin term of SNCSE, row by row, between `low` and `high` below the positive."""

    def term(vectors: Vectors, _: Batch, __: Learner) -> LossAndMetrics:
        anchor = vectors[anchors]
        near = F.cosine_similarity(anchor, vectors[partners])
        far = F.cosine_similarity(anchor, vectors[soft_negatives])
        return bidirectional_margin(near, far, low=low, high=high), {}

    return term
