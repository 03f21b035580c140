"""Rows without their padding: the same states, vectors and gradients as padded ones."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoConfig, AutoModel

from sentemb_core.encoder import encoder as encoders
from sentemb_core.encoder.checkpoint import save_encoder
from sentemb_core.encoder.packing import FAMILIES, ROUND, packed, packs, padded, read_packed
from tests.encoder.starting import start

LENGTHS = [5, 3, 9, 3, 1, 9]
NAMED = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}
NAMES = {"distilbert": {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64}}


def backbone(family):
    torch.manual_seed(0)
    shape = NAMES.get(family, NAMED)
    config = AutoConfig.for_model(family, vocab_size=50, max_position_embeddings=40, **shape)
    model = AutoModel.from_config(config).eval()
    for weight in model.parameters():  # BERT's .02 would hide what a token sees of the others
        torch.nn.init.normal_(weight, std=0.3)
    return model


def rows_of(lengths, pad_id=0):
    rng = np.random.default_rng(1)
    return padded([rng.integers(5, 50, length) for length in lengths], pad_id)


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_every_text_attends_to_itself_only(family):
    model = backbone(family)
    assert packs(model)
    ids, mask = rows_of(LENGTHS, model.config.pad_token_id)
    batch = packed(ids, mask, model.config.pad_token_id)
    expected = model(input_ids=ids, attention_mask=mask, output_hidden_states=True)
    stretches = read_packed(model, batch, layers=True)
    texts = [text for stretch in stretches for text in zip(*stretch.hidden_states, strict=True)]
    for row, found in zip(batch.rows.tolist(), texts, strict=True):
        for states, padded_states in zip(found, expected.hidden_states, strict=True):
            torch.testing.assert_close(states, padded_states[row, : LENGTHS[row]])
    if stretches[0].pooler_output is not None:
        heads = torch.cat([stretch.pooler_output for stretch in stretches])
        torch.testing.assert_close(heads, expected.pooler_output[batch.rows])


@pytest.mark.parametrize("family", ["mpnet", "albert"])
def test_other_families_read_padded_rows(family):
    assert not packs(backbone(family))


@given(st.lists(st.integers(1, 40), min_size=1, max_size=30))
def test_no_token_is_lost_and_none_is_moved(lengths):
    ids, mask = rows_of(lengths)
    mask = torch.ones_like(ids) if mask is None else mask
    batch = packed(ids, mask, pad_id=0)
    assert batch.ids.shape[1] % ROUND == 0
    texts = [text for stretch in batch.split(batch.ids[0])[:-1] for text in stretch]
    places = [text.tolist() for stretch in batch.split(batch.places[0])[:-1] for text in stretch]
    for row, text, place in zip(batch.rows.tolist(), texts, places, strict=True):
        assert text.tolist() == ids[row, : lengths[row]].tolist()
        assert place == list(range(lengths[row]))


@pytest.mark.parametrize("pooling", ["mean", "cls", "cls_before_pooler", "first_last_mean"])
def test_vectors_and_gradients_are_those_of_padded_rows(pooling):
    encoder = start("transformer", pooling=pooling)
    ids, mask = rows_of(LENGTHS, encoder.pad_id)
    found = {}
    for way, read in (("packed", encoder), ("padded", lambda *rows: encoder.read(*rows).pooled)):
        encoder.zero_grad()
        vectors = read(ids, mask)
        (vectors * torch.arange(1.0, 1 + vectors.numel()).view_as(vectors)).sum().backward()
        found[way] = [vectors, *(p.grad for p in encoder.parameters() if p.grad is not None)]
    for one, other in zip(found["packed"], found["padded"], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_equal_texts_of_a_batch_get_dropout_of_their_own():
    encoder = start("transformer").train()
    ids = torch.full((3, 4), 7)
    ids[2, 2:] = encoder.pad_id
    one, other, _ = encoder(ids, (ids != encoder.pad_id).long())
    assert not torch.allclose(one, other)


def test_no_padding_is_computed(monkeypatch):
    """`forward` packs rows that have a mask; `read`, whose hooks know rows, does not."""
    encoder = start("transformer")
    ids, mask = rows_of([2, 30])
    shapes = []
    encoder.backbone.embeddings.register_forward_hook(lambda *call: shapes.append(call[2].shape))
    encoder(ids, mask)
    encoder.read(ids, mask)
    monkeypatch.setattr(encoders, "packs", lambda _: False)
    encoder(ids, mask)
    assert [tuple(shape[:2]) for shape in shapes] == [(1, ROUND), (2, 30), (2, 30)]


def test_the_backbone_is_restored(tmp_path, monkeypatch):
    encoder = start("transformer")
    ids, mask = rows_of(LENGTHS)
    encoder(ids, mask)
    assert encoder.backbone.config._attn_implementation == "sdpa"
    monkeypatch.setattr(encoder.backbone.embeddings, "forward", lambda **_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        encoder(ids, mask)
    assert encoder.backbone.config._attn_implementation == "sdpa"
    save_encoder(encoder, tmp_path, "a card")
    assert not [file for file in tmp_path.rglob("*.json") if "sentemb_packed" in file.read_text()]


def test_a_static_table_has_nothing_to_pack():
    assert not packs(start("static").backbone)
