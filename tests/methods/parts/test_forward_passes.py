"""Rows read by copies of the encoder, by networks on top of it, or at one token."""

import pytest
import torch

from sentemb_core.encoder.pooling import mean_pool
from sentemb_core.errors import RecipeError
from sentemb_core.methods.ct import by_twin
from sentemb_core.methods.esimcse import by_momentum
from sentemb_core.methods.is_bert import TokenCNN, token_features
from sentemb_core.methods.parts.copies import FrozenCopy, MomentumCopy
from sentemb_core.methods.sg_opt import all_layers
from sentemb_core.methods.sncse import at_token
from tests import tiny
from tests.methods.samples import learner, random_rows, read


def training(**networks):
    """A learner in train mode, with dropout everywhere."""
    subject = learner(tiny.bert(), **networks)
    for module in subject.modules:
        module.train()
    return subject


def test_a_momentum_copy_reads_without_dropout_and_gradient():
    subject = training(momentum=MomentumCopy(tiny.bert(seed=1), 0.995))
    ids, mask = random_rows(6, 4)
    reading = read(by_momentum, subject, ids, mask)
    assert torch.equal(reading.pooled, tiny.bert(seed=1)(ids, mask))
    assert not reading.pooled.requires_grad


def test_a_twin_learns_and_drops_out_as_the_first_one_does():
    subject = training(twin=tiny.bert(seed=1))
    ids, mask = random_rows(6, 4)
    plain = tiny.bert(seed=1)(ids, mask)
    noisy = read(by_twin, subject, ids, mask).pooled
    assert not torch.equal(noisy, plain)
    subject.encoder.eval()
    calm = read(by_twin, subject, ids, mask).pooled
    assert torch.equal(calm, plain)
    calm.sum().backward()
    assert subject.networks["twin"].backbone.embeddings.word_embeddings.weight.grad is not None
    assert all(weight.grad is None for weight in subject.encoder.parameters())


def test_all_layers_of_a_frozen_copy_are_pooled_from_the_embeddings_up():
    subject = training(start=FrozenCopy(tiny.bert(seed=1)))
    ids, mask = random_rows(6, 4)
    pooled = read(all_layers, subject, ids, mask).pooled
    states = tiny.bert(seed=1).read(ids, mask, layers=True).layers
    assert pooled.shape == (2, 3, 16)
    for k, layer in enumerate(states):
        assert torch.equal(pooled[:, k], mean_pool(layer, mask))
    assert torch.equal(pooled[:, -1], tiny.bert(seed=1)(ids, mask))
    assert not pooled.requires_grad


def test_token_features_end_with_the_text_and_do_not_see_its_padding():
    subject = learner(cnn=TokenCNN(16))
    ids, mask = random_rows(6, 4)
    pooled = read(token_features, subject, ids, mask).pooled
    assert pooled.shape == (2, subject.encoder.max_length, 16)
    assert (pooled[0, 6:] == 0).all()
    assert (pooled[1, 4:] == 0).all()
    alone = read(token_features, subject, ids[1:, :4], None).pooled
    torch.testing.assert_close(pooled[1:], alone, atol=1e-6, rtol=1e-5)
    states = subject.encoder.read(ids[1:, :4], layers=True).layers[-1]
    torch.testing.assert_close(
        alone[:, :4], subject.networks["cnn"](states, torch.ones_like(ids[1:, :4]))
    )


def test_a_sentence_is_read_at_the_last_of_its_marks():
    ids = torch.tensor([[2, 9, 5, 9, 3, 0], [2, 5, 9, 3, 0, 0], [2, 9, 9, 9, 9, 3]])
    mask = (ids != 0).long()
    reading = read(at_token(9), learner(), ids, mask, layers=True)
    for row, place in enumerate((3, 2, 4)):
        assert torch.equal(reading.pooled[row], reading.layers[-1][row, place])


def test_a_sentence_at_its_mark_goes_through_the_dense_layers_of_the_encoder():
    subject = learner()
    subject.encoder.layers = torch.nn.Sequential(torch.nn.Linear(16, 6))
    reading = read(at_token(9), subject, torch.tensor([[2, 9, 3]]), None, layers=True)
    expected = subject.encoder.layers(reading.layers[-1][:, 1])
    torch.testing.assert_close(reading.pooled, expected)


def test_a_row_without_the_mark_is_refused():
    ids = torch.tensor([[2, 9, 3], [2, 5, 3]])
    with pytest.raises(RecipeError, match="token 9 "):
        read(at_token(9), learner(), ids, None)


@pytest.mark.parametrize(
    "reader",
    [by_momentum, by_twin, all_layers, token_features, at_token(9)],
)
def test_layers_come_along_only_when_somebody_asks(reader):
    copies = dict.fromkeys(("momentum", "twin", "start"), tiny.bert(seed=1))
    subject = learner(**copies, cnn=TokenCNN(16))
    ids = torch.tensor([[2, 9, 3], [2, 9, 3]])
    assert read(reader, subject, ids, None).layers == ()
    assert len(read(reader, subject, ids, None, layers=True).layers) == 3
