"""Word vectors of the corpus itself: skip-gram with negative sampling, by gensim."""

import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sentemb_core.encoder.word_vectors import WordVectors, lowercased_words
from sentemb_core.errors import BadDataError, MissingEncoderError

MIN_COUNT = 5
"""Rarer words are unknown."""

EPOCHS = 5
"""Passes, as word2vec makes; one before them counts the words."""


@dataclass
class _Cut:
    """Texts as lists of words, again and again: gensim reads them once a pass."""

    texts: Sequence[str]
    progress: Callable[[int], None] | None
    read: int = 0

    def __iter__(self) -> Iterator[list[str]]:
        for text in self.texts:
            self.read += 1
            if self.progress:
                self.progress(self.read)
            yield list(lowercased_words(text))


def trained_word_vectors(
    texts: Sequence[str],
    seed: int,
    *,
    dim: int = 300,
    epochs: int = EPOCHS,
    progress: Callable[[int], None] | None = None,
) -> WordVectors:
    """Vectors of all words that the texts say five times (Mikolov et al. 2013).

    Settings are word2vec's own, with the 300 dimensions of its published vectors. One thread, so
    that one seed gives one table.

    Args:
        texts: Sentences; read `epochs` + 1 times.
        seed: Of the first vectors and of all draws.
        dim: Width of a vector.
        epochs: Passes.
        progress: Called with how many texts were read, at the end (`epochs` + 1) times all.

    Raises:
        MissingEncoderError: gensim is not installed.
        BadDataError: No word is frequent enough.
    """
    cut = _Cut(texts, progress)
    model = gensim_models().Word2Vec(
        vector_size=dim,
        window=5,
        min_count=MIN_COUNT,
        negative=5,
        epochs=epochs,
        sg=1,
        seed=seed,
        workers=1,
    )
    model.build_vocab(cut)
    if not len(model.wv):
        raise BadDataError(
            f"Word vectors need words that occur {MIN_COUNT} times, and the corpus has none: take "
            "more texts, or give a file of word vectors."
        )
    model.train(cut, total_examples=model.corpus_count, epochs=epochs)
    return WordVectors(list(model.wv.index_to_key), np.asarray(model.wv.vectors, np.float32))


def gensim_models() -> Any:
    """The library that trains them.

    Raises:
        MissingEncoderError: it is not installed.
    """
    try:
        return importlib.import_module("gensim.models")
    except ImportError as error:
        raise MissingEncoderError(
            "Word vectors are trained by gensim, which is not installed: pip install "
            "'sentemb[words]', or give a file of word vectors."
        ) from error
