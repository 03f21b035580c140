"""HiCL (hicl): a base method on whole texts, plus a contrast of their segments."""

import logging
from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Int64

from sentemb_core.config.methods import SNCSE, ESimCSE, HiCL, SimCSE
from sentemb_core.documents import Documents, Tokens
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.errors import RecipeError
from sentemb_core.methods.esimcse import esimcse
from sentemb_core.methods.parts.info_nce import contrast, loss_of_choice
from sentemb_core.methods.parts.method import (
    CrossSampleTerm,
    Learner,
    LossAndMetrics,
    Method,
    Vectors,
)
from sentemb_core.methods.parts.pairs import content_tokens, whole_documents
from sentemb_core.methods.parts.views import (
    Batch,
    Draw,
    View,
    ViewMaker,
    content_lengths,
    enough,
    extents,
    joined_texts,
    negatives,
    ranks,
    text_hashes,
    view_of,
)
from sentemb_core.methods.simcse import simcse
from sentemb_core.methods.sncse import opposite, prompt_tokens, soft_negated

log = logging.getLogger(__name__)


def hicl(settings: HiCL, encoder: Encoder) -> Method:
    """Alpha local + (1 - alpha) global, where global is the base method on summed segments.

    With `beta` it is HiCLv2: every segment also chooses its own text, under the same dropout.
    """
    if (held := segment_tokens(settings, encoder)) < settings.segment:
        log.warning(
            "segments limited to %d tokens by the encoder (method.segment: %d); see "
            "encoder.max_length and encoder.positions",
            held,
            settings.segment,
        )
    base = over_segments(based(settings, encoder))
    local = segment_contrast(
        segmented("anchor"),
        segmented("positive"),
        settings.base.temperature,
        rivals=segmented("anchor" if settings.negatives == "first" else "positive"),
        siblings=settings.siblings,
        averaged=settings.denominator == "average",
    )
    entailment = contrast(segmented("anchor"), "anchor", settings.base.temperature)
    rest = 1 - settings.alpha - settings.beta
    return replace(
        base,
        name="hicl",
        pairs=whole_documents,
        head_first=settings.head == "before",
        terms={name: (rest * weight, term) for name, (weight, term) in base.terms.items()}
        | {"local": (settings.alpha, local)}
        | ({"entailment": (settings.beta, entailment)} if settings.beta else {}),
        sample_terms={
            name: (rest * weight, term) for name, (weight, term) in base.sample_terms.items()
        },
    )


def segment_tokens(settings: HiCL, encoder: Encoder) -> int:
    """Return the tokens of a segment: those that the encoder reads, at most `method.segment`.

    SNCSE's prompted rows are truncated.
    """
    held = encoder.max_length if isinstance(settings.base, SNCSE) else encoder.positions
    return min(settings.segment, held or settings.segment)


def slice_tokens(settings: HiCL, encoder: Encoder) -> int:
    """Return the content tokens of a slice: a segment without special tokens and prompt.

    Raises:
        RecipeError: nothing is left.
    """
    length, taken = segment_tokens(settings, encoder), 2 * encoder.framed
    if isinstance(settings.base, SNCSE):
        taken += prompt_tokens(settings.base, encoder)
    if taken >= length:
        raise RecipeError(
            f"A segment needs room for text; found {length} tokens, of which prompt and special "
            f"tokens take {taken}. Raise method.segment and encoder.max_length, or shorten the "
            "prompt"
        )
    return length - taken


