"""The decoder sees the past and one vector; tied, it is TSDAE's."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import ElectraConfig, ElectraModel, MPNetConfig, MPNetModel

from sentemb_core.encoder.checkpoint import save_encoder
from sentemb_core.errors import RecipeError
from sentemb_core.methods.autoencoders import CausalDecoder, deleted, reconstructed, rewritten
from sentemb_core.methods.parts.transformer_layers import token_table
from sentemb_core.methods.parts.views import IGNORED, first
from tests import tiny
from tests.methods import samples
from tests.methods.drawing import content_rows, framed, listed, seen

IDS = torch.tensor([[2, 7, 8, 9, 10, 3], [2, 11, 12, 13, 14, 3]])


@pytest.fixture(params=[2, None], ids=["own layers", "tied"])
def decoder(request, encoder) -> CausalDecoder:
    return CausalDecoder(encoder, layers=request.param)


SIZES = {"vocab_size": 100, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}


@pytest.mark.parametrize(
    ("backbone", "layers", "values"),
    [
        (lambda: MPNetModel(MPNetConfig(**SIZES)), None, "tied"),
        (lambda: ElectraModel(ElectraConfig(**SIZES, embedding_size=8)), 2, "8 and 16"),
    ],
    ids=["layers that do not come apart", "a table of another width"],
)
def test_a_transformer_that_cannot_lend_its_parts_is_refused(encoder, backbone, layers, values):
    encoder.backbone = backbone()
    with pytest.raises(RecipeError, match=values):
        CausalDecoder(encoder, layers)


def test_layers_of_its_own_need_none_that_come_apart(encoder):
    encoder.backbone = MPNetModel(MPNetConfig(**SIZES)).eval()
    states = CausalDecoder(encoder, 2)(encoder, torch.randn(2, 16), IDS)
    assert states.shape == (2, 6, 16)


@pytest.mark.parametrize("changed", range(1, 6))
def test_a_token_has_no_effect_on_what_precedes_it(encoder, decoder, changed):
    vectors, other = torch.randn(2, 16), IDS.clone()
    other[:, changed] = 50
    table = token_table(encoder)
    before = decoder.language(decoder(encoder, vectors, IDS).flatten(0, 1), table).view(2, 6, -1)
    after = decoder.language(decoder(encoder, vectors, other).flatten(0, 1), table).view(2, 6, -1)
    assert before[:, :changed].equal(after[:, :changed])
    assert before[:, changed:].ne(after[:, changed:]).any(-1).all()


def test_another_vector_gives_another_sentence(encoder, decoder):
    vectors = torch.randn(2, 16)
    states = decoder(encoder, vectors, IDS)
    moved = decoder(encoder, vectors + torch.tensor([[1.0], [0.0]]) * torch.randn(16), IDS)
    assert moved[0].ne(states[0]).any(-1).all()
    assert moved[1].equal(states[1])


def test_with_one_slot_the_question_to_memory_does_not_matter(encoder, decoder):
    who = samples.learner(encoder, decoder=decoder)
    rewritten(who, samples.masked_rows(encoder, targets=samples.SENTENCES)).backward()
    found = samples.gradients(decoder.memory)
    asked = [size for name, size in found.items() if "query" in name or "key" in name]
    given = [size for name, size in found.items() if "value" in name]
    assert max(asked) < 1e-6 < 1e-3 < min(given)


def test_the_first_token_is_given_whether_it_is_a_target_or_not(encoder):
    who = samples.learner(encoder, decoder=CausalDecoder(encoder))
    without = [[IGNORED, *row[1:]] for row in samples.SENTENCES]
    assert (
        rewritten(who, samples.masked_rows(encoder, targets=without)).item()
        == rewritten(who, samples.masked_rows(encoder, targets=samples.SENTENCES)).item()
    )


def test_tied_it_is_the_denoising_autoencoder_of_sentence_transformers(encoder, tmp_path):
    library = pytest.importorskip("sentence_transformers")
    losses = pytest.importorskip("sentence_transformers.sentence_transformer.losses")
    encoder.similarity = "dot"  # no Normalize module after the pooling
    save_encoder(encoder, tmp_path, "")
    model = library.SentenceTransformer(str(tmp_path), device="cpu")
    theirs = losses.DenoisingAutoEncoderLoss(model, tie_encoder_decoder=True).eval()

    ours = CausalDecoder(encoder, layers=None)
    for memory, layer in zip(ours.memory, theirs.decoder.bert.encoder.layer, strict=True):
        memory.load_state_dict(layer.crossattention.state_dict())
    head = theirs.decoder.cls.predictions
    ours.language.dense.load_state_dict(head.transform.dense.state_dict())
    ours.language.norm.load_state_dict(head.transform.LayerNorm.state_dict())
    torch.nn.init.normal_(head.decoder.bias)
    ours.language.bias.data.copy_(head.decoder.bias)

    damaged = [[2, 7, 3], [2, 11, 12, 3], [2, 15, 3]]
    rows = samples.masked_rows(encoder, damaged, damaged, samples.SENTENCES)
    originals = rows.targets.masked_fill(rows.targets == IGNORED, 0)
    features = {"input_ids": rows.ids, "attention_mask": rows.mask}
    expected = theirs([features, {"input_ids": originals}], torch.empty(0))
    expected.backward()
    who = samples.learner(encoder, decoder=ours)
    loss = rewritten(who, rows) / (rows.targets[:, 1:] != IGNORED).sum()
    loss.backward()

    torch.testing.assert_close(loss, expected)
    layers = theirs.decoder.bert.encoder.layer
    pairs = [
        (encoder.backbone, model.transformers_model),
        *zip(ours.memory, [layer.crossattention for layer in layers], strict=True),
        (ours.language.dense, head.transform.dense),
        (ours.language.norm, head.transform.LayerNorm),
    ]
    for mine, peer in pairs:
        right = {name: weight.grad for name, weight in peer.named_parameters()}
        for name, weight in mine.named_parameters():
            torch.testing.assert_close(weight.grad, right[name], rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(ours.language.bias.grad, head.decoder.bias.grad)


WORDS = np.ones(tiny.VOCABULARY, dtype=bool)
"""Every token is a word."""


@given(content_rows, st.floats(0, 0.999), st.integers(0, 99))
def test_deletion_keeps_the_order_and_at_least_one_word(rows, rate, seed):
    view = seen(deleted(reconstructed(framed(rows)), rate, WORDS), seed=seed)
    for old, new in zip(rows, listed(view.tokens), strict=True):
        assert (new[0], new[-1]) == (2, 3)
        assert new[1:-1] == [token for token in old if token in new[1:-1]]
        assert len(new) > 2 or not old
    assert listed(view.targets) == [[IGNORED, *row, 3] for row in rows]


def test_deletion_at_rate_0_is_plain_reconstruction():
    corpus = tiny.corpus([3, 2])
    view = seen(deleted(reconstructed(first), 0.0, WORDS), corpus)
    plain = seen(reconstructed(first), corpus)
    assert listed(view.tokens) == listed(plain.tokens) == listed(corpus.sentences)
    targets = [[IGNORED, *row[1:]] for row in listed(corpus.sentences)]
    assert listed(view.targets) == listed(plain.targets) == targets


def test_the_pieces_of_a_word_go_or_stay_together():
    begins_word = WORDS.copy()
    begins_word[[5, 6]] = False  # 4 5 6 is one word
    text = framed([[4, 5, 6, 7]] * 200)
    view = seen(deleted(text, 0.5, begins_word))
    assert {tuple(row[1:-1]) for row in listed(view.tokens)} == {(4, 5, 6), (7,), (4, 5, 6, 7)}


def test_a_tied_decoder_adds_only_cross_attention_and_head(encoder):
    names = {name.split(".")[0] for name in CausalDecoder(encoder, None).state_dict()}
    assert names == {"memory", "language"}


def test_the_loss_of_damaged_sentences_is_the_sum_of_their_losses(encoder):
    who = samples.learner(encoder, decoder=CausalDecoder(encoder))
    damaged = [[2, 7, 3], [2, 3]]
    rows = samples.masked_rows(encoder, damaged, damaged, samples.SENTENCES[:2])
    loss = rewritten(who, rows)
    parts = [
        rewritten(who, samples.masked_rows(encoder, [short], [short], [whole]))
        for short, whole in zip(damaged, samples.SENTENCES, strict=False)
    ]
    torch.testing.assert_close(loss, sum(parts))


def test_deletion_takes_six_words_in_ten():
    view = seen(deleted(framed([range(4, 74)] * 300), 0.6, WORDS))
    assert np.mean([len(row) - 2 for row in view.tokens]) == pytest.approx(0.4 * 70, abs=0.5)
