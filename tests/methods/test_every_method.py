"""What holds for every method, whatever it learns by; and what ties one method to another."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch

from sentemb_core.encoder.batching import encode
from sentemb_core.encoder.checkpoint import load_encoder, save_encoder
from sentemb_core.training import gradients
from sentemb_core.training.cached_gradients import plain_gradients
from sentemb_core.training.gradients import GradientJob
from sentemb_core.training.loop import train
from sentemb_core.views.batch import Batch
from tests import tiny
from tests.methods.recipes import (
    RECIPES,
    config_of,
    corpus,
    made,
    sampler_of,
)

every_recipe = pytest.mark.parametrize("recipe", RECIPES, ids=str)
steady_recipe = pytest.mark.parametrize(
    "recipe", [recipe for recipe in RECIPES if not recipe.perturbed], ids=str
)
STEPS = 30


class InterruptionError(Exception):
    """Stands for a person's Ctrl-C."""


def trained(recipe, work, *, stop=None, **training):
    """Learner and losses of a training; `stop` breaks it off behind this step."""
    method, learner = made(recipe.name, **recipe.settings)
    config = config_of(recipe.name, recipe.settings, **training)
    losses = []

    def on_step(step, metrics):
        losses.append(metrics["loss"])
        if step == stop:
            raise InterruptionError

    train(learner, method, sampler_of(config, method), config, work, on_step=on_step)
    return learner, losses


@cache
def thirty_steps(recipe_index):
    with TemporaryDirectory() as work:
        return trained(RECIPES[recipe_index], Path(work), steps=STEPS)


def named_parameters(learner):
    for role, module in zip(("encoder", "head", "networks"), learner.modules, strict=True):
        for name, weight in module.named_parameters():
            yield f"{role}.{name}", weight


def without_dropout(learner):
    """Heads stay in train mode: batch norm is part of the loss."""
    learner.encoder.eval()
    learner.networks.eval()
    learner.head.train()


def step_of(method, learner, batch, *, step=0, chunk=None):
    """(loss, name -> gradient, vectors) of one batch."""
    for module in learner.modules:
        module.zero_grad(set_to_none=True)
    done = GradientJob(learner, method, bfloat16=False, seed=3).run(batch, step, chunk)
    found = {name: weight.grad for name, weight in named_parameters(learner)}
    return done.loss, {n: g.clone() for n, g in found.items() if g is not None}, done.vectors


def second_step(recipe):
    """Method, learner and batch once a first step has filled what is remembered."""
    method, learner = made(recipe.name, **recipe.settings)
    config = config_of(recipe.name, recipe.settings)
    sampler = sampler_of(config, method)
    if method.after_step is not None:
        method.after_step(learner, step_of(method, learner, sampler.batch(0))[2])
    return method, learner, sampler.batch(1)


def assert_same_step(one, other, *, atol=1e-6, of=""):
    """Equal losses, and equal gradients in units of the largest, where names begin with `of`."""
    assert one[0] == pytest.approx(other[0], rel=atol, abs=atol)
    ours, theirs = (
        {name: gradient for name, gradient in found[1].items() if name.startswith(of)}
        for found in (one, other)
    )
    assert ours.keys() == theirs.keys()
    largest = max(gradient.abs().max() for gradient in ours.values())
    assert largest > 0
    for name, gradient in ours.items():
        assert (gradient - theirs[name]).abs().max() <= atol * max(largest, 1), name


@pytest.mark.parametrize("index", range(len(RECIPES)), ids=[str(recipe) for recipe in RECIPES])
def test_thirty_steps_on_64_sentences_lower_a_finite_loss(index):
    _, losses = thirty_steps(index)
    assert len(losses) == STEPS
    assert np.isfinite(losses).all()
    before, after = np.mean(losses[:5]), np.mean(losses[-5:])
    assert before - after > 0.1 * abs(before)


@every_recipe
def test_gradients_reach_the_declared_roles_and_no_others(recipe, tmp_path):
    learner, _ = trained(recipe, tmp_path, steps=1)
    reached = {name for name, weight in named_parameters(learner) if weight.grad is not None}
    declared = {
        name
        for name, _ in named_parameters(learner)
        if not any(name.startswith(prefix) for prefix in recipe.fixed)
    }
    assert reached == declared
    silent = {
        name
        for name, weight in named_parameters(learner)
        if name in reached and not weight.grad.any()
    }
    # a softmax over the one sentence vector is 1 whatever it is asked
    assert all(".memory." in name and ("query" in name or "key" in name) for name in silent)


@every_recipe
def test_what_no_gradient_reaches_is_moved_by_momentum_alone(recipe, tmp_path):
    before = dict(named_parameters(made(recipe.name, **recipe.settings)[1]))
    after, _ = trained(recipe, tmp_path, steps=2)
    for name, weight in named_parameters(after):
        if any(name.startswith(prefix) for prefix in recipe.fixed):
            assert weight.equal(before[name]) != name.startswith("networks.momentum."), name