def segment_counts(
    settings: HiCL, encoder: Encoder, corpus: Documents
) -> Int64[np.ndarray, " texts"]:
    """Return the segments of each training text; if all have one, HiCL equals its base."""
    texts = corpus.document_of[whole_documents(corpus).i]
    held = np.minimum(content_tokens(corpus)[texts], settings.longest - 2 * encoder.framed)
    return np.maximum(1, -(-held // slice_tokens(settings, encoder)))


def based(settings: HiCL, encoder: Encoder) -> Method:
    """Return the base method on slices of texts; a text is negated before it is sliced."""
    base = settings.base
    text = whole(settings.longest - 2 * encoder.framed)
    slices = sliced(text, settings, encoder)
    if isinstance(base, SimCSE):
        return simcse(base, encoder, slices)
    if isinstance(base, ESimCSE):
        return esimcse(base, encoder, slices, segment_tokens(settings, encoder))
    return soft_negated(base, encoder, slices, sliced(opposite(text, encoder), settings, encoder))


def sliced(text: ViewMaker, settings: HiCL, encoder: Encoder) -> ViewMaker:
    """Return a view of `text` in segments; all views of a text weight them equally."""
    length = slice_tokens(settings, encoder)
    frame = segment_tokens(settings, encoder) - length
    beside = frame if settings.pooling == "weighted_with_frame" else 0
    return segments(text, length, weighted=settings.pooling != "plain", beside=beside)


def over_segments(base: Method) -> Method:
    """Return the method with sliced views; their sums, under the old names, enter its terms."""
    return replace(
        base,
        views={segmented(view): maker for view, maker in base.views.items()},
        forward_passes={segmented(view): forward for view, forward in base.forward_passes.items()},
        aggregate={view: segmented(view) for view in base.views},
        sample_terms={
            name: (weight, replace(term, view=segmented(term.view)))
            for name, (weight, term) in base.sample_terms.items()
        },
    )


def segmented(view: str) -> str:
    """Return the name of the view whose rows are the slices of `view`."""
    return f"{view} segments"


def whole(most: int) -> ViewMaker:
    """Return a view of the beginning of each drawn sentence's document (the sequences of hicl).

    The pair source is `whole_documents`: the first sentence represents its document.
    `most` is in content tokens (hicl: 512 with special tokens).
    """

    def view(corpus: Documents, draw: Draw, _: np.random.Generator) -> View:
        rows = [
            begin + np.arange(enough(content_lengths(corpus, begin, end), most))
            for begin, end in extents(corpus, corpus.document_of[draw.first])
        ]
        tokens = joined_texts(corpus, rows, [slice(most)] * len(rows))
        seen = view_of(corpus, draw.first, draw.group, tokens)
        return replace(seen, text=text_hashes(tokens))  # not the first sentence's

    return view


def segments(text: ViewMaker, length: int, *, weighted: bool = True, beside: int = 0) -> ViewMaker:
    """Return a view of `text` in slices of `length` content tokens; the last may be shorter.

    Each slice has the frame of its text: special tokens, or a prompt. A text of n content tokens
    gives 1 + (n - 1) // length rows (hicl, section 3.1), an empty text one row. Perturb after
    slicing, `repeated(segments(...))`, so that both views have the same slices.

    Args:
        text: The view to slice.
        length: Content tokens of a slice.
        weighted: A slice weighs its share of the tokens of its text. Otherwise all slices of a text
            weigh the same.
        beside: Tokens that a slice counts beside its content: its frame, and a later prompt.
    """

    def view(corpus: Documents, draw: Draw, rng: np.random.Generator) -> View:
        seen = text(corpus, draw, rng)
        lengths = np.fromiter(map(len, seen.tokens), np.int64, len(seen))
        sizes = np.maximum(lengths - sum(seen.frame), 1)  # an empty text is one slice, too
        counts = 1 + (sizes - 1) // length
        owner = np.repeat(np.arange(len(seen)), counts)
        within = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
        own = np.minimum(sizes[owner] - within * length, length) + beside
        tokens = [part for row in seen.tokens for part in _slices(row, seen.frame, length)]
        return View(
            tokens=tokens,
            document=seen.document[owner],
            group=seen.group[owner],
            text=seen.text[owner],
            wording=text_hashes(tokens),
            owner=owner,
            weight=own / np.bincount(owner, own)[owner] if weighted else 1 / counts[owner],
            frame=seen.frame,
        )

    return view


def _slices(row: Tokens, frame: tuple[int, int], length: int) -> list[Tokens]:
    start, stop = frame[0], len(row) - frame[1]
    if stop - start <= length:
        return [row]
    head, tail = row[:start], row[stop:]
    return [
        np.concatenate([head, row[place : min(place + length, stop)], tail])
        for place in range(start, stop, length)
    ]


Siblings = Literal["ignored", "negative", "positive"]


def segment_contrast(
    anchors: str,
    candidates: str,
    temperature: float,
    *,
    rivals: str | None = None,
    siblings: Siblings = "ignored",
    averaged: bool = False,
) -> CrossSampleTerm:
    """Segment term: the k-th segment of a sequence chooses the k-th segment of the same sequence.

    It is the mean over segments (hicl, Eq. 1 and 2). The view of the negatives, `rivals`, is open
    in the paper (erratum E34); default: that of the candidates. `siblings` is the role of other
    segments of the same sequence. If `averaged`, another sequence of v segments counts once, 1 / v
    each, in place of v times (the paper's 'averaging' denominator).
    """
    opposed = rivals or candidates

    def term(vectors: Vectors, batch: Batch, learner: Learner) -> LossAndMetrics:
        left, right = batch.views[anchors], batch.views[candidates]
        sequence, own = _same(left, right)
        positive = sequence if siblings == "positive" else own
        other = batch.views[opposed]
        sequence, own = _same(left, other)
        if siblings == "negative":
            negative = negatives(left, other, own) | (sequence & ~own & ~_copies(left, other))
        else:  # neither is what another text repeats of them
            negative = negatives(left, other, sequence)
        choices, shares = vectors[candidates], np.bincount(_owner(other))[_owner(other)]
        if opposed != candidates:  # the right ones, and the wrong ones behind them
            choices = torch.cat([choices, vectors[opposed]])
            positive = np.pad(positive, [(0, 0), (0, len(other))])
            negative = np.pad(negative, [(0, 0), (len(right), 0)])
            shares = np.pad(shares, (len(right), 0), constant_values=1)
        return loss_of_choice(
            vectors[anchors],
            choices,
            positive,
            negative,
            temperature,
            learner.encoder.similarity,
            bias=np.where(positive, 0.0, -np.log(shares)) if averaged else None,
            reduction="anchors",  # siblings as positives are more positives, not more to say
        )

    return term


def _same(left: View, right: View) -> tuple[Bool[np.ndarray, "n m"], Bool[np.ndarray, "n m"]]:
    """Return which rows belong to one sequence, and which are the same segment of it."""
    sequence = _owner(left)[:, None] == _owner(right)
    return sequence, sequence & (_ordinal(left)[:, None] == _ordinal(right))


def _copies(left: View, right: View) -> Bool[np.ndarray, "n m"]:
    """Return which rows have equal texts, as far as the views know."""
    if left.wording is None or right.wording is None:
        return np.zeros((len(left), len(right)), dtype=bool)
    return left.wording[:, None] == right.wording


def _owner(view: View) -> Int64[np.ndarray, " rows"]:
    return np.arange(len(view)) if view.owner is None else view.owner


def _ordinal(view: View) -> Int64[np.ndarray, " rows"]:
    """Return the number of earlier rows with the same owner."""
    return ranks(_owner(view), np.arange(len(view)))
