"""HiCL (hicl): a base method on whole texts, plus a contrast of their segments."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from sentemb_core.config.methods import SNCSE, ESimCSE, HiCL, SimCSE
from sentemb_core.documents import Documents, Tokens
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.errors import RecipeError
from sentemb_core.methods.esimcse import esimcse
from sentemb_core.methods.parts.info_nce import contrast, loss_of_choice
from sentemb_core.methods.parts.method import CrossSampleTerm, Learner, Method
from sentemb_core.methods.parts.pairs import content_tokens, whole_documents
from sentemb_core.methods.parts.tokenizer_tools import require_transformer
from sentemb_core.methods.parts.views import (
    Batch,
    Draw,
    View,
    ViewMaker,
    enough,
    extents,
    frame_of,
    joined,
    negatives,
    ranks,
    sentences_of,
    text_hashes,
    view_of,
)
from sentemb_core.methods.simcse import simcse
from sentemb_core.methods.sncse import opposite, prompt_tokens, soft_negated
from sentemb_core.types import Similarity

log = logging.getLogger(__name__)


def hicl(settings: HiCL, encoder: Encoder) -> Method:
    """Alpha local + (1 - alpha) global, where global is the base method on summed segments.

    With `beta` it is HiCLv2: every segment also chooses its own text, under the same dropout.
    """
    require_transformer(encoder, "hicl")
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


def several_segments(
    settings: HiCL, encoder: Encoder, corpus: Documents
) -> Bool[np.ndarray, " texts"]:
    """Whether each training text has more than one segment; if none has, HiCL equals its base."""
    texts = corpus.document_of[whole_documents(corpus).i]
    content = content_tokens(corpus, special_tokens=encoder.framed)[texts]
    held = np.minimum(content, settings.longest - 2 * encoder.framed)
    return held > slice_tokens(settings, encoder)


def based(settings: HiCL, encoder: Encoder) -> Method:
    """Return the base method on slices of texts; a text is negated before it is sliced."""
    base = settings.base
    text = whole(settings.longest, special_tokens=encoder.framed)
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
    return segments(
        text,
        length,
        special_tokens=encoder.framed,
        weighted=settings.pooling != "plain",
        beside=frame if settings.pooling == "weighted_with_frame" else 0,
    )


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


def whole(max_tokens: int, *, special_tokens: bool) -> ViewMaker:
    """Return a view of the beginning of each drawn sentence's document (the sequences of hicl).

    The pair source is `whole_documents`: the first sentence represents its document.

    Args:
        max_tokens: Limit of the text, special tokens included (hicl: 512).
        special_tokens: Whether sentences start and end with one; the text keeps one at each end.
    """
    around = 2 * special_tokens
    budget = max_tokens - around

    def view(corpus: Documents, draw: Draw, _: np.random.Generator) -> View:
        rows = [
            begin + np.arange(enough(corpus.uncut_lengths[begin:end] - around, budget))
            for begin, end in extents(corpus, corpus.document_of[draw.first])
        ]
        tokens = [
            joined(sentences, slice(budget), special_tokens=special_tokens)
            for sentences in sentences_of(corpus, rows)
        ]
        seen = view_of(corpus, draw.first, draw.group, tokens)
        return replace(seen, text=text_hashes(tokens))  # not the first sentence's

    return view


def segments(
    text: ViewMaker,
    length: int,
    *,
    special_tokens: bool,
    weighted: bool = True,
    beside: int = 0,
) -> ViewMaker:
    """Return a view of `text` in slices of `length` content tokens; the last may be shorter.

    Each slice has the frame of its text: special tokens, or a prompt. A text of n content tokens
    gives 1 + (n - 1) // length rows (hicl, section 3.1), an empty text one row. Perturb after
    slicing, `repeated(segments(...))`, so that both views have the same slices.

    Args:
        text: View to slice.
        length: Content tokens of a slice: 30 and two special tokens make SimCSE's 32.
        special_tokens: Whether rows start and end with one.
        weighted: Whether a slice weighs its share of the content tokens; else all weigh the same.
        beside: Further tokens of every slice that count as content: its frame, and a later prompt.

    Raises:
        RecipeError: the length is below 1.
    """
    if length < 1:
        raise RecipeError(f"A segment has at least one token; found {length}. Use 32")

    def view(corpus: Documents, draw: Draw, rng: np.random.Generator) -> View:
        seen = text(corpus, draw, rng)
        frame = frame_of(seen, special_tokens=special_tokens)
        lengths = np.fromiter(map(len, seen.tokens), np.int64, len(seen))
        sizes = np.maximum(lengths - sum(frame), 1)  # an empty text is one slice, too
        counts = 1 + (sizes - 1) // length
        owner = np.repeat(np.arange(len(seen)), counts)
        within = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
        own = np.minimum(sizes[owner] - within * length, length) + beside
        tokens = [part for row in seen.tokens for part in _slices(row, frame, length)]
        return View(
            tokens=tokens,
            document=seen.document[owner],
            group=seen.group[owner],
            text=seen.text[owner],
            wording=text_hashes(tokens),
            owner=owner,
            weight=own / np.bincount(owner, own)[owner] if weighted else 1 / counts[owner],
            frame=frame,
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
    similarity: Similarity,
    *,
    rivals: str | None = None,
    siblings: Siblings = "ignored",
    averaged: bool = False,
) -> CrossSampleTerm:
    """Segment term: the k-th segment of a sequence chooses the k-th segment of the same sequence.

    It is the mean over segments (hicl, Eq. 1 and 2; the view of the negatives is open: erratum
    E34).

    Args:
        anchors: A view whose rows name their owners.
        candidates: The same sequences, also sliced.
        temperature: Divides the similarity.
        similarity: Similarity of the encoder.
        rivals: View of the negatives; None: that of the candidates.
        siblings: Role of other segments of the same sequence (an ablation of the paper).
        averaged: Whether another sequence of v segments counts once, 1 / v each, in place of v
            times (the paper's 'averaging' denominator).
    """
    opposed = rivals or candidates

    def term(
        vectors: Mapping[str, Tensor], batch: Batch, _: Learner
    ) -> tuple[Tensor, dict[str, float]]:
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
            similarity,
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
