"""One step of every recipe is what its card says: loss and gradients equal a loop over sentences.

Everywhere else terms and heads are held against loops by themselves; here it is how a recipe puts
them together: which views, masks, weights, heads and networks, under every setting that the loss
depends on. What a setting asks of views and pairs is in test_requests.py.
"""

import copy
import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from sentemb_core.config.methods import METHOD_NAMES
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.methods.catalogue import method_for
from sentemb_core.methods.parts.method import Learner
from sentemb_core.methods.parts.pairs import Annotation
from sentemb_core.training.batches import sampler_for
from sentemb_core.training.gradients import GradientJob
from sentemb_core.training.loop import learner_of
from tests import tiny
from tests.methods.cards import CARDS, CHANCE, Scene
from tests.methods.recipes import NEW_HEAD, PROMPT, SLICES, STATIC, Recipe, config_of

PLAIN = {"first": (), "second": ()}
SPANS = {"shortest": 2, "longest": 4, "anchors": 2}
DEEPER = {"skip_from": 2, "head_layers": 1}
LONGER = {"longest": 40}
PROMPTED = LONGER | {"segment": 12}
FRAMED = {"pooling": "weighted_with_frame"}
TWO_EDITS = ("dropout", "feature_cutoff")
MARGINS = {"weight": 0.5, "alpha": 0.02, "beta": 0.2}

CASES = (
    Recipe("simcse"),
    Recipe("simcse", {"temperature": 0.3, "mlm": 0.2}),
    Recipe("consert", PLAIN),
    Recipe("consert", PLAIN | {"temperature": 0.3, "weight": 0.5}),
    Recipe("consert"),
    Recipe("consert", {"first": ("token_cutoff", "shuffle"), "second": TWO_EDITS, "rate": 0.3}),
    Recipe("consert", {"first": ("adversarial",), "epsilon": 0.3}),
    Recipe("consert", {"second": ("adversarial",), "temperature": 0.3, "weight": 0.5}),
    Recipe("consert", {"first": ("adversarial",), "second": ("adversarial",), "dropout": True}),
    Recipe("mirror_bert"),
    Recipe("mirror_bert", {"drophead": 0.5}),
    Recipe("mirror_bert", {"temperature": 0.3, "pooling": "mean_with_pads"}),
    Recipe("mirror_bert", {"drophead": 0.5, "pooling": "mean_with_pads"}),
    Recipe("ict"),
    Recipe("ict", {"temperature": 0.3, "projection": 8}),
    Recipe("ict", {"context_as": "mean_of_sentences", "projection": 8}),
    Recipe("cpc"),
    Recipe("cpc", {"temperature": 0.3, "bilinear": True}),
    Recipe("conpono"),
    Recipe("conpono", {"temperature": 0.3, "bilinear": True}),
    Recipe("declutr", SPANS),
    Recipe("declutr", SPANS | {"temperature": 0.3, "mlm": 0.2, "positives": 3}),
    Recipe("declutr", SPANS | {"mlm": 0.0, "positives": 1}),
    Recipe("infocse_idc"),
    Recipe("infocse_idc", {"temperature": 0.3, "batches": "cluster"}),
    Recipe("fine_tune"),
    Recipe("fine_tune", {"temperature": 0.3, "sentences": 2}),
    Recipe("condenser"),
    Recipe("condenser", DEEPER),
    Recipe("infocse_aux", NEW_HEAD),
    Recipe("infocse_aux", NEW_HEAD | DEEPER | {"temperature": 0.3, "weight": 0.5, "head": "tanh"}),
    Recipe("infocse_aux", NEW_HEAD | {"weight": 0.5, "detach": False}),
    Recipe("diffcse", NEW_HEAD),
    Recipe("diffcse", NEW_HEAD | {"temperature": 0.3, "weight": 0.5}),
    Recipe("rtd_mlm", NEW_HEAD),
    Recipe("rtd_mlm", NEW_HEAD | DEEPER | {"temperature": 0.3, "rtd": 0.5, "mlm": 0.2}),
    Recipe("esimcse"),
    Recipe("esimcse", {"temperature": 0.3, "queue": 0}),
    Recipe("sncse", PROMPT),
    Recipe("sncse", PROMPT | MARGINS | {"temperature": 0.3}),
    Recipe("hicl", SLICES),
    Recipe("hicl", SLICES | {"alpha": 0.2, "beta": 0.3}),
    Recipe("hicl", SLICES | {"alpha": 0.5, "siblings": "negative", "pooling": "plain"}),
    Recipe("hicl", SLICES | {"alpha": 0.5, "siblings": "positive", "denominator": "average"}),
    Recipe("hicl", SLICES | {"alpha": 0.5, "siblings": "negative", "negatives": "first"}),
    Recipe("hicl", SLICES | {"beta": 0.3, "pooling": "weighted_with_frame", "head": "before"}),
    Recipe("hicl", SLICES | {"beta": 0.3, "base": {"name": "simcse", "mlm": 0.2}}),
    Recipe("hicl", SLICES | {"beta": 0.3, "base": {"name": "esimcse", "temperature": 0.3}}),
    Recipe("hicl", PROMPTED | {"beta": 0.3, "base": {"name": "sncse"} | PROMPT | MARGINS}),
    Recipe("hicl", PROMPTED | FRAMED | {"beta": 0.3, "base": {"name": "sncse"} | PROMPT | MARGINS}),
    Recipe("clm_autoencoder"),
    Recipe("clm_autoencoder", {"weight": 0.5, "per": "target", "tied": True, "noise": 0.6}),
    Recipe("clm_autoencoder", {"weight": 0.5, "simcse": 0.3, "temperature": 0.3, "layers": 1}),
    Recipe("mlm_autoencoder"),
    Recipe("mlm_autoencoder", {"weight": 0.5, "simcse": 0.3, "temperature": 0.3, "layers": 1}),
    Recipe("bce"),
    Recipe("bce", {"temperature": 0.3}),
    Recipe("ct"),
    Recipe("ct", {"negatives": 2}),
    Recipe("is_bert"),
    Recipe("sg_opt", {"width": 32}),
    Recipe("sg_opt", {"width": 32, "temperature": 0.3, "l2": 0.5}),
)


