"""Why a stage would run, told by the settings that a person knows in place of its arguments."""

import re
from collections.abc import Mapping
from functools import reduce
from typing import Any

from sentemb_core.config.methods import FineTune
from sentemb_core.config.run import AnnotationConfig, InfoCSEPlus, RunConfig
from sentemb_core.store.status import OTHER_INPUTS

TABLES = {
    "read_corpus": "corpus",
    "read_labels": "labels",
    "draw_validation_pool": "validation",
    "start_encoder": "encoder",
    "train_encoder": "training",
    "diagnose_round": "annotation",
}
"""The table of settings that a stage takes as its `config`, if the run has no other of its own."""

ANNOTATING = (
    "encode_sentences",
    "build_graph",
    "encode_and_build_graph",
    "prune_graph",
    "add_related",
    "cluster_by_kmeans",
    "export_pairs",
)
"""Stages that take settings of the annotation one by one."""

SINGLE = {
    "read_labels.config.source": "the bytes of labels.source",
    "build_graph.degree": "annotation.graph_degree or annotation.top_k",
    "encode_and_build_graph.degree": "annotation.graph_degree or annotation.top_k",
    "random_scores.seed": "encoder.seed",
    "draw_labels.share": "validation.label_share",
    "draw_labels.count": "labels.count",
    "publish_encoder.taught.base": "encoder.name",
    "publish_encoder.taught.method": "training.method.name",
}
"""Arguments that are a setting, or stand for one, under another name."""

SOURCES = {"read_corpus": "corpus.source", "read_labels": "labels.source"}
"""Stages whose input is a file of the person's."""

PART = re.compile(r"(?<![\w.])(?:arguments|numeric|libraries)\.([\w.]+)")
"""A part of a stage's key, as `store.status` tells it."""


def in_settings(
    why: str, stage: str, arguments: Mapping[str, Any], config: RunConfig | None
) -> str:
    """`training.steps 600 -> 300` in place of `arguments.config.steps 600 -> 300`.

    Args:
        why: What sets a stage apart from one that is recorded.
        stage: Its name.
        arguments: Its own.
        config: Of the run; none: of a table, whose cells have settings of their own.
    """
    if why == OTHER_INPUTS and stage in SOURCES:
        return f"first time with these bytes of {SOURCES[stage]}"
    return PART.sub(lambda found: setting(found[1], stage, arguments, config), why)


def setting(name: str, stage: str, arguments: Mapping[str, Any], config: RunConfig | None) -> str:
    """The setting that an argument is, or `NAME of this stage alone` where the run made it."""
    if known := SINGLE.get(f"{stage}.{name}"):
        return known
    argument, _, field = name.partition(".")
    if argument == "config" and field and stage in TABLES:
        table = table_of(stage, arguments["config"], config)
        given = at_path(arguments["config"], field)
        own = config and given != at_path(getattr(config, table), field)
        return f"{field} of this stage alone" if own else f"{table}.{field}"
    if stage in ANNOTATING and name in AnnotationConfig.model_fields:
        return f"annotation.{name}"
    return name


def table_of(stage: str, given: Any, config: RunConfig | None) -> str:
    """Where the run has this `config`; one that it made of another has that one's name."""
    if isinstance(config, InfoCSEPlus) and isinstance(getattr(given, "method", None), FineTune):
        return "fine_tuning"
    own = (name for name, part in config or () if part is given)
    return next(own, TABLES[stage])


def at_path(settings: Any, path: str) -> Any:
    """A setting by its dotted path; none where this kind of settings has it not."""
    return reduce(lambda part, name: getattr(part, name, None), path.split("."), settings)
