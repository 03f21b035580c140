"""DiffCSE's loss where the paper has it: on sentence vectors after the head, so between rows."""

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor

from sentemb_core.encoder.packing import padded
from sentemb_core.methods.method import CrossSampleTerm, Learner
from sentemb_core.views.batch import Batch


def edit_detection(*views: str) -> CrossSampleTerm:
    """The mean over all real tokens of these views.

    A head with batch norm needs the whole batch, so this term does too: under a gradient cache the
    `Discriminator` still reads all rows at once.

    Args:
        views: Each with `inputs`: its sentences with masks in them.
    """

    def term(
        vectors: Mapping[str, Tensor], batch: Batch, learner: Learner
    ) -> tuple[Tensor, dict[str, float]]:
        judge = cast(Any, learner.networks.get_submodule("discriminator"))
        total, tokens = torch.zeros((), device=vectors[views[0]].device), 0
        for name in views:
            view = batch.views[name]
            assert view.inputs is not None, "a view whose edits are detected has masked inputs"
            ids, mask = padded(view.tokens, learner.encoder.pad_id)
            inputs, _ = padded(view.inputs, learner.encoder.pad_id)
            real = torch.ones_like(ids) if mask is None else mask
            tensors = (part.to(total.device) for part in (ids, real, inputs))
            total = total + judge.loss(vectors[name], *tensors)
            tokens += int(real.sum())
        return total / tokens, {}

    return term
