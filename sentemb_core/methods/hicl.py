"""HiCL (hicl): a method on whole texts, and a contrast of their segments beside it."""

import logging
from dataclasses import replace

import numpy as np
from jaxtyping import Bool

from sentemb_core.config.methods import SNCSE, ESimCSE, HiCL, SimCSE
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.errors import RecipeError
from sentemb_core.methods.contrast import contrast
from sentemb_core.methods.esimcse import esimcse
from sentemb_core.methods.method import Method
from sentemb_core.methods.simcse import simcse
from sentemb_core.methods.sncse import opposite, prompt_tokens, soft_negated
from sentemb_core.methods.terms.segments import segment_contrast
from sentemb_core.methods.tokenizer_tools import require_transformer
from sentemb_core.pairs import sources
from sentemb_core.pairs.documents import Documents
from sentemb_core.views.batch import ViewMaker
from sentemb_core.views.segments import segments
from sentemb_core.views.whole import whole

log = logging.getLogger(__name__)


def hicl(settings: HiCL, encoder: Encoder) -> Method:
    """Alpha local + (1 - alpha) global, where global is the base method on summed segments.

    With `beta` it is HiCLv2: every segment also chooses its own text, under the same dropout.
    """
    require_transformer(encoder, "hicl")
    if (held := segment_tokens(settings, encoder)) < settings.segment:
        log.warning(
            "segments are cut to %d tokens, which the encoder reads at once, where method.segment "
            "asks for %d: see encoder.max_length, and encoder.positions of random weights",
            held,
            settings.segment,
        )
    base = over_segments(based(settings, encoder))
    local = segment_contrast(
        segmented("anchor"),
        segmented("positive"),
        settings.base.temperature,
        encoder.similarity,
        rivals=segmented("anchor" if settings.negatives == "first" else "positive"),
        siblings=settings.siblings,
        averaged=settings.denominator == "average",
    )
    entailment = contrast(
        segmented("anchor"), "anchor", settings.base.temperature, encoder.similarity
    )
    rest = 1 - settings.alpha - settings.beta
    return replace(
        base,
        name="hicl",
        pairs=sources.whole_documents,
        head_first=settings.head == "before",
        terms={name: (rest * weight, term) for name, (weight, term) in base.terms.items()}
        | {"local": (settings.alpha, local)}
        | ({"entailment": (settings.beta, entailment)} if settings.beta else {}),
        sample_terms={
            name: (rest * weight, term) for name, (weight, term) in base.sample_terms.items()
        },
    )


def segment_tokens(settings: HiCL, encoder: Encoder) -> int:
    """As many as the encoder reads, at most `method.segment`; SNCSE's prompted rows are cut."""
    held = encoder.max_length if isinstance(settings.base, SNCSE) else encoder.positions
    return min(settings.segment, held or settings.segment)


def slice_tokens(settings: HiCL, encoder: Encoder) -> int:
    """Content tokens of a slice: what special tokens, and a prompt, leave of a segment.

    Raises:
        RecipeError: they leave nothing.
    """
    length, taken = segment_tokens(settings, encoder), 2 * encoder.framed
    if isinstance(settings.base, SNCSE):
        taken += prompt_tokens(settings.base, encoder)
    if taken >= length:
        raise RecipeError(
            f"A segment has room for its text; found one of {length} tokens, of which prompt and "
            f"special tokens take {taken}: raise method.segment and encoder.max_length, or shorten "
            "the prompt"
        )
    return length - taken


def several_segments(
    settings: HiCL, encoder: Encoder, corpus: Documents
) -> Bool[np.ndarray, " texts"]:
    """Whether each text to learn from is cut into more than one; if none is, HiCL is its base."""
    texts = corpus.document_of[sources.whole_documents(corpus).i]
    content = sources.content_tokens(corpus, special_tokens=encoder.framed)[texts]
    held = np.minimum(content, settings.longest - 2 * encoder.framed)
    return held > slice_tokens(settings, encoder)


def based(settings: HiCL, encoder: Encoder) -> Method:
    """The base method, with slices of texts for sentences; a text is negated before it is cut."""
    base = settings.base
    text = whole(settings.longest, special_tokens=encoder.framed)
    slices = sliced(text, settings, encoder)
    if isinstance(base, SimCSE):
        return simcse(base, encoder, slices)
    if isinstance(base, ESimCSE):
        return esimcse(base, encoder, slices, segment_tokens(settings, encoder))
    return soft_negated(base, encoder, slices, sliced(opposite(text, encoder), settings, encoder))


def sliced(text: ViewMaker, settings: HiCL, encoder: Encoder) -> ViewMaker:
    """`text` in the segments of these settings; all views of a text weigh them alike."""
    length = slice_tokens(settings, encoder)
    frame = segment_tokens(settings, encoder) - length
    return segments(
        text,
        length,
        special_tokens=encoder.framed,
        weighted=settings.pooling != "plain",
        beside=frame if settings.pooling == "weighted_with_frame" else 0,
    )


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
