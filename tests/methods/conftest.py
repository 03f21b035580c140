"""A tiny encoder, and a recipe in float64."""

import pytest
import torch

from sentemb_core.encoder.encoder import Encoder
from tests.methods import samples
from tests.methods.steps import second_step, without_dropout


@pytest.fixture
def encoder() -> Encoder:
    return samples.encoder()


@pytest.fixture
def doubled(monkeypatch):
    """Method, learner and batch of a recipe, with everything in float64.

    In float32 the matrix products differ by up to 4e-6, which would hide a small mistake.
    """

    def made_double(recipe):
        method, learner, batch = second_step(recipe)
        without_dropout(learner)
        monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
        for module in learner.modules:
            module.double()
        return method, learner, batch

    return made_double
