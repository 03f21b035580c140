"""DeCLUTR (Giorgi et al. 2021, declutr): spans of one long document."""

import logging
from dataclasses import replace
from typing import cast

import numpy as np
from jaxtyping import Int64

from sentemb_core.config.methods import DeCLUTR
from sentemb_core.documents import Documents, Tokens
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.errors import RecipeError
from sentemb_core.methods.parts.info_nce import all_pairs
from sentemb_core.methods.parts.masked_language import with_masked_language
from sentemb_core.methods.parts.method import Method
from sentemb_core.methods.parts.pairs import long_documents
from sentemb_core.methods.parts.tokenizer_tools import require_frame
from sentemb_core.methods.parts.views import (
    Draw,
    View,
    ViewMaker,
    content_lengths,
    extents,
    joined_texts,
    text_hashes,
    view_of,
)

log = logging.getLogger(__name__)


def declutr(settings: DeCLUTR, encoder: Encoder) -> Method:
    """NT-Xent of anchors and the mean of their positives, and masked language on the anchors.

    Anchors of one document are negatives of each other, as in the paper.
    """
    require_frame(encoder)
    spans = settings.model_copy(update={"longest": longest_span(settings, encoder)})
    apart = spans.anchors * spans.longest * 2  # tokens of a document whose anchors are apart
    term = all_pairs("anchor", "positive", settings.temperature, within_document=True)
    method = Method(
        name="declutr",
        pairs=long_documents(apart),
        views={"anchor": anchor_spans(spans), "positives": positive_spans(spans)},
        aggregate={"positive": "positives"},
        terms={"contrast": (1.0, term)},
    )
    if not settings.mlm:
        return method
    return with_masked_language(method, settings, encoder, "anchor", method.views["anchor"])


def longest_span(settings: DeCLUTR, encoder: Encoder) -> int:
    """Return `settings.longest`, limited by the encoder's positions; warn if it is limited.

    Raises:
        RecipeError: the shortest span is longer, or longer than the encoder's positions.
    """
    if settings.shortest > settings.longest:
        raise RecipeError(
            "declutr needs shortest <= longest; found training.method.shortest "
            f"{settings.shortest}, longest {settings.longest}. The paper uses 32 and 512"
        )
    if encoder.positions is None:
        return settings.longest
    held = min(settings.longest, encoder.positions - 2 * encoder.framed)
    if held < settings.shortest:
        raise RecipeError(
            f"declutr needs spans of {settings.shortest} to {settings.longest} tokens; this "
            f"encoder has room for {held} ({encoder.positions} positions). Set "
            f"training.method.shortest to {held} or less, raise encoder.positions, or start from "
            "another encoder"
        )
    if held < settings.longest:
        log.warning(
            "spans limited to %d tokens by the encoder's positions (method.longest: %d); "
            "encoder.positions sets them for random weights",
            held,
            settings.longest,
        )
    return held


Spans = Int64[np.ndarray, "_ 2"]
"""First token and first token after the end, counted over the content of a document."""


def anchor_spans(settings: DeCLUTR) -> ViewMaker:
    """Return a view of the A anchors of every drawn document, each in a group of its own."""

    def view(corpus: Documents, draw: Draw, rng: np.random.Generator) -> View:
        anchors, _ = _drawn(corpus, draw, settings, rng)
        return _view_of(corpus, draw, anchors, per_owner=None)

    return view


def positive_spans(settings: DeCLUTR) -> ViewMaker:
    """Return a view of the P positives of every anchor: rows of one owner with equal weights."""

    def view(corpus: Documents, draw: Draw, rng: np.random.Generator) -> View:
        _, positives = _drawn(corpus, draw, settings, rng)
        return _view_of(corpus, draw, positives, per_owner=settings.positives)

    return view


