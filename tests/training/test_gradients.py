"""Gradients of one step are equal with a gradient cache, in chunks and plain."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from sentemb_core.config.run import TrainingConfig
from sentemb_core.encoder import encoder as encoders
from sentemb_core.encoder.packing import padded
from sentemb_core.methods.catalogue import method_for
from sentemb_core.methods.ict import projection
from sentemb_core.methods.parts.method import Learner, loss_of
from sentemb_core.training.batches import sampler_for
from sentemb_core.training.gradients import (
    GradientJob,
    cached_gradients,
    length_groups,
    plain_gradients,
)
from tests import tiny


def job_and_batch(encoder, *, head=True, method="conpono", bfloat16=False):
    config = TrainingConfig(method=method, batch_size=12)
    recipe = method_for(config.method, encoder)
    batch = sampler_for(config, recipe, tiny.corpus([5] * 8)).batch(0)
    module = nn.Identity()
    if head:
        torch.manual_seed(3)
        module = nn.Sequential(nn.Linear(16, 16), nn.Tanh())
    encoder.train()
    return GradientJob(Learner(encoder, module), recipe, bfloat16, seed=7), batch


def gradients_of(job, batch, chunk, step=5):
    modules = nn.ModuleList([job.learner.encoder, job.learner.head])
    modules.zero_grad()
    loss = job.run(batch, step, chunk).loss
    found = {
        name: weight.grad.clone()
        for name, weight in modules.named_parameters()
        if weight.grad is not None
    }
    assert found
    return loss, found


def largest_difference(one, other):
    """Return the largest difference relative to the largest gradient."""
    assert one.keys() == other.keys()
    largest = max(gradient.abs().max().item() for gradient in one.values())
    return max((one[name] - other[name]).abs().max().item() for name in one) / largest


@pytest.mark.parametrize("chunk", [1, 5, 12, 24])
def test_without_dropout_any_chunk_gives_the_plain_gradients(chunk):
    job, batch = job_and_batch(tiny.bert(dropout=0.0))
    plain_loss, plain = gradients_of(job, batch, None)
    loss, cached = gradients_of(job, batch, chunk)
    assert loss == pytest.approx(plain_loss, abs=1e-6)
    assert largest_difference(plain, cached) < 5e-6  # other groups, other order of sums


@pytest.mark.parametrize("chunk", [1, 5])
def test_dropout_of_a_head_does_not_depend_on_the_chunk(chunk):
    """The head draws after all passes, with its own seed."""
    job, batch = job_and_batch(tiny.bert(dropout=0.0), head=False)
    job = replace(job, learner=Learner(job.learner.encoder, projection(16)))
    plain_loss, plain = gradients_of(job, batch, None)
    loss, cached = gradients_of(job, batch, chunk)
    assert loss == pytest.approx(plain_loss, abs=1e-6)
    assert largest_difference(plain, cached) < 5e-6
    assert gradients_of(job, batch, None, step=6)[0] != pytest.approx(plain_loss, abs=1e-3)


def encoding(job, batch, groups, *, replay):
    """Return `Encode` and `Loss` with dropout; with `replay` each group has its own seed."""
    rows = [tokens for view in batch.views.values() for tokens in view.tokens]

    def encode(index, _):
        if replay:
            torch.manual_seed(index)
        ids, mask = padded([rows[k] for k in groups[index]], 0)
        return job.learner.encoder(ids, mask), None

    def loss(parts):
        vectors = torch.cat(parts)[np.argsort(np.concatenate(groups))]
        parts = zip(batch.views, vectors.split([len(v) for v in batch.views.values()]), strict=True)
        headed = {name: job.learner.head(part) for name, part in parts}
        return loss_of(job.method, headed, batch, job.learner)[0]

    return encode, loss


@pytest.mark.parametrize("replay", [True, False])
def test_cached_gradients_need_repeated_dropout(replay):
    job, batch = job_and_batch(tiny.bert())
    modules = nn.ModuleList([job.learner.encoder, job.learner.head])
    groups = np.array_split(np.random.default_rng(0).permutation(24), 4)
    found = []
    for gradients in (plain_gradients, cached_gradients):
        modules.zero_grad()
        torch.manual_seed(0)
        encode, loss = encoding(job, batch, groups, replay=replay)
        gradients(encode, len(groups), loss)
        weights = modules.named_parameters()
        found.append({name: w.grad.clone() for name, w in weights if w.grad is not None})
    difference = largest_difference(*found)
    if replay:
        assert difference < 1e-6
    else:
        assert difference > 1e-2


def test_the_loop_repeats_dropout():
    """With dropout a step is a function of its seed."""
    job, batch = job_and_batch(tiny.bert(), method="simcse")
    first_loss, first = gradients_of(job, batch, 4)
    torch.rand(10)
    second_loss, second = gradients_of(job, batch, 4)
    assert first_loss == second_loss
    assert largest_difference(first, second) == 0
    other_loss, _ = gradients_of(job, batch, 4, step=6)
    assert other_loss != first_loss
    assert gradients_of(replace(job, seed=8), batch, 4)[0] != first_loss


def test_bfloat16_covers_both_passes_of_a_gradient_cache():
    job, batch = job_and_batch(tiny.bert(), bfloat16=True)
    seen = []
    dense = job.learner.encoder.backbone.encoder.layer[0].attention.self.query
    dense.register_forward_hook(
        lambda _, __, out: seen.append((out.dtype, torch.is_grad_enabled()))
    )
    gradients_of(job, batch, 8)
    assert {dtype for dtype, _ in seen} == {torch.bfloat16}
    assert {graph for _, graph in seen} == {True, False}


@pytest.mark.parametrize(
    ("second", "chunk"), [((), None), (("feature_cutoff",), None), (("feature_cutoff",), 5)]
)
def test_an_adversarial_view_follows_the_loss_of_the_step(second, chunk):
    """Of ConSERT: its gradient is that of the whole loss, with the other view as in the step."""
    settings = {"name": "consert", "first": ("adversarial",), "second": second, "epsilon": 0.05}
    job, batch = job_and_batch(tiny.bert(), head=False, method=settings)
    encoder = job.learner.encoder.eval()
    assert len({len(row) for row in batch.views["anchor"].tokens}) > 3
    done = job.run(batch, 0, chunk)
    ids, mask = padded(batch.views["anchor"].tokens, 0)
    leaf = torch.zeros(*ids.shape, encoder.dim, requires_grad=True)
    plain = encoder.read(ids, mask, edit=lambda states: states + leaf).pooled
    loss, _ = loss_of(job.method, {**done.vectors, "anchor": plain}, batch, job.learner)
    (slope,) = torch.autograd.grad(loss, [leaf])
    noise = 0.05 * slope / slope.norm(dim=-1, keepdim=True).clamp_min(1e-10)
    moved = encoder.read(ids, mask, edit=lambda states: states + noise).pooled.detach()
    torch.testing.assert_close(done.vectors["anchor"], moved, atol=1e-5, rtol=0)
    assert (moved - plain).norm(dim=1).min() > 1e-4
    assert done.loss > loss.item()


def test_two_adversarial_views_follow_the_loss_of_plain_views():
    both = {"name": "consert", "first": ("adversarial",), "second": ("adversarial",)}
    job, batch = job_and_batch(tiny.bert(), head=False, method=both | {"dropout": True})
    job.learner.encoder.eval()
    done = job.run(batch, 0, None)
    assert done.loss > 0
    torch.testing.assert_close(done.vectors["anchor"], done.vectors["positive"])
    one = {"name": "consert", "first": ("adversarial",), "second": ()}
    single, _ = job_and_batch(tiny.bert(), head=False, method=one)
    single.learner.encoder.eval()
    expected = single.run(batch, 0, None).vectors["anchor"]
    torch.testing.assert_close(done.vectors["anchor"], expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("second", [(), ("adversarial",)])
def test_an_adversarial_view_moves_under_the_dropout_of_its_gradient(second, monkeypatch):
    """Both reads use the same dropout, and the other view uses another."""
    settings = {"name": "consert", "first": ("adversarial",), "second": second, "dropout": True}
    job, batch = job_and_batch(tiny.bert(), head=False, method=settings | {"epsilon": 1e-9})
    read, edited = encoders.Encoder.read, []

    def recorded(*rows, edit=None, **how):
        found = read(*rows, edit=edit, **how)
        if edit is not None:
            edited.append(found.pooled.detach())
        return found

    monkeypatch.setattr(encoders.Encoder, "read", recorded)
    done = job.run(batch, 0, None)
    assert len(edited) == 2 + 2 * len(second)
    for gradient, step in zip(edited[::2], edited[1::2], strict=True):
        torch.testing.assert_close(gradient, step, atol=1e-6, rtol=0)
    assert (done.vectors["anchor"] - done.vectors["positive"]).norm(dim=1).min() > 1e-2


def test_the_loss_of_an_adversarial_view_is_float32_in_bfloat16():
    settings = {"name": "consert", "first": ("adversarial",)}
    job, batch = job_and_batch(tiny.bert(), head=False, method=settings, bfloat16=True)
    seen = []
    job.learner.head.register_forward_hook(lambda *_: seen.append(torch.is_autocast_enabled("cpu")))
    job.run(batch, 0, None)
    assert len(seen) > 1
    assert not any(seen)


@given(
    st.lists(st.integers(1, 32), min_size=1, max_size=60),
    st.integers(0, 200),
    st.none() | st.integers(1, 10),
)
def test_length_groups_hold_every_row_once_within_limits(lengths, slack, largest):
    tokens = np.array(lengths, dtype=np.int64)
    groups = length_groups(tokens, slack, largest)
    assert sorted(np.concatenate(groups).tolist()) == list(range(len(lengths)))
    for group in groups:
        assert (tokens[group].max() - tokens[group]).sum() <= slack
        assert largest is None or len(group) <= largest


def test_without_slack_no_group_is_padded():
    groups = length_groups(np.array([3, 5, 3, 4]), 0)
    assert [sorted(group.tolist()) for group in groups] == [[1], [3], [0, 2]]


def test_padding_is_masked_and_equal_lengths_need_no_mask():
    ids, mask = padded([np.array([7, 8]), np.array([9])], 1)
    assert ids.tolist() == [[7, 8], [9, 1]]
    assert mask.tolist() == [[1, 1], [1, 0]]
    assert padded([np.array([7]), np.array([9])], 0)[1] is None


@pytest.mark.parametrize(("packs", "passes"), [(True, 1), (False, 3)])
def test_packed_rows_are_one_pass(packs, passes, monkeypatch):
    monkeypatch.setattr(encoders, "packs", lambda _: packs)
    monkeypatch.setattr("sentemb_core.training.gradients.TRANSFORMER_SLACK", 12)
    job, batch = job_and_batch(tiny.bert())
    seen = []
    job.learner.encoder.register_forward_hook(lambda _, rows, __: seen.append(len(rows[0])))
    job.run(batch, 0, None)
    assert len(seen) == passes
    assert sum(seen) == sum(len(view) for view in batch.views.values())
