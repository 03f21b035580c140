"""Sentences of a document as one text."""

import hashlib
from dataclasses import replace

import numpy as np
from jaxtyping import Int, Int64

from sentemb_core.pairs.documents import Documents, Tokens
from sentemb_core.views.batch import Draw, View
from sentemb_core.views.sentences import first


def extents(corpus: Documents, documents: Int64[np.ndarray, " rows"]) -> list[tuple[int, int]]:
    """First sentence of each document, and the first one behind it."""
    begins, ends = corpus.offsets[documents], corpus.offsets[documents + 1]
    return list(zip(begins.tolist(), ends.tolist(), strict=True))


def sentences_of(corpus: Documents, rows: list[Int64[np.ndarray, " _"]]) -> list[list[Tokens]]:
    """The whole sentences that each row names; the corpus is asked once."""
    sentences = corpus.uncut_tokens(np.concatenate(rows))
    ends = np.cumsum([len(row) for row in rows]).tolist()
    return [sentences[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def joined(sentences: list[Tokens], kept: slice, *, special_tokens: bool) -> Tokens:
    """One text of several sentences, cut to the tokens `kept` of its content.

    Where every sentence begins and ends with a special token, the text keeps one of each.
    """
    if not special_tokens:
        return np.concatenate(sentences)[kept]
    inner = np.concatenate([sentence[1:-1] for sentence in sentences])[kept]
    return np.concatenate([sentences[0][:1], inner, sentences[0][-1:]])


def text_hashes(rows: list[Tokens]) -> Int64[np.ndarray, " rows"]:
    """Equal for equal texts; the corpus's own hashes of sentences are others."""
    digests = b"".join(hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in rows)
    return np.frombuffer(digests, dtype="<i8").astype(np.int64, copy=False)


def alone(corpus: Documents, draw: Draw, rng: np.random.Generator) -> View:
    """The first sentence by itself; its wording is that of a joined text of just this sentence."""
    wording = text_hashes(corpus.uncut_tokens(draw.first))
    return replace(first(corpus, draw, rng), wording=wording)


def enough(lengths: Int[np.ndarray, " sentences"], budget: int) -> int:
    """How many of these sentences, from the first on, fill the budget; all if they do not."""
    full = np.cumsum(lengths) >= budget
    return int(full.argmax()) + 1 if full.any() else len(lengths)
