"""Every experiment by its id: `python -m flows reproduce ID`."""

import re
from collections.abc import Mapping

from flows.experiments import declutr, hicl, infocse, methods, mutual, product_thesis
from flows.experiments.parts import with_shared_differences
from sentemb_core.config.experiments import Experiment

EXPERIMENTS: Mapping[str, Experiment] = {
    one.id: with_shared_differences(one)
    for paper in (mutual, infocse, product_thesis, declutr, hicl)
    for one in paper.EXPERIMENTS
} | {one.id: one for one in methods.EXPERIMENTS}

ALIASES: Mapping[str, str] = {
    "product_thesis.alpha": "product_thesis.rescore",
    "hicl.t14": "hicl.t9",
    "hicl.t15": "hicl.t1",
}
"""Further ids of an experiment: the curve of alpha, that of beta, more seeds."""

PAPER_NUMBERS: Mapping[str, str] = {
    "s000": "mutual",
    "s001": "infocse",
    "s002": "product_thesis",
    "s003": "declutr",
    "s004": "hicl",
}
"""Prefix of an old id -> the citation key."""


def experiment_id(name: str) -> str:
    """Return the id for an id, an alias, or an old id (`s000.t1` is `mutual.t1`)."""
    if match := re.fullmatch(r"(s00[0-4])(\..+)", name):
        name = PAPER_NUMBERS[match[1]] + match[2]
    return ALIASES.get(name, name)
