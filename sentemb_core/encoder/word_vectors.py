"""Word vectors as an encoder: a sentence is the mean of the vectors of its known words.

The table is a static one with a zero row for every unknown word, so that a mean over all words has
the direction of the mean over the known ones, and a sentence without a known word is zero: its
cosine with anything is 0. It is saved, loaded and trained like any static table.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from sentemb_core.encoder.encoder import Encoder
from sentemb_core.encoder.static import StaticTable
from sentemb_core.types import Json

SPECIAL = {"[PAD]": 0, "[UNK]": 1}

WORD = r"\d+(?:[.,]\d+)+|\w+(?=n't\b)|n't\b|'(?:s|m|d|re|ve|ll)\b|\w+|[^\w\s]"
"""Words, numbers, single marks, and the clitics that the Penn Treebank cuts off (do n't, it 's),
as did those who trained the public vectors."""

SPLITTER: Any = pre_tokenizers.Split(Regex(WORD), behavior="removed", invert=True)


@dataclass(frozen=True)
class WordVectors:
    """Distinct words and their vectors, the most frequent first."""

    words: list[str]
    vectors: Float32[np.ndarray, "words dim"]


def word_encoder(found: WordVectors, max_length: int) -> Encoder:
    """The encoder that averages these vectors.

    Args:
        found: What a file gave, or a corpus.
        max_length: Words a sentence.
    """
    table, tokenizer, _ = word_parts(found)
    return Encoder(table, tokenizer, pooling="mean", similarity="cosine", max_length=max_length)


def word_parts(found: WordVectors) -> tuple[StaticTable, Tokenizer, Json]:
    """Table and tokenizer of such an encoder, as `checkpoint.Parts`.

    Texts are lowercased if no word of the table has a capital.
    """
    vocabulary = {word: row for row, word in enumerate(found.words, len(SPECIAL))} | SPECIAL
    tokenizer: Any = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = SPLITTER
    if all(word == word.lower() for word in found.words):
        tokenizer.normalizer = normalizers.Lowercase()
    special = torch.zeros(len(SPECIAL), found.vectors.shape[1])
    return StaticTable(torch.cat([special, torch.from_numpy(found.vectors)])), tokenizer, {}


def lowercased_words(text: str) -> Iterator[str]:
    """The words of a text as an encoder without capitals looks them up."""
    return (word for word, _ in SPLITTER.pre_tokenize_str(text.lower()))
