"""Which encoders and settings a method refuses, and about which it warns."""

import json
import re

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from transformers import (
    DebertaV2Config,
    DebertaV2Model,
    DistilBertConfig,
    DistilBertModel,
    ElectraConfig,
    ElectraModel,
    ModernBertConfig,
    ModernBertModel,
    MPNetConfig,
    MPNetModel,
    RoFormerConfig,
    RoFormerModel,
    T5Config,
    T5EncoderModel,
)

from sentemb_core.config.methods import METHODS
from sentemb_core.errors import RecipeError
from sentemb_core.methods.catalogue import method_for
from sentemb_core.methods.consert import adversarial, perturbed, token_cutoff
from sentemb_core.methods.mirror_bert import drophead
from sentemb_core.training.loop import learner_of
from tests import tiny
from tests.methods.recipes import (
    NEW_HEAD,
    PROMPT,
    RECIPES,
    SPANS,
    config_of,
    made,
)
from tests.methods.samples import learner, random_rows, read
from tests.methods.steps import batch_of, step_of


def test_two_adversarial_views_need_dropout():
    both = {"first": ("adversarial",), "second": ("adversarial",), "dropout": True}
    assert made("consert", **both)[0].dropout
    with pytest.raises(RecipeError, match="consert needs dropout"):
        made("consert", tiny.bert(dropout=0.0), **both)


@pytest.mark.parametrize(
    ("base", "held"),
    [({"name": "simcse"}, 64), ({"name": "esimcse"}, 64), ({"name": "sncse", **PROMPT}, 18)],
    ids=["simcse", "esimcse", "sncse"],
)
def test_segments_beyond_the_encoders_length_are_cut_with_a_warning(base, held, caplog):
    settings = {"segment": 80, "longest": 300, "base": base}
    batch = batch_of("hicl", settings, documents=tiny.corpus([40] * 12))
    assert {max(map(len, view.tokens)) for view in batch.views.values() if view.tokens} == {held}
    assert np.isfinite(step_of(*made("hicl", **settings), batch)[0])
    assert (held, 80) in [record.args for record in caplog.records]
    caplog.clear()
    made("hicl", **settings | {"segment": held})
    assert (held, held) not in [record.args for record in caplog.records]


def test_a_static_encoder_is_refused_where_a_method_needs_a_transformer():
    for name, method in METHODS.items():
        if method.encoder == "any":
            assert made(name, tiny.static())[0].name == name
            continue
        with pytest.raises(RecipeError, match=rf"{name} .*--encoder minilm.*conpono"):
            made(name, tiny.static())
    for name, settings in (("mirror_bert", {"drophead": 0.2}), ("declutr", {**SPANS, "mlm": 0.0})):
        with pytest.raises(RecipeError, match=rf"{name} .*--encoder minilm.*conpono"):
            made(name, tiny.static(), **settings)


SIZES = {"vocab_size": tiny.VOCABULARY + 1, "max_position_embeddings": 64}
WIDE = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
DISTILBERT = DistilBertConfig(**SIZES, dim=16, n_layers=2, n_heads=2, hidden_dim=32)
OTHER_BACKBONES = {
    "layers under another name": lambda: DistilBertModel(DISTILBERT),
    "a table of another width": lambda: ElectraModel(
        ElectraConfig(**SIZES, **WIDE, embedding_size=8)
    ),
    "inseparable layers": lambda: MPNetModel(MPNetConfig(**SIZES, **WIDE)),
}


@pytest.mark.parametrize("recipe", RECIPES, ids=str)
@pytest.mark.parametrize("kind", OTHER_BACKBONES)
def test_networks_that_do_not_fit_a_backbone_are_refused_with_the_recipe(recipe, kind):
    """A dry run makes only the recipe, so the recipe must refuse what its networks refuse."""
    encoder = tiny.bert()
    encoder.backbone = OTHER_BACKBONES[kind]()
    try:
        method = method_for(config_of(recipe.name, recipe.settings).method, encoder)
    except RecipeError as refusal:
        unaware, _ = made(recipe.name, **recipe.settings)
        if unaware.networks is None:  # MPNet's order cannot be shuffled, with or without networks
            assert recipe.name == "consert"
            return
        with pytest.raises(RecipeError, match=re.escape(str(refusal)[:60])):
            unaware.networks(encoder)
    else:
        learner_of(method, encoder, seed=0)


@pytest.mark.parametrize(
    ("name", "settings"), [("simcse", {"mlm": 0.1}), ("declutr", {**SPANS, "mlm": 1.0})]
)
def test_a_masked_language_term_that_does_not_fit_can_be_left_out(name, settings):
    encoder = tiny.bert()
    encoder.backbone = OTHER_BACKBONES["layers under another name"]()
    with pytest.raises(RecipeError, match=r"DistilBert.*training\.method\.mlm=0"):
        made(name, encoder, **settings)
    assert made(name, encoder, **settings | {"mlm": 0.0})[0].name == name


