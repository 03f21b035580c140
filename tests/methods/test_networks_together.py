"""All networks in one method: in chunks, and interrupted."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from sentemb_core.config.run import TrainingConfig
from sentemb_core.encoder.encoder import Reading
from sentemb_core.methods.autoencoders import CausalDecoder, rewritten
from sentemb_core.methods.condenser import condensed
from sentemb_core.methods.diffcse import Discriminator, Generator, edit_detection
from sentemb_core.methods.esimcse import Queue
from sentemb_core.methods.infocse_aux import AuxiliaryNetwork, aggregated
from sentemb_core.methods.parts import pairs as sources
from sentemb_core.methods.parts.copies import MomentumCopy
from sentemb_core.methods.parts.heads import batch_norm_mlp
from sentemb_core.methods.parts.info_nce import contrast
from sentemb_core.methods.parts.masked_language import (
    MaskFiller,
    Masking,
    masked_language,
    with_masked_inputs,
)
from sentemb_core.methods.parts.method import Learner, Method, SampleTerm
from sentemb_core.methods.parts.views import IGNORED, first, second
from sentemb_core.training.batches import sampler_for
from sentemb_core.training.gradients import GradientJob
from sentemb_core.training.loop import learner_of, train
from tests import tiny
from tests.interrupted import BreakingOff, InterruptionError, assert_same_weights
from tests.methods import samples

MASKING = Masking(0.4, samples.MASK, (0, 2, 3), tiny.VOCABULARY)


CONFIG = TrainingConfig(
    steps=6, batch_size=6, learning_rate=1e-2, checkpoint_every=2, evaluate_every=None, threads=1
)


def networks(encoder):
    generator = Generator(encoder, None, random_head=True)
    return {
        "momentum": MomentumCopy(encoder, 0.9),
        "queue": Queue(9, encoder.dim),
        "auxiliary": AuxiliaryNetwork(generator.encoder, None, random_head=True),
        "condenser": MaskFiller(encoder),
        "discriminator": Discriminator(encoder, generator),
        "decoder": CausalDecoder(encoder),
        "tied": CausalDecoder(encoder, layers=None),
    }


def by_momentum(learner, ids, mask, layers) -> Reading:
    return learner.networks["momentum"].read(ids, mask, layers=layers)


def move_on(learner, vectors) -> None:
    learner.networks["momentum"].follow(learner.encoder)
    learner.networks["queue"].push(vectors["key"])


def tied(learner, rows):
    decoder = nn.ModuleDict({"decoder": learner.networks["tied"]})
    return rewritten(Learner(learner.encoder, networks=decoder), rows)


def everything(*, head=None) -> Method:
    on_anchor = {
        "aggregated": aggregated,
        "condensed": condensed(1),
        "late": masked_language("condenser.language"),
        "rewritten": rewritten,
        "tied": tied,
    }
    return Method(
        name="everything",
        pairs=sources.neighbours(1),
        views={"anchor": with_masked_inputs(first, MASKING), "positive": second, "key": second},
        terms={
            "contrast": (1.0, contrast("anchor", "positive", 0.05, queue=True)),
            "edits": (0.5, edit_detection("anchor")),
        },
        sample_terms={name: (0.1, SampleTerm("anchor", loss)) for name, loss in on_anchor.items()},
        forward_passes={"key": by_momentum},
        head=head,
        networks=networks,
        after_step=move_on,
    )


def sampler_of(method):
    return sampler_for(CONFIG, method, tiny.corpus([5] * 8))


@pytest.mark.parametrize("chunk", [1, 5])
@pytest.mark.parametrize("head", [None, batch_norm_mlp])
def test_chunks_give_the_gradients_of_the_whole(chunk, head):
    method = everything(head=head)
    learner = learner_of(method, samples.encoder(pooling="mean"), seed=1)
    batch = sampler_of(method).batch(0)
    weighted = {**method.terms, **method.sample_terms}
    found, losses_of_terms = [], []
    for size in (None, chunk):
        for module in learner.modules:
            module.zero_grad()
        done = GradientJob(learner, method, False, seed=7).run(batch, 0, size)
        terms = {name: done.metrics[name] for name in weighted}
        added_up = sum(weighted[name][0] * value for name, value in terms.items())
        assert done.loss == pytest.approx(added_up, rel=1e-6)
        losses_of_terms.append(terms)
        weights = [weight for module in learner.modules for weight in module.parameters()]
        found.append((done.loss, [None if w.grad is None else w.grad.clone() for w in weights]))
    (plain, whole), (cached, parts) = found
    assert cached == pytest.approx(plain, rel=1e-6)
    assert losses_of_terms[1] == pytest.approx(losses_of_terms[0], rel=1e-5)
    largest = max(gradient.abs().max() for gradient in whole if gradient is not None)
    for one, other in zip(whole, parts, strict=True):
        if one is None or other is None:
            assert one is other
        else:
            assert (one - other).abs().max() < 1e-5 * largest


def test_without_targets_the_late_loss_is_0():
    method = everything()
    learner = learner_of(method, samples.encoder(pooling="mean"), seed=1)
    batch = sampler_of(method).batch(0)
    anchor = batch.views["anchor"]
    nothing = [np.full_like(row, IGNORED) for row in anchor.targets]
    batch = replace(batch, views={**batch.views, "anchor": replace(anchor, targets=nothing)})
    done = GradientJob(learner, method, False, seed=7).run(batch, 0, None)
    assert math.isfinite(done.loss)
    assert done.metrics["late"] == 0


def trained(work, *, stop=None):
    method = everything(head=batch_norm_mlp)
    encoder = samples.encoder(pooling="mean", dropout=0.1)
    learner = learner_of(method, encoder, seed=1)
    frozen = learner.networks["discriminator"].edit.state_dict()
    before = {name: weight.clone() for name, weight in frozen.items()}
    on_step = BreakingOff(stop)
    try:
        train(learner, method, sampler_of(method), CONFIG, work, on_step=on_step)
    finally:
        for name, weight in frozen.items():
            assert weight.equal(before[name]), name
    return learner, on_step.losses


def test_an_interrupted_run_ends_in_the_same_bits(tmp_path):
    undisturbed, losses = trained(tmp_path / "one")
    with pytest.raises(InterruptionError):
        trained(tmp_path / "other", stop=5)
    resumed, rest = trained(tmp_path / "other")
    assert rest == losses[-len(rest) :]
    assert len(rest) == 2
    assert_same_weights(undisturbed, resumed)
    assert len(resumed.networks["queue"].keys) == 9
    assert torch.isfinite(torch.tensor(losses)).all()
