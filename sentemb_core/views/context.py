"""The views of inverse cloze: the document around a sentence."""

from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Int, Int64

from sentemb_core.pairs.documents import Documents
from sentemb_core.views.batch import Draw, View, ViewMaker
from sentemb_core.views.joining import joined, sentences_of, text_hashes
from sentemb_core.views.sentences import view_of


def context(removal: float, max_tokens: int, *, special_tokens: bool) -> ViewMaker:
    """One text: the sentences around the drawn one, nearest first up to `max_tokens`.

    The drawn sentence itself leaves its context with probability `removal` (ORQA: .9), so that
    the encoder learns both meaning and wording.

    Args:
        removal: Share of contexts without their sentence.
        max_tokens: Limit of the whole text (ORQA's code: 288), special tokens included.
        special_tokens: Every sentence begins and ends with one: the text keeps one of each.
    """
    frame = 2 * special_tokens
    budget = max_tokens - frame

    def view(corpus: Documents, draw: Draw, rng: np.random.Generator) -> View:
        removed = rng.random(len(draw.second)) < removal
        lengths = corpus.uncut_lengths
        around = _surroundings(corpus, draw.second, removed, budget, lengths, frame)
        tokens = [
            joined(sentences, slice(budget), special_tokens=special_tokens)
            for sentences in sentences_of(corpus, around)
        ]
        seen = view_of(corpus, draw.second, draw.group, tokens)
        return replace(seen, wording=text_hashes(tokens))

    return view


def surroundings(removal: float, max_tokens: int, *, special_tokens: bool) -> ViewMaker:
    """The sentences of such a `context`, each by itself: parts of one sequence, all of one weight.

    Args:
        removal: As there.
        max_tokens: Of them together, each as far as the encoder reads it.
        special_tokens: Every sentence begins and ends with one, which does not count.
    """

    def view(corpus: Documents, draw: Draw, rng: np.random.Generator) -> View:
        removed = rng.random(len(draw.second)) < removal
        lengths, frame = corpus.lengths, 2 * special_tokens
        around = _surroundings(corpus, draw.second, removed, max_tokens, lengths, frame)
        sizes = np.array([len(sentences) for sentences in around])
        owner = np.repeat(np.arange(len(around)), sizes)
        sentences = np.concatenate(around)
        parts = view_of(corpus, draw.second[owner], draw.group[owner], corpus.tokens(sentences))
        wording = corpus.text_hashes[sentences]
        return replace(parts, wording=wording, owner=owner, weight=1 / sizes[owner])

    return view


def _surroundings(
    corpus: Documents,
    centres: Int64[np.ndarray, " rows"],
    removed: Bool[np.ndarray, " rows"],
    budget: int,
    lengths: Int[np.ndarray, " sentences"],
    frame: int,
) -> list[Int64[np.ndarray, " _"]]:
    """Per row the sentences of its context, in the document's order."""
    document = corpus.document_of[centres]
    begin, end = corpus.offsets[document].tolist(), corpus.offsets[document + 1].tolist()
    found: list[np.ndarray] = []
    for row, centre in enumerate(centres.tolist()):
        others = np.arange(begin[row], end[row])
        if removed[row]:
            others = others[others != centre]
        nearest = others[np.argsort(np.abs(others - centre), kind="stable")]
        used = np.cumsum(lengths[nearest] - frame)
        found.append(np.sort(nearest[: max(1, int((used <= budget).sum()))]))
    return found
