"""Every experiment by its id: `python -m flows reproduce ID`."""

import csv
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from flows.experiments import declutr, hicl, infocse, methods, mutual, product_thesis
from flows.experiments.parts import shared_differences
from sentemb_core.config.experiments import Claim, Experiment

PAPERS = (mutual, infocse, product_thesis, declutr, hicl)
"""In the order of their old numbers: `s000` is mutual."""

CLAIMS = Path(__file__).with_name("claims.csv")
"""A line is one claim of an experiment; " | " separates arms and columns."""


def claims() -> dict[str, list[Claim]]:
    """Return the claims of each experiment of a paper."""
    found: dict[str, list[Claim]] = {}
    with CLAIMS.open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            claim = Claim(
                text=line["claim"],
                source=line["source"],
                better=line["better"],
                than=tuple(line["than"].split(" | ")),
                columns=tuple(filter(None, line["columns"].split(" | "))),
                margin=float(line["margin"] or 0.0),
            )
            found.setdefault(line["experiment"], []).append(claim)
    return found


def of_papers() -> Iterator[Experiment]:
    """Yield the papers' experiments with their claims and the differences that several share."""
    claimed = claims()
    for paper in PAPERS:
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


def experiment_id(name: str) -> str:
    """Return the id for an id, an alias, or an old id (`s000.t1` is `mutual.t1`)."""
    if match := re.fullmatch(r"s00([0-4])(\..+)", name):
        _, _, key = PAPERS[int(match[1])].__name__.rpartition(".")
        name = f"{key}{match[2]}"
    return ALIASES.get(name, name)
