"""SNCSE (Wang et al. 2022): a prompted sentence, itself, and its negation as a soft negative."""

from sentemb_core.config.methods import SNCSE
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.errors import RecipeError
from sentemb_core.heads.mlp import mlp
from sentemb_core.methods.contrast import contrast
from sentemb_core.methods.method import Method
from sentemb_core.methods.simcse import require_dropout
from sentemb_core.methods.terms.margins import soft_negative
from sentemb_core.methods.tokenizer_tools import ids_of, mask_id, texts_of, tokens_of
from sentemb_core.pairs import sources
from sentemb_core.readers.at_token import at_token
from sentemb_core.views.batch import ViewMaker
from sentemb_core.views.negation import Negate, negations
from sentemb_core.views.prompted import prompted
from sentemb_core.views.sentences import first
from sentemb_core.views.shortened import shortened

ADDED = 3
"""Tokens by which a negation outgrows its sentence: `did not`, and a piece more of the verb."""


def sncse(settings: SNCSE, encoder: Encoder, negate: Negate | None = None) -> Method:
    """SimCSE on the state at [MASK], and a bidirectional margin between positive and negation.

    Sentences are cut before they are negated: no negation stands behind the cut.

    Args:
        settings: Prompts, margins and their weight.
        encoder: Its vocabulary has a mask, and its max_length room for prompt and text.
        negate: A sentence to its opposite, by spaCy's parse for one; none: our own rules.

    Raises:
        RecipeError: the prompt leaves no room for the text.
    """
    require_dropout(encoder, "sncse")
    text = shortened(first, text_tokens(settings, encoder), special_tokens=encoder.framed)
    return soft_negated(settings, encoder, text, opposite(text, encoder, negate))


def soft_negated(settings: SNCSE, encoder: Encoder, text: ViewMaker, negation: ViewMaker) -> Method:
    """SNCSE on passes over `text`, of which `negation` is the opposite; neither has a prompt."""
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
        pairs=sources.identity,
        views={
            "anchor": within(settings.before, text),
            "positive": within(settings.before_positive, text),
            "negation": within(settings.before_positive, negation),
        },
        readers={"anchor": at_mask, "positive": at_mask, "negation": at_mask},
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
    """`text` negated by way of its words, as long as that makes it."""
    return negations(text, texts_of(encoder), tokens_of(encoder), negate)


def text_tokens(settings: SNCSE, encoder: Encoder) -> int:
    """Content tokens of a sentence that leave room for the prompt and for a negation.

    Raises:
        RecipeError: there are none.
    """
    special, prompt = 2 * encoder.framed, prompt_tokens(settings, encoder)
    room = encoder.max_length - special - prompt - ADDED
    if room < 1:
        raise RecipeError(
            f"A prompt leaves room for the text; found one of {prompt} tokens, with {special} "
            f"special tokens and {ADDED} for a negation, in rows of {encoder.max_length}: raise "
            "encoder.max_length, or shorten the prompt"
        )
    return room


def behind_text(settings: SNCSE, encoder: Encoder) -> list[int]:
    """Token ids of the prompt behind the text, the mask among them."""
    mask = mask_id(encoder)
    return [*ids_of(encoder, settings.behind), mask, *ids_of(encoder, settings.end)]


def prompt_tokens(settings: SNCSE, encoder: Encoder) -> int:
    """What the longer prompt takes of a row, special tokens aside."""
    before = max(len(ids_of(encoder, b)) for b in (settings.before, settings.before_positive))
    return before + len(behind_text(settings, encoder))
