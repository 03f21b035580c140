"""What holds for every method, whatever it learns by; and what ties one method to another."""

import json
import re
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from pydantic import ValidationError
from safetensors.torch import load, save
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

from sentemb_core.config.method_list import LISTING
from sentemb_core.config.methods import METHOD_NAMES
from sentemb_core.encoder import encoder as encoders
from sentemb_core.encoder import packing
from sentemb_core.encoder.batching import encode
from sentemb_core.encoder.checkpoint import load_encoder, save_encoder
from sentemb_core.errors import RecipeError
from sentemb_core.methods.catalogue import method_for
from sentemb_core.methods.parts.heads import batch_norm_mlp
from sentemb_core.methods.parts.info_nce import all_pairs
from sentemb_core.methods.parts.pairs import Annotation
from sentemb_core.methods.parts.tokenizer_tools import ids_of, mask_id
from sentemb_core.methods.parts.views import Batch, first
from sentemb_core.methods.sncse import at_token, prompted
from sentemb_core.training import gradients
from sentemb_core.training.batches import sampler_for
from sentemb_core.training.gradients import GradientJob
from sentemb_core.training.loop import learner_of, train
from sentemb_core.training.passes import plain_gradients
from tests import tiny
from tests.interrupted import BreakingOff, InterruptionError, assert_same_weights
from tests.methods.recipes import (
    MOMENTUM,
    NEW_HEAD,
    PROMPT,
    RECIPES,
    SLICES,
    SPANS,
    Recipe,
    annotation,
    config_of,
    corpus,
    made,
    sampler_of,
)

every_recipe = pytest.mark.parametrize("recipe", RECIPES, ids=str)
steady_recipe = pytest.mark.parametrize(
    "recipe", [recipe for recipe in RECIPES if not recipe.perturbed], ids=str
)
every_index = pytest.mark.parametrize("index", range(len(RECIPES)), ids=map(str, RECIPES))
STEPS = 30
REGROUPED = 1e-10
"""Rows that go through the encoder in other company, in float64."""


def trained(recipe, work, *, stop=None, **training):
    """Learner and losses of a training; `stop` breaks it off behind this step."""
    method, learner = made(recipe.name, **recipe.settings)
    config = config_of(recipe.name, recipe.settings, **training)
    on_step = BreakingOff(stop)
    train(learner, method, sampler_of(config, method), config, work, on_step=on_step)
    return learner, on_step.losses


@cache
def thirty_steps(index):
    with TemporaryDirectory() as work:
        return trained(RECIPES[index], Path(work), steps=STEPS)


def named_parameters(learner):
    for role, module in zip(("encoder", "head", "networks"), learner.modules, strict=True):
        for name, weight in module.named_parameters():
            yield f"{role}.{name}", weight


def without_dropout(learner):
    """Heads stay in train mode: batch norm is part of the loss."""
    learner.encoder.eval()
    learner.networks.eval()
    learner.head.train()


@pytest.fixture
def doubled(monkeypatch):
    """A recipe in float64 altogether: what the code rounds to float32 is not rounded here.

    In float32 their matrix products differ by up to 4e-6, which would hide a small mistake.
    """

    def made_double(recipe):
        method, learner, batch = second_step(recipe)
        without_dropout(learner)
        monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
        for module in learner.modules:
            module.double()
        return method, learner, batch

    return made_double


def step_of(method, learner, batch, *, step=0, chunk=None):
    """(loss, name -> gradient, vectors) of one batch."""
    for module in learner.modules:
        module.zero_grad(set_to_none=True)
    done = GradientJob(learner, method, bfloat16=False, seed=3).run(batch, step, chunk)
    found = {name: weight.grad for name, weight in named_parameters(learner)}
    return done.loss, {n: g.clone() for n, g in found.items() if g is not None}, done.vectors


def second_step(recipe):
    """Method, learner and batch once a first step has filled what is remembered.

    The encoder has left what its copies began with, as it would have.
    """
    method, learner = made(recipe.name, **recipe.settings)
    config = config_of(recipe.name, recipe.settings)
    sampler = sampler_of(config, method)
    if method.after_step is not None:
        method.after_step(learner, step_of(method, learner, sampler.batch(0))[2])
    with torch.no_grad():
        for weight in learner.encoder.parameters():
            weight.mul_(1.01)
    return method, learner, sampler.batch(1)


