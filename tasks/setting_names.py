"""Name the setting behind a stage's argument: `training.steps` for `arguments.config.steps`."""

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
"""Stage -> the table of settings that it takes as `config`."""

OTHER_NAMES = {
    "read_labels.config.source": "the bytes of labels.source",
    "build_graph.degree": "annotation.graph_degree or annotation.top_k",
    "encode_and_build_graph.degree": "annotation.graph_degree or annotation.top_k",
    "random_scores.seed": "encoder.seed",
    "draw_labels.share": "validation.label_share",
    "draw_labels.count": "labels.count",
    "publish_encoder.card.name": "name",
    "publish_encoder.card.base": "encoder.name",
    "publish_encoder.card.method": "training.method.name",
}
"""Stage and argument -> the setting, where their names differ."""

ANNOTATION_STAGES = (
    "encode_sentences",
    "build_graph",
    "encode_and_build_graph",
    "prune_graph",
    "estimate_relatedness",
    "add_related",
    "cluster_by_kmeans",
    "export_pairs",
)
"""Stages that take single settings of the annotation under their own names."""

KEY_PART = re.compile(r"(?<![\w.])(?:arguments|numeric|libraries)\.([\w.]+)")
"""A part of a stage's key, as `store.status` writes it."""


def in_settings(
    why: str, stage: str, arguments: Mapping[str, Any], config: RunConfig | None
) -> str:
    """Return a reason with settings in place of arguments.

    Args:
        why: How a stage differs from a recorded one.
        stage: Name of the stage.
        arguments: Arguments of the stage.
        config: Settings of the run; None: a table, whose cells have their own settings.
    """
    if why == OTHER_INPUTS and stage in ("read_corpus", "read_labels"):
        return f"first time with these bytes of {TABLES[stage]}.source"
    return KEY_PART.sub(lambda part: setting_of(part[1], stage, arguments, config), why)


def setting_of(
    argument: str, stage: str, arguments: Mapping[str, Any], config: RunConfig | None
) -> str:
    """Path of a setting; `NAME of this stage` for a value that the run itself chose."""
    if known := OTHER_NAMES.get(f"{stage}.{argument}"):
        return known
    if stage in ANNOTATION_STAGES and argument in AnnotationConfig.model_fields:
        return f"annotation.{argument}"
    name, _, field = argument.partition(".")
    if name != "config" or stage not in TABLES:
        return argument
    given = arguments["config"]
    table = next((name for name, part in config or () if part is given), TABLES[stage])
    if isinstance(config, InfoCSEPlus) and isinstance(getattr(given, "method", None), FineTune):
        table = "fine_tuning"
    if config and value_at(given, field) != value_at(getattr(config, table), field):
        return f"{field} of this stage"
    return f"{table}.{field}"


def value_at(settings: Any, path: str) -> Any:
    """Value at a dotted path; None if these settings do not have it."""
    return reduce(lambda part, name: getattr(part, name, None), path.split("."), settings)
