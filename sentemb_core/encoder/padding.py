"""Texts of several lengths as one tensor."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from sentemb_core.pairs.documents import Tokens


def padded(
    sequences: Sequence[Tokens], pad_id: int
) -> tuple[Int[Tensor, "rows time"], Int[Tensor, "rows time"] | None]:
    """Ids and mask; no mask where all lengths are equal."""
    lengths = np.fromiter(map(len, sequences), np.int64, len(sequences))
    mask = np.arange(lengths.max()) < lengths[:, None]
    ids = np.full(mask.shape, pad_id, dtype=np.int64)
    ids[mask] = np.concatenate(sequences)
    if mask.all():
        return torch.from_numpy(ids), None
    return torch.from_numpy(ids), torch.from_numpy(mask.astype(np.int64))
