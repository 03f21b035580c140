"""HiCL (seed 004): a method on whole texts, and a contrast of their segments beside it."""

from dataclasses import replace

from sentemb_core.encoder.encoder import Encoder
from sentemb_core.errors import RecipeError
from sentemb_core.method_settings import SNCSE, ESimCSE, HiCL, SimCSE
from sentemb_core.methods.contrast import contrast
from sentemb_core.methods.esimcse import esimcse
from sentemb_core.methods.method import Method
from sentemb_core.methods.simcse import simcse
from sentemb_core.methods.sncse import prompt_tokens, sncse
from sentemb_core.methods.terms.segments import segment_contrast
from sentemb_core.methods.words import require_transformer
from sentemb_core.pairs import sources
from sentemb_core.views.batch import ViewMaker
from sentemb_core.views.segments import segments
from sentemb_core.views.whole import whole


def hicl(settings: HiCL, encoder: Encoder) -> Method:
    """Alpha local + (1 - alpha) global, where global is the base method on summed segments.

    With `beta` it is HiCLv2: every segment also chooses its own text.
    """
    require_transformer(encoder, "hicl")
    special = encoder.add_special_tokens
    slices = segments(
        whole(settings.longest, special_tokens=special),
        slice_tokens(settings, encoder),
        special_tokens=special,
        weighted=settings.pooling == "weighted",
    )
    base = over_segments(based(settings, encoder, slices))
    local = segment_contrast(
        segmented("anchor"),
        segmented("positive"),
        settings.base.temperature,
        encoder.similarity,
        siblings=settings.siblings,
        averaged=settings.denominator == "average",
    )
    entailment = contrast(
        segmented("anchor"), "positive", settings.base.temperature, encoder.similarity
    )
    rest = 1 - settings.alpha - settings.beta
    return replace(
        base,
        name="hicl",
        pairs=sources.whole_documents,
        terms={name: (rest * weight, term) for name, (weight, term) in base.terms.items()}
        | {"local": (settings.alpha, local)}
        | ({"entailment": (settings.beta, entailment)} if settings.beta else {}),
        sample_terms={
            name: (rest * weight, term) for name, (weight, term) in base.sample_terms.items()
        },
    )


def slice_tokens(settings: HiCL, encoder: Encoder) -> int:
    """Content tokens of a slice: what special tokens, and a prompt, leave of a segment.

    Raises:
        RecipeError: they leave nothing.
    """
    base, length, taken = settings.base, settings.segment, 2 * encoder.add_special_tokens
    if isinstance(base, SNCSE):
        length = min(length, encoder.max_length)
        taken += prompt_tokens(base, encoder)
    if taken >= length:
        raise RecipeError(
            f"A segment has room for its text; found one of {length} tokens, of which prompt and "
            f"special tokens take {taken}: raise method.segment and encoder.max_length, or shorten "
            "the prompt"
        )
    return length - taken


def based(settings: HiCL, encoder: Encoder, text: ViewMaker) -> Method:
    """The base method, with slices of texts for sentences."""
    base = settings.base
    if isinstance(base, SimCSE):
        return simcse(base, encoder, text)
    if isinstance(base, ESimCSE):
        return esimcse(base, encoder, text)
    return sncse(base, encoder, text)


def over_segments(base: Method) -> Method:
    """Its views read slices; under their own names stand the sums that its terms compare."""
    return replace(
        base,
        views={segmented(view): maker for view, maker in base.views.items()},
        readers={segmented(view): reader for view, reader in base.readers.items()},
        aggregate={view: segmented(view) for view in base.views},
        sample_terms={
            name: (weight, replace(term, view=segmented(term.view)))
            for name, (weight, term) in base.sample_terms.items()
        },
    )


def segmented(view: str) -> str:
    """Name of the view whose rows are the slices of `view`."""
    return f"{view} segments"
