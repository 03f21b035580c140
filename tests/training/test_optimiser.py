"""Learning rates of every schedule, and weight decay."""

import pytest
import torch
from torch import nn

from sentemb_core.config.run import TrainingConfig
from sentemb_core.training.optimiser import learning_rate, optimiser_for


def rates(schedule, steps=100, warmup=0.1):
    config = TrainingConfig(schedule=schedule, steps=steps, warmup=warmup, learning_rate=1.0)
    return [learning_rate(step, config) for step in range(steps)]


def test_a_warm_up_is_linear_and_starts_above_zero():
    assert rates("constant")[:10] == pytest.approx([k / 10 for k in range(1, 11)])
    assert rates("linear")[:10] == pytest.approx([k / 10 for k in range(1, 11)])


def test_constant_and_linear_schedules():
    assert set(rates("constant")[10:]) == {1.0}
    linear = rates("linear")
    assert linear[10] == 1.0
    assert linear[55] == pytest.approx(0.5)
    assert linear[-1] == pytest.approx(1 / 90)


def test_the_slanted_schedule_rises_from_a_thirty_second():
    slanted = rates("slanted")
    assert max(slanted) == slanted[9] == slanted[10] == 1.0
    assert slanted[0] == pytest.approx((1 + 31 / 10) / 32)
    assert slanted[-1] == pytest.approx((1 + 31 / 90) / 32)


def test_without_warm_up_the_first_step_has_the_full_rate():
    assert rates("linear", warmup=0.0)[0] == 1.0


def test_biases_and_norms_do_not_decay():
    module = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))
    optimiser = optimiser_for([module], TrainingConfig(weight_decay=0.5, learning_rate=0.1))
    for weight in module.parameters():
        weight.grad = torch.zeros_like(weight)
    before = [weight.clone() for weight in module.parameters()]
    optimiser.step()
    for old, new in zip(before, module.parameters(), strict=True):
        expected = old * (1 - 0.1 * 0.5) if old.ndim > 1 else old
        torch.testing.assert_close(new.data, expected)


def test_adam_of_mutual_has_no_weight_decay():
    optimiser = optimiser_for([nn.Linear(2, 2)], TrainingConfig(optimizer="adam"))
    assert isinstance(optimiser, torch.optim.Adam)
    assert not isinstance(optimiser, torch.optim.AdamW)
    (group,) = optimiser.param_groups
    assert (group["betas"], group["eps"], group["weight_decay"]) == ((0.9, 0.999), 1e-8, 0)
