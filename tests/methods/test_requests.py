"""The effect of a setting before the loss: on pairs, views, networks and dropout."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, get_args

import numpy as np
import pytest
import torch
from torch import nn

from sentemb_core.config.methods import METHOD_NAMES, AnyMethod
from sentemb_core.methods.catalogue import method_for
from sentemb_core.methods.parts.method import Learner, Method
from sentemb_core.methods.parts.pairs import Annotation
from sentemb_core.methods.parts.views import IGNORED, Batch, View
from sentemb_core.training.batches import sampler_for
from sentemb_core.training.loop import learner_of
from tests import tiny
from tests.methods.recipes import NEW_HEAD, PROMPT, Recipe, config_of
from tests.methods.test_wiring import CASES, three_layers

SPANS = {"shortest": 3, "longest": 6, "anchors": 1}
SLICES = {"segment": 8, "longest": 24}
CLUSTERS = {"batches": "cluster"}
WITH_MASKS = {"mlm": 0.1}


@dataclass(frozen=True)
class Step:
    """Method, learner and batch of a first step."""

    method: Method
    who: Learner
    batch: Batch

    def view(self, name: str) -> View:
        return self.batch.views[name]


def documents() -> tiny.TinyCorpus:
    """Sixteen of six sentences; each has ten words of three letters, a document no word twice.

    Words are not marked, so a space stands before each.
    """
    rng = np.random.default_rng(0)
    found = tiny.corpus([6] * 16)
    found.sentences = [
        np.array([2, *words, 3])
        for _ in range(16)
        for words in rng.permutation(np.arange(10, 70)).reshape(6, 10)
    ]
    return found


POSITION = np.arange(96) % 6
"""Of a sentence in its document."""

FIRST = np.flatnonzero(POSITION < 4)
KNOWN = Annotation(FIRST, FIRST + 2, (POSITION % 2).astype(np.int32))


def step_of(name: str, settings: dict[str, Any]) -> Step:
    config = config_of(name, settings, batch_size=48)
    encoder = tiny.bert()
    method = method_for(config.method, encoder)
    batch = sampler_for(config, method, documents(), KNOWN).batch(0)
    return Step(method, learner_of(method, encoder, seed=0), batch)


# observations of a step


def gaps(step: Step) -> set[int]:
    """Sentences between the two of a pair."""
    pairs = step.method.pairs(documents(), None)
    return set((pairs.j - pairs.i).tolist())


def lengths(name: str) -> Callable[[Step], tuple[int, int]]:
    """Of the shortest and the longest row."""

    def seen(step: Step) -> tuple[int, int]:
        found = [len(row) for row in step.view(name).tokens]
        return min(found), max(found)

    return seen


def most_rows(name: str, column: str) -> Callable[[Step], int]:
    """That share a document, a group or an owner."""

    def seen(step: Step) -> int:
        return int(np.unique(getattr(step.view(name), column), return_counts=True)[1].max())

    return seen


def contexts_with_their_sentence(step: Step) -> float:
    pairs = zip(step.view("anchor").tokens, step.view("positive").tokens, strict=True)
    return float(np.mean([set(row) <= set(text) for row, text in pairs]))


def most_hidden(step: Step) -> int:
    """Tokens that one mask stands for."""
    pairs = zip(step.view("anchor").tokens, step.view("positive").tokens, strict=True)
    return max(len(row) - len(seen) + 1 if tiny.MASK in seen else 0 for row, seen in pairs)


def most_repeated(step: Step) -> int:
    pairs = zip(step.view("anchor").tokens, step.view("positive").tokens, strict=True)
    return max(len(seen) - len(row) for row, seen in pairs)


def share_of_targets(step: Step) -> float:
    """Of all tokens: to this vocabulary none is special."""
    rows = [row for view in step.batch.views.values() for row in view.targets or ()]
    return float((np.concatenate(rows) != IGNORED).mean())


def share_deleted(step: Step) -> float:
    view = step.view("anchor")
    pairs = zip(view.tokens, view.targets, strict=True)
    return float(np.mean([1 - (len(row) - 2) / (len(text) - 2) for row, text in pairs]))


def prompts(step: Step) -> tuple[str, ...]:
    """Around the text of every view."""
    spelt = {k: word for word, k in step.who.encoder.tokenizer.get_vocab().items()}
    found = []
    for name in ("anchor", "positive", "negation"):
        view = step.view(name)
        before, behind = view.frame
        row = view.tokens[0].tolist()
        words = [*row[1:before], *row[len(row) - behind : -1]]
        found.append(" ".join(spelt[word] for word in words))
    return tuple(found)


def places(step: Step) -> str:
    """How all positives lie to their anchor: in it, or touching it at one end, or anyhow."""
    own = step.view("positives").owner
    anchors = [step.view("anchor").tokens[k] for k in own]
    pairs = list(zip(step.view("positives").tokens, anchors, strict=True))
    if all(set(row[1:-1]) <= set(anchor) for row, anchor in pairs):
        return "subsuming"
    if all(set(row[1:-1]).isdisjoint(anchor[1:-1]) for row, anchor in pairs):
        return "adjacent"
    return "any"


def longest_text(step: Step) -> int:
    """Tokens of one, without those that its segments add."""
    view = step.view("anchor segments")
    content = [len(row) - 2 for row in view.tokens]
    return 2 + int(np.bincount(view.owner, weights=content).max())


def network(path: str) -> Callable[[Step], Any]:
    """A network of the step, or what it has under a name."""

    def seen(step: Step) -> Any:
        found: Any = step.who.networks
        for name in path.split("."):
            found = found[name] if isinstance(found, nn.ModuleDict) else getattr(found, name)
        return len(found) if isinstance(found, nn.ModuleList | torch.Tensor) else found

    return seen


def begins_as_the_encoder(step: Step) -> bool:
    parts = zip(
        step.who.networks["momentum"].parameters(), step.who.encoder.parameters(), strict=True
    )
    return all(own.equal(other) for own, other in parts)


def lower_layers_learn(step: Step) -> bool:
    lower = step.who.networks["auxiliary"].lower
    return any(weight.requires_grad for weight in lower.parameters())


def width_of_head(step: Step) -> int:
    return step.who.head(torch.zeros(1, 16)).shape[1]


def near(share: float) -> Any:
    return pytest.approx(share, abs=0.06)


@dataclass(frozen=True)
class Request:
    """The expected effect of each value of one setting."""

    name: str
    setting: str
    seen: Callable[[Step], Any]
    expected: dict[Any, Any]
    others: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.name}-{self.setting}"


RATES = {0.15: near(0.15), 0.6: near(0.6)}
REQUESTS = (
    Request("simcse", "mask_rate", share_of_targets, RATES, WITH_MASKS),
    Request("declutr", "mask_rate", share_of_targets, RATES, SPANS),
    Request("condenser", "mask_rate", share_of_targets, RATES),
    Request("infocse_aux", "mask_rate", share_of_targets, RATES, NEW_HEAD),
    Request("diffcse", "mask_rate", share_of_targets, RATES, NEW_HEAD),
    Request("rtd_mlm", "mask_rate", share_of_targets, RATES, NEW_HEAD),
    Request("mlm_autoencoder", "mask_rate", share_of_targets, RATES),
    Request("mirror_bert", "span", most_hidden, {0: 0, 1: 1, 12: 4}),
    Request("ict", "removal", contexts_with_their_sentence, {0.0: 1.0, 1.0: 0.0}),
    Request("ict", "context_tokens", lengths("positive"), {24: (22, 22), 40: (32, 32)}),
    Request("cpc", "context_tokens", lengths("positive"), {24: (12, 24), 40: (12, 40)}),
    Request("conpono", "window", gaps, {1: {1}, 3: {1, 2, 3}}),
    Request("declutr", "anchors", most_rows("anchor", "document"), {1: 1, 2: 2}, SPANS),
    Request("declutr", "positives", most_rows("positives", "owner"), {1: 1, 3: 3}, SPANS),
    Request("declutr", "shortest", lengths("anchor"), {6: (8, 8), 5: (7, 7)}, SPANS),
    Request("declutr", "longest", lengths("anchor"), {3: (5, 5)}, SPANS),
    Request(
        "declutr",
        "strategy",
        places,
        {where: where for where in ("adjacent", "subsuming", "any")},
        SPANS | {"mlm": 0.0},
    ),
    Request(
        "infocse_idc", "max_per_cluster", most_rows("sentence", "group"), {2: 2, 3: 3}, CLUSTERS
    ),
    Request("fine_tune", "sentences", most_rows("sentence", "owner"), {2: 2, 4: 4}),
    Request("esimcse", "repetition", most_repeated, {0.0: 0, 0.4: 3, 0.6: 6}),
    Request("esimcse", "repetition", most_repeated, {0.0: 0, 0.1: 2, 0.4: 4}, {"rule": "paper"}),
    Request("esimcse", "rule", most_repeated, {"code": 2, "paper": 3}),
    Request("esimcse", "queue", network("queue.vectors"), {5: 5, 160: 160}),
    Request("esimcse", "momentum", network("momentum.momentum"), {0.9: 0.9, 0.995: 0.995}),
    Request("esimcse", "momentum_init", begins_as_the_encoder, {"copy": True, "random": False}),
    *(
        Request("sncse", part, prompts, {"w4": around}, PROMPT)
        for part, around in {
            "before": ("w4 w8 [MASK] w9", "w7 w6 w8 [MASK] w9", "w7 w6 w8 [MASK] w9"),
            "before_positive": ("w5 w6 w8 [MASK] w9", "w4 w8 [MASK] w9", "w4 w8 [MASK] w9"),
            "behind": ("w5 w6 w4 [MASK] w9", "w7 w6 w4 [MASK] w9", "w7 w6 w4 [MASK] w9"),
            "end": ("w5 w6 w8 [MASK] w4", "w7 w6 w8 [MASK] w4", "w7 w6 w8 [MASK] w4"),
        }.items()
    ),
    Request("hicl", "segment", lengths("anchor segments"), {8: (6, 8), 14: (12, 14)}, SLICES),
    Request("hicl", "longest", longest_text, {24: 24, 40: 40}, SLICES),
    Request("clm_autoencoder", "noise", share_deleted, {0.0: 0.0, 0.3: near(0.3), 0.6: near(0.6)}),
    Request("clm_autoencoder", "layers", network("decoder.layers"), {1: 1, 3: 3}),
    Request("clm_autoencoder", "tied", network("decoder.layers"), {True: None, False: 2}),
    Request("mlm_autoencoder", "layers", network("decoder.layers"), {1: 1, 3: 3}),
    Request("condenser", "head_layers", network("condenser.layers"), {1: 1, 3: 3}),
    Request(
        "infocse_aux", "head_layers", network("auxiliary.filler.layers"), {1: 1, 3: 3}, NEW_HEAD
    ),
    Request("infocse_aux", "detach", lower_layers_learn, {True: False, False: True}, NEW_HEAD),
    Request("rtd_mlm", "head_layers", network("auxiliary.filler.layers"), {1: 1, 3: 3}, NEW_HEAD),
    Request("rtd_mlm", "detach", lower_layers_learn, {True: False, False: True}, NEW_HEAD),
    *(
        Request(
            name,
            "sample",
            network("discriminator.edit.sample"),
            {how: how for how in ("argmax", "multinomial")},
            NEW_HEAD,
        )
        for name in ("diffcse", "rtd_mlm")
    ),
    Request("sg_opt", "width", width_of_head, {8: 8, 32: 32}),
    Request("ict", "projection", width_of_head, {8: 8, None: 16}),
)


@pytest.mark.parametrize("name", dict.fromkeys(request.name for request in REQUESTS))
def test_a_setting_has_its_effect(name):
    for request in (request for request in REQUESTS if request.name == name):
        effects = {
            value: request.seen(step_of(name, request.others | {request.setting: value}))
            for value in request.expected
        }
        assert effects == request.expected, request


ITSELF = {(k, k) for k in range(96)}
DOCUMENTS = {(k, k) for k in range(0, 96, 6)}
PAIRS = {
    "infocse_idc": set(zip(KNOWN.i.tolist(), KNOWN.j.tolist(), strict=True)),
    "conpono": {(k, k + 1) for k in range(96) if k % 6 < 5},
    "cpc": {(k, k) for k in range(96) if k % 6 > 0},
    **dict.fromkeys(("declutr", "fine_tune", "hicl"), DOCUMENTS),
}
"""Of methods that pair no sentence with itself, or not every one."""


@pytest.mark.parametrize("name", METHOD_NAMES)
def test_a_method_has_its_pairs(name):
    for case in (case for case in CASES if case.name == name):
        method = method_for(config_of(name, case.settings).method, three_layers("cosine"))
        table = method.pairs(documents(), KNOWN)
        pairs = set(zip(table.i.tolist(), table.j.tolist(), strict=True))
        assert pairs == PAIRS.get(name, ITSELF), case


def test_dropout_is_on_unless_a_method_makes_its_views_otherwise():
    def trains_with_it(case: Recipe) -> bool:
        config = config_of(case.name, case.settings)
        return method_for(config.method, three_layers("cosine")).dropout

    without = {case.name for case in CASES if not trains_with_it(case)}
    assert without == {"consert", "ct", "mirror_bert"}
    assert trains_with_it(Recipe("consert", {"dropout": True}))
    assert trains_with_it(Recipe("mirror_bert"))  # drophead replaces it


def test_every_setting_is_in_a_card_case_or_has_an_observed_effect():
    seen = {("consert", "epsilon"), ("consert", "dropout")}
    seen |= {(case.name, setting) for case in CASES for setting in case.settings}
    seen |= {(request.name, request.setting) for request in REQUESTS}
    settings = {
        (method.model_fields["name"].default, setting)
        for method in get_args(AnyMethod)
        for setting in method.model_fields
        if setting != "name"
    }
    assert settings <= seen


@pytest.mark.parametrize("name", ["infocse_aux", "diffcse", "rtd_mlm"])
def test_both_views_of_a_sentence_hide_tokens_of_their_own(name):
    step = step_of(name, NEW_HEAD)
    pairs = zip(step.view("anchor").targets, step.view("positive").targets, strict=True)
    assert np.mean([np.array_equal(one == IGNORED, other == IGNORED) for one, other in pairs]) < 0.1
