"""Steps of methods on tiny encoders, and their comparison."""

from dataclasses import replace

import pytest
import torch

from sentemb_core.training.batches import sampler_for
from sentemb_core.training.distributed import ALONE
from sentemb_core.training.gradients import GradientJob
from tests.methods.recipes import (
    RECIPES,
    annotation,
    config_of,
    corpus,
    made,
    sampler_of,
)

REGROUPED = 1e-10
"""Rows that go through the encoder in other company, in float64."""


def named_parameters(learner):
    for role, module in zip(("encoder", "head", "networks"), learner.modules, strict=True):
        for name, weight in module.named_parameters():
            yield f"{role}.{name}", weight


def without_dropout(learner):
    """Heads stay in train mode: batch norm is part of the loss."""
    learner.encoder.eval()
    learner.networks.eval()
    learner.head.train()


def step_of(method, learner, batch, *, step=0, chunk=None, ranks=ALONE):
    """(loss, name -> gradient, vectors) of one batch."""
    for module in learner.modules:
        module.zero_grad(set_to_none=True)
    job = GradientJob(learner, method, bfloat16=False, seed=3, ranks=ranks)
    done = job.run(batch, step, chunk)
    found = {name: weight.grad for name, weight in named_parameters(learner)}
    return done.loss, {n: g.clone() for n, g in found.items() if g is not None}, done.vectors


def second_step(recipe):
    """Method, learner and batch once a first step has filled what is remembered.

    The encoder has left what its copies began with, as it would have.
    """
    method, learner = made(recipe.name, **recipe.settings)
    config = config_of(recipe.name, recipe.settings)
    sampler = sampler_of(config, method)
    if method.after_step is not None:
        method.after_step(learner, step_of(method, learner, sampler.batch(0))[2])
    with torch.no_grad():
        for weight in learner.encoder.parameters():
            weight.mul_(1.01)
    return method, learner, sampler.batch(1)


def assert_same_step(one, other, *, within=1e-6, of=""):
    """Equal losses, and equal gradients, taken as one vector, where names begin with `of`."""
    assert one[0] == pytest.approx(other[0], rel=within, abs=within)
    ours, theirs = (
        {name: gradient for name, gradient in found[1].items() if name.startswith(of)}
        for found in (one, other)
    )
    assert ours.keys() == theirs.keys()
    size = norm(ours.values())
    assert size > 0
    assert norm(ours[name] - theirs[name] for name in ours) <= within * size


def norm(tensors):
    return torch.stack([tensor.norm() for tensor in tensors]).norm().item()


def batch_of(name, settings=None, *, documents=None, known=None):
    """The first batch of a training on `documents`."""
    config = config_of(name, settings or {}, batch_size=12)
    method, _ = made(name, **(settings or {}))
    return sampler_for(config, method, documents or corpus(), known or annotation()).batch(0)


def assert_alike(one, other, batch, *, dropout=False, of=""):
    """Two (method, learner) of the same weights take the same step, unrounded as by `doubled`."""
    modules = [module for _, learner in (one, other) for module in learner.modules]
    for _, learner in (one, other):
        without_dropout(learner)
        learner.encoder.train(dropout)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(torch.Tensor, "float", torch.Tensor.double)
        for module in modules:
            module.double()
        assert_same_step(step_of(*one, batch), step_of(*other, batch), of=of)
    for module in modules:
        module.float()


def simcse_under(head):
    """SimCSE with this head in place of its own."""
    method, learner = made("simcse")
    if head is None:
        return replace(method, head=None), replace(learner, head=torch.nn.Identity())
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return replace(method, head=head), replace(learner, head=head(learner.encoder.dim))


every_recipe = pytest.mark.parametrize("recipe", RECIPES, ids=str)
