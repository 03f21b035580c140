"""Settings that go with each kind of start encoder; a file or an option wins over them.

A table of random vectors needs a hundred times the learning rate of a pretrained transformer.
"""

from copy import deepcopy
from typing import Any

from sentemb_core.config.presets import PRESETS
from sentemb_core.config.run import LabelsConfig, RunConfig, TrainingConfig
from sentemb_core.store.machine import fast_precision
from sentemb_core.types import Json
from tasks.checks import starts_static

FAST = fast_precision()
"""Of this machine: another one's presets are other settings."""

STATIC: Json = {
    "initialiser": {
        "method": "conpono",
        "steps": 1_800,
        "batch_size": 128,
        "learning_rate": 5e-3,
        "checkpoint_every": 200,
        "threads": 1,
    },
    "training": {
        "steps": 1_200,
        "batch_size": 128,
        "learning_rate": 2e-3,
        "checkpoint_every": 200,
        "threads": 1,
    },
}
"""From random vectors: neighbours first, since nothing can annotate yet (mutual: CONPONO).

A third of these steps loses .03 of R@5 on the blog and .08 of R@20 on sessions; 8,000 sentences,
as the demo's, are learnt by heart in more (docs/results). One thread: a step is 15 ms of small
products, and waiting for a second thread costs more.
"""

TRANSFORMER: Json = {
    "initialiser": {
        "method": "conpono",
        "steps": 1_600,
        "batch_size": 128,
        "learning_rate": 5e-4,
        "dtype": FAST,
    },
    "training": {"steps": 400, "batch_size": 128, "learning_rate": 5e-4, "dtype": FAST},
}
"""From random weights: neighbours until they teach little more. After 400 steps of them their own
next 400 are worth more than any annotation of ours, after 1,600 less (docs/results).
"""

PRETRAINED: Json = {
    "annotation": {"dtype": FAST},
    "training": {
        "steps": 50,
        "batch_size": 64,
        "learning_rate": 5e-5,
        "dtype": FAST,
        "checkpoint_every": 25,
    },
}
"""A pretrained encoder can annotate at once, and forgets if it is trained for long.

Annotated in bfloat16, 2 % of the mined pairs change (MiniLM on 300 news documents).
"""


LEAST_STATIC_RATE = 2e-4
"""A tenth of `STATIC`'s: below it a table of token vectors hardly moves."""

MOST_OF_TRANSFORMERS = 1e-3
"""Twice that of ours from random weights, and half of a table's."""

SMALL_EPOCHS = LabelsConfig(epochs=10, patience=3)
"""Of fine-tuning in tables for two CPU cores: ours, where mutual has at most 20 and 2."""


def preset(encoder: str) -> Json:
    """The settings for a start encoder of this name; a folder's table has learnt already."""
    fresh = {"static": STATIC, "transformer": TRANSFORMER}
    learnt = {"training": STATIC["training"]} if starts_static(encoder) else PRETRAINED
    return deepcopy(fresh.get(encoder, learnt))


def method_preset(encoder: str) -> Json:
    """`preset` for one training alone, which from random weights is what an initialiser is.

    An initialiser before it, if there is one, has the same settings.
    """
    made = preset(encoder)
    first = made.get("initialiser", made["training"])
    training = {name: first[name] for name in first if name != "method"}
    return made | {"initialiser": training, "training": training}


def labelled_preset(encoder: str, part: str) -> Json:
    """What learning from labelled pairs adds: half of the counterparts are labels.

    `part` says where the fine-tuning stands. It takes smaller batches than self-training, for an
    epoch of a few hundred labels shall have several steps.
    """
    training = preset(encoder)["training"] | {"method": "fine_tune", "batch_size": 64}
    return {part: training, "validation": {"label_share": 0.5}}


def slow_trainings(config: RunConfig) -> list[str]:
    """A warning for each training whose rate is a transformer's while a static table learns."""
    if not starts_static(config.encoder.name):
        return []
    return [
        f"{part}.learning_rate is {training.learning_rate:g}, a rate for transformers; the start "
        f"encoder is static, a table of token vectors, and hardly learns below "
        f"{LEAST_STATIC_RATE:g}: set {part}.learning_rate={STATIC[part]['learning_rate']:g}, or "
        "start from a transformer (--encoder minilm)."
        for part, training in trainings_of(config).items()
        if training.learning_rate < LEAST_STATIC_RATE
    ]


def high_learning_rate_warnings(config: RunConfig) -> list[str]:
    """A warning for each training whose rate is a static table's while a transformer learns."""
    if starts_static(config.encoder.name):
        return []
    usual = preset(config.encoder.name)["training"]["learning_rate"]
    return [
        f"{part}.learning_rate is {training.learning_rate:g}, a rate for tables of token vectors; "
        f"the start encoder is a transformer, and forgets what it knows above "
        f"{MOST_OF_TRANSFORMERS:g}: set {part}.learning_rate={usual:g}."
        for part, training in trainings_of(config).items()
        if training.learning_rate > MOST_OF_TRANSFORMERS
    ]


def trainings_of(config: RunConfig) -> dict[str, TrainingConfig]:
    """Those of a run that begin with its start encoder, by the names of their settings."""
    found = {"initialiser": config.initialiser, "training": config.training}
    return {part: training for part, training in found.items() if training}


def slow_products(config: RunConfig) -> list[str]:
    """A warning for each part that asks for bfloat16 where float32 is faster."""
    found = {
        "initialiser": config.initialiser,
        "annotation": config.annotation,
        "training": config.training,
    }
    return [
        f"{part}.dtype is bfloat16, which this machine has no units for: "
        f"float32 is up to ten times faster here: set {part}.dtype=float32."
        for part, asked in found.items()
        if asked and asked.dtype == "bfloat16" and FAST == "float32"
    ]


def trained_by(method: str, *names: str) -> Json:
    """How the first of these presets that a method has trains it, whatever its own settings are."""
    known = PRESETS.get(method, {})
    chosen = next((known[name] for name in names if name in known), {})
    return {name: value for name, value in chosen.items() if name != "method"}


def merged(base: Json, over: Json) -> Json:
    """`over` on top of `base`, table by table."""
    both = {
        name: merged(as_table(base[name]), over[name])
        for name in base.keys() & over.keys()
        if isinstance(base[name], dict | str) and isinstance(over[name], dict)
    }
    return base | over | both


def as_table(value: Any) -> Json:
    """`conpono` is short for `{name = "conpono"}`; nothing, or a null, is an empty table."""
    return value if isinstance(value, dict) else {"name": value} if value else {}
