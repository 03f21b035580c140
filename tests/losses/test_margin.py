"""Margins: golden values, slow loops, and where they stop pulling."""

import json
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sentemb_core.methods.sncse import bidirectional_margin

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
