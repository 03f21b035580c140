"""Every experiment by its id: `python -m flows reproduce ID`."""

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path

from flows.experiments import declutr, hicl, infocse, methods, mutual, product_thesis
from flows.experiments.parts import shared_differences
from sentemb_core.config.experiments import Claim, Experiment

CLAIMS = Path(__file__).with_name("claims.csv")
"""A line is one claim of an experiment; " | " separates arms and columns."""


def claims() -> Iterator[tuple[str, Claim]]:
    """Yield the id of an experiment and a claim, for all claims of the papers."""
    with CLAIMS.open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            yield (
                line["experiment"],
                Claim(
                    text=line["claim"],
                    better=line["better"],
                    than=tuple(line["than"].split(" | ")),
                    columns=tuple(filter(None, line["columns"].split(" | "))),
                    margin=float(line["margin"] or 0.0),
                ),
            )


def of_papers() -> Iterator[Experiment]:
    """Yield the papers' experiments with their claims and the differences that several share."""
    claimed: dict[str, list[Claim]] = {}
    for id, claim in claims():
        claimed.setdefault(id, []).append(claim)
    for paper in (mutual, infocse, product_thesis, declutr, hicl):
        for one in paper.EXPERIMENTS:
            differs = " ".join(filter(None, (one.differs, *shared_differences(one))))
            added = {"claims": tuple(claimed.pop(one.id, ())), "differs": differs}
            yield Experiment.model_validate(dict(one) | added)
    assert not claimed, f"claims of unknown experiments: {sorted(claimed)}"


EXPERIMENTS: Mapping[str, Experiment] = {
    one.id: one for one in (*of_papers(), *methods.EXPERIMENTS)
}

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
    prefix, dot, rest = name.partition(".")
    name = f"{PAPER_NUMBERS.get(prefix, prefix)}{dot}{rest}"
    return ALIASES.get(name, name)