def assert_same_step(one, other, *, within=1e-6, of=""):
    """Equal losses, and equal gradients, taken as one vector, where names begin with `of`."""
    assert one[0] == pytest.approx(other[0], rel=within, abs=within)
    ours, theirs = (
        {name: gradient for name, gradient in found[1].items() if name.startswith(of)}
        for found in (one, other)
    )
    assert ours.keys() == theirs.keys()
    size = norm(ours.values())
    assert size > 0
    assert norm(ours[name] - theirs[name] for name in ours) <= within * size


def norm(tensors):
    return torch.stack([tensor.norm() for tensor in tensors]).norm().item()


def test_no_method_is_passed_over():
    assert {recipe.name for recipe in RECIPES if not recipe.perturbed} == set(METHOD_NAMES)


@every_index
def test_thirty_steps_on_64_sentences_lower_a_finite_loss(index):
    _, losses = thirty_steps(index)
    assert len(losses) == STEPS
    assert np.isfinite(losses).all()
    before, after = np.mean(losses[:5]), np.mean(losses[-5:])
    assert before - after > 0.1 * abs(before)


@every_recipe
def test_gradients_reach_the_declared_roles_and_no_others(recipe, tmp_path):
    start = dict(named_parameters(made(recipe.name, **recipe.settings)[1]))
    learner, _ = trained(recipe, tmp_path, steps=1)
    fixed = {name for name in start if recipe.fixed and name.startswith(recipe.fixed)}
    for name, weight in named_parameters(learner):
        assert (weight.grad is None) == (name in fixed), name
        # a softmax over the one vector of a sentence is 1, whatever it is asked
        unasked = ".memory." in name and ("query" in name or "key" in name)
        assert name in fixed or weight.grad.any() or unasked, name
        if name in fixed:  # momentum moves without a gradient, and nothing else does
            assert weight.equal(start[name]) != name.startswith(MOMENTUM), name


@steady_recipe
@pytest.mark.parametrize("packing", [True, False])
def test_padding_changes_neither_loss_nor_gradient(recipe, packing, doubled, monkeypatch):
    """Every length by itself; then all rows at once: in one row, or padded to the longest."""
    method, learner, batch = doubled(recipe)
    found = []
    packs = encoders.packs
    for slack, packed in ((0, False), (10**6, packing)):
        monkeypatch.setattr(gradients, "TRANSFORMER_SLACK", slack)
        monkeypatch.setattr(encoders, "packs", packs if packed else lambda _: False)
        found.append(step_of(method, learner, batch))
    assert_same_step(*found, within=REGROUPED)


@steady_recipe
def test_the_order_of_a_batch_changes_neither_loss_nor_gradient(recipe, doubled):
    method, learner, batch = doubled(recipe)
    n = len(next(iter(batch.views.values())))
    order = np.roll(np.arange(n), 5) if recipe.neighbourly else None
    assert_same_step(
        step_of(method, learner, batch),
        step_of(method, learner, reordered(batch, order)),
        within=REGROUPED,
    )


def reordered(batch, order=None):
    """The batch with its owners in another order; parts of one owner stay in theirs."""
    owners = {
        name: np.arange(len(v)) if v.owner is None else v.owner for name, v in batch.views.items()
    }
    n = 1 + max(owner.max() for owner in owners.values())
    if order is None:
        order = np.random.default_rng(0).permutation(n)
    assert all(owner.max() == n - 1 for owner in owners.values())
    views = {}
    for name, view in batch.views.items():
        rows = np.concatenate([np.flatnonzero(owners[name] == owner) for owner in order])
        columns = ("document", "group", "text", "wording", "weight")
        lists = ("tokens", "inputs", "targets")
        views[name] = replace(
            view,
            **{c: getattr(view, c)[rows] for c in columns if getattr(view, c) is not None},
            **{c: [getattr(view, c)[k] for k in rows] for c in lists if getattr(view, c)},
            owner=None if view.owner is None else np.argsort(order)[view.owner[rows]],
        )
    return Batch(views, batch.pairs)


@steady_recipe
def test_chunks_give_the_loss_and_gradients_of_the_whole(recipe, doubled):
    method, learner, batch = doubled(recipe)
    whole = step_of(method, learner, batch)
    assert_same_step(step_of(method, learner, batch, chunk=5), whole, within=REGROUPED)


