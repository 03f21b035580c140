"""A tokenised corpus as pair sources and views need it: arrays over sentences."""

from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Int32, Int64

Tokens = Int64[np.ndarray, " _"]
"""Token ids of one text."""

Spans = tuple[Int64[np.ndarray, " n"], Int64[np.ndarray, " n"]]
"""First sentence of each of n documents, and the first sentence after it."""


@runtime_checkable
class Documents(Protocol):
    """Tokenised sentences, document by document (`corpus.tokens.TokenCorpus` is one).

    `tokens` are truncated to the encoder's limit; `uncut_tokens` are not, and form joined texts.
    """

    @property
    def special_tokens(self) -> bool:
        """Whether every sentence starts and ends with a special token."""
        ...

    @property
    def offsets(self) -> Int64[np.ndarray, " documents+1"]: ...

    @property
    def held_out(self) -> Bool[np.ndarray, " documents"]: ...

    @property
    def lengths(self) -> Int32[np.ndarray, " sentences"]: ...

    @property
    def text_hashes(self) -> Int64[np.ndarray, " sentences"]: ...

    @property
    def document_of(self) -> Int64[np.ndarray, " sentences"]: ...

    @property
    def original_of(self) -> Int64[np.ndarray, " documents"]: ...

    def tokens(self, sentences: Int64[np.ndarray, " rows"]) -> list[Tokens]: ...

    @property
    def uncut_lengths(self) -> Int32[np.ndarray, " sentences"]: ...

    def uncut_tokens(self, sentences: Int64[np.ndarray, " rows"]) -> list[Tokens]: ...


def spans_in(offsets: Int64[np.ndarray, " bounds"], sentences: Int64[np.ndarray, " n"]) -> Spans:
    """Return the document bounds of each sentence; `offsets` bound the documents."""
    document = np.searchsorted(offsets, sentences, side="right") - 1
    return offsets[document], offsets[document + 1]
