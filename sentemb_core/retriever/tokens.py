"""The late-interaction part: every token of a query looks for its nearest token of a document.

    T(q, d) = mean over q's tokens of max over d's tokens of their cosine

The vectors are the last layer's states without special tokens, softly whitened on the corpus and
cut to the first `DIMENSIONS` (ColBERT's form, Khattab and Zaharia 2020, without its training). Two
neighbouring tokens of a document share one vector in int8: 64 bytes a token.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Float32, Int, Int8, Int64
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from sentemb_core.documents import Documents
from sentemb_core.encoder.batching import autocast, read_in_batches
from sentemb_core.encoder.dense import linear
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.errors import BadDataError
from sentemb_core.evaluation.ranking import rows_of
from sentemb_core.postprocess.whitening import SOFT, Whitening, fitted_whitening
from sentemb_core.types import Precision

DIMENSIONS = 128
"""Dimensions of a token vector; nothing is lost against MiniLM's 384."""

MERGED = 2
"""Neighbouring tokens of a document that share a vector."""

FITTED = 20_000
"""Token states that the whitening is fitted on; 100,000 give the same MRR@10 to .002."""

SCALE = 127
"""int8 of the value 1."""


@dataclass(frozen=True)
class TokenVectors:
    """Token vectors of texts: text i has the rows starts[i] to starts[i + 1] - 1."""

    rows: Float32[np.ndarray, "rows dim"] | Int8[np.ndarray, "rows dim"]
    starts: Int64[np.ndarray, " bounds"]

    def of(self, texts: Int64[np.ndarray, " some"]) -> "TokenVectors":
        """Return the token vectors of some texts, in float32."""
        places, starts = rows_of(self.starts, texts)
        rows = self.rows[places].astype(np.float32)
        return TokenVectors(rows / SCALE if self.rows.dtype == np.int8 else rows, starts)


@dataclass(frozen=True)
class Read:
    """Texts after one forward pass: pooled vectors after `layers`, and token vectors."""

    vectors: Float32[np.ndarray, "texts dim"]
    tokens: TokenVectors


TokenMap = nn.Linear
"""From token states to token vectors, before they get length 1."""


def fitted_token_map(
    encoder: Encoder,
    corpus: Documents,
    sentences: Int64[np.ndarray, " n"],
    dtype: Precision = "float32",
) -> TokenMap:
    """Return the soft whitening of the token states of these sentences, at most `FITTED` states.

    It keeps `DIMENSIONS`, or as many as the states vary in.

    Raises:
        BadEmbeddingError: the states do not vary.
    """
    needed = np.searchsorted(np.cumsum(corpus.lengths[sentences]), FITTED) + 1
    sequences = corpus.tokens(sentences[:needed])
    prompt = encoder.prompt_tokens("sentence")
    states = read_tokens(encoder, sequences, None, dtype=dtype, prompt=prompt)
    whitening = fitted_whitening(states.tokens.rows, None, SOFT)
    return Whitening(whitening.mean, whitening.weights[:, :DIMENSIONS]).linear()


def token_map_bytes(token_map: TokenMap) -> bytes:
    """Return the content of a token map's file."""
    return save({name: tensor.contiguous() for name, tensor in token_map.state_dict().items()})


def read_token_map(file: Path) -> TokenMap:
    """Return the token map of a file of `token_map_bytes`.

    Raises:
        BadDataError: the file is damaged.
    """
    try:
        tensors = load_file(file)
        return linear(tensors["weight"], tensors["bias"])
    except (SafetensorError, KeyError) as error:
        raise BadDataError(
            f"{file} is damaged or incomplete: {error}. Copy the retriever again."
        ) from error


def read_tokens(
    encoder: Encoder,
    sequences: Sequence[np.ndarray],
    token_map: TokenMap | None,
    *,
    dtype: Precision = "float32",
    prompt: int = 0,
    merged: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Read:
    """Return sentence vectors (as `batching.encode`) and token vectors from one forward pass.

    Equal texts are read once.

    Args:
        encoder: A transformer.
        sequences: Token ids with special tokens, which get no vector.
        token_map: From states to token vectors; None: the states themselves.
        dtype: Precision of the forward pass.
        prompt: Tokens of the prompt before each text, which get no vector.
        merged: Whether `MERGED` neighbours share a vector, in int8: the form of documents.
        progress: Called with the number of texts done, in proportion to their tokens.
    """

    def read(ids: Int[Tensor, "rows time"]) -> tuple[np.ndarray, np.ndarray]:
        with autocast(encoder.device, dtype):
            pooled, states = encoder.vectors_and_states(ids, prompt)
        of_tokens = states.float()
        if token_map:
            own = (part.to(encoder.device) for part in (token_map.weight, token_map.bias))
            of_tokens = F.normalize(F.linear(of_tokens, *own), dim=-1)
        if merged:
            of_tokens = merged_neighbours(of_tokens)
        return pooled.cpu().numpy(), of_tokens.cpu().numpy()

    vectors = np.empty((len(sequences), encoder.dim), np.float32)
    of_texts = [vectors[:0]] * len(sequences)
    for places, rows, (pooled, states) in read_in_batches(
        encoder, sequences, read, dtype, progress
    ):
        vectors[places] = pooled[rows]
        for place, row in zip(places.tolist(), rows.tolist(), strict=True):
            of_texts[place] = states[row]
    starts = np.concatenate([[0], np.cumsum([len(each) for each in of_texts])]).astype(np.int64)
    return Read(vectors, TokenVectors(np.concatenate(of_texts), starts))


def merged_neighbours(tokens: Float[Tensor, "batch time dim"]) -> Tensor:
    """Return the mean direction of every `MERGED` neighbours, in int8 [batch, time / 2, dim]."""
    batch, time, dim = tokens.shape
    filled = F.pad(tokens, (0, 0, 0, -time % MERGED))
    means = filled.reshape(batch, -1, MERGED, dim).sum(2)
    return (F.normalize(means, dim=-1) * SCALE).round().to(torch.int8)


def late_interaction(
    texts: Float32[np.ndarray, "tokens dim"], documents: TokenVectors
) -> Float32[np.ndarray, " documents"]:
    """Return T of one text with each document; `documents` are in float32."""
    cosines = documents.rows @ texts.T
    return np.maximum.reduceat(cosines, documents.starts[:-1], axis=0).mean(axis=1)


def late_interaction_of_texts(
    document: Float32[np.ndarray, "tokens dim"], texts: TokenVectors
) -> Float32[np.ndarray, " texts"]:
    """Return T of one document with each text; `texts` are in float32."""
    best = (texts.rows @ document.T).max(axis=1)
    sizes = np.diff(texts.starts).astype(np.float32)
    return np.add.reduceat(best, texts.starts[:-1]) / sizes
