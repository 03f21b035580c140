"""Slices of a text (HiCL, hicl): each short, together the whole."""

import numpy as np

from sentemb_core.errors import RecipeError
from sentemb_core.pairs.documents import Documents, Tokens
from sentemb_core.views.batch import Draw, View, ViewMaker
from sentemb_core.views.content import frame_of
from sentemb_core.views.joining import text_hashes


def segments(
    text: ViewMaker,
    length: int,
    *,
    special_tokens: bool,
    weighted: bool = True,
    beside: int = 0,
) -> ViewMaker:
    """`text` in consecutive slices of `length` content tokens; the last one may be shorter.

    Each slice carries the frame of its text: special tokens, or a prompt. A text of n content
    tokens gives 1 + (n - 1) // length rows (hicl, section 3.1), and an empty one gives one.
    Perturb after slicing, `repeated(segments(...))`, so that both views have the same slices.

    Args:
        text: Whose tokens.
        length: Content tokens of a slice: 30 and two special tokens make SimCSE's 32.
        special_tokens: Rows begin and end with one.
        weighted: A slice weighs by its share of the content tokens; else all weigh the same.
        beside: Tokens of every slice that count as its content does: those of its frame, and of a
            prompt that it gets later.

    Raises:
        RecipeError: The length is below 1.
    """
    if length < 1:
        raise RecipeError(f"A segment has at least one token; found length {length}: take 32")

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
