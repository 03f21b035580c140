"""How a method adds up its terms."""

import logging
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from sentemb_core.config.run import TrainingConfig
from sentemb_core.methods.catalogue import method_for
from sentemb_core.methods.parts.method import Learner, loss_of
from sentemb_core.training.batches import sampler_for
from tests import tiny


def test_the_loss_follows_the_similarity_of_the_encoder():
    config = TrainingConfig(method="conpono", batch_size=8)
    corpus = tiny.corpus([4] * 6)
    long_vectors = {"anchor": 3 * torch.randn(8, 4), "positive": torch.randn(8, 4)}
    values = {}
    for similarity in ("cosine", "dot"):
        encoder = tiny.bert(similarity=similarity)
        method = method_for(config.method, encoder)
        batch = sampler_for(config, method, corpus).batch(0)
        scaled = {name: 2 * vector for name, vector in long_vectors.items()}
        values[similarity] = [
            loss_of(method, vectors, batch, Learner(encoder))[0].item()
            for vectors in (long_vectors, scaled)
        ]
    assert values["cosine"][0] == pytest.approx(values["cosine"][1], rel=1e-5)
    assert values["dot"][0] != pytest.approx(values["dot"][1], rel=1e-2)


def test_terms_add_up_by_their_weights():
    config = TrainingConfig(method="conpono", batch_size=8)
    learner = Learner(tiny.bert())
    method = method_for(config.method, learner.encoder)
    batch = sampler_for(config, method, tiny.corpus([4] * 6)).batch(0)
    vectors = {"anchor": torch.randn(8, 4), "positive": torch.randn(8, 4)}
    term = method.terms["contrast"][1]
    doubled = replace(method, terms={"one": (0.5, term), "two": (1.5, term)})
    single, _ = loss_of(method, vectors, batch, learner)
    both, metrics = loss_of(doubled, vectors, batch, learner)
    torch.testing.assert_close(both, 2 * single)
    assert {"one", "two", "unopposed_anchors"} == set(metrics)


@pytest.mark.parametrize(
    ("method", "similarity", "values"),
    [
        ("conpono", "dot", r"conpono .*\bdot .* 0\.05:.*method\.temperature=1,"),
        ("fine_tune", "dot", r"fine_tune .*\bdot .*encoder\.similarity=cosine"),
        ({"name": "hicl", "segment": 8}, "dot", r"hicl .*\bdot .* 0\.05:"),
        ({"name": "conpono", "temperature": 1.0}, "cosine", r"conpono .*\bcosine .* 1:"),
        (
            {"name": "infocse_idc", "temperature": 2.0},
            "cosine",
            r"infocse_idc .*\bcosine .* 2:.*encoder\.similarity=dot",
        ),
        ({"name": "conpono", "temperature": 1.0}, "dot", None),
        ("conpono", "cosine", None),
        ("sg_opt", "dot", None),
        ("clm_autoencoder", "dot", None),
        ({"name": "clm_autoencoder", "simcse": 1.0}, "dot", r"clm_autoencoder .*\bdot .* 0\.05:"),
        ("is_bert", "dot", None),
    ],
)
def test_an_unusual_temperature_gives_one_warning(method, similarity, values, caplog):
    with caplog.at_level(logging.WARNING):
        method_for(TrainingConfig(method=method).method, tiny.bert(similarity=similarity))
    warnings = [line for line in caplog.messages if "temperature" in line]
    assert len(warnings) == (values is not None)
    assert all(re.search(values, line) for line in warnings)


def test_equal_rows_differ_only_in_training():
    encoder = tiny.bert()
    ids = torch.from_numpy(np.array([[2, 10, 11, 3]] * 2))
    encoder.train()
    one, other = encoder(ids)
    assert not torch.equal(one, other)
    encoder.eval()
    one, other = encoder(ids)
    assert torch.equal(one, other)
