"""DiffCSE's loss where the paper has it: on sentence vectors after the head, so between rows."""

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from sentemb_core.methods.method import CrossSampleTerm, Learner
from sentemb_core.pairs.documents import Tokens
from sentemb_core.views.batch import Batch


def edit_detection(*views: str, network: str = "discriminator") -> CrossSampleTerm:
    """The mean over all real tokens of these views.

    A head with batch norm needs the whole batch, so this term does too: under a gradient cache the
    discriminator still reads all rows at once.

    Args:
        views: Each with `inputs`: its sentences with masks in them.
        network: Which one is the `Discriminator`.
    """

    def term(
        vectors: Mapping[str, Tensor], batch: Batch, learner: Learner
    ) -> tuple[Tensor, dict[str, float]]:
        judge = cast(Any, learner.networks.get_submodule(network))
        total, tokens = torch.zeros((), device=vectors[views[0]].device), 0
        for name in views:
            view = batch.views[name]
            assert view.inputs is not None, "a view whose edits are detected has masked inputs"
            ids = _padded(view.tokens, learner.encoder.pad_id, total.device)
            inputs = _padded(view.inputs, learner.encoder.pad_id, total.device)
            mask = _padded([row * 0 + 1 for row in view.tokens], 0, total.device)
            total = total + judge.loss(vectors[name], ids, mask, inputs)
            tokens += int(mask.sum())
        return total / tokens, {}

    return term


def _padded(rows: list[Tokens], value: int, device: torch.device) -> Tensor:
    tensors = [torch.from_numpy(row).long() for row in rows]
    return pad_sequence(tensors, batch_first=True, padding_value=value).to(device)
