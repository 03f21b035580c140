"""Under which settings one method becomes another, or one of its parts disappears."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load, save

from sentemb_core.methods.parts.heads import batch_norm_mlp, mlp
from sentemb_core.methods.parts.info_nce import all_pairs
from sentemb_core.methods.parts.pairs import Annotation
from sentemb_core.methods.parts.tokenizer_tools import ids_of, mask_id
from sentemb_core.methods.parts.views import first
from sentemb_core.methods.sncse import at_token, prompted
from tests import tiny
from tests.methods.recipes import (
    NEW_HEAD,
    PROMPT,
    SLICES,
    SPANS,
    Recipe,
    annotation,
    config_of,
    corpus,
    made,
    sampler_of,
)
from tests.methods.steps import (
    REGROUPED,
    assert_alike,
    assert_same_step,
    batch_of,
    norm,
    simcse_under,
    step_of,
    without_dropout,
)

PLAIN = {"first": (), "second": ()}


def test_without_dropout_both_views_of_simcse_are_the_same_bits():
    method, learner = made("simcse")
    for module in learner.modules:
        module.eval()
    vectors = step_of(method, learner, batch_of("simcse"))[2]
    assert vectors["anchor"].equal(vectors["positive"])


def test_twins_begin_equal_so_that_only_negatives_pull():
    method, learner = made("ct")
    learner.encoder.train(method.dropout)
    vectors = step_of(method, learner, batch_of("ct"))[2]
    logits = vectors["anchor"] @ vectors["other"].T
    torch.testing.assert_close(logits.diagonal(), vectors["anchor"].square().sum(1))
    right, wrong = F.softplus(-logits.diagonal()), F.softplus(logits)
    assert 100 * right.max() < wrong.min()


@pytest.mark.parametrize(
    "base",
    [
        {"name": "simcse"},
        {"name": "esimcse"},
        {"name": "esimcse", "queue": 0},
        {"name": "sncse", "weight": 0.0, **PROMPT},
    ],
    ids=lambda base: "-".join(map(str, base.values())),
)
def test_hicl_is_its_base_if_a_text_has_one_segment(base):
    lines = tiny.corpus([1] * 20)
    lines.sentences = [np.append(line[:-1][:6], 3) for line in lines.sentences]  # as SNCSE's cut
    plain = made(**base)
    plain[1].encoder.train()
    settings = {key: value for key, value in base.items() if key != "name"}
    expected = step_of(*plain, batch_of(base["name"], settings, documents=lines))
    for alpha in (0.0, 0.3, 1.0):
        sliced = {"segment": 15, "longest": 15, "alpha": alpha, "base": base}
        whole = made("hicl", **sliced)
        whole[1].encoder.train()
        batch = batch_of("hicl", sliced, documents=lines)
        assert_same_step(step_of(*whole, batch), expected)


def test_hicl_is_not_its_base_if_a_text_has_several_segments():
    sliced = SLICES | {"alpha": 0.0}
    losses = [
        step_of(*made("hicl", **sliced), batch_of("hicl", settings))[0]
        for settings in (sliced, sliced | {"segment": 24})
    ]
    assert losses[0] != pytest.approx(losses[1], rel=1e-3)


def test_esimcse_without_repetition_and_queue_is_simcse():
    nothing = {"repetition": 0.0, "queue": 0}
    ours = step_of(*made("esimcse", **nothing), batch_of("esimcse", nothing))
    assert_same_step(ours, step_of(*made("simcse"), batch_of("simcse")))
    repeated = {"repetition": 0.5, "queue": 0}
    other = step_of(*made("esimcse", **repeated), batch_of("esimcse", repeated))
    assert other[0] != pytest.approx(ours[0], rel=1e-3)


@pytest.mark.parametrize(
    ("name", "settings", "head"),
    [
        ("diffcse", NEW_HEAD, batch_norm_mlp),
        ("infocse_aux", NEW_HEAD, batch_norm_mlp),
        ("infocse_aux", NEW_HEAD | {"head": "tanh"}, mlp),
        ("clm_autoencoder", {"simcse": 1.0}, None),
        ("mlm_autoencoder", {"simcse": 1.0}, None),
    ],
)
def test_a_network_of_weight_0_leaves_simcse(name, settings, head):
    settings = settings | {"weight": 0.0}
    batch, base = batch_of(name, settings), simcse_under(head)
    assert_alike(made(name, **settings), base, batch, of="encoder.")
    weighty = step_of(*made(name, **settings | {"weight": 1.0}), batch)
    assert weighty[0] != pytest.approx(step_of(*base, batch)[0], rel=1e-3)


@pytest.mark.parametrize(
    ("without", "other", "own", "network"),
    [
        ("rtd", "infocse_aux", {}, "auxiliary"),
        ("rtd", "infocse_aux", {"detach": False}, "auxiliary"),
        ("mlm", "diffcse", {}, "discriminator"),
        ("mlm", "diffcse", {"sample": "multinomial"}, "discriminator"),
    ],
)
def test_rtd_mlm_without_one_term_is_the_other_method(without, other, own, network):
    shared = NEW_HEAD | {"mask_rate": 0.4, **own}
    both = shared | {"rtd": 0.1, "mlm": 0.1, without: 0.0}
    joint, single = made("rtd_mlm", **both), made(other, **shared, weight=0.1)
    with torch.no_grad():
        pairs = zip(
            *(learner.networks[network].parameters() for _, learner in (single, joint)), strict=True
        )
        for its, weight in pairs:
            its.copy_(weight)
    assert_alike(joint, single, batch_of("rtd_mlm", both), of="encoder.")


@pytest.mark.parametrize("detach", [True, False])
def test_rtd_mlm_holds_one_frozen_encoder(detach):
    """Lower layers that learn are copies, and no network shares memory with the learner."""
    learner = made("rtd_mlm", **NEW_HEAD, detach=detach)[1]
    lower, editor = lower_layers_and_editor(learner)
    pointers = {weight.data_ptr() for weight in editor.parameters()}
    own = {weight.data_ptr() for weight in lower.parameters()}
    assert own <= pointers if detach else own.isdisjoint(pointers)
    assert pointers.isdisjoint({weight.data_ptr() for weight in learner.encoder.parameters()})
    saved = [name.partition(".")[2] for name in learner.networks.state_dict()]
    assert any(name.startswith("lower.") for name in saved) != detach
    assert sum(name.startswith("edit.encoder.") for name in saved) == len(pointers)


def test_rtd_mlm_restores_the_frozen_encoder_of_a_checkpoint():
    known = made("rtd_mlm", **NEW_HEAD)[1]
    fresh = made("rtd_mlm", tiny.bert(seed=1), **NEW_HEAD)[1]
    fresh.networks.load_state_dict(load(save(known.networks.state_dict())))
    for one, other in zip(*map(lower_layers_and_editor, (known, fresh)), strict=True):
        for ours, theirs in zip(one.parameters(), other.parameters(), strict=True):
            assert ours.equal(theirs)


def lower_layers_and_editor(learner):
    """The auxiliary network's, then the generator's."""
    return learner.networks["auxiliary"].lower, learner.networks["discriminator"].edit.encoder


def test_infocse_idc_differs_from_conpono_only_in_its_pairs():
    neighbours = made("conpono")[0].pairs(corpus(), None)
    annotated = Annotation(neighbours.i, neighbours.j, annotation().labels)
    ours = batch_of("infocse_idc", known=annotated)
    theirs = batch_of("conpono")
    for one, other in zip(ours.views.values(), theirs.views.values(), strict=True):
        assert all(map(np.array_equal, one.tokens, other.tokens))
        assert np.array_equal(one.group, other.group)
    assert_alike(made("infocse_idc"), made("conpono"), ours, dropout=True)
    clustered = batch_of("infocse_idc").views["positive"]
    assert not all(map(np.array_equal, clustered.tokens, theirs.views["positive"].tokens))


@pytest.mark.parametrize(
    ("settings", "alike"),
    [
        (PLAIN, lambda cosine: torch.allclose(cosine, torch.ones(12), atol=1e-6, rtol=0)),
        (PLAIN | {"dropout": True}, lambda cosine: cosine.min() < 0.999),
        ({}, lambda cosine: cosine.max() < 0.999),
    ],
    ids=["plain", "with dropout", "perturbed"],
)
def test_unperturbed_views_of_consert_differ_only_by_dropout(settings, alike):
    method, learner = made("consert", **settings)
    learner.encoder.train(method.dropout)
    vectors = step_of(method, learner, batch_of("consert", settings))[2]
    assert alike(F.cosine_similarity(vectors["anchor"], vectors["positive"]))


@pytest.mark.parametrize(("name", "settings"), [("cpc", {}), ("conpono", {"window": 1})])
def test_a_bilinear_map_of_identity_changes_nothing(name, settings):
    plain, mapped = made(name, **settings), made(name, **settings, bilinear=True)
    batch = batch_of(name, settings)
    assert_alike(mapped, plain, batch, of="encoder.")
    with torch.no_grad():
        mapped[1].networks["bilinear"].weight.mul_(torch.arange(16) / 8)
    assert step_of(*mapped, batch)[0] != pytest.approx(step_of(*plain, batch)[0], rel=1e-3)


def test_ict_with_an_identity_projection_is_ict():
    method, learner = made("ict", projection=8)
    learner = replace(learner, head=torch.nn.Identity())
    assert_alike((method, learner), made("ict"), batch_of("ict"), of="encoder.")


def test_declutr_of_one_anchor_and_one_positive_is_nt_xent():
    settings = {**SPANS, "positives": 1, "mlm": 0.0}
    ours, batch = made("declutr", **settings), batch_of("declutr", settings)
    without_dropout(ours[1])
    loss, _, vectors = step_of(*ours, batch)
    both = F.normalize(torch.cat([vectors["anchor"], vectors["positives"]]), dim=-1)
    half = len(both) // 2
    logits = (both @ both.T / 0.05).fill_diagonal_(-torch.inf)
    expected = F.cross_entropy(logits, torch.arange(2 * half).roll(half))
    assert loss == pytest.approx(expected.item(), abs=1e-5)


def test_mirror_bert_without_spans_is_simcse_over_all_pairs():
    method, learner = simcse_under(None)
    term = all_pairs("anchor", "positive", 0.04)
    base = replace(method, terms={"contrast": (1.0, term)}), learner
    ours, batch = made("mirror_bert", span=0), batch_of("mirror_bert", {"span": 0})
    assert_alike(ours, base, batch, dropout=True)
    without_dropout(ours[1])
    vectors = step_of(*ours, batch)[2]
    assert vectors["anchor"].equal(vectors["positive"])


def gradients_of_aux(doubled, weight):
    """Name -> gradient of InfoCSE-aux at this lambda."""
    method, learner, batch = doubled(Recipe("infocse_aux", NEW_HEAD | {"weight": weight}))
    return step_of(method, learner, batch)[1]


def difference(one, other, of):
    """Of two gradients as vectors, where names begin with `of`."""
    assert one.keys() == other.keys()
    return norm(one[name] - other[name] for name in one if name.startswith(of))


def test_the_gradient_of_infocse_aux_is_linear_in_lambda(doubled):
    nothing, part, whole = (gradients_of_aux(doubled, weight) for weight in (0.0, 0.25, 1.0))
    between = {name: 0.75 * nothing[name] + 0.25 * whole[name] for name in whole}
    for of in ("encoder.", "networks."):
        assert difference(part, between, of) < REGROUPED < 1e-3 < difference(part, nothing, of)


def test_sncse_without_its_margin_is_simcse_inside_prompts():
    method, learner = made("simcse")
    encoder = learner.encoder
    behind = [*ids_of(encoder, PROMPT["behind"]), mask_id(encoder), *ids_of(encoder, PROMPT["end"])]
    at_mask = at_token(mask_id(encoder))
    inside = {
        view: prompted(first, ids_of(encoder, before), behind, 18)
        for view, before in (("anchor", PROMPT["before"]), ("positive", PROMPT["before_positive"]))
    }
    prompts = method.joined(views=inside, forward_passes=dict.fromkeys(inside, at_mask))
    config = config_of("simcse", {})
    batch = sampler_of(config, prompts).batch(0)
    ours = batch_of("sncse", PROMPT)
    without_dropout(learner)
    sncse, other = made("sncse", weight=0.0, **PROMPT)
    without_dropout(other)
    assert_same_step(step_of(sncse, other, ours), step_of(prompts, learner, batch))
