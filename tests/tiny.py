"""Tiny encoders and corpora for tests: random weights, invented words."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertModel

from sentemb_core.encoder.backbones import StaticTable
from sentemb_core.encoder.encoder import Encoder

VOCABULARY = 80
MASK = VOCABULARY
"""Id of [MASK], after all words."""

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *(f"w{k}" for k in range(4, VOCABULARY)), "[MASK]"]


def tokenizer(words: Sequence[str] = WORDS) -> Tokenizer:
    """Return a word-level tokenizer that adds [CLS] and [SEP], its third and fourth word."""
    made = Tokenizer(models.WordLevel({word: k for k, word in enumerate(words)}, "[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return made


def bert(*, dropout: float = 0.1, seed: int = 0, similarity: str = "cosine") -> Encoder:
    """Return a BERT encoder of two layers, 16 wide."""
    config = BertConfig(
        vocab_size=VOCABULARY + 1,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        backbone = BertModel(config, add_pooling_layer=False)
    return Encoder(backbone, tokenizer(), pooling="mean", similarity=similarity, max_length=18)


def static(*, seed: int = 0, similarity: str = "cosine") -> Encoder:
    return Encoder(
        StaticTable.random(VOCABULARY + 1, 16, seed),
        tokenizer(),
        pooling="mean",
        similarity=similarity,
        max_length=12,
    )


@dataclass
class TinyCorpus:
    """The interface of a TokenCorpus, in memory."""

    sentences: list[np.ndarray]
    offsets: np.ndarray
    held_out: np.ndarray
    limit: int | None = None
    special_tokens: bool = True
    originals: np.ndarray | None = None

    @property
    def original_of(self) -> np.ndarray:
        return np.arange(len(self.held_out)) if self.originals is None else self.originals

    @cached_property
    def lengths(self) -> np.ndarray:
        return np.minimum(self.uncut_lengths, self.limit or self.uncut_lengths)

    @cached_property
    def uncut_lengths(self) -> np.ndarray:
        return np.array([len(sentence) for sentence in self.sentences], dtype=np.int32)

    @cached_property
    def text_hashes(self) -> np.ndarray:
        texts = [sentence.tobytes() for sentence in self.sentences]
        known = {text: k for k, text in enumerate(dict.fromkeys(texts))}
        return np.array([known[text] for text in texts], dtype=np.int64)

    @cached_property
    def document_of(self) -> np.ndarray:
        return np.repeat(np.arange(len(self.held_out)), np.diff(self.offsets))

    def spans_of(self, sentences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        document = self.document_of[sentences]
        return self.offsets[document], self.offsets[document + 1]

    def uncut_tokens(self, sentences: np.ndarray) -> list[np.ndarray]:
        return [self.sentences[k] for k in sentences.tolist()]

    def tokens(self, sentences: np.ndarray) -> list[np.ndarray]:
        return [sentence[: self.limit] for sentence in self.uncut_tokens(sentences)]

    def __len__(self) -> int:
        return len(self.sentences)


def corpus(
    counts: list[int], *, seed: int = 0, special: bool = True, held_out: tuple[int, ...] = ()
) -> TinyCorpus:
    """Return documents with these numbers of sentences; each document has its own eight words."""
    rng = np.random.default_rng(seed)
    sentences: list[np.ndarray] = []
    for count in counts:
        words = rng.choice(np.arange(4, VOCABULARY), size=8, replace=False)
        for _ in range(count):
            inner = rng.choice(words, size=rng.integers(1, 9))
            sentences.append(np.concatenate([[2], inner, [3]]) if special else inner)
    held = np.isin(np.arange(len(counts)), held_out)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    return TinyCorpus(sentences, offsets, held, special_tokens=special)
