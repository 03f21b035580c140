"""Under which settings one method becomes another, or one of its parts disappears."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load, save

from sentemb_core.methods.parts.heads import batch_norm_mlp
from sentemb_core.methods.parts.pairs import Annotation
from tests import tiny
from tests.methods.recipes import (
    NEW_HEAD,
    PROMPT,
    SLICES,
    annotation,
    corpus,
    made,
)
from tests.methods.steps import (
    assert_alike,
    assert_same_step,
    batch_of,
    simcse_under,
    step_of,
)


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


def test_plain_views_of_consert_differ_only_by_dropout():
    for dropout in (False, True):
        nothing = {"first": (), "second": (), "dropout": dropout}
        method, learner = made("consert", **nothing)
        learner.encoder.train(method.dropout)
        vectors = step_of(method, learner, batch_of("consert", nothing))[2]
        cosines = F.cosine_similarity(vectors["anchor"], vectors["positive"])
        assert (cosines.min() > 1 - 1e-6) != dropout


def test_esimcse_without_repetition_and_queue_is_simcse():
    nothing = {"repetition": 0.0, "queue": 0}
    ours = step_of(*made("esimcse", **nothing), batch_of("esimcse", nothing))
    assert_same_step(ours, step_of(*made("simcse"), batch_of("simcse")))
    repeated = {"repetition": 0.5, "queue": 0}
    other = step_of(*made("esimcse", **repeated), batch_of("esimcse", repeated))
    assert other[0] != pytest.approx(ours[0], rel=1e-3)


@pytest.mark.parametrize("name", ["diffcse", "infocse_aux"])
def test_an_auxiliary_network_of_weight_0_leaves_simcse(name):
    settings = NEW_HEAD | {"weight": 0.0}
    batch, base = batch_of(name, settings), simcse_under(batch_norm_mlp)
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
