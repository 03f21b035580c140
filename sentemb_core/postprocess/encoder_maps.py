"""An encoder with a fitted map behind it: again an encoder, saved and compared like any other.

The map is fitted on pooled vectors before normalisation (`encoder.batching.pooled_vectors`). The
similarity stays the encoder's own; the papers use cosine.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float32
from torch import nn

from sentemb_core.encoder.backbones import StaticTable
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.postprocess.normalizing_flow import fitted_flow
from sentemb_core.postprocess.whitening import BLOCK, SOFT, Whitening, fitted_whitening
from sentemb_core.types import Map

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def with_whitening(
    encoder: Encoder,
    vectors: Float32[np.ndarray, "n dim"],
    keep: int | None = None,
    power: float = 1.0,
) -> Encoder:
    """Return the encoder with BERT-whitening: one more layer, or whitened rows of a static table.

    A row of zeros stays zero, and so does a text without a known word (`encoder.word_vectors`).

    Args:
        encoder: The result shares its transformer and its tokenizer.
        vectors: Pooled vectors of its own texts.
        keep: Dimensions to keep. Default: all in which the vectors vary.
        power: 1 whitens, `whitening.SOFT` halfway.

    Raises:
        UsageError: `keep` is not in 1..dim.
        BadEmbeddingError: the vectors vary in fewer directions than it keeps, or are not finite.
    """
    whitening = fitted_whitening(vectors, keep, power)
    if isinstance(encoder.backbone, StaticTable) and encoder.layers is None:
        return _rebuilt(encoder, _whitened_table(encoder.backbone, whitening), None)
    return _with_layers(encoder, whitening.linear())


def with_flow(
    encoder: Encoder,
    vectors: Float32[np.ndarray, "n dim"],
    seed: int,
    progress: Callable[[int], None] | None = None,
) -> Encoder:
    """Return the encoder with BERT-flow in the paper's shape, as 45 layers.

    The layers have 45 MB at 384 dimensions and 175 MB at 768. A text without a known word has the
    latent vector of zero.

    Args:
        encoder: The result shares its backbone and its tokenizer.
        vectors: Pooled vectors of its own texts.
        seed: Of the flow.
        progress: Called with the number of processed vectors.

    Raises:
        UsageError: fewer than 8 dimensions.
        BadEmbeddingError: a vector is not finite, or all are equal.
        DivergedError: a likelihood is not finite.
    """
    return _with_layers(encoder, *fitted_flow(vectors, seed, progress=progress).layers())


def with_map(
    encoder: Encoder,
    vectors: Float32[np.ndarray, "n dim"],
    kind: Map,
    *,
    keep: int | None = None,
    seed: int = 42,
    progress: Callable[[int], None] | None = None,
) -> Encoder:
    """Return the encoder with a map of this kind, fitted on its vectors.

    Args:
        encoder: As `with_whitening`, `with_flow`.
        vectors: As `with_whitening`, `with_flow`.
        kind: The kind of map.
        keep: For a whitening, soft or not.
        seed: For a flow.
        progress: For a flow; a whitening is one decomposition.

    Raises:
        UsageError, BadEmbeddingError, DivergedError: as `with_whitening`, `with_flow`.
    """
    if kind == "flow":
        return with_flow(encoder, vectors, seed, progress)
    return with_whitening(encoder, vectors, keep, SOFT if kind == "soft_whitening" else 1.0)


def _whitened_table(table: StaticTable, whitening: Whitening) -> StaticTable:
    rows = table.embedding.weight.detach().cpu().numpy()
    white = np.zeros((len(rows), whitening.weights.shape[1]), np.float32)
    for begin in range(0, len(rows), BLOCK):
        block = slice(begin, begin + BLOCK)
        known = rows[block].any(axis=1)
        white[block][known] = whitening.transformed(rows[block][known])
    return StaticTable(torch.from_numpy(white))


def _with_layers(encoder: Encoder, *layers: nn.Module) -> Encoder:
    return _rebuilt(encoder, encoder.backbone, nn.Sequential(*(encoder.layers or ()), *layers))


def _rebuilt(
    encoder: Encoder, backbone: "PreTrainedModel | StaticTable", layers: nn.Sequential | None
) -> Encoder:
    return Encoder(**encoder.parts(backbone, layers)).to(encoder.device)
