"""Word vectors as an encoder: a sentence is the mean of the vectors of its known words.

The tokenizer leaves unknown words out, so that the table is a static one like any other: saved,
loaded, trained and read by other libraries as such. A sentence without a known word is zero: its
cosine with anything is 0.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from sentemb_core.encoder.backbones import StaticTable
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.types import Json

SPECIAL = {"[PAD]": 0, "[UNK]": 1}
"""Rows of zeros; the second stands for a text of which nothing is left."""

MARK = "\u2581"
"""Before every word of the vocabulary, which no letter alone then is."""

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
        max_length: Known words a sentence.
    """
    table, tokenizer, _ = word_parts(found)
    return Encoder(table, tokenizer, pooling="mean", similarity="cosine", max_length=max_length)


def word_parts(found: WordVectors) -> tuple[StaticTable, Tokenizer, Json]:
    """Table and tokenizer of such an encoder, as `checkpoint.Parts`.

    Texts are lowercased if no word of the table has a capital. A model of whole words must put a
    token in the place of an unknown one; byte pairs that never merge know whole words alone, and
    leave out what they do not know.
    """
    vocabulary = {MARK + word: row for row, word in enumerate(found.words, len(SPECIAL))} | SPECIAL
    tokenizer: Any = Tokenizer(models.BPE(vocabulary, [], ignore_merges=True))
    marked = pre_tokenizers.Metaspace(replacement=MARK, prepend_scheme="always")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([SPLITTER, marked])
    if all(word == word.lower() for word in found.words):
        tokenizer.normalizer = normalizers.Lowercase()
    special = torch.zeros(len(SPECIAL), found.vectors.shape[1])
    return StaticTable(torch.cat([special, torch.from_numpy(found.vectors)])), tokenizer, {}


def lowercased_words(text: str) -> Iterator[str]:
    """The words of a text as an encoder without capitals looks them up."""
    return (word for word, _ in SPLITTER.pre_tokenize_str(text.lower()))