@every_recipe
def test_a_gradient_cache_gives_the_gradients_of_one_piece_under_dropout_too(recipe, monkeypatch):
    method, learner, batch = second_step(recipe)
    learner.encoder.train(method.dropout)
    learner.networks.train(method.dropout)
    cached = step_of(method, learner, batch, chunk=5)
    monkeypatch.setattr(gradients, "cached_gradients", plain_gradients)
    assert_same_step(cached, step_of(method, learner, batch, chunk=5))


@every_recipe
def test_a_run_broken_off_ends_in_the_bits_of_another_run_of_its_seed(recipe, tmp_path):
    plan = {"steps": 3, "checkpoint_every": 2, "batch_size": 6}
    undisturbed, losses = trained(recipe, tmp_path / "one", **plan)
    with pytest.raises(InterruptionError):
        trained(recipe, tmp_path / "other", stop=3, **plan)
    resumed, rest = trained(recipe, tmp_path / "other", **plan)
    assert rest == losses[2:]
    assert_same_weights(undisturbed, resumed)


@every_index
def test_a_trained_embedding_does_not_depend_on_its_batch_mates(index):
    encoder = thirty_steps(index)[0].encoder
    sentences = corpus().sentences[:6]
    together = encode(encoder, sentences)
    alone = np.concatenate([encode(encoder, [sentence]) for sentence in sentences])
    ids, mask = packing.padded(sentences, encoder.pad_id)
    with torch.no_grad():
        padded = encoder.vectors(encoder(ids, mask)).numpy()
    np.testing.assert_allclose(together, alone, atol=2e-6)
    np.testing.assert_allclose(together, padded, atol=2e-6)


@every_index
def test_a_saved_encoder_carries_nothing_of_its_training(index, tmp_path):
    encoder = thirty_steps(index)[0].encoder
    save_encoder(encoder, tmp_path, "card")
    again = load_encoder(tmp_path)
    assert again.state_dict().keys() == tiny.bert().state_dict().keys()
    sentences = corpus().sentences[:6]
    np.testing.assert_array_equal(encode(encoder, sentences), encode(again, sentences))


@pytest.mark.parametrize("name", ["is_bert", "ct", "bce"])
def test_batches_of_one_document_are_counted_and_end_no_training(name, tmp_path):
    method, learner = made(name)
    config = config_of(name, {}, steps=16)
    sampler = sampler_for(config, method, tiny.corpus([200, 2]))
    views = [next(iter(sampler.batch(step).views.values())) for step in range(16)]
    lonely = sum(len(view) for view in views if len(set(view.document)) == 1)
    report = train(learner, method, sampler, config, tmp_path)
    assert lonely > 100
    assert lonely <= report.unopposed_anchors < lonely + 24  # and some of the mixed batches
    assert np.isfinite(report.loss)


def batch_of(name, settings=None, *, documents=None, known=None):
    """The first batch of a training on `documents`."""
    config = config_of(name, settings or {}, batch_size=12)
    method, _ = made(name, **(settings or {}))
    return sampler_for(config, method, documents or corpus(), known or annotation()).batch(0)


def assert_alike(one, other, batch, *, dropout=False, of=""):
    """Two (method, learner) of the same weights take the same step, unrounded as by `doubled`."""
    modules = [module for _, learner in (one, other) for module in learner.modules]
    for _, learner in (one, other):
        without_dropout(learner)
        learner.encoder.train(dropout)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(torch.Tensor, "float", torch.Tensor.double)
        for module in modules:
            module.double()
        assert_same_step(step_of(*one, batch), step_of(*other, batch), of=of)
    for module in modules:
        module.float()


def simcse_under(head):
    """SimCSE with this head in place of its own."""
    method, learner = made("simcse")
    if head is None:
        return replace(method, head=None), replace(learner, head=torch.nn.Identity())
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return replace(method, head=head), replace(learner, head=head(learner.encoder.dim))


def test_without_dropout_both_views_of_simcse_are_the_same_bits_even_behind_its_head():
    method, learner = made("simcse")
    for module in learner.modules:
        module.eval()
    vectors = step_of(method, learner, batch_of("simcse"))[2]
    assert vectors["anchor"].equal(vectors["positive"])


@pytest.mark.parametrize(("name", "settings"), [("cpc", {}), ("conpono", {"window": 1})])
def test_a_bilinear_map_that_is_the_identity_leaves_the_one_way_loss(name, settings):
    plain, mapped = made(name, **settings), made(name, **settings, bilinear=True)
    batch = batch_of(name, settings)
    assert_alike(mapped, plain, batch, of="encoder.")
    with torch.no_grad():
        mapped[1].networks["bilinear"].weight.mul_(torch.arange(16) / 8)
    assert step_of(*mapped, batch)[0] != pytest.approx(step_of(*plain, batch)[0], rel=1e-3)