@steady_recipe
def test_padding_changes_neither_loss_nor_gradient(recipe, monkeypatch):
    method, learner, batch = second_step(recipe)
    without_dropout(learner)
    found = []
    for slack in (0, 10**6):  # every length by itself; all rows padded to the longest
        monkeypatch.setattr(gradients, "TRANSFORMER_SLACK", slack)
        found.append(step_of(method, learner, batch))
    assert_same_step(*found, atol=1e-5)


@steady_recipe
def test_the_order_of_a_batch_changes_neither_loss_nor_gradient(recipe):
    method, learner, batch = second_step(recipe)
    without_dropout(learner)
    n = len(next(iter(batch.views.values())))
    order = np.roll(np.arange(n), 5) if recipe.neighbourly else None
    assert_same_step(
        step_of(method, learner, batch),
        step_of(method, learner, reordered(batch, order)),
        atol=1e-5,
    )


def reordered(batch, order=None):
    """The batch with its owners in another order; parts of one owner stay in theirs."""
    owners = {
        name: np.arange(len(v)) if v.owner is None else v.owner for name, v in batch.views.items()
    }
    n = 1 + max(owner.max() for owner in owners.values())
    if order is None:
        order = np.random.default_rng(0).permutation(n)
    assert all(owner.max() == n - 1 for owner in owners.values())
    views = {}
    for name, view in batch.views.items():
        rows = np.concatenate([np.flatnonzero(owners[name] == owner) for owner in order])
        columns = ("document", "group", "text", "weight")
        lists = ("tokens", "inputs", "targets")
        views[name] = replace(
            view,
            **{c: getattr(view, c)[rows] for c in columns if getattr(view, c) is not None},
            **{c: [getattr(view, c)[k] for k in rows] for c in lists if getattr(view, c)},
            owner=None if view.owner is None else np.argsort(order)[view.owner[rows]],
        )
    return Batch(views, batch.pairs)


@steady_recipe
@pytest.mark.parametrize("chunk", [1, 5])
def test_chunks_give_the_loss_and_gradients_of_the_whole(recipe, chunk):
    method, learner, batch = second_step(recipe)
    without_dropout(learner)
    whole = step_of(method, learner, batch)
    assert_same_step(step_of(method, learner, batch, chunk=chunk), whole)


@every_recipe
def test_a_gradient_cache_repeats_every_draw_of_its_first_pass(recipe, monkeypatch):
    method, learner, batch = second_step(recipe)
    learner.encoder.train(method.dropout)
    learner.networks.train(method.dropout)
    cached = step_of(method, learner, batch, chunk=5)
    monkeypatch.setattr(gradients, "cached_gradients", plain_gradients)
    assert_same_step(cached, step_of(method, learner, batch, chunk=5))


@every_recipe
def test_a_run_broken_off_ends_in_the_bits_of_another_run_of_its_seed(recipe, tmp_path):
    plan = {"steps": 4, "checkpoint_every": 2}
    undisturbed, losses = trained(recipe, tmp_path / "one", **plan)
    with pytest.raises(InterruptionError):
        trained(recipe, tmp_path / "other", stop=3, **plan)
    resumed, rest = trained(recipe, tmp_path / "other", **plan)
    assert rest == losses[2:]
    for ours, theirs in zip(undisturbed.modules, resumed.modules, strict=True):
        state = theirs.state_dict()
        for name, weight in ours.state_dict().items():
            assert weight.equal(state[name]), name


@pytest.mark.parametrize("index", range(len(RECIPES)), ids=[str(recipe) for recipe in RECIPES])
def test_a_trained_embedding_does_not_depend_on_its_batch_mates(index):
    encoder = thirty_steps(index)[0].encoder
    sentences = corpus().sentences[:12]
    together = encode(encoder, sentences)
    alone = np.concatenate([encode(encoder, [sentence]) for sentence in sentences])
    ids, mask = gradients.padded(sentences, encoder.pad_id)
    with torch.no_grad():
        padded = encoder.vectors(encoder(ids, mask)).numpy()
    np.testing.assert_allclose(together, alone, atol=2e-6)
    np.testing.assert_allclose(together, padded, atol=2e-6)


@pytest.mark.parametrize("index", range(len(RECIPES)), ids=[str(recipe) for recipe in RECIPES])
def test_a_saved_encoder_carries_nothing_of_its_training(index, tmp_path):
    encoder = thirty_steps(index)[0].encoder
    save_encoder(encoder, tmp_path, "card")
    again = load_encoder(tmp_path)
    assert again.state_dict().keys() == tiny.bert().state_dict().keys()
    sentences = corpus().sentences[:12]
    np.testing.assert_array_equal(encode(encoder, sentences), encode(again, sentences))
