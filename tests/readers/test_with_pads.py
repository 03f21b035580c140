"""Means over a fixed number of places, padding among them, as Mirror-BERT's code takes them."""

import torch
from torch import nn

from sentemb_core.encoder.pooling import mean_pool
from sentemb_core.methods.mirror_bert import drophead, mean_with_pads
from tests import tiny
from tests.readers.rows import learner, read, rows


def test_states_of_padding_count_up_to_the_encoders_length():
    subject = learner()
    ids, _ = rows(5)
    longest = subject.encoder.max_length
    padded, mask = torch.zeros(1, longest, dtype=torch.int64), torch.zeros(1, longest)
    padded[:, :5], mask[:, :5] = ids, 1
    states = subject.encoder.read(padded, mask.long(), layers=True).layers[-1]
    found = read(mean_with_pads(), subject, ids, None).pooled
    torch.testing.assert_close(found, states.sum(1) / longest)
    assert not torch.allclose(found, subject.encoder(ids), atol=1e-2)


def test_a_row_has_the_vector_it_has_alone():
    subject = learner()
    ids, mask = rows(6, 4, 18)
    together = read(mean_with_pads(), subject, ids, mask, layers=True)
    assert together.layers[-1].shape[:2] == (3, 18)
    for row, length in enumerate((6, 4, 18)):
        alone = read(mean_with_pads(), subject, ids[row : row + 1, :length], None)
        torch.testing.assert_close(together.pooled[row : row + 1], alone.pooled)
        assert alone.layers == ()


def test_without_padding_it_is_the_mean():
    subject = learner()
    ids, _ = rows(18, 18)
    found = read(mean_with_pads(), subject, ids, None).pooled
    torch.testing.assert_close(found, subject.encoder(ids))


def test_it_pads_for_whoever_reads():
    subject = learner()
    ids, mask = rows(6, 4)
    silenced = read(mean_with_pads(drophead(0.5)), subject, ids, mask, layers=True)
    torch.testing.assert_close(silenced.pooled, mean_pool(silenced.layers[-1]))
    plain = read(mean_with_pads(), subject, ids, mask).pooled
    assert not torch.allclose(silenced.pooled, plain, atol=1e-2)


def test_the_mean_goes_through_the_encoders_dense_layers():
    encoder = tiny.bert(dropout=0.0)
    encoder.layers = nn.Sequential(nn.Linear(16, 6))
    assert read(mean_with_pads(), learner(encoder), *rows(6, 4)).pooled.shape == (2, 6)
