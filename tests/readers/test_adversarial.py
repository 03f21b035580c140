"""The adversarial view: noise of one length a token, uphill on the loss that it is given."""

import pytest
import torch

from sentemb_core.errors import RecipeError
from sentemb_core.methods.consert import adversarial, perturbed
from sentemb_core.methods.parts.info_nce import info_nce
from tests import tiny
from tests.readers.rows import learner, read, rows


def among_themselves(pooled):
    """Any loss of rows: here each is its own positive, and the others are negatives."""
    own = torch.eye(len(pooled), dtype=torch.bool)
    return info_nce(pooled, pooled, own, ~own, temperature=0.1, similarity="cosine")


def moved(subject, ids, mask, epsilon, *, loss=among_themselves, layers=False):
    """What the reader reads when the step has seeded it."""
    torch.manual_seed(0)
    return adversarial(epsilon).run(subject, ids, mask, layers, loss)


def noise(subject, ids, mask, epsilon):
    """What was added to the embedded tokens."""
    found = moved(subject, ids, mask, epsilon, layers=True).layers[0]
    return found - read(perturbed(), subject, ids, mask, layers=True).layers[0]


def test_every_real_token_moves_by_epsilon_and_padding_stays():
    ids, mask = rows(6, 9, 4)
    length = noise(learner(), ids, mask, 0.3).norm(dim=-1)
    torch.testing.assert_close(length, 0.3 * mask.float(), atol=1e-5, rtol=0)


def test_the_direction_is_that_of_a_slow_gradient():
    """Central differences of the loss along every feature of one token."""
    encoder = tiny.bert(dropout=0.0).double()
    subject = learner(encoder)
    ids, mask = rows(5, 5, 5)

    def loss(change):
        return among_themselves(encoder.read(ids, mask, edit=lambda x: x + change).pooled)

    slopes = torch.zeros(16, dtype=torch.float64)
    for feature in range(16):
        step = torch.zeros(3, 5, 16, dtype=torch.float64)
        step[1, 2, feature] = 1e-3
        with torch.no_grad():
            slopes[feature] = (loss(step) - loss(-step)) / 2e-3
    found = noise(subject, ids, mask, 1.0)[1, 2]
    assert torch.cosine_similarity(found, slopes, dim=0) > 0.99


def test_small_noise_raises_the_loss_of_the_view():
    subject = learner()
    ids, mask = rows(6, 9, 4, 7)
    uphill = moved(subject, ids, mask, 0.01).pooled
    assert among_themselves(uphill) > among_themselves(subject.encoder(ids, mask))


def test_reading_leaves_no_gradient_in_the_encoder():
    subject = learner()
    ids, mask = rows(6, 9)
    moved(subject, ids, mask, 0.3)
    assert all(weight.grad is None for weight in subject.encoder.parameters())


def test_a_row_that_the_loss_does_not_depend_on_stays_as_it_is():
    ids, mask = rows(6, 9)
    subject = learner()
    found = moved(subject, ids, mask, 0.3, loss=lambda pooled: pooled[0, 0])
    torch.testing.assert_close(found.pooled[1], subject.encoder(ids, mask)[1], atol=1e-6, rtol=0)
    assert (found.pooled[0] - subject.encoder(ids, mask)[0]).norm() > 1e-3


def test_noise_of_no_length_is_refused():
    with pytest.raises(RecipeError, match=r"\b0\.0\b"):
        adversarial(0.0)


def test_a_static_table_has_no_adversary():
    ids, mask = rows(6, 4)
    with pytest.raises(RecipeError):
        moved(learner(tiny.static()), ids, mask, 0.3)
