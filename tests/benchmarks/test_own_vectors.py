"""The vectors that SNCSE and IS-BERT train, told text by text and without their readers."""

import numpy as np
import pytest
import torch

from benchmarks.own_vectors import OWN, own_vectors
from sentemb_core.config.methods import ISBERT, SNCSE
from sentemb_core.methods.catalogue import method_for
from sentemb_core.methods.method import Learner
from sentemb_core.training.loop import learner_of
from tests.tiny import MASK, bert

TEXTS = ["w5 w6 w7", "w8", "w9 w10 w11 w12"]
PROMPT = {"before": "w20", "before_positive": "w21", "behind": "w22", "end": "w23"}


def at_mask(learner: Learner, text: str) -> torch.Tensor:
    """The last state at [MASK] of `w20 TEXT w22 [MASK] w23`."""
    (content,) = learner.encoder.tokenise([text])
    row = [content[0], 20, *content[1:-1], 22, MASK, 23, content[-1]]
    states = learner.encoder.read(torch.tensor([row]), None, layers=True).layers[-1]
    return states[0, row.index(MASK)]


def by_convolutions(learner: Learner, text: str) -> torch.Tensor:
    """The mean of what the convolutions make of every token."""
    ids = torch.tensor(np.array(learner.encoder.tokenise([text])))
    states = learner.encoder.read(ids, None, layers=True).layers[-1]
    return learner.networks["cnn"](states, torch.ones_like(ids))[0].mean(dim=0)


@pytest.mark.parametrize(
    ("settings", "slow"), [(SNCSE(**PROMPT), at_mask), (ISBERT(), by_convolutions)], ids=list(OWN)
)
def test_own_vectors_are_those_of_a_slow_loop_over_texts(settings, slow):
    encoder = bert()
    method = method_for(settings, encoder)
    learner = learner_of(method, encoder, 0)
    encoder.eval()
    found = own_vectors(learner, method, OWN[settings.name][0], TEXTS)
    with torch.no_grad():
        expected = torch.stack([slow(learner, text) for text in TEXTS])
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-6)
