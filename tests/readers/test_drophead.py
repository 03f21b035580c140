"""Silent attention heads."""

import pytest
import torch
from transformers import DistilBertConfig, DistilBertModel, MPNetConfig, MPNetModel

from sentemb_core.encoder.encoder import Encoder
from sentemb_core.errors import RecipeError
from sentemb_core.methods.mirror_bert import drophead, without_heads
from tests import tiny
from tests.readers.rows import learner, read, rows


def test_silent_heads_are_zero_and_the_others_make_up_for_them():
    context = torch.ones(4000, 3, 8)
    left = without_heads(context, heads=4, rate=0.2).view(4000, 3, 4, 2)
    assert (left == left[:, :1, :, :1]).all()  # a head is silent in all of a row, or in nothing
    kept = (left[:, 0, :, 0] != 0).sum(1)
    assert (left[:, 0, :, 0].sum(1)[kept > 0] - 4.0).abs().max() < 1e-6
    assert (left[:, 0, :, 0] == 0).float().mean() == pytest.approx(0.2, abs=0.02)
    assert (left[kept == 0] == 0).all()


def test_at_rate_0_all_heads_speak():
    ids, mask = rows(5, 7)
    plain = learner().encoder(ids, mask)
    assert torch.equal(read(drophead(0.0), learner(), ids, mask).pooled, plain)


def test_drophead_makes_two_views_of_an_encoder_without_dropout():
    subject = learner()
    ids, mask = rows(*[6] * 20, 5)
    one, same, two = (
        read(drophead(0.5), subject, ids, mask, seed=seed).pooled for seed in (0, 0, 1)
    )
    assert torch.equal(one, same)
    assert not torch.equal(one, two)
    assert torch.isfinite(one).all()  # with two heads, many rows lose both


def test_no_hook_is_left_behind():
    subject = learner()
    ids, mask = rows(6, 4)
    plain = subject.encoder(ids, mask)
    read(drophead(0.9), subject, ids, mask)
    assert torch.equal(subject.encoder(ids, mask), plain)


SMALL = {"vocab_size": tiny.VOCABULARY}
MPNET = MPNetConfig(
    **SMALL, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=16
)
DISTILBERT = DistilBertConfig(**SMALL, dim=16, n_layers=2, n_heads=4, hidden_dim=16)


@pytest.mark.parametrize(("model", "config"), [(MPNetModel, MPNET), (DistilBertModel, DISTILBERT)])
def test_heads_of_other_families_are_found(model, config):
    encoder = Encoder(
        model(config), tiny.tokenizer(), pooling="mean", similarity="cosine", max_length=12
    )
    ids, mask = rows(6, 4)
    assert not torch.equal(
        read(drophead(0.5), learner(encoder), ids, mask).pooled, encoder(ids, mask)
    )


def test_an_encoder_without_heads_is_refused():
    ids, mask = rows(6, 4)
    with pytest.raises(RecipeError, match="StaticTable"):
        read(drophead(0.2), learner(tiny.static()), ids, mask)


def test_silencing_every_head_is_refused():
    with pytest.raises(RecipeError, match=r"\b1\.0\b"):
        drophead(1.0)
