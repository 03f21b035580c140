"""ConSERT's augmentations: what they cut, and that nothing else changes."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import RobertaConfig, RobertaModel

from sentemb_core.encoder.encoder import Encoder
from sentemb_core.methods.consert import (
    adversarial,
    entry_dropout,
    feature_cutoff,
    perturbed,
    token_cutoff,
)
from sentemb_core.methods.parts.info_nce import info_nce
from tests import tiny
from tests.methods.samples import learner, random_rows, read

lengths = st.lists(st.integers(1, 9), min_size=1, max_size=5)
rates = st.floats(0, 0.99)


def masked_states(sizes):
    """States without a zero, and their mask."""
    mask = (torch.arange(max(sizes)) < torch.tensor(sizes)[:, None]).long()
    return torch.rand(len(sizes), max(sizes), 16) + 1.0, mask


@given(lengths, rates)
def test_token_cutoff_takes_a_share_of_the_real_tokens_whole(sizes, rate):
    states, mask = masked_states(sizes)
    gone = token_cutoff(rate)(states, mask) == 0
    assert (gone.all(2) == gone.any(2)).all()
    assert gone.all(2).sum(1).tolist() == [int(rate * size) for size in sizes]
    assert not gone[mask == 0].any()


@given(lengths, rates)
def test_feature_cutoff_takes_the_same_features_of_all_tokens_of_a_row(sizes, rate):
    states, mask = masked_states(sizes)
    gone = feature_cutoff(rate)(states, mask) == 0
    assert (gone == gone[:, :1]).all()
    assert (gone[:, 0].sum(1) == int(rate * 16)).all()


@given(lengths, rates)
def test_entry_dropout_takes_a_share_of_the_entries_and_rescales_none(sizes, rate):
    states, mask = masked_states(sizes)
    left = entry_dropout(rate)(states, mask)
    gone = left == 0
    assert gone.sum((1, 2)).tolist() == [int(rate * size * 16) for size in sizes]
    assert not gone[mask == 0].any()
    assert torch.equal(left[~gone], states[~gone])


@pytest.mark.parametrize("edit", [token_cutoff(0.5), feature_cutoff(0.5), entry_dropout(0.5)])
def test_every_row_draws_for_itself(edit):
    states, mask = masked_states([9] * 20)
    gone = edit(states, mask) == 0
    assert len({tuple(row.flatten().tolist()) for row in gone}) > 10


def shuffled(subject, ids, mask):
    """Vectors of a shuffled reading, and the positions it gave the tokens."""
    given_positions = []
    hook = subject.encoder.backbone.embeddings.register_forward_pre_hook(
        lambda _, __, named: given_positions.append(named["position_ids"]), with_kwargs=True
    )
    pooled = read(perturbed(shuffled=True), subject, ids, mask).pooled
    hook.remove()
    return pooled, given_positions[0]


def test_shuffling_positions_is_permuting_tokens_for_mean_pooling():
    subject = learner()
    ids, mask = random_rows(6, 9, 4)
    pooled, positions = shuffled(subject, ids, mask)
    tokens = torch.empty_like(ids).scatter(1, positions, ids)
    assert not torch.equal(tokens, ids)
    torch.testing.assert_close(pooled, subject.encoder(tokens, mask), atol=1e-6, rtol=0)


@given(lengths)
@settings(max_examples=20)
def test_shuffling_leaves_the_places_of_padding(sizes):
    _, positions = shuffled(learner(), *random_rows(*sizes))
    for size, row in zip(sizes, positions.tolist(), strict=True):
        assert sorted(row[:size]) == list(range(size))
        assert row[size:] == list(range(size, max(sizes)))


def test_positions_of_roberta_begin_behind_that_of_padding():
    config = RobertaConfig(
        vocab_size=tiny.VOCABULARY,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=20,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    backbone = RobertaModel(config, add_pooling_layer=False)
    encoder = Encoder(
        backbone, tiny.tokenizer(), pooling="mean", similarity="cosine", max_length=12
    )
    one = torch.tensor([[7]])
    torch.testing.assert_close(shuffled(learner(encoder), one, None)[0], encoder(one))


def test_perturbations_add_up_in_one_reading():
    ids, mask = random_rows(8, 6)
    both = perturbed(token_cutoff(0.5), feature_cutoff(0.5), shuffled=True)
    reading = read(both, learner(), ids, mask, layers=True)
    first = reading.layers[0] == 0
    assert (first.all(1).sum(1) == 8).all()  # half of the features
    assert (first.all(2) & mask.bool()).sum(1).tolist() == [4, 3]
    alone = read(perturbed(token_cutoff(0.5), feature_cutoff(0.5)), learner(), ids, mask)
    assert not torch.equal(reading.pooled, alone.pooled)


@pytest.mark.parametrize("reader", [perturbed(token_cutoff(0.4)), perturbed(shuffled=True)])
def test_a_reading_repeats_itself_from_the_same_seed_alone(reader):
    ids, mask = random_rows(8, 6, 7)
    subject = learner(tiny.bert(dropout=0.1))
    subject.encoder.train()
    one, two, other = (read(reader, subject, ids, mask, seed=seed).pooled for seed in (1, 1, 2))
    assert torch.equal(one, two)
    assert not torch.equal(one, other)


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
    ids, mask = random_rows(6, 9, 4)
    length = noise(learner(), ids, mask, 0.3).norm(dim=-1)
    torch.testing.assert_close(length, 0.3 * mask.float(), atol=1e-5, rtol=0)


def test_the_direction_is_that_of_a_slow_gradient():
    """Central differences of the loss along every feature of one token."""
    encoder = tiny.bert(dropout=0.0).double()
    subject = learner(encoder)
    ids, mask = random_rows(5, 5, 5)

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
    ids, mask = random_rows(6, 9, 4, 7)
    uphill = moved(subject, ids, mask, 0.01).pooled
    assert among_themselves(uphill) > among_themselves(subject.encoder(ids, mask))


def test_a_row_that_the_loss_does_not_depend_on_stays_as_it_is():
    ids, mask = random_rows(6, 9)
    subject = learner()
    found = moved(subject, ids, mask, 0.3, loss=lambda pooled: pooled[0, 0])
    torch.testing.assert_close(found.pooled[1], subject.encoder(ids, mask)[1], atol=1e-6, rtol=0)
    assert (found.pooled[0] - subject.encoder(ids, mask)[0]).norm() > 1e-3
