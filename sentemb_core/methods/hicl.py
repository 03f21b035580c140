"""HiCL (seed 004): a method on whole texts, and a contrast of their segments beside it."""

from dataclasses import replace

from sentemb_core.encoder.encoder import Encoder
from sentemb_core.method_settings import ESimCSE, HiCL, SimCSE
from sentemb_core.methods.contrast import contrast
from sentemb_core.methods.esimcse import esimcse
from sentemb_core.methods.method import Method
from sentemb_core.methods.simcse import simcse
from sentemb_core.methods.sncse import sncse
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
        settings.segment - 2 * special,
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