def test_unperturbed_views_of_consert_are_equal():
    nothing = {"first": (), "second": ()}
    method, learner = made("consert", **nothing)
    learner.encoder.train(method.dropout)
    vectors = step_of(method, learner, batch_of("consert", nothing))[2]
    cosine = F.cosine_similarity(vectors["anchor"], vectors["positive"])
    torch.testing.assert_close(cosine, torch.ones(12), atol=1e-6, rtol=0)
    perturbed, learner = made("consert")
    vectors = step_of(perturbed, learner, batch_of("consert"))[2]
    assert F.cosine_similarity(vectors["anchor"], vectors["positive"]).max() < 0.999


@pytest.mark.parametrize("dropout", [False, True])
def test_dropout_is_what_tells_the_plain_views_of_consert_apart(dropout):
    nothing = {"first": (), "second": (), "dropout": dropout}
    method, learner = made("consert", **nothing)
    learner.encoder.train(method.dropout)
    vectors = step_of(method, learner, batch_of("consert", nothing))[2]
    apart = F.cosine_similarity(vectors["anchor"], vectors["positive"]).min() < 0.999
    assert apart == dropout


def test_two_adversarial_views_want_an_encoder_with_dropout():
    both = {"first": ("adversarial",), "second": ("adversarial",), "dropout": True}
    assert made("consert", **both)[0].dropout
    with pytest.raises(RecipeError):
        made("consert", tiny.bert(dropout=0.0), **both)


def test_ict_under_a_projection_that_is_the_identity_is_ict():
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


def test_mirror_bert_without_a_span_is_simcse_over_all_pairs_and_without_a_head():
    method, learner = simcse_under(None)
    term = all_pairs("anchor", "positive", 0.04, "cosine")
    base = replace(method, terms={"contrast": (1.0, term)}), learner
    ours, batch = made("mirror_bert", span=0), batch_of("mirror_bert", {"span": 0})
    assert_alike(ours, base, batch, dropout=True)
    without_dropout(ours[1])
    vectors = step_of(*ours, batch)[2]
    assert vectors["anchor"].equal(vectors["positive"])


def test_twins_begin_as_one_so_that_the_negatives_alone_teach():
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
@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_hicl_with_one_segment_a_text_is_its_base(base, alpha):
    lines = tiny.corpus([1] * 20)
    lines.sentences = [np.append(line[:-1][:6], 3) for line in lines.sentences]  # as SNCSE's cut
    sliced = {"segment": 15, "longest": 15, "alpha": alpha, "base": base}
    whole, plain = made("hicl", **sliced), made(**base)
    ours = batch_of("hicl", sliced, documents=lines)
    settings = {key: value for key, value in base.items() if key != "name"}
    theirs = batch_of(base["name"], settings, documents=lines)
    for _, learner in (whole, plain):
        learner.encoder.train()
    assert_same_step(step_of(*whole, ours), step_of(*plain, theirs))


def test_no_token_of_a_text_is_lost_between_a_prompt_and_the_encoders_length():
    settings = {"segment": 18, "longest": 40, "base": {"name": "sncse", **PROMPT}}
    long = tiny.corpus([4] * 16)
    batch = batch_of("hicl", settings, documents=long)
    for name in ("anchor segments", "positive segments"):
        view = batch.views[name]
        assert max(map(len, view.tokens)) == tiny.bert().max_length
        for owner in range(12):
            mine = [view.tokens[row][3:-4] for row in np.flatnonzero(view.owner == owner)]
            document = int(view.document[view.owner == owner][0])
            sentences = long.sentences[long.offsets[document] : long.offsets[document + 1]]
            text = np.concatenate([sentence[1:-1] for sentence in sentences])
            assert np.concatenate(mine).tolist() == text[:38].tolist()


