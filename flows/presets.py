"""Default settings for each kind of start encoder; a settings file or an option overrides them.

Random token vectors need a hundred times the learning rate of a pretrained transformer.
"""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from sentemb_core.config.presets import PRESETS, RUN_PRESETS
from sentemb_core.config.run import RANDOM_ENCODERS, LabelsConfig, RunConfig
from sentemb_core.store.machine import fast_precision
from sentemb_core.types import Json
from tasks.checks import starts_static

FAST = fast_precision()
"""The faster precision of this machine; presets may differ on another machine."""

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
"""Random token vectors: neighbours first, as they cannot annotate yet (mutual: CONPONO).

A third of these steps loses .03 of R@5 on the blog and .08 of R@20 on sessions (docs/results). More
steps overfit 8,000 sentences, as in the demo. One thread: a step takes 15 ms, and a second thread
costs more than it saves.
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
"""Random transformer weights: neighbours until they improve little. After 400 such steps, the next
400 improve more than annotation does; after 1,600 steps, less (docs/results).
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
"""A pretrained encoder annotates at once, and long training makes it worse.

In bfloat16, 2 % of the mined pairs change (MiniLM on 300 news documents).
"""


LOWEST_STATIC_RATE = 2e-4
"""A tenth of the rate in `STATIC["training"]`; below it a static encoder hardly changes."""

HIGHEST_TRANSFORMER_RATE = 1e-3
"""Twice the rate of `TRANSFORMER["training"]`, half of that of `STATIC["training"]`."""

SMALL_EPOCHS = LabelsConfig(epochs=10, patience=3)
"""Fine-tuning in tables for two CPU cores; mutual has at most 20 epochs and patience 2."""


def preset(encoder: str) -> Json:
    """The settings for a start encoder; a static encoder in a folder is trained already."""
    random = {"static": STATIC, "transformer": TRANSFORMER}
    trained = {"training": STATIC["training"]} if starts_static(encoder) else PRETRAINED
    return deepcopy(random.get(encoder, trained))


OWN_PAIRS = {"clustering", "positives", "min_distance", "max_partners"}
"""Settings of an annotation that replace the default pairs."""


def default_pairs(encoder: str, asked: Json) -> Json:
    """The pairs of a run in rounds that names none: `auto` from nothing, `edges` otherwise.

    Each is the better one in most of 16 comparisons (docs/annotation.md). Cluster batches need the
    pairs of clusters.
    """
    annotation = as_table(asked.get("annotation"))
    own = OWN_PAIRS & annotation.keys()
    method = as_table(as_table(asked.get("training")).get("method"))
    if own or method.get("batches") == "cluster":
        return {}
    keeps_vectors = annotation.get("keep_embeddings", True)  # related pairs need them
    name = "auto" if encoder in RANDOM_ENCODERS and keeps_vectors else "edges"
    return deepcopy(RUN_PRESETS["infocse_idc"][name])


def method_preset(encoder: str) -> Json:
    """Settings of a run with one training; from random weights, those of an initialiser.

    An initialiser before it has the same settings.
    """
    settings = preset(encoder)
    first = settings.get("initialiser", settings["training"])
    training = {name: first[name] for name in first if name != "method"}
    return settings | {"initialiser": training, "training": training}


def labelled_preset(encoder: str, part: str) -> Json:
    """Additional settings of fine-tuning: half of the counterparts are labels.

    `part` is the table of the fine-tuning's settings. Its batches are small, so that an epoch of a
    few hundred labels has several steps.
    """
    training = preset(encoder)["training"] | {"method": "fine_tune", "batch_size": 64}
    return {part: training, "validation": {"label_share": 0.5}}


def preset_warnings(config: RunConfig) -> Iterator[str]:
    """Warnings of learning rates for the other kind of encoder, and of a slow precision."""
    static = starts_static(config.encoder.name)
    for part in ("initialiser", "annotation", "training"):
        table = getattr(config, part)
        rate = getattr(table, "learning_rate", None)
        if rate and static and rate < LOWEST_STATIC_RATE:
            yield (
                f"{part}.learning_rate is {rate:g}, a rate for transformers. The start encoder is "
                f"static and hardly learns below {LOWEST_STATIC_RATE:g}: set {part}.learning_rate="
                f"{STATIC[part]['learning_rate']:g}, or use a transformer (--encoder minilm)."
            )
        if rate and not static and rate > HIGHEST_TRANSFORMER_RATE:
            usual = preset(config.encoder.name)["training"]["learning_rate"]
            yield (
                f"{part}.learning_rate is {rate:g}, a rate for static encoders. The start encoder "
                f"is a transformer and forgets what it knows above {HIGHEST_TRANSFORMER_RATE:g}: "
                f"set {part}.learning_rate={usual:g}."
            )
        if table and table.dtype == "bfloat16" and FAST == "float32":
            yield (
                f"{part}.dtype is bfloat16, and this machine has no units for it; float32 is up to "
                f"ten times faster here. Set {part}.dtype=float32."
            )


def trained_by(method: str, *names: str) -> Json:
    """The training settings of the first of these presets that the method has."""
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
    """The table of a value: `conpono` is short for `{name = "conpono"}`; null is an empty table."""
    return value if isinstance(value, dict) else {"name": value} if value else {}
