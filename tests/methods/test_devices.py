"""Every method trains where its encoder is, and leaves nothing of it on the host."""

from pathlib import Path

import numpy as np
import pytest
import torch

from sentemb_core.encoder.batching import encode
from sentemb_core.encoder.checkpoint import load_encoder, save_encoder
from sentemb_core.training.loop import train
from tests import tiny
from tests.interrupted import BreakingOff, InterruptionError
from tests.methods.recipes import RECIPES, Recipe, config_of, corpus, made, sampler_of
from tests.second_device import THERE, SecondDevice

SENTENCES = corpus().sentences[:6]
HERE = torch.device("cpu")


def learnt(recipe: Recipe, folder: Path, device: torch.device) -> np.ndarray:
    """Vectors of an encoder that a training broken off behind its checkpoint left in the end."""
    chunk = None if "adversarial" in str(recipe) else 5
    config = config_of(recipe.name, recipe.settings, steps=3, checkpoint_every=2, chunk=chunk)

    method, learner = made(recipe.name, tiny.bert().to(device), **recipe.settings)
    with pytest.raises(InterruptionError):
        train(learner, method, sampler_of(config, method), config, folder, on_step=BreakingOff(3))
    method, learner = made(recipe.name, tiny.bert().to(device), **recipe.settings)
    train(learner, method, sampler_of(config, method), config, folder)
    save_encoder(learner.encoder, folder / "saved", "card")
    return encode(learner.encoder, SENTENCES)


@pytest.mark.parametrize("recipe", RECIPES, ids=str)
def test_a_training_stays_where_its_encoder_is(recipe: Recipe, tmp_path: Path):
    here = learnt(recipe, tmp_path / "here", HERE)
    with SecondDevice():
        there = learnt(recipe, tmp_path / "there", THERE)
    np.testing.assert_array_equal(here, there)
    saved = load_encoder(tmp_path / "there" / "saved")
    np.testing.assert_array_equal(encode(saved, SENTENCES), here)


def test_the_second_device_refuses_what_a_gpu_refuses():
    with SecondDevice():
        there, here = torch.ones(2).to(THERE), torch.ones(2)
        assert there.device == THERE
        assert (there + 1).device == THERE
        assert there.cpu().device == here.device
        for mixed in (lambda: there + here, lambda: torch.cat([there, here]), there.numpy):
            with pytest.raises((RuntimeError, TypeError), match="second device"):
                mixed()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_trainings_on_cuda_end_in_finite_encoders(tmp_path: Path):
    """Dropout draws otherwise there, so the weights are others; the saved ones are the same."""
    for number, recipe in enumerate(RECIPES):
        found = learnt(recipe, tmp_path / str(number), torch.device("cuda"))
        assert np.isfinite(found).all(), recipe
        again = load_encoder(tmp_path / str(number) / "saved")
        assert next(again.parameters()).device.type == "cuda"
        np.testing.assert_allclose(encode(again.to(HERE), SENTENCES), found, atol=1e-4)
