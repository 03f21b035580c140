"""DeCLUTR (Giorgi et al. 2021, declutr): spans of one long document."""

import logging
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
from jaxtyping import Int64

from sentemb_core.config.methods import DeCLUTR
from sentemb_core.documents import Documents, Tokens
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.errors import RecipeError
from sentemb_core.methods.parts.info_nce import all_pairs
from sentemb_core.methods.parts.masked_language import LanguageHead, masked_language
from sentemb_core.methods.parts.masking import masked
from sentemb_core.methods.parts.method import Method, SampleTerm
from sentemb_core.methods.parts.pairs import long_documents
from sentemb_core.methods.parts.tokenizer_tools import WITHOUT_MLM, masking, require_transformer
from sentemb_core.methods.parts.transformer_layers import require_table
from sentemb_core.methods.parts.views import (
    Draw,
    View,
    ViewMaker,
    extents,
    joined,
    sentences_of,
    text_hashes,
)

log = logging.getLogger(__name__)


def declutr(settings: DeCLUTR, encoder: Encoder) -> Method:
    """NT-Xent of anchors and the mean of their positives, and masked language on the anchors.

    Anchors of one document are negatives of each other, as in the paper.
    """
    require_transformer(encoder, "declutr")
    special = encoder.framed
    sampling = SpanSampling(
        settings.anchors,
        settings.positives,
        settings.shortest,
        longest_span(settings, encoder),
        settings.strategy,
    )
    term = all_pairs(
        "anchor", "positive", settings.temperature, encoder.similarity, within_document=True
    )
    method = Method(
        name="declutr",
        pairs=long_documents(sampling.least_tokens, special_tokens=special),
        views={
            "anchor": anchor_spans(sampling, special_tokens=special),
            "positives": positive_spans(sampling, special_tokens=special),
        },
        aggregate={"positive": "positives"},
        terms={"contrast": (1.0, term)},
    )
    if not settings.mlm:
        return method
    require_table(encoder, WITHOUT_MLM)
    return method.joined(
        views={"anchor": masked(method.views["anchor"], masking(encoder, settings.mask_rate))},
        sample_terms={"mlm": (settings.mlm, SampleTerm("anchor", masked_language()))},
        networks=lambda encoder: {"language": LanguageHead(encoder)},
    )


def longest_span(settings: DeCLUTR, encoder: Encoder) -> int:
    """Return `settings.longest`, limited by the encoder's positions; warn if it is limited.

    Raises:
        RecipeError: the encoder has fewer positions than the shortest span.
    """
    if encoder.positions is None:
        return settings.longest
    held = min(settings.longest, encoder.positions - 2 * encoder.framed)
    if held < settings.shortest <= settings.longest:
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


Where = Literal["any", "adjacent", "subsuming"]
"""Position of positives: anywhere near the anchor, adjacent to it, or inside it."""

Spans = Int64[np.ndarray, "_ 2"]
"""First token and first token after the end, counted over the content of a document."""


@dataclass(frozen=True)
class SpanSampling:
    """Settings of span sampling; lengths are content tokens.

    Attributes:
        anchors: A, number of anchors per document.
        positives: P, number of positives per anchor.
        shortest: Minimum length.
        longest: Maximum length.
        where: Position of positives relative to their anchor.
    """

    anchors: int
    positives: int
    shortest: int
    longest: int
    where: Where = "any"

    def __post_init__(self) -> None:
        if not 1 <= self.shortest <= self.longest or min(self.anchors, self.positives) < 1:
            raise RecipeError(
                "declutr needs 1 <= shortest <= longest, and at least one anchor and one positive; "
                f"found training.method.shortest {self.shortest}, longest {self.longest}, "
                f"anchors {self.anchors}, positives {self.positives}. The paper uses 32, 512, 2, 2"
            )

    @property
    def least_tokens(self) -> int:
        """Minimum tokens of a document, so that anchors can be apart (declutr)."""
        return self.anchors * self.longest * 2


def anchor_spans(sampling: SpanSampling, *, special_tokens: bool) -> ViewMaker:
    """Return a view of the A anchors of every drawn document, each in a group of its own."""

    def view(corpus: Documents, draw: Draw, rng: np.random.Generator) -> View:
        anchors, _ = _drawn(corpus, draw, sampling, special_tokens, rng)
        return _view_of(corpus, draw, anchors, special_tokens)

    return view


def positive_spans(sampling: SpanSampling, *, special_tokens: bool) -> ViewMaker:
    """Return a view of the P positives of every anchor: rows of one owner with equal weights."""

    def view(corpus: Documents, draw: Draw, rng: np.random.Generator) -> View:
        _, positives = _drawn(corpus, draw, sampling, special_tokens, rng)
        return _view_of(corpus, draw, positives, special_tokens, sampling.positives)

    return view


