"""What holds for every method, whatever it learns by; and what ties one method to another."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from sentemb_core.config.methods import METHOD_NAMES
from sentemb_core.encoder import encoder as encoders
from sentemb_core.encoder import packing
from sentemb_core.encoder.batching import encode
from sentemb_core.encoder.checkpoint import load_encoder, save_encoder
from sentemb_core.methods.parts.views import Batch
from sentemb_core.training import gradients
from sentemb_core.training.batches import sampler_for
from sentemb_core.training.gradients import GradientJob, plain_gradients
from sentemb_core.training.loop import train
from tests import tiny
from tests.interrupted import BreakingOff, InterruptionError, assert_same_weights
from tests.methods.recipes import (
    MOMENTUM,
    RECIPES,
    STATIC,
    annotation,
    config_of,
    corpus,
    made,
)
from tests.methods.steps import (
    REGROUPED,
    assert_same_step,
    every_recipe,
    named_parameters,
    second_step,
    step_of,
)

steady_recipe = pytest.mark.parametrize(
    "recipe", [recipe for recipe in RECIPES if not recipe.perturbed], ids=str
)
STEPS = 30


def trained(recipe, work, *, stop=None, encoder=None, texts=None, **training):
    """Learner and losses of a training, interrupted after step `stop`."""
    method, learner = made(recipe.name, encoder, **recipe.settings)
    config = config_of(recipe.name, recipe.settings, **training)
    sampler = sampler_for(config, method, texts or corpus(), annotation())
    on_step = BreakingOff(stop)
    train(learner, method, sampler, config, work, on_step=on_step)
    return learner, on_step.losses


@pytest.mark.parametrize("recipe", STATIC, ids=str)
def test_thirty_steps_lower_the_loss_of_a_static_table(recipe, tmp_path):
    plain = tiny.corpus([4] * 16, special=False)
    how = {"encoder": tiny.static(), "texts": plain, "steps": STEPS, "batch_size": 16}
    _, losses = trained(recipe, tmp_path, **how)
    assert len(losses) == STEPS
    assert np.mean(losses[-5:]) < 0.8 * np.mean(losses[:5])


@every_recipe
def test_the_loss_is_the_weighted_sum_of_its_metrics_in_chunks_too(recipe):
    method, learner, batch = second_step(recipe)
    weighted = {**method.terms, **method.sample_terms}
    found = []
    for chunk in (None,) if method.reads_at_once else (None, 5):
        done = GradientJob(learner, method, bfloat16=False, seed=3).run(batch, 0, chunk)
        found.append({name: done.metrics[name] for name in weighted})
        total = sum(weighted[name][0] * value for name, value in found[-1].items())
        assert done.loss == pytest.approx(total, rel=1e-6)
    if not recipe.perturbed:
        assert found[-1] == pytest.approx(found[0], rel=1e-4)


def test_every_method_has_a_recipe():
    assert {recipe.name for recipe in RECIPES if not recipe.perturbed} == set(METHOD_NAMES)


@every_recipe
def test_thirty_steps_lower_the_loss_and_leave_a_plain_encoder(recipe, tmp_path):
    """A vector depends neither on the batch nor on saving; no network of the training is saved."""
    learner, losses = trained(recipe, tmp_path, steps=STEPS)
    assert len(losses) == STEPS
    assert np.isfinite(losses).all()
    before, after = np.mean(losses[:5]), np.mean(losses[-5:])
    assert before - after > 0.1 * abs(before)

    encoder, sentences = learner.encoder, corpus().sentences[:6]
    together = encode(encoder, sentences)
    alone = np.concatenate([encode(encoder, [sentence]) for sentence in sentences])
    ids, mask = packing.padded(sentences, encoder.pad_id)
    with torch.no_grad():
        padded = encoder.vectors(encoder(ids, mask)).numpy()
    np.testing.assert_allclose(together, alone, atol=2e-6)
    np.testing.assert_allclose(together, padded, atol=2e-6)

    save_encoder(encoder, tmp_path / "saved", "card")
    again = load_encoder(tmp_path / "saved")
    assert again.state_dict().keys() == tiny.bert().state_dict().keys()
    np.testing.assert_array_equal(encode(again, sentences), together)


@every_recipe
def test_gradients_reach_the_declared_roles_and_no_others(recipe, tmp_path):
    start = dict(named_parameters(made(recipe.name, **recipe.settings)[1]))
    learner, _ = trained(recipe, tmp_path, steps=1)
    fixed = {name for name in start if recipe.fixed and name.startswith(recipe.fixed)}
    for name, weight in named_parameters(learner):
        assert (weight.grad is None) == (name in fixed), name
        # the softmax over one vector is 1 for every query, so these get no gradient
        unasked = ".memory." in name and ("query" in name or "key" in name)
        assert name in fixed or weight.grad.any() or unasked, name
        if name in fixed:  # only momentum moves without a gradient
            assert weight.equal(start[name]) != name.startswith(MOMENTUM), name


@steady_recipe
def test_loss_and_gradient_do_not_depend_on_how_rows_are_grouped(recipe, doubled, monkeypatch):
    """Every length by itself, all rows padded, packed into one row, reordered, in chunks."""
    method, learner, batch = doubled(recipe)
    packs = encoders.packs

    def step(batch=batch, *, slack=10**6, packed=False, chunk=None):
        monkeypatch.setattr(gradients, "TRANSFORMER_SLACK", slack)
        monkeypatch.setattr(encoders, "packs", packs if packed else lambda _: False)
        return step_of(method, learner, batch, chunk=chunk)

    n = len(next(iter(batch.views.values())))
    order = np.roll(np.arange(n), 5) if recipe.neighbourly else None
    by_length = step(slack=0)
    for other in (step(), step(packed=True), step(reordered(batch, order)), step(chunk=5)):
        assert_same_step(by_length, other, within=REGROUPED)


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
        columns = ("document", "group", "text", "wording", "weight")
        lists = ("tokens", "inputs", "targets")
        views[name] = replace(
            view,
            **{c: getattr(view, c)[rows] for c in columns if getattr(view, c) is not None},
            **{c: [getattr(view, c)[k] for k in rows] for c in lists if getattr(view, c)},
            owner=None if view.owner is None else np.argsort(order)[view.owner[rows]],
        )
    return Batch(views, batch.pairs)


@every_recipe
def test_a_gradient_cache_gives_the_gradients_of_one_pass_under_dropout(recipe, monkeypatch):
    method, learner, batch = second_step(recipe)
    learner.encoder.train(method.dropout)
    learner.networks.train(method.dropout)
    cached = step_of(method, learner, batch, chunk=5)
    monkeypatch.setattr(gradients, "cached_gradients", plain_gradients)
    assert_same_step(cached, step_of(method, learner, batch, chunk=5))


@every_recipe
def test_an_interrupted_run_ends_in_the_bits_of_an_undisturbed_one(recipe, tmp_path):
    plan = {"steps": 3, "checkpoint_every": 2, "batch_size": 6}
    undisturbed, losses = trained(recipe, tmp_path / "one", **plan)
    with pytest.raises(InterruptionError):
        trained(recipe, tmp_path / "other", stop=3, **plan)
    resumed, rest = trained(recipe, tmp_path / "other", **plan)
    assert rest == losses[2:]
    assert_same_weights(undisturbed, resumed)


@pytest.mark.parametrize("name", ["is_bert", "ct", "bce"])
def test_batches_of_one_document_are_counted(name, tmp_path):
    method, learner = made(name)
    config = config_of(name, {}, steps=16)
    sampler = sampler_for(config, method, tiny.corpus([200, 2]))
    views = [next(iter(sampler.batch(step).views.values())) for step in range(16)]
    without_rivals = sum(len(view) for view in views if len(set(view.document)) == 1)
    report = train(learner, method, sampler, config, tmp_path)
    assert without_rivals > 100
    assert (
        without_rivals <= report.unopposed_anchors < without_rivals + 24
    )  # and some of the mixed batches
    assert np.isfinite(report.loss)


@pytest.mark.parametrize(("removal", "queries"), [(0.0, [0, 1, 2, 3, 4]), (0.9, [1, 2, 3, 4])])
def test_a_single_sentence_is_a_cloze_if_nothing_is_removed(removal, queries):
    lone = tiny.corpus([1, 2, 2])
    method, learner = made("ict", removal=removal)
    assert method.pairs(lone, None).i.tolist() == queries
    config = config_of("ict", {"removal": removal}, batch_size=len(queries))
    batch = sampler_for(config, method, lone).batch(0)
    assert np.isfinite(step_of(method, learner, batch)[0])