@pytest.mark.parametrize(
    ("base", "held"),
    [({"name": "simcse"}, 64), ({"name": "esimcse"}, 64), ({"name": "sncse", **PROMPT}, 18)],
    ids=["simcse", "esimcse", "sncse"],
)
def test_segments_longer_than_the_encoder_reads_are_cut_and_told(base, held, caplog):
    settings = {"segment": 80, "longest": 300, "base": base}
    batch = batch_of("hicl", settings, documents=tiny.corpus([40] * 12))
    assert {max(map(len, view.tokens)) for view in batch.views.values() if view.tokens} == {held}
    assert np.isfinite(step_of(*made("hicl", **settings), batch)[0])
    assert (held, 80) in [record.args for record in caplog.records]
    caplog.clear()
    made("hicl", **settings | {"segment": held})
    assert (held, held) not in [record.args for record in caplog.records]


def test_hicl_with_several_segments_is_not_its_base():
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


@pytest.mark.parametrize("name", ["diffcse", "infocse_aux"])
def test_an_auxiliary_network_without_weight_leaves_simcse_under_batch_norm(name):
    settings = NEW_HEAD | {"weight": 0.0}
    batch, base = batch_of(name, settings), simcse_under(batch_norm_mlp)
    assert_alike(made(name, **settings), base, batch, of="encoder.")
    weighty = step_of(*made(name, **settings | {"weight": 1.0}), batch)
    assert weighty[0] != pytest.approx(step_of(*base, batch)[0], rel=1e-3)


def gradients_of_aux(doubled, weight, *, cut=False):
    """Name -> gradient of InfoCSE-aux at this lambda; `cut`: none of it through the vectors."""
    method, learner, batch = doubled(Recipe("infocse_aux", NEW_HEAD | {"weight": weight}))
    if cut:
        terms = method.sample_terms.items()
        unaware = {n: (w, replace(term, loss=detached(term.loss))) for n, (w, term) in terms}
        method = replace(method, sample_terms=unaware)
    return step_of(method, learner, batch)[1]


def detached(loss):
    """A loss of single rows that sends nothing back through the sentence vectors."""

    def unaware(learner, rows):
        reading = replace(rows.reading, pooled=rows.reading.pooled.detach())
        return loss(learner, replace(rows, reading=reading))

    return unaware


def difference(one, other, of):
    """Of two gradients as vectors, where names begin with `of`."""
    assert one.keys() == other.keys()
    return norm(one[name] - other[name] for name in one if name.startswith(of))


def test_the_gradient_of_infocse_aux_is_linear_in_lambda(doubled):
    nothing, part, whole = (gradients_of_aux(doubled, weight) for weight in (0.0, 0.25, 1.0))
    between = {name: 0.75 * nothing[name] + 0.25 * whole[name] for name in whole}
    for of in ("encoder.", "networks."):
        assert difference(part, between, of) < REGROUPED < 1e-3 < difference(part, nothing, of)


def test_cut_at_its_sentence_vectors_infocse_aux_is_simcse_for_the_encoder(doubled):
    nothing, whole = (gradients_of_aux(doubled, weight) for weight in (0.0, 1.0))
    cut = gradients_of_aux(doubled, 1.0, cut=True)
    assert difference(cut, nothing, "encoder.") < REGROUPED < difference(whole, nothing, "encoder.")
    assert difference(cut, whole, "networks.") < REGROUPED < difference(cut, nothing, "networks.")


