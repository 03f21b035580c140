"""The settings of a run that a person may change on the command line."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter, validators

from flows.cli.table_options import Count
from sentemb_core.types import Map

RUN = Group("The run", sort_key=2)
Config = Annotated[
    Path | None,
    Parameter(
        group=RUN,
        help="TOML file of settings (`python -m flows settings`), or a run's config.json; options "
        "and --set win.",
    ),
]
Overrides = Annotated[
    list[str] | None,
    Parameter(
        name="--set",
        group=RUN,
        negative="",
        help="Any setting by its path (`python -m flows settings` lists them), as in --set "
        "training.batch_size=256. Repeatable.",
    ),
]


@Parameter(name="*", group=RUN)
@dataclass(frozen=True)
class RunOptions:
    """The settings that a person changes most; `setting_paths.PATHS` says where they belong."""

    name: Annotated[
        str | None,
        Parameter(help="Of the run and of the registered model. Default: the corpus's own."),
    ] = None
    encoder: Annotated[
        str | None,
        Parameter(
            help="static, transformer, minilm, a folder, a file of word vectors (.txt, .vec, "
            ".bin), models:/NAME@ALIAS or a Hugging Face name. Default: static."
        ),
    ] = None
    method: Annotated[
        str | None,
        Parameter(
            help="What trains (`sentemb methods`): infocse_idc annotates itself in rounds, every "
            "other one trains once. Default: infocse_idc."
        ),
    ] = None
    preset: Annotated[
        str | None,
        Parameter(
            help="The method's settings from a paper or its code, by name (`sentemb methods`): "
            "paper, code, ... Options and --set win. Default: those of the start encoder."
        ),
    ] = None
    initialiser: Annotated[
        str | None,
        Parameter(
            help="Method that trains the encoder first (`sentemb methods`), as condenser before "
            "infocse_aux; none: do not. Default: conpono before rounds from random weights."
        ),
    ] = None
    steps: Annotated[
        int | None, Parameter(validator=Count, help="Optimiser steps of each round.")
    ] = None
    rounds: Annotated[int | None, Parameter(validator=Count, help="Rounds at most.")] = None
    cycles: Annotated[
        int | None,
        Parameter(
            validator=validators.Number(gte=0),
            help="InfoCSE++: rounds, then fine-tuning on labels, so many times at most.",
        ),
    ] = None
    labels: Annotated[
        str | None,
        Parameter(
            help="File of labelled pairs (columns doc_id, counterpart): judges in place of the "
            "counterpart column; `--method fine_tune` and --cycles learn from them."
        ),
    ] = None
    label_count: Annotated[
        int | None,
        Parameter(validator=validators.Number(gte=0), help="Labels to learn from. Default: all."),
    ] = None
    postprocess: Annotated[
        Map | None,
        Parameter(
            help="Try the start encoder and the best one behind a map fitted on their own vectors, "
            "too: BERT-whitening, one that stops half way, or a small BERT-flow. Validation "
            "decides."
        ),
    ] = None
    seed: Annotated[
        int | None,
        Parameter(
            validator=validators.Number(gte=0),
            help="Of random weights, batches and samples, in every part. Default: 42.",
        ),
    ] = None


UNCHANGED = RunOptions()
