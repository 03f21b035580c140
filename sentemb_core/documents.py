"""What a pair source sees of a corpus: arrays over sentences in canonical order."""

from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Int32, Int64

Tokens = Int64[np.ndarray, " _"]
"""Token ids of one text."""

Spans = tuple[Int64[np.ndarray, " n"], Int64[np.ndarray, " n"]]
"""First sentence of each of n documents, and the first one behind it."""


@runtime_checkable
class Documents(Protocol):
    """Tokenised sentences, document after document (`corpus.tokens.TokenCorpus` is one).

    A sentence by itself is read as far as the encoder's limit (`tokens`); texts of several are
    joined of whole ones (`uncut_tokens`).
    """

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
    """Of the document in which each sentence lies, where `offsets` bound the documents."""
    document = np.searchsorted(offsets, sentences, side="right") - 1
    return offsets[document], offsets[document + 1]