def test_sncse_without_its_margin_is_simcse_inside_prompts():
    method, learner = made("simcse")
    encoder = learner.encoder
    behind = [*ids_of(encoder, PROMPT["behind"]), mask_id(encoder), *ids_of(encoder, PROMPT["end"])]
    at_mask = at_token(mask_id(encoder))
    inside = {
        view: prompted(first, ids_of(encoder, before), behind, 18, special_tokens=True)
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


def test_infocse_aux_under_the_papers_head_is_simcse_and_masks():
    settings = NEW_HEAD | {"head": "tanh", "weight": 0.0}
    batch, base = batch_of("infocse_aux", settings), made("simcse")
    assert_alike(made("infocse_aux", **settings), base, batch, of="encoder.")


@pytest.mark.parametrize("name", ["clm_autoencoder", "mlm_autoencoder"])
def test_a_decoder_without_weight_leaves_simcse_without_a_head(name):
    settings = {"simcse": 1.0, "weight": 0.0}
    assert_alike(
        made(name, **settings), simcse_under(None), batch_of(name, settings), of="encoder."
    )


@pytest.mark.parametrize(
    ("without", "other", "own", "network"),
    [
        ("rtd", "infocse_aux", {}, "auxiliary"),
        ("rtd", "infocse_aux", {"detach": False}, "auxiliary"),
        ("mlm", "diffcse", {}, "discriminator"),
        ("mlm", "diffcse", {"sample": "multinomial"}, "discriminator"),
    ],
)
def test_rtd_and_mlm_without_one_is_the_other(without, other, own, network):
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
def test_rtd_and_mlm_keep_one_frozen_encoder(detach):
    """Lower layers that learn are their own; nothing is ever the learner's."""
    learner = made("rtd_mlm", **NEW_HEAD, detach=detach)[1]
    lower, editor = lower_layers_and_editor(learner)
    pointers = {weight.data_ptr() for weight in editor.parameters()}
    own = {weight.data_ptr() for weight in lower.parameters()}
    assert own <= pointers if detach else own.isdisjoint(pointers)
    assert pointers.isdisjoint({weight.data_ptr() for weight in learner.encoder.parameters()})
    saved = [name.partition(".")[2] for name in learner.networks.state_dict()]
    assert any(name.startswith("lower.") for name in saved) != detach
    assert sum(name.startswith("edit.encoder.") for name in saved) == len(pointers)


def test_rtd_and_mlm_are_restored_with_the_frozen_encoder_of_the_checkpoint():
    known = made("rtd_mlm", **NEW_HEAD)[1]
    fresh = made("rtd_mlm", tiny.bert(seed=1), **NEW_HEAD)[1]
    fresh.networks.load_state_dict(load(save(known.networks.state_dict())))
    for one, other in zip(*map(lower_layers_and_editor, (known, fresh)), strict=True):
        for ours, theirs in zip(one.parameters(), other.parameters(), strict=True):
            assert ours.equal(theirs)


def lower_layers_and_editor(learner):
    """The auxiliary network's, then the generator's."""
    return learner.networks["auxiliary"].lower, learner.networks["discriminator"].edit.encoder


def test_idc_differs_from_conpono_in_its_pairs_alone():
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


TRANSFORMERS_ALONE = [entry.name for entry in LISTING if not entry.takes_static]


@pytest.mark.parametrize(
    ("name", "settings"),
    [(name, {}) for name in TRANSFORMERS_ALONE]
    + [("mirror_bert", {"drophead": 0.2}), ("declutr", {**SPANS, "mlm": 0.0})],
)
def test_a_static_encoder_is_refused_and_told_what_it_can_learn_by(name, settings):
    with pytest.raises(RecipeError, match=name):
        made(name, tiny.static(), **settings)


SIZES = {"vocab_size": tiny.VOCABULARY + 1, "max_position_embeddings": 64}
WIDE = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
OF_OTHER_KINDS = {
    "a stack of another name": DistilBertModel(
        DistilBertConfig(**SIZES, dim=16, n_layers=2, n_heads=2, hidden_dim=32)
    ),
    "a table of another width": ElectraModel(ElectraConfig(**SIZES, **WIDE, embedding_size=8)),
    "layers that do not come apart": MPNetModel(MPNetConfig(**SIZES, **WIDE)),
}


@every_recipe
@pytest.mark.parametrize("kind", OF_OTHER_KINDS)
def test_networks_that_do_not_fit_an_encoder_are_refused_with_the_recipe(recipe, kind):
    """A plan makes the recipe alone; the networks come after corpus and vectors."""
    encoder = tiny.bert()
    encoder.backbone = deepcopy(OF_OTHER_KINDS[kind])
    try:
        method = method_for(config_of(recipe.name, recipe.settings).method, encoder)
    except RecipeError as refusal:
        unaware, _ = made(recipe.name, **recipe.settings)
        if unaware.networks is None:  # MPNet's order, which no shuffle moves, is no network's fault
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
    encoder.backbone = deepcopy(OF_OTHER_KINDS["a stack of another name"])
    with pytest.raises(RecipeError, match=r"DistilBert.*training\.method\.mlm=0"):
        made(name, encoder, **settings)
    assert made(name, encoder, **settings | {"mlm": 0.0})[0].name == name


@pytest.mark.parametrize("entry", [e for e in LISTING if e.name not in TRANSFORMERS_ALONE])
def test_every_other_method_takes_a_static_encoder(entry):
    assert made(entry.name, tiny.static())[0].name == entry.name


@pytest.mark.parametrize(
    ("name", "settings", "reason"),
    [
        ("declutr", {"shortest": 63}, r"63 to 512 tokens; this encoder holds 62, .*to 62 or less"),
        (
            "sncse",
            {**PROMPT, "before": "w5 " * 10},
            "leaves room for the text; found one of 13 tokens, .* 3 for a negation",
        ),
        (
            "hicl",
            {"segment": 7, "longest": 24, "base": {"name": "sncse", **PROMPT}},
            "room for its text; found one of 7 tokens, of which prompt and special tokens take 7",
        ),
        ("consert", {"first": ("adversarial", "shuffle")}, "let it stand alone"),
        (
            "consert",
            {"first": ("adversarial",), "second": ("adversarial",)},
            "differ by dropout alone; found both without: set method.dropout to true",
        ),
        ("simcse", {"mlm": 0.1, "mask_rate": 0.0}, r"\b0\.0\b"),
        ("declutr", {**SPANS, "mask_rate": 0.0}, r"\b0\.0\b"),
        ("clm_autoencoder", {"weight": 0.0}, "weight 0 for rewritten"),
        ("consert", {"weight": 0.0}, "weight 0"),
        ("infocse_aux", {}, "random_head=true"),
        ("diffcse", {}, "random_head=true"),
        ("rtd_mlm", {}, "random_head=true"),
        ("infocse_aux", {**NEW_HEAD, "skip_from": 3}, "layer"),
        ("rtd_mlm", {**NEW_HEAD, "skip_from": 3}, "layer"),
        ("condenser", {"skip_from": 3}, "layer"),
    ],
)
def test_parts_that_cannot_go_together_are_refused_before_a_step(name, settings, reason):
    with pytest.raises(RecipeError, match=reason):
        method_for(config_of(name, settings).method, tiny.bert())


@pytest.mark.parametrize(("removal", "queries"), [(0.0, [0, 1, 2, 3, 4]), (0.9, [1, 2, 3, 4])])
def test_a_sentence_alone_is_a_cloze_where_none_is_ever_removed(removal, queries):
    lone = tiny.corpus([1, 2, 2])
    method, learner = made("ict", removal=removal)
    assert method.pairs(lone, None).i.tolist() == queries
    config = config_of("ict", {"removal": removal}, batch_size=len(queries))
    batch = sampler_for(config, method, lone).batch(0)
    assert np.isfinite(step_of(method, learner, batch)[0])


@pytest.mark.parametrize("name", ["ict", "cpc"])
def test_a_context_that_the_encoders_positions_cut_is_told_once(name, caplog):
    made(name, context_tokens=64)
    assert not caplog.records
    made(name)
    assert [record.args for record in caplog.records] == [(64, 288)]


def test_spans_that_the_encoders_positions_cut_are_told_once(caplog):
    whole, cut = (made("declutr", longest=longest)[0] for longest in (62, 512))
    assert [record.args for record in caplog.records] == [(62, 512)]
    least = [len(method.pairs(tiny.corpus([62] * 8), None).i) for method in (whole, cut)]
    assert least[0] == least[1]


def test_sg_opt_tells_an_encoder_that_starts_as_one_of_its_own_positives(caplog):
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


@pytest.mark.parametrize(
    ("backbone", "is_moved", "is_added"),
    [
        (DebertaV2Model(DebertaV2Config(**SMALL, position_biased_input=False)), False, False),
        (DebertaV2Model(DebertaV2Config(**SMALL, relative_attention=True)), False, True),
        (MPNetModel(MPNetConfig(**SMALL)), False, True),
        (RoFormerModel(RoFormerConfig(**SMALL)), False, False),
        (ModernBertModel(ModernBertConfig(**SMALL, pad_token_id=0)), True, False),
    ],
)  # fmt: skip
def test_positions_in_the_attention_cannot_be_shuffled_nor_tell_a_decoder_the_order(
    backbone, is_moved, is_added
):
    encoder = tiny.bert()
    encoder.backbone = backbone
    assert_made_if(is_moved, "consert", encoder, second=["shuffle"])
    assert_made_if(is_added, "mlm_autoencoder", encoder)


def assert_made_if(wanted, name, encoder, **settings):
    if wanted:
        assert made(name, encoder, **settings)
        return
    with pytest.raises(RecipeError, match="positions"):
        made(name, encoder, **settings)


def test_a_decoder_of_texts_without_a_first_token_in_common_deletes_nothing():
    encoder = tiny.bert()
    told = json.loads(encoder.tokenizer.to_str()) | {"post_processor": None}
    encoder.tokenizer = Tokenizer.from_str(json.dumps(told))
    assert not encoder.framed
    with pytest.raises(RecipeError, match=r"method\.noise=0"):
        made("clm_autoencoder", encoder, noise=0.6)
    assert made("clm_autoencoder", encoder)


def test_heads_that_nobody_knows_to_silence_are_refused_with_the_recipe():
    encoder = tiny.bert()
    encoder.backbone = T5EncoderModel(T5Config(vocab_size=81, d_model=16, d_kv=8, num_heads=2))
    with pytest.raises(RecipeError, match="T5EncoderModel"):
        made("mirror_bert", encoder, drophead=0.2)
    assert made("mirror_bert", encoder)[0].dropout


def test_means_over_padding_are_told_where_another_pooling_is_judged(caplog):
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


def test_positions_that_leave_no_room_for_repeated_words_are_told(caplog):
    nothing = {"repetition": 0.0}
    for positions, settings in ((22, {}), (18, nothing), (18, nothing | {"rule": "paper"})):
        made("esimcse", with_positions(positions), **settings)
    assert not caplog.records
    made("esimcse", with_positions(20))
    assert [record.args for record in caplog.records] == [(18, 2, 4, 20, 22)]


def test_segments_repeat_words_where_whole_sentences_have_no_room(caplog):
    over = {"base": {"name": "esimcse"}}
    made("hicl", with_positions(18), **over, segment=16)  # as long as the encoder's sentences
    assert [record.args[:3] for record in caplog.records] == [(16, 2, 4)]
    made("hicl", with_positions(18), **over, segment=12)
    assert len(caplog.records) == 1


def test_the_papers_rule_repeats_two_words_of_a_short_sentence():
    corpus = tiny.corpus([1] * 40)
    corpus.sentences = [np.array([2, 10 + k, 3]) for k in range(40)]
    for rule, longest in (("code", 3), ("paper", 4)):
        batch = batch_of("esimcse", {"rule": rule}, documents=corpus)
        assert max(map(len, batch.views["positive"].tokens)) == longest


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
def test_networks_join_an_encoder_whose_dense_layer_changes_the_width(recipe):
    encoder = tiny.bert()
    encoder.layers = torch.nn.Sequential(torch.nn.Linear(encoder.hidden_dim, 6))
    batch = batch_of(recipe.name, recipe.settings)
    loss, found, _ = step_of(*made(recipe.name, encoder, **recipe.settings), batch)
    assert np.isfinite(loss)
    entrances = [gradient for name, gradient in found.items() if ".entrance." in name]
    assert any(gradient.any() for gradient in entrances) or recipe.name in ("is_bert", "sncse")


@pytest.mark.parametrize("width", [6, 16])
def test_sg_opt_refuses_an_encoder_whose_vectors_left_the_space_of_its_states(width):
    encoder = tiny.bert()
    encoder.layers = torch.nn.Sequential(torch.nn.Linear(encoder.hidden_dim, width))
    with pytest.raises(RecipeError, match=f"16 to {width} "):
        made("sg_opt", encoder)


@pytest.mark.parametrize(
    "name", ["condenser", "infocse_aux", "diffcse", "rtd_mlm", "mlm_autoencoder"]
)
def test_a_method_that_lives_by_masks_takes_no_rate_of_zero(name):
    with pytest.raises(ValidationError, match=f"method.{name}.mask_rate"):
        config_of(name, {"mask_rate": 0.0})


@pytest.mark.parametrize("name", ["ict", "cpc"])
def test_a_context_holds_a_sentence_at_least(name):
    with pytest.raises(ValidationError, match=f"method.{name}.context_tokens"):
        config_of(name, {"context_tokens": 15})


@pytest.mark.parametrize("shape", [{}, {"head_layers": 1}], ids=["usual", "of one layer"])
@pytest.mark.parametrize("name", ["infocse_aux", "rtd_mlm"])
def test_the_head_of_a_condenser_stage_begins_what_continues_it(name, shape):
    stage = made("condenser", **shape)[1].networks["condenser"].state_dict()
    config = config_of(name, shape)
    encoder = tiny.bert()
    method = method_for(config.method, encoder, stage)
    filler = learner_of(method, encoder, seed=5).networks["auxiliary"].filler.state_dict()
    assert all(weight.equal(stage[name]) for name, weight in filler.items())
    of_another = {name: weight[:1] for name, weight in stage.items()}
    with pytest.raises(RecipeError):
        learner_of(method_for(config.method, encoder, of_another), encoder, seed=5)