def anchors_of(tokens: int, settings: DeCLUTR, rng: np.random.Generator) -> Spans:
    """Return spans of length 4-to-2 Beta, at least `longest` apart, inside the document.

    As in the official code, each anchor lies in a block of `longest` tokens, and a used block also
    blocks its neighbours.
    """
    blocks = list(range(0, tokens - settings.longest + 1, settings.longest))
    spans: list[tuple[int, int]] = []
    for left in range(settings.anchors, 0, -1):
        tight = len(blocks) // left < left  # then an end is taken, which uses up one block fewer
        choice = (len(blocks) - 1) * rng.integers(2) if tight else rng.integers(len(blocks))
        length = _length(4, 2, settings.shortest, settings.longest, rng)
        start = int(rng.integers(blocks[choice], blocks[choice] + settings.longest - length + 1))
        spans.append((start, start + length))
        del blocks[max(0, choice - 1) : choice + 2]
    return np.array(spans)


def positives_of(
    anchor: tuple[int, int], tokens: int, settings: DeCLUTR, rng: np.random.Generator
) -> Spans:
    """Return spans of length 2-to-4 Beta inside the document, placed as `strategy` demands."""
    start, stop = anchor
    spans: list[tuple[int, int]] = []
    for _ in range(settings.positives):
        longest = stop - start if settings.strategy == "subsuming" else settings.longest
        length = _length(2, 4, settings.shortest, longest, rng)
        if settings.strategy == "subsuming":
            place = rng.integers(start, stop - length + 1)
        elif settings.strategy == "adjacent":
            # one side always has room: a document has two blocks, an anchor lies in one
            fits = [side for side in (start - length, stop) if 0 <= side <= tokens - length]
            place = fits[rng.integers(len(fits))]
        else:
            place = rng.integers(max(0, start - length), min(stop, tokens - length) + 1)
        spans.append((int(place), int(place) + length))
    return np.array(spans)


def _length(a: int, b: int, shortest: int, longest: int, rng: np.random.Generator) -> int:
    return int(rng.beta(a, b) * (longest - shortest) + shortest)


def _drawn(
    corpus: Documents, draw: Draw, settings: DeCLUTR, rng: np.random.Generator
) -> tuple[list[Spans], list[Spans]]:
    """Return the anchors of every row, and the positives of all anchors in order."""
    rng = _step_rng(rng)
    anchors = list[Spans]()
    positives = list[Spans]()
    for begin, end in extents(corpus, corpus.document_of[draw.first]):
        tokens = int(content_lengths(corpus, begin, end).sum())
        own = anchors_of(tokens, settings, rng)
        near = [positives_of((a, b), tokens, settings, rng) for a, b in own.tolist()]
        anchors.append(own)
        positives.append(np.concatenate(near))
    return anchors, positives


def _step_rng(rng: np.random.Generator) -> np.random.Generator:
    """Return a generator that gives both views of a step the same draws."""
    seed = cast(np.random.SeedSequence, rng.bit_generator.seed_seq)
    return np.random.default_rng(
        np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, 1))
    )


def _view_of(corpus: Documents, draw: Draw, spans: list[Spans], *, per_owner: int | None) -> View:
    """Return a view with one row a span and `per_owner` rows an owner."""
    row = np.repeat(np.arange(len(spans)), [len(own) for own in spans])
    tokens = _excerpts(corpus, corpus.document_of[draw.first], spans)
    owner = np.arange(len(row)) // (per_owner or 1)
    anchors = len(spans[0]) // (per_owner or 1)
    group = draw.group[row] * anchors + owner % anchors
    seen = replace(view_of(corpus, draw.first[row], group, tokens), text=text_hashes(tokens))
    if per_owner is None:
        return seen
    return replace(seen, owner=owner, weight=np.full(len(row), 1 / per_owner))


def _excerpts(
    corpus: Documents, documents: Int64[np.ndarray, " rows"], spans: list[Spans]
) -> list[Tokens]:
    """Return the tokens of every span; only the sentences that it touches are read."""
    touched: list[np.ndarray] = []
    cuts: list[slice] = []
    for (begin, end), own in zip(extents(corpus, documents), spans, strict=True):
        bounds = np.cumsum(content_lengths(corpus, begin, end))
        for start, stop in own.tolist():
            first, last = np.searchsorted(bounds, [start, stop - 1], side="right").tolist()
            skipped = int(bounds[first - 1]) if first else 0
            touched.append(np.arange(begin + first, begin + last + 1))
            cuts.append(slice(start - skipped, stop - skipped))
    return joined_texts(corpus, touched, cuts)