@pytest.mark.parametrize(
    ("name", "settings", "values"),
    [
        ("declutr", {"shortest": 63}, r"63 to 512 .* 62 .* 62 or less"),
        ("declutr", {**SPANS, "mask_rate": 0.0}, r"found 0\.0"),
        ("sncse", {**PROMPT, "before": "w5 " * 10}, r"found 13 .* 3 for a negation"),
        (
            "hicl",
            {"segment": 7, "longest": 24, "base": {"name": "sncse", **PROMPT}},
            r"found 7 tokens.* 7\. Raise method\.segment",
        ),
        ("consert", {"first": ("adversarial", "shuffle")}, "found adversarial, shuffle"),
        (
            "consert",
            {"first": ("adversarial",), "second": ("adversarial",)},
            r"method\.dropout=false",
        ),
        ("consert", {"weight": 0.0}, "weight 0 for contrast"),
        ("simcse", {"mlm": 0.1, "mask_rate": 0.0}, r"found 0\.0"),
        ("clm_autoencoder", {"weight": 0.0}, "weight 0 for rewritten"),
        ("infocse_aux", {}, "random_head=true"),
        ("diffcse", {}, "random_head=true"),
        ("rtd_mlm", {}, "random_head=true"),
        ("infocse_aux", {**NEW_HEAD, "skip_from": 3}, "skip_from 3 and 2 layers"),
        ("rtd_mlm", {**NEW_HEAD, "skip_from": 3}, "skip_from 3 and 2 layers"),
        ("condenser", {"skip_from": 3}, "skip_from 3 and 2 layers"),
    ],
)
def test_parts_that_do_not_fit_each_other_are_refused_before_a_step(name, settings, values):
    with pytest.raises(RecipeError, match=values):
        method_for(config_of(name, settings).method, tiny.bert())


def test_simcse_needs_dropout():
    with pytest.raises(RecipeError, match="simcse needs dropout"):
        made("simcse", tiny.bert(dropout=0.0))


@pytest.mark.parametrize("name", ["ict", "cpc"])
def test_a_context_cut_by_the_encoders_positions_gives_one_warning(name, caplog):
    made(name, context_tokens=64)
    assert not caplog.records
    made(name)
    assert [record.args for record in caplog.records] == [(64, 288)]


def test_spans_cut_by_the_encoders_positions_give_one_warning(caplog):
    whole, cut = (made("declutr", longest=longest)[0] for longest in (62, 512))
    assert [record.args for record in caplog.records] == [(62, 512)]
    least = [len(method.pairs(tiny.corpus([62] * 8), None).i) for method in (whole, cut)]
    assert least[0] == least[1]


def test_sg_opt_warns_if_the_anchor_starts_as_one_of_its_positives(caplog):
    first_token, mean = tiny.bert(), tiny.bert()
    first_token.pooling, mean.pooling = "cls_before_pooler", "mean"
    made("sg_opt", first_token)
    assert not caplog.records
    made("sg_opt", mean)
    assert len(caplog.records) == 1


SMALL = {
    "vocab_size": 81, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 64,
}  # fmt: skip


def test_positions_in_the_attention_can_neither_be_shuffled_nor_order_a_decoder():
    encoder = tiny.bert()
    for backbone, is_shuffled, is_decoded in (
        (DebertaV2Model(DebertaV2Config(**SMALL, position_biased_input=False)), False, False),
        (DebertaV2Model(DebertaV2Config(**SMALL, relative_attention=True)), False, True),
        (MPNetModel(MPNetConfig(**SMALL)), False, True),
        (RoFormerModel(RoFormerConfig(**SMALL)), False, False),
        (ModernBertModel(ModernBertConfig(**SMALL, pad_token_id=0)), True, False),
    ):
        encoder.backbone = backbone
        assert_made_if(is_shuffled, "consert", encoder, second=["shuffle"])
        assert_made_if(is_decoded, "mlm_autoencoder", encoder)


def assert_made_if(wanted, name, encoder, **settings):
    if wanted:
        assert made(name, encoder, **settings)
        return
    with pytest.raises(RecipeError, match=rf"{name}.* positions "):
        made(name, encoder, **settings)


def test_a_decoder_without_special_tokens_refuses_noise():
    encoder = tiny.bert()
    tokenizer = json.loads(encoder.tokenizer.to_str()) | {"post_processor": None}
    encoder.tokenizer = Tokenizer.from_str(json.dumps(tokenizer))
    assert not encoder.framed
    with pytest.raises(RecipeError, match=r"method\.noise=0"):
        made("clm_autoencoder", encoder, noise=0.6)
    assert made("clm_autoencoder", encoder)


