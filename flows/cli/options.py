"""The options of `run`, `benchmark`, `compare` and `reproduce`, and the settings that they set."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Group, Parameter

from sentemb_core.options import AtLeastOne, NotNegative
from sentemb_core.types import Map, SearchTask

RUN = Group("The run", sort_key=2)
CELLS = Group("Only methods-small and few-shot", sort_key=2)
SEVERAL = Parameter(consume_multiple=True)

Config = Annotated[
    Path | None,
    Parameter(
        group=RUN,
        help="TOML file of settings, or the config.json of a run. Options and --set override it.",
    ),
]
Overrides = Annotated[
    list[str] | None,
    Parameter(
        name="--set",
        group=RUN,
        help="Any setting by its path, for example --set training.batch_size=256. Repeatable. "
        "`python -m flows settings` lists the paths.",
    ),
]


@Parameter(name="*", group=RUN)
@dataclass(frozen=True)
class RunOptions:
    """Short names of the settings that change most often (`SETTINGS`)."""

    name: str | None = None
    """Name of the run and of the registered model. Default: the name of the corpus."""
    encoder: str | None = None
    """Start encoder: static, transformer, minilm, a folder, a file of word vectors (.txt, .vec,
    .bin), models:/NAME@ALIAS or a Hugging Face name. Default: minilm if its package is installed
    and it knows the words of the corpus, else static."""
    method: str | None = None
    """Training method (`sentemb methods`). infocse_idc annotates and trains in rounds; every other
    method trains once. Default: infocse_idc."""
    preset: str | None = None
    """Settings of the method from its paper or its code, by name (`sentemb methods`). Options and
    --set override it. Default: the settings for the start encoder."""
    initialiser: str | None = None
    """Method that trains the encoder first (`sentemb methods`), for example condenser before
    infocse_aux; or none. Default: conpono before rounds from random weights."""
    steps: Annotated[int | None, Parameter(validator=AtLeastOne)] = None
    """Optimiser steps in each round; an initialiser takes at most as many."""
    rounds: Annotated[int | None, Parameter(validator=AtLeastOne)] = None
    """Maximum number of rounds."""
    cycles: Annotated[int | None, Parameter(validator=NotNegative)] = None
    """InfoCSE++: maximum number of cycles of rounds and fine-tuning on labels."""
    labels: str | None = None
    """File of labelled pairs (columns doc_id, counterpart). Validation uses them instead of the
    counterpart column; `--method fine_tune` and --cycles train on them."""
    label_count: Annotated[int | None, Parameter(validator=NotNegative)] = None
    """Number of labels to train on. Default: all."""
    postprocess: Map | None = None
    """Also validate the start encoder and the best encoder with a map fitted on their own vectors:
    BERT-whitening, partial whitening, or a small BERT-flow."""
    returns: Annotated[Literal["retriever", "encoder"] | None, Parameter(name="--return")] = None
    """What the run returns. retriever: vectors, words and tokens, as validation chooses. encoder:
    the best encoder, as in the papers. Default: retriever."""
    task: SearchTask | None = None
    """What chooses the retriever: search (texts look for documents), titles or sessions (documents
    look for their counterparts), similar (both). Default: both."""
    seed: Annotated[int | None, Parameter(validator=NotNegative)] = None
    """Seed of random weights, batches and samples in every part. Default: 42."""
    workers: Annotated[int | None, Parameter(validator=AtLeastOne)] = None
    """Processes that compute the shards of a large corpus, with the same results. Default: 1."""
    cluster: str | None = None
    """Address of a Dask scheduler whose workers compute the shards: tcp://127.0.0.1:8786, or tls://
    for other hosts. Default: none."""


NO_RUN_OPTIONS = RunOptions()

SETTINGS: Mapping[str, str] = {
    "name": "name",
    "encoder": "encoder.name",
    "method": "training.method",
    "preset": "preset",
    "initialiser": "initialiser.method",
    "steps": "training.steps",
    "rounds": "rounds.max_rounds",
    "cycles": "cycles.max_cycles",
    "labels": "labels.source",
    "label_count": "labels.count",
    "postprocess": "postprocess",
    "returns": "returns",
    "task": "task",
    "seed": "seed",
    "workers": "workers",
    "cluster": "cluster",
}
"""Field of `RunOptions` -> path of the setting that it sets."""


@Parameter(name="*")
@dataclass(frozen=True)
class SuiteOptions:
    """Which tasks `benchmark` and `compare` run, and how a document becomes a vector.

    Each field has a counterpart in `benchmark_settings.BenchmarkSettings`.
    """

    tasks: Annotated[list[str] | None, SEVERAL] = None
    """Names of tasks, or of groups: retrieval, sts, transfer, reviews, probing. The name of a
    --beir folder selects only it. Default: the first three groups."""
    data: str | None = None
    """Folder with the files of the tasks. Default: $SENTEMB_DATA."""
    beir: Annotated[list[str] | None, SEVERAL] = None
    """Folders in BEIR format; each is a task. Queries: qrels/test.tsv, or the only split."""
    split: Annotated[str | None, Parameter(name="--beir-split")] = None
    """Split of the BEIR folders: the queries of qrels/NAME.tsv. Default: test, or the only
    split."""
    vectors: Literal["text", "sentence_mean", "unit_sentence_mean"] = "text"
    """Vector of a document: of its whole text (as in MTEB), or the mean of the vectors of its
    sentences, as they are or normalised."""


DEFAULT_SUITE = SuiteOptions()


@Parameter(name="*")
@dataclass(frozen=True)
class TableOptions:
    """Options of `reproduce`; an option that is absent keeps the default of the table."""

    preset: Literal["small", "paper"] | None = None
    """Scale of a paper's experiment. small: two CPU cores and open corpora. paper: the settings of
    the paper, which need its data. Default: small."""
    data: str | None = None
    """Folder with the corpora and STS files. Default: $SENTEMB_DATA; for few-shot the data folder
    of the repository."""
    encoder: str | None = None
    """Start encoder of every row, as in `run`. Rows that continue a Condenser head need a folder
    that has one. Default: the preset's; methods-small: transformer; few-shot: static."""
    seeds: Annotated[list[int] | None, SEVERAL] = None
    """Seeds; each row is the mean over them. Default: 42 43 44; methods-small: 42."""
    steps: Annotated[int | None, Parameter(validator=AtLeastOne)] = None
    """Steps of each training. Default: 1,000; minilm: 200; a paper's table: 300, most tables of
    `mutual`: 600."""
    candidates: Annotated[int | None, Parameter(validator=AtLeastOne)] = None
    """Documents in a validation pool. Default: 1,000."""
    max_documents: Annotated[int | None, Parameter(validator=AtLeastOne)] = None
    """Size of a sample of each corpus. Default: all."""
    corpora: Annotated[list[str] | None, SEVERAL, Parameter(group=CELLS)] = None
    """Default: blog_usgov news_reuters21578 plain_sentences, and long_elife for declutr; few-shot:
    blog_usgov."""
    methods: Annotated[list[str] | None, SEVERAL, Parameter(group=CELLS)] = None
    """Methods (`sentemb methods`). Default: all; few-shot: conpono infocse_idc."""
    counts: Annotated[list[int] | None, SEVERAL, Parameter(group=CELLS)] = None
    """Only few-shot: label counts. Default: 100 250 1000."""
    batch_size: Annotated[int | None, Parameter(group=CELLS, validator=AtLeastOne)] = None
    """Pairs in a step, except in fine-tuning. Default: 64."""


NO_TABLE_OPTIONS = TableOptions()
