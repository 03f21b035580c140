"""Every method in the forms that differ in what learns, reads or is remembered; and its training.

Everything is small: two layers, sixteen documents of four sentences, batches of twelve.
"""

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from sentemb_core.config.run import TrainingConfig
from sentemb_core.encoder.encoder import Encoder
from sentemb_core.methods.catalogue import method_for
from sentemb_core.methods.parts.method import Learner, Method
from sentemb_core.methods.parts.pairs import Annotation
from sentemb_core.training.batches import sampler_for
from sentemb_core.training.loop import learner_of
from tests import tiny

PROMPT = {"before": "w5 w6", "before_positive": "w7 w6", "behind": "w8", "end": "w9"}
SPANS = {"shortest": 2, "longest": 6, "anchors": 1}
SLICES = {"segment": 8, "longest": 24}
NEW_HEAD = {"random_head": True}
EMBEDDINGS = "encoder.backbone.embeddings."


@dataclass(frozen=True)
class Recipe:
    """One form of a method.

    Attributes:
        name: Of the method.
        settings: What is not the default, or too large for a tiny encoder.
        fixed: Beginnings of the names of parameters that no gradient may reach.
        perturbed: Its readers or its head disturb a pass by chance.
        neighbourly: A row is held against the rows next to it, so the order of a batch matters.
    """

    name: str
    settings: dict[str, Any] = field(default_factory=dict)
    fixed: tuple[str, ...] = ()
    perturbed: bool = False
    neighbourly: bool = False

    def __str__(self) -> str:
        return "-".join([self.name, *(f"{key}={value}" for key, value in self.settings.items())])


MOMENTUM = ("networks.momentum.",)
LOWER = ("networks.auxiliary.lower.",)
START = (EMBEDDINGS, "networks.start.")
EDITOR = ("networks.discriminator.edit.",)

RECIPES = (
    Recipe("infocse_idc"),
    Recipe("infocse_idc", {"batches": "cluster"}),
    Recipe("conpono"),
    Recipe("conpono", {"bilinear": True}),
    Recipe("ict"),
    Recipe("ict", {"projection": 8}, perturbed=True),
    Recipe("ict", {"context_as": "mean_of_sentences"}),
    Recipe("cpc"),
    Recipe("fine_tune", {"sentences": 2}),
    Recipe("declutr", SPANS),
    Recipe("declutr", SPANS | {"longest": 4, "anchors": 2, "mlm": 0.0}),
    Recipe("simcse"),
    Recipe("simcse", {"mlm": 0.1}),
    Recipe("esimcse", fixed=MOMENTUM),
    Recipe("sncse", PROMPT),
    Recipe("consert", perturbed=True),
    Recipe("consert", {"first": ("token_cutoff",), "second": ("dropout",)}, perturbed=True),
    Recipe("consert", {"first": (), "second": ()}),
    Recipe("consert", {"first": ("adversarial",), "second": ()}),
    Recipe("mirror_bert"),
    Recipe("mirror_bert", {"drophead": 0.2}, perturbed=True),
    Recipe("mirror_bert", {"pooling": "mean_with_pads"}),
    Recipe("hicl", SLICES),
    Recipe("hicl", SLICES | {"negatives": "first", "head": "before"}),
    Recipe("hicl", SLICES | {"base": {"name": "esimcse"}}, fixed=MOMENTUM),
    Recipe("hicl", SLICES | {"segment": 12, "beta": 0.1, "base": {"name": "sncse", **PROMPT}}),
    Recipe("bce"),
    Recipe("ct", neighbourly=True),
    Recipe("is_bert"),
    Recipe("sg_opt", {"width": 32}, fixed=START),
    Recipe("sg_opt", {"width": 32, "l2": 0.0}, fixed=START),
    Recipe("clm_autoencoder"),
    Recipe("clm_autoencoder", {"noise": 0.6, "tied": True, "per": "target"}),
    Recipe("clm_autoencoder", {"simcse": 1.0, "weight": 0.1}),
    Recipe("mlm_autoencoder"),
    Recipe("condenser"),
    Recipe("infocse_aux", NEW_HEAD, fixed=LOWER),
    Recipe("infocse_aux", NEW_HEAD | {"detach": False}),
    Recipe("diffcse", NEW_HEAD, fixed=EDITOR),
    Recipe("rtd_mlm", NEW_HEAD, fixed=LOWER + EDITOR),
)

STATIC = (
    Recipe("conpono"),
    Recipe("ict"),
    Recipe("cpc"),
    Recipe("fine_tune"),
    Recipe("infocse_idc"),
    Recipe("infocse_idc", {"temperature": 0.3, "batches": "cluster"}),
)
"""Methods that can train a static table."""


@cache
def corpus() -> tiny.TinyCorpus:
    return tiny.corpus([4] * 16)


@cache
def annotation() -> Annotation:
    """Sentences of even and of odd position belong together."""
    position = np.arange(64) % 4
    i = np.flatnonzero(position < 2)
    return Annotation(i, i + 2, (position % 2).astype(np.int32))


def config_of(name: str, settings: dict[str, Any], **training: Any) -> TrainingConfig:
    usual = {"batch_size": 12, "learning_rate": 1e-2, "threads": 1}
    return TrainingConfig(method={"name": name, **settings}, **(usual | training))


def made(name: str, encoder: Encoder | None = None, **settings: Any) -> tuple[Method, Learner]:
    """A method under its settings, and its learner before the first step."""
    encoder = encoder or tiny.bert()
    method = method_for(config_of(name, settings).method, encoder)
    return method, learner_of(method, encoder, seed=0)


def sampler_of(config: TrainingConfig, method: Method):
    return sampler_for(config, method, corpus(), annotation())
