"""Heads on sentence vectors and token states."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from transformers import BertConfig, BertModel

from sentemb_core.methods.autoencoders import CausalDecoder
from sentemb_core.methods.ict import projection
from sentemb_core.methods.is_bert import TokenCNN
from sentemb_core.methods.parts.heads import batch_norm_mlp, draw_weights, mlp, on_views
from sentemb_core.methods.parts.masked_language import LanguageHead, MaskFiller
from sentemb_core.methods.parts.transformer_layers import entrance, new_layers
from sentemb_core.methods.parts.views import IGNORED
from sentemb_core.methods.sg_opt import gelu_mlp
from sentemb_core.training.gradients import GradientJob
from tests.methods.recipes import NEW_HEAD, config_of, made, sampler_of


@pytest.mark.parametrize(
    ("make", "tolerance"),
    [
        (lambda _: mlp(200), 0.02),
        (lambda _: gelu_mlp(200, width=200), 0.02),
        (lambda _: projection(200, width=200), 0.02),
        (lambda _: batch_norm_mlp(200), 0.1),
        (LanguageHead, 0.1),
        (lambda encoder: CausalDecoder(encoder).memory, 0.1),
        (MaskFiller, 0.1),
    ],
    ids=["mlp", "gelu", "projection", "batch norm", "language", "cross-attention", "filler"],
)
def test_new_dense_layers_begin_as_in_bert(encoder, make, tolerance):
    torch.manual_seed(0)
    dense = [part for part in make(encoder).modules() if isinstance(part, nn.Linear)]
    weights = torch.cat([part.weight.flatten() for part in dense])
    assert weights.std().item() == pytest.approx(0.02, rel=tolerance)
    assert all(part.bias.eq(0).all() for part in dense if part.bias is not None)


def test_new_layers_are_shaped_as_the_encoders(encoder):
    unusual = BertConfig(
        vocab_size=50,
        hidden_size=12,
        num_hidden_layers=1,
        num_attention_heads=3,
        intermediate_size=20,
        hidden_act="relu",
        layer_norm_eps=1e-3,
        hidden_dropout_prob=0.3,
        attention_probs_dropout_prob=0.2,
    )
    encoder.backbone = BertModel(unusual, add_pooling_layer=False)
    (theirs,), (ours,) = encoder.backbone.encoder.layer, new_layers(encoder, 1)
    assert str(ours) == str(theirs)  # widths, activation, epsilon, dropout
    attentions = [layer.attention.self for layer in (ours, theirs)]
    assert [(a.num_attention_heads, a.dropout.p) for a in attentions] == [(3, 0.2)] * 2
    assert LanguageHead(encoder).norm.eps == 1e-3


def test_vectors_of_another_width_come_in_through_a_new_layer(encoder):
    torch.manual_seed(0)
    assert not list(entrance(encoder).parameters())
    encoder.layers = nn.Sequential(nn.Linear(16, 100))
    (weight,) = entrance(encoder).parameters()  # and no bias
    assert weight.shape == (16, 100)
    assert weight.std().item() == pytest.approx(0.02, rel=0.1)


def test_drawing_weights_keeps_the_padding_row_and_resets_the_norms():
    torch.manual_seed(0)
    found = nn.Sequential(nn.Embedding(30, 8, padding_idx=0), nn.LayerNorm(8))
    nn.init.constant_(found[1].weight, 3.0)
    draw_weights(found)
    assert found[0].weight[0].eq(0).all()
    assert found[0].weight[1:].ne(0).all()
    assert found[0].weight[1:].std().item() == pytest.approx(0.02, rel=0.2)
    assert found[1].weight.eq(1).all()


def test_the_batch_norm_head_normalises_two_dense_layers_over_the_batch():
    torch.manual_seed(0)
    head, vectors = batch_norm_mlp(6), torch.randn(9, 6)

    def normalised(columns):
        centred = columns - columns.mean(0)
        return centred / (centred.square().mean(0) + 1e-5).sqrt()

    wide = normalised(vectors @ head[0].weight.T).clamp(min=0)
    torch.testing.assert_close(head(vectors), normalised(wide @ head[3].weight.T))
    assert [name for name, _ in head.named_parameters()] == [
        *("0.weight", "1.weight", "1.bias", "3.weight")  # no biases, no affine map at the end
    ]
    assert head[0].weight.shape == (12, 6)


def test_the_gelu_head_widens_twice_over_any_leading_axes():
    torch.manual_seed(0)
    head, layers = gelu_mlp(4, width=10), torch.randn(3, 5, 4)
    first = torch.nn.functional.gelu(layers @ head[0].weight.T + head[0].bias)
    expected = torch.nn.functional.gelu(first @ head[2].weight.T + head[2].bias)
    torch.testing.assert_close(head(layers), expected)
    assert head(layers).shape == (3, 5, 10)
    assert gelu_mlp(4)(layers).shape == (3, 5, 4096)


def test_orqas_projection_is_128_wide_and_normalises_each_row():
    torch.manual_seed(0)
    head, vectors = projection(6), torch.randn(9, 6)
    dense = vectors @ head[0].weight.T
    centred = dense - dense.mean(1, keepdim=True)
    expected = centred / (centred.square().mean(1, keepdim=True) + 1e-5).sqrt()
    torch.testing.assert_close(head.eval()(vectors), expected)
    assert expected.shape == (9, 128)
    dropped = head.train()(vectors)
    kept = dropped != 0
    assert 0.8 < kept.float().mean() < 0.97
    torch.testing.assert_close(dropped[kept], expected[kept] / 0.9)


@pytest.mark.parametrize("dim", [6, 16])
def test_convolutions_equal_a_slow_loop_and_see_no_padding(dim):
    torch.manual_seed(0)
    head, states = TokenCNN(dim), torch.randn(2, 5, dim)
    lengths = [5, 3]
    mask = (torch.arange(5) < torch.tensor(lengths)[:, None]).long()
    found = head(states, mask)
    for row, length in enumerate(lengths):
        for place in range(length):
            parts = []
            for convolution in head.convolutions:
                kernel = convolution.weight.shape[2]
                total = convolution.bias.clone()
                for step in range(kernel):
                    other = place + step - kernel // 2
                    if 0 <= other < length:
                        total = total + convolution.weight[:, :, step] @ states[row, other]
                parts.append(total)
            torch.testing.assert_close(found[row, place], torch.cat(parts))
    assert found[1, 3:].eq(0).all()


def test_convolutions_see_one_three_and_five_tokens():
    torch.manual_seed(0)
    head, states = TokenCNN(9), torch.randn(2, 7, 9)
    mask = torch.ones(2, 7, dtype=torch.int64)
    changed = states.clone()
    changed[0, 3] += 1
    moved = (head(changed, mask) - head(states, mask)).abs() > 1e-6
    for part, reach in zip(moved.split(3, dim=2), (0, 1, 2), strict=True):
        seen = part[0].any(1).nonzero().flatten().tolist()
        assert seen == list(range(3 - reach, 4 + reach))
    assert not moved[1].any()


def step_in_training(name, settings, edit=lambda batch: batch):
    """A first step with dropout, on an edited batch."""
    method, learner = made(name, **settings)
    for module in learner.modules:
        module.train()
    batch = edit(sampler_of(config_of(name, settings), method).batch(0))
    return GradientJob(learner, method, False, seed=7).run(batch, 0, None)


def test_batch_norm_sees_the_rows_of_all_views_at_once():
    vectors = step_in_training("diffcse", NEW_HEAD).vectors
    together = torch.cat(list(vectors.values()))
    torch.testing.assert_close(together.mean(0), torch.zeros(16), atol=1e-5, rtol=0)
    assert vectors["anchor"].mean(0).abs().max() > 1e-2


def test_a_head_gets_views_of_one_shape_as_one_batch():
    shapes = []
    views = {"one": torch.ones(2, 4), "many": torch.ones(3, 5, 4), "two": torch.zeros(1, 4)}
    head = nn.Linear(4, 4)
    head.register_forward_hook(lambda _, given, __: shapes.append(tuple(given[0].shape)))
    outputs = on_views(head, views)
    assert shapes == [(3, 4), (3, 5, 4)]
    assert list(outputs) == list(views)
    for name, rows in views.items():
        torch.testing.assert_close(outputs[name], head(rows))


def test_a_batch_without_masked_tokens_has_no_masked_language_loss():
    def unmasked(batch):
        views = {
            name: replace(view, targets=[np.full_like(row, IGNORED) for row in view.targets or ()])
            for name, view in batch.views.items()
        }
        return replace(batch, views=views)

    step = step_in_training("simcse", {"mlm": 0.1}, unmasked)
    assert math.isfinite(step.loss)
    assert step.metrics["mlm"] == 0


def test_the_batch_norm_head_remembers_its_statistics_in_the_state():
    torch.manual_seed(0)
    head, fresh, vectors = batch_norm_mlp(6), batch_norm_mlp(6), torch.randn(9, 6)
    head(vectors)
    fresh.load_state_dict(head.state_dict())
    torch.testing.assert_close(fresh.eval()(vectors), head.eval()(vectors))
