"""SG-OPT: contrast with the layers of the encoder at the start, and the distance to it."""

import pytest
import torch
from torch import nn

from sentemb_core.methods.parts.copies import FrozenCopy
from sentemb_core.methods.parts.info_nce import contrast
from sentemb_core.methods.parts.method import Learner
from sentemb_core.methods.sg_opt import distance_to_start, layer_contrast
from tests import tiny
from tests.methods.batches import (
    GOLDEN,
    A,
    assert_same,
    batch,
    cross_entropy,
    drawn,
    learner,
    may_be_wrong,
    seeds,
    similarity_of,
    tangled,
    view,
)


def layered(rows, seed, layers=3):
    return {
        "anchor": drawn(rows, 4, seed=seed)["anchor"],
        "positive": drawn(rows, layers, 4, seed=seed)["positive"],
    }


def test_sg_opt_has_its_golden_value_and_is_one_way_with_one_layer():
    rows = batch(anchor=view([0, 1]), positive=view([0, 1]))
    layers = torch.tensor([[[1, 0], [0.6, 0.8]], [[0, 1], [0, 1]]], dtype=torch.float64)
    term = layer_contrast("anchor", "positive", 0.5)
    value, _ = term({"anchor": A, "positive": layers}, rows, learner())
    assert value.item() == pytest.approx(GOLDEN["sg_opt"], abs=1e-9)
    tangle = tangled(0)
    vectors = layered(tangle, 0, layers=1)
    single, _ = term(vectors, tangle, learner())
    flat = {**vectors, "positive": vectors["positive"][:, 0]}
    plain, _ = contrast("anchor", "positive", 0.5)(flat, tangle, learner())
    torch.testing.assert_close(single, plain, atol=1e-12, rtol=0)


def test_the_distance_to_the_start_pulls_what_learns():
    encoder = tiny.bert()
    encoder.backbone.embeddings.word_embeddings.weight.requires_grad_(requires_grad=False)
    start = FrozenCopy(encoder)
    who = Learner(encoder, networks=nn.ModuleDict({"start": start}))
    term = distance_to_start
    rows = tangled(0)
    assert term({}, rows, who)[0].item() == 0
    with torch.no_grad():
        for weight in encoder.parameters():
            weight += 0.5
    loss, metrics = term({}, rows, who)
    loss.backward()
    learning = [weight for weight in encoder.parameters() if weight.requires_grad]
    count = sum(weight.numel() for weight in learning)
    assert count < sum(weight.numel() for weight in encoder.parameters())
    assert loss.item() == pytest.approx(0.25 * count, rel=1e-4)
    for weight in learning:
        torch.testing.assert_close(weight.grad, torch.ones_like(weight), atol=1e-5, rtol=0)
    assert all(weight.grad is None for weight in start.parameters())
    assert metrics == {}


@seeds
def test_an_anchor_chooses_each_of_its_layers_against_all_layers_of_others(seed):
    rows = tangled(seed)
    left, right = rows.views.values()

    def slow(v):
        losses = []
        for i, anchor in enumerate(v["anchor"]):
            rivals = [
                (similarity_of(anchor, layer, "cosine") / 0.1, 1.0)
                for j in range(len(right))
                if may_be_wrong(left, right, i, j, [i])
                for layer in v["positive"][j]
            ]
            losses += [
                cross_entropy(similarity_of(anchor, layer, "cosine") / 0.1, rivals)
                for layer in v["positive"][i]
            ]
        return torch.stack(losses).mean()

    metrics = assert_same(
        layer_contrast("anchor", "positive", 0.1), slow, layered(rows, seed), rows
    )
    assert metrics["unopposed_anchors"] % 3 == 0
