"""Margins: golden values, slow loops, and where they stop pulling."""

import json
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sentemb_core.losses.margin import bidirectional_margin, hardest_negative_margin

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "losses.json").read_text())


@pytest.mark.parametrize(("positive", "negated", "loss"), GOLDEN["bidirectional_margin"]["cases"])
def test_a_negation_lies_between_the_margins(positive, negated, loss):
    near, far = (torch.tensor([x], dtype=torch.float64) for x in (positive, negated))
    value = bidirectional_margin(near, far, low=0.1, high=0.3)
    assert value.item() == pytest.approx(loss, abs=1e-12)


@given(st.integers(0, 2**31))
@settings(deadline=None, max_examples=30)
def test_both_margins_equal_a_slow_loop(seed):
    generator = torch.Generator().manual_seed(seed)
    ours = (2 * torch.rand(2, 6, generator=generator, dtype=torch.float64) - 1).requires_grad_()
    theirs = ours.detach().clone().requires_grad_()
    fast = bidirectional_margin(*ours, low=0.1, high=0.3)
    slow = theirs.new_zeros(())
    for near, far in theirs.T:
        gap = near - far
        if gap < 0.1:
            slow = slow + (0.1 - gap) / 6
        elif gap > 0.3:
            slow = slow + (gap - 0.3) / 6
    torch.testing.assert_close(fast, slow)
    (fast + 0 * ours.sum()).backward()
    (slow + 0 * theirs.sum()).backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


@given(st.integers(0, 2**31), st.sampled_from([0.5, 1.0]))
@settings(deadline=None, max_examples=60)
def test_the_hardest_negative_equals_a_slow_loop(seed, margin):
    generator = torch.Generator().manual_seed(seed)
    ours = torch.randn(4, 5, generator=generator, dtype=torch.float64).requires_grad_()
    theirs = ours.detach().clone().requires_grad_()
    positive = torch.rand(4, 5, generator=generator) < 0.4
    negative = torch.rand(4, 5, generator=generator) < 0.4
    positive[0, 0] = True
    fast = hardest_negative_margin(ours, positive, negative, margin=margin)
    losses = []
    for i in range(4):
        rivals = [theirs[i, j] for j in range(5) if negative[i, j] and not positive[i, j]]
        for p in range(5):
            if positive[i, p]:
                worst = [margin - theirs[i, p] + max(rivals)] if rivals else []
                losses.append(max([0 * theirs[i, p], *worst]))
    slow = torch.stack(losses).mean()
    torch.testing.assert_close(fast, slow)
    fast.backward()
    slow.backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_positive_without_negatives_costs_nothing(dtype):
    logits = torch.tensor([[1.0, 2.0]], dtype=dtype, requires_grad=True)
    positive = torch.tensor([[True, False]])
    loss = hardest_negative_margin(logits, positive, torch.zeros_like(positive))
    loss.backward()
    assert loss.item() == 0
    assert logits.grad.eq(0).all()
