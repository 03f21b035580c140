"""The optimiser and the learning rate of every step."""

import math
from collections.abc import Iterable
from inspect import unwrap

import torch
from torch import nn, optim

from sentemb_core.config.run import TrainingConfig

SLANTED_RATIO = 32
"""Highest over lowest rate of the slanted triangle (ULMFiT; used by DeCLUTR)."""


class EagerAdam(optim.Adam):
    """Adam without the wrappers that import torch's compiler (2 CPU-seconds) to exempt themselves.

    No training here is compiled or differentiated.
    """

    add_param_group = unwrap(optim.Adam.add_param_group)
    load_state_dict = unwrap(optim.Adam.load_state_dict)
    state_dict = unwrap(optim.Adam.state_dict)
    step = torch.no_grad()(unwrap(optim.Adam.step))
    zero_grad = unwrap(optim.Adam.zero_grad)


def optimiser_for(modules: Iterable[nn.Module], config: TrainingConfig) -> optim.Optimizer:
    """Return Adam as in mutual (betas .9/.999, epsilon 1e-8), or AdamW; both fused.

    As in BERT, biases and layer norms (one-dimensional weights) do not decay.
    """
    parameters = [weight for module in modules for weight in module.parameters()]
    weights = [weight for weight in parameters if weight.requires_grad]
    if config.optimizer == "adam":
        return EagerAdam(weights, lr=config.learning_rate, fused=True)
    matrices = [weight for weight in weights if weight.ndim > 1]
    vectors = [weight for weight in weights if weight.ndim <= 1]
    groups = [
        {"params": matrices, "weight_decay": config.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return EagerAdam(
        [group for group in groups if group["params"]],
        lr=config.learning_rate,
        decoupled_weight_decay=True,  # AdamW
        fused=True,
    )


def learning_rate(step: int, config: TrainingConfig) -> float:
    """Return the rate of step `step`, counted from 0: a linear warm-up, then the schedule."""
    warmup = math.floor(config.warmup * config.steps)
    if step < warmup:
        rise = (step + 1) / warmup
        return config.learning_rate * (_slanted(rise) if config.schedule == "slanted" else rise)
    left = (config.steps - step) / (config.steps - warmup)
    if config.schedule == "constant":
        return config.learning_rate
    return config.learning_rate * (_slanted(left) if config.schedule == "slanted" else left)


def _slanted(height: float) -> float:
    return (1 + height * (SLANTED_RATIO - 1)) / SLANTED_RATIO
