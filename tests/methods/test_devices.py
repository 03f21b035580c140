"""Every method trains where its encoder is, and leaves nothing of it on the host."""

from pathlib import Path

import numpy as np
import pytest
import torch

from sentemb_core.encoder.batching import encode
from sentemb_core.encoder.checkpoint import load_encoder, save_encoder
from sentemb_core.training.gradients import GradientJob
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


def test_no_attention_is_planned_by_shape(tmp_path: Path):
    encoder, seen = tiny.bert(), list[bool]()
    layer = encoder.backbone.embeddings
    layer.register_forward_hook(lambda *_: seen.append(torch.backends.cuda.cudnn_sdp_enabled()))
    encode(encoder, SENTENCES)
    encoded = len(seen)
    config = config_of("conpono", {}, steps=1)
    method, learner = made("conpono", encoder)
    train(learner, method, sampler_of(config, method), config, tmp_path)
    assert 0 < encoded < len(seen)
    assert not any(seen)
    assert torch.backends.cuda.cudnn_sdp_enabled()


def stepped(recipe: Recipe, device: torch.device, seed: int = 0) -> tuple[float, list[np.ndarray]]:
    """Loss and gradients of a first step, in eval mode, so that nothing drops out."""
    method, learner = made(recipe.name, tiny.bert().to(device), **recipe.settings)
    for module in learner.modules:
        module.eval()
    batch = sampler_of(config_of(recipe.name, recipe.settings), method).batch(0)
    loss = GradientJob(learner, method, bfloat16=False, seed=seed).run(batch, 0, None).loss
    weights = [weight for module in learner.modules for weight in module.parameters()]
    return loss, [w.grad.cpu().numpy() for w in weights if w.grad is not None]


needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


@pytest.mark.gpu
@needs_cuda
def test_a_step_on_cuda_has_the_loss_and_the_gradients_of_the_cpu():
    """Of the recipes that draw nothing where they compute: draws are others there."""
    drawing = 0
    for recipe in RECIPES:
        loss, gradients = stepped(recipe, HERE)
        if stepped(recipe, HERE, seed=1)[0] != loss:
            drawing += 1
            continue
        found, others = stepped(recipe, torch.device("cuda"))
        assert found == pytest.approx(loss, rel=1e-4), recipe
        largest = max(np.abs(one).max() for one in gradients)
        for mine, other in zip(gradients, others, strict=True):
            np.testing.assert_allclose(
                other, mine, rtol=0, atol=1e-3 * largest, err_msg=str(recipe)
            )
    assert drawing < 5


@pytest.mark.gpu
@needs_cuda
def test_trainings_on_cuda_end_in_finite_encoders(tmp_path: Path):
    """Dropout draws otherwise there, so the weights are others; the saved ones are the same."""
    for number, recipe in enumerate(RECIPES):
        found = learnt(recipe, tmp_path / str(number), torch.device("cuda"))
        assert np.isfinite(found).all(), recipe
        again = load_encoder(tmp_path / str(number) / "saved")
        assert again.device.type == "cuda"
        np.testing.assert_allclose(encode(again.to(HERE), SENTENCES), found, atol=1e-4)


@pytest.mark.gpu
@needs_cuda
@pytest.mark.parametrize("name", ["infocse_idc", "conpono", "ict"])
def test_a_static_table_learns_on_cuda_what_it_learns_on_the_cpu(name: str, tmp_path: Path):
    """Nothing drops out of it, so nothing is drawn."""
    config = config_of(name, {}, steps=3)
    found: list[np.ndarray] = []
    for device in (HERE, torch.device("cuda")):
        method, learner = made(name, tiny.static().to(device))
        train(learner, method, sampler_of(config, method), config, tmp_path / device.type)
        found.append(encode(learner.encoder.to(HERE), SENTENCES))
    np.testing.assert_allclose(*found, atol=1e-4)