def anchors_of(tokens: int, sampling: SpanSampling, rng: np.random.Generator) -> Spans:
    """Return spans of length 4-to-2 Beta, at least `longest` apart, inside the document.

    As in the official code, each anchor lies in a block of `longest` tokens, and a used block also
    blocks its neighbours.
    """
    blocks = list(range(0, tokens - sampling.longest + 1, sampling.longest))
    spans: list[tuple[int, int]] = []
    for left in range(sampling.anchors, 0, -1):
        tight = len(blocks) // left < left  # then an end is taken, which uses up one block fewer
        choice = (len(blocks) - 1) * rng.integers(2) if tight else rng.integers(len(blocks))
        length = _length(4, 2, sampling.shortest, sampling.longest, rng)
        start = int(rng.integers(blocks[choice], blocks[choice] + sampling.longest - length + 1))
        spans.append((start, start + length))
        del blocks[max(0, choice - 1) : choice + 2]
    return np.array(spans)


def positives_of(
    anchor: tuple[int, int], tokens: int, sampling: SpanSampling, rng: np.random.Generator
) -> Spans:
    """Return spans of length 2-to-4 Beta inside the document, placed as `where` demands."""
    start, stop = anchor
    spans: list[tuple[int, int]] = []
    for _ in range(sampling.positives):
        longest = stop - start if sampling.where == "subsuming" else sampling.longest
        length = _length(2, 4, sampling.shortest, longest, rng)
        if sampling.where == "subsuming":
            place = rng.integers(start, stop - length + 1)
        elif sampling.where == "adjacent":
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
    corpus: Documents,
    draw: Draw,
    sampling: SpanSampling,
    special_tokens: bool,
    rng: np.random.Generator,
) -> tuple[list[Spans], list[Spans]]:
    """Return the anchors of every row, and the positives of all anchors in order."""
    rng = _step_rng(rng)
    anchors: list[Spans] = []
    positives: list[Spans] = []
    for begin, end in extents(corpus, corpus.document_of[draw.first]):
        tokens = int((corpus.uncut_lengths[begin:end] - 2 * special_tokens).sum())
        own = anchors_of(tokens, sampling, rng)
        near = [positives_of((a, b), tokens, sampling, rng) for a, b in own.tolist()]
        anchors.append(own)
        positives.append(np.concatenate(near))
    return anchors, positives


def _step_rng(rng: np.random.Generator) -> np.random.Generator:
    """Return a generator that gives both views of a step the same draws."""
    seed = cast(np.random.SeedSequence, rng.bit_generator.seed_seq)
    return np.random.default_rng(
        np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, 1))
    )


def _view_of(
    corpus: Documents,
    draw: Draw,
    spans: list[Spans],
    special_tokens: bool,
    per_owner: int | None = None,
) -> View:
    """Return a view with one row a span and `per_owner` rows an owner."""
    row = np.repeat(np.arange(len(spans)), [len(own) for own in spans])
    tokens = _excerpts(corpus, corpus.document_of[draw.first], spans, special_tokens)
    owner = np.arange(len(row)) // (per_owner or 1)
    anchors = len(spans[0]) // (per_owner or 1)
    return View(
        tokens=tokens,
        document=corpus.document_of[draw.first][row],
        group=draw.group[row] * anchors + owner % anchors,
        text=text_hashes(tokens),
        owner=None if per_owner is None else owner,
        weight=None if per_owner is None else np.full(len(row), 1 / per_owner),
        frame=(int(special_tokens), int(special_tokens)),
    )


def _excerpts(
    corpus: Documents,
    documents: Int64[np.ndarray, " rows"],
    spans: list[Spans],
    special_tokens: bool,
) -> list[Tokens]:
    """Return the tokens of every span; only the sentences that it touches are read."""
    touched: list[np.ndarray] = []
    cuts: list[slice] = []
    for (begin, end), own in zip(extents(corpus, documents), spans, strict=True):
        bounds = np.cumsum(corpus.uncut_lengths[begin:end] - 2 * special_tokens)
        for start, stop in own.tolist():
            first, last = np.searchsorted(bounds, [start, stop - 1], side="right").tolist()
            skipped = int(bounds[first - 1]) if first else 0
            touched.append(np.arange(begin + first, begin + last + 1))
            cuts.append(slice(start - skipped, stop - skipped))
    return [
        joined(sentences, cut, special_tokens=special_tokens)
        for sentences, cut in zip(sentences_of(corpus, touched), cuts, strict=True)
    ]
