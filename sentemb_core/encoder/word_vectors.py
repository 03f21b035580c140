"""An encoder of word vectors, from a table or trained on the corpus by gensim.

A sentence is the mean of the vectors of its known words. The tokenizer leaves unknown words out, so
the encoder is an ordinary static table, which other libraries load. A sentence without a known word
has a zero vector.
"""

import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from sentemb_core.encoder.backbones import StaticTable
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.errors import BadDataError, MissingEncoderError
from sentemb_core.types import Json

SPECIAL = {"[PAD]": 0, "[UNK]": 1}
"""Rows of zeros; the second is the token of a text without known words."""

MARK = "\u2581"
"""Stands before each word of the vocabulary, so letters of unknown words are not words."""

WORD = r"\d+(?:[.,]\d+)+|\w+(?=n't\b)|n't\b|'(?:s|m|d|re|ve|ll)\b|\w+|[^\w\s]"
"""Words, numbers, single punctuation marks, and clitics as in the Penn Treebank (do n't, it 's),
as in the training of the public vectors."""

SPLITTER: Any = pre_tokenizers.Split(Regex(WORD), behavior="removed", invert=True)


@dataclass(frozen=True)
class WordVectors:
    """Distinct words and their vectors, the most frequent first."""

    words: list[str]
    vectors: Float32[np.ndarray, "words dim"]


def word_encoder(table: WordVectors, max_length: int) -> Encoder:
    """Return the encoder that averages these vectors.

    It reads the first `max_length` known words of a sentence.
    """
    backbone, tokenizer, _ = word_parts(table)
    return Encoder(backbone, tokenizer, pooling="mean", similarity="cosine", max_length=max_length)


def word_parts(table: WordVectors) -> tuple[StaticTable, Tokenizer, Json]:
    """Return the static table and the tokenizer of such an encoder, as `checkpoint.Parts`.

    Texts are lowercased if no word of the table has a capital. The tokenizer is byte-pair encoding
    without merges: it knows whole words and leaves others out, unlike a word-level tokenizer.
    """
    vocabulary = {MARK + word: row for row, word in enumerate(table.words, len(SPECIAL))} | SPECIAL
    tokenizer: Any = Tokenizer(models.BPE(vocabulary, [], ignore_merges=True))
    marked = pre_tokenizers.Metaspace(replacement=MARK, prepend_scheme="always")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([SPLITTER, marked])
    if all(word == word.lower() for word in table.words):
        tokenizer.normalizer = normalizers.Lowercase()
    special = torch.zeros(len(SPECIAL), table.vectors.shape[1])
    return StaticTable(torch.cat([special, torch.from_numpy(table.vectors)])), tokenizer, {}


def lowercased_words(text: str) -> Iterator[str]:
    """The words of a lowercased text, cut as the tokenizer cuts them."""
    return (word for word, _ in SPLITTER.pre_tokenize_str(text.lower()))


MIN_COUNT = 5
"""Least occurrences of a known word in the training texts, as in word2vec."""

EPOCHS = 5
"""Passes, as in word2vec; one pass before them counts the words."""


@dataclass
class _WordLists:
    """Texts as lists of words; gensim iterates over them once per pass."""

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
    """Train skip-gram vectors with negative sampling on texts (Mikolov et al. 2013).

    Words that occur at least five times are known. The settings are those of word2vec, with the 300
    dimensions of its published vectors. Training uses one thread, so that a seed gives one table.

    Args:
        texts: Sentences; read `epochs` + 1 times.
        seed: Of the initial vectors and of all draws.
        dim: Width of a vector.
        epochs: Passes of the training.
        progress: Called with the number of texts read so far, over all passes.

    Raises:
        MissingEncoderError: gensim is not installed.
        BadDataError: No word is frequent enough.
    """
    cut = _WordLists(texts, progress)
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
            f"Word vectors need words that occur at least {MIN_COUNT} times, found none in the "
            "corpus. Take more texts, or give a file of word vectors."
        )
    model.train(cut, total_examples=model.corpus_count, epochs=epochs)
    return WordVectors(list(model.wv.index_to_key), np.asarray(model.wv.vectors, np.float32))


def gensim_models() -> Any:
    """gensim, which trains word vectors.

    Raises:
        MissingEncoderError: It is not installed.
    """
    try:
        return importlib.import_module("gensim.models")
    except ImportError as error:
        raise MissingEncoderError(
            "Training word vectors needs gensim, which is not installed. Run pip install "
            "'sentemb[words]', or give a file of word vectors."
        ) from error
