"""SG-OPT: contrast with the layers of the encoder at the start, and the distance to it."""

import pytest
import torch

from sentemb_core.methods.parts.info_nce import contrast
from sentemb_core.methods.sg_opt import layer_contrast
from tests.methods.batches import (
    GOLDEN,
    A,
    batch,
    drawn,
    learner,
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
