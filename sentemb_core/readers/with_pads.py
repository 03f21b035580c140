"""A sentence vector over a fixed number of places, as Mirror-BERT's code takes its means."""

import torch
import torch.nn.functional as F
from torch import Tensor

from sentemb_core.encoder.encoder import Reading
from sentemb_core.encoder.pooling import mean_pool
from sentemb_core.methods.method import Learner, Reader, plainly


def mean_with_pads(read: Reader = plainly) -> Reader:
    """Rows are padded to `max_length`; the mean is over all places.

    Attention is blind to padding as always, but its own states count. So a vector does not depend
    on the rows it is read with, only on how much shorter than `max_length` its own is.

    Args:
        read: Who reads the padded rows.
    """

    def reader(learner: Learner, ids: Tensor, mask: Tensor | None, layers: bool) -> Reading:
        encoder, behind = learner.encoder, learner.encoder.max_length - ids.shape[1]
        real = torch.ones_like(ids) if mask is None else mask
        padded = F.pad(ids, (0, behind), value=encoder.pad_id)
        seen = read(learner, padded, F.pad(real, (0, behind)), True)
        return Reading(encoder.finished(mean_pool(seen.layers[-1])), seen.layers if layers else ())

    return reader