def test_unknown_attention_heads_are_refused_with_the_recipe():
    encoder = tiny.bert()
    encoder.backbone = T5EncoderModel(T5Config(vocab_size=81, d_model=16, d_kv=8, num_heads=2))
    with pytest.raises(RecipeError, match="T5EncoderModel"):
        made("mirror_bert", encoder, drophead=0.2)
    assert made("mirror_bert", encoder)[0].dropout


def test_means_over_padding_warn_if_validation_pools_otherwise(caplog):
    first_token, mean = tiny.bert(), tiny.bert()
    first_token.pooling = "cls_before_pooler"
    made("mirror_bert", mean, pooling="mean_with_pads")
    made("mirror_bert", first_token)
    assert not caplog.records
    made("mirror_bert", first_token, pooling="mean_with_pads")
    assert [record.args for record in caplog.records] == [("cls_before_pooler",)]


def with_positions(count):
    encoder = tiny.bert()
    table = encoder.backbone.embeddings.position_embeddings
    encoder.backbone.embeddings.position_embeddings = torch.nn.Embedding(count, table.embedding_dim)
    return encoder


def test_positions_without_room_for_repeated_words_give_a_warning(caplog):
    nothing = {"repetition": 0.0}
    for positions, settings in ((22, {}), (18, nothing), (18, nothing | {"rule": "paper"})):
        made("esimcse", with_positions(positions), **settings)
    assert not caplog.records
    made("esimcse", with_positions(20))
    assert [record.args for record in caplog.records] == [(18, 2, 4, 20, 22)]


def test_segments_repeat_words_if_whole_sentences_have_no_room(caplog):
    over = {"base": {"name": "esimcse"}}
    made("hicl", with_positions(18), **over, segment=16)  # as long as the encoder's sentences
    assert [record.args[:3] for record in caplog.records] == [(16, 2, 4)]
    made("hicl", with_positions(18), **over, segment=12)
    assert len(caplog.records) == 1


@pytest.mark.parametrize("name", ["ict", "cpc"])
def test_an_encoder_without_room_for_a_context_is_refused(name):
    encoder = with_positions(15)
    with pytest.raises(RecipeError, match="15 positions"):
        made(name, encoder)


JOINING = [
    *("condenser", "infocse_aux", "diffcse", "rtd_mlm"),
    *("clm_autoencoder", "mlm_autoencoder", "is_bert", "sncse"),
]


@pytest.mark.parametrize("recipe", [r for r in RECIPES if r.name in JOINING], ids=str)
def test_networks_join_an_encoder_of_another_output_width(recipe):
    encoder = tiny.bert()
    encoder.layers = torch.nn.Sequential(torch.nn.Linear(encoder.hidden_dim, 6))
    batch = batch_of(recipe.name, recipe.settings)
    loss, found, _ = step_of(*made(recipe.name, encoder, **recipe.settings), batch)
    assert np.isfinite(loss)
    entrances = [gradient for name, gradient in found.items() if ".entrance." in name]
    assert any(gradient.any() for gradient in entrances) or recipe.name in ("is_bert", "sncse")


@pytest.mark.parametrize("width", [6, 16])
def test_sg_opt_refuses_dense_layers_behind_the_pooling(width):
    encoder = tiny.bert()
    encoder.layers = torch.nn.Sequential(torch.nn.Linear(encoder.hidden_dim, width))
    with pytest.raises(RecipeError, match=f"16 to {width} "):
        made("sg_opt", encoder)


@pytest.mark.parametrize("shape", [{}, {"head_layers": 1}], ids=["usual", "of one layer"])
@pytest.mark.parametrize("name", ["infocse_aux", "rtd_mlm"])
def test_a_continuing_method_starts_from_the_condensers_head(name, shape):
    stage = made("condenser", **shape)[1].networks["condenser"].state_dict()
    config = config_of(name, shape)
    encoder = tiny.bert()
    method = method_for(config.method, encoder, stage)
    filler = learner_of(method, encoder, seed=5).networks["auxiliary"].filler.state_dict()
    assert all(weight.equal(stage[name]) for name, weight in filler.items())
    of_another = {name: weight[:1] for name, weight in stage.items()}
    with pytest.raises(RecipeError, match="head_layers"):
        learner_of(method_for(config.method, encoder, of_another), encoder, seed=5)


def test_forward_passes_with_edits_refuse_a_static_table():
    subject, (ids, mask) = learner(tiny.static()), random_rows(6, 4)
    for edited in (perturbed(token_cutoff(0.2)), perturbed(shuffled=True), drophead(0.2)):
        with pytest.raises(RecipeError, match=r"(?i)static ?table"):
            read(edited, subject, ids, mask)
    with pytest.raises(RecipeError, match=r"(?i)static ?table"):
        adversarial(0.3).run(subject, ids, mask, False, torch.sum)