def small_corpus(*, special: bool) -> tiny.TinyCorpus:
    """So few documents that a batch has several sentences of one; two have the same words."""
    found = tiny.corpus([4] * 5, special=special)
    found.sentences[4:8] = found.sentences[:4]
    return found


POSITION = np.arange(20) % 4
FIRST = np.flatnonzero(POSITION < 2)
KNOWN = Annotation(FIRST, FIRST + 2, (POSITION % 2).astype(np.int32))
"""Sentences of even and of odd position belong together."""


def three_layers(similarity: str) -> Encoder:
    """So that a Condenser's head can sit on either of two."""
    encoder = tiny.bert(similarity=similarity)
    encoder.backbone.encoder.layer.append(copy.deepcopy(encoder.backbone.encoder.layer[0]))
    return encoder


@pytest.fixture
def double(monkeypatch):
    """What the code rounds to float32 is not rounded: a wrong weight of 1e-5 shows."""
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)


@pytest.fixture
def fixed_chance(monkeypatch):
    """Every row draws the same numbers in any batch."""

    def rand(*shape: int | torch.Size, device: torch.device) -> Tensor:
        rows, *own = torch.empty(*shape).shape
        return CHANCE[: math.prod(own)].view(own).expand(rows, *own).to(device)

    monkeypatch.setattr(torch, "rand", rand)


def scene_of(recipe: Recipe, similarity: str, kind: str):
    """Method and scene of a step in the middle of a training, without dropout."""
    static = kind == "static"
    encoder = tiny.static(similarity=similarity) if static else three_layers(similarity)
    encoder = encoder.double()
    config = config_of(recipe.name, recipe.settings, batch_size=8)
    method = method_for(config.method, encoder)
    who = learner_of(method, encoder, seed=0)
    for module in who.modules:
        module.double()
    start = {name: weight.detach().clone() for name, weight in encoder.named_parameters()}
    for name, weight in encoder.named_parameters():
        weight.requires_grad_(not name.startswith(method.frozen))
    moved_on(who)
    keys = torch.randn(3, encoder.dim, dtype=torch.float64)
    if "queue" in who.networks:
        who.networks["queue"].push(keys)
    batch = sampler_for(config, method, small_corpus(special=not static), KNOWN).batch(0)
    return method, Scene(config.method, who, batch, keys, start)


def moved_on(who: Learner) -> None:
    """Weights away from where they began: copies are no longer equal, nor maps the identity."""
    torch.manual_seed(0)
    for module in who.modules:
        with torch.no_grad():
            for weight in module.parameters():
                if weight.requires_grad:
                    weight += 0.05 * torch.randn_like(weight)
        module.eval()
    who.head.train()  # batch norm is part of the loss
    for part in who.head.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0


def gradients_of(who: Learner) -> dict[str, Tensor]:
    """Of all that learns, and it forgets them."""
    parts = zip(("encoder", "head", "networks"), who.modules, strict=True)
    named = [(f"{role}.{name}", w) for role, m in parts for name, w in m.named_parameters()]
    found = {name: weight.grad.clone() for name, weight in named if weight.grad is not None}
    for _, weight in named:
        weight.grad = None
    return found


def test_every_method_has_a_card_and_a_case():
    assert {case.name for case in CASES} == CARDS.keys() == set(METHOD_NAMES)


@pytest.mark.usefixtures("double", "fixed_chance")
@pytest.mark.parametrize(
    ("recipe", "kind"),
    [*((case, "transformer") for case in CASES), *((case, "static") for case in STATIC)],
    ids=str,
)
def test_a_step_is_the_loss_and_the_gradient_of_its_card(recipe, kind):
    number = [case for case in CASES if case.name == recipe.name].index(recipe)
    similarity = ("cosine", "dot")[number % 2]  # so both, for every method
    method, scene = scene_of(recipe, similarity, kind)
    loss = GradientJob(scene.who, method, bfloat16=False, seed=0).run(scene.batch, 0, None).loss
    ours = gradients_of(scene.who)
    expected = CARDS[recipe.name](scene)
    expected.backward()
    theirs = gradients_of(scene.who)
    assert loss == pytest.approx(expected.item(), rel=1e-10)
    assert ours.keys() == theirs.keys()
    size = max(gradient.abs().max().item() for gradient in theirs.values())
    assert size > 0
    for name, gradient in ours.items():
        torch.testing.assert_close(gradient, theirs[name], rtol=0, atol=1e-9 * size, msg=name)
