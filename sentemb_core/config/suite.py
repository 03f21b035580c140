"""The evaluation suite: its tasks, and the files of each in a data folder.

Some tasks need files that are not openly available: put them into the data folder.
"""

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal, get_args

from pydantic import Field

from sentemb_core.errors import UsageError
from sentemb_core.formats import nearest
from sentemb_core.types import Config

Fixed = Literal["BM25", "random", "constant"]
"""Baselines without a model: BM25, a random vector for every text, one vector for all texts."""

FIXED: tuple[Fixed, ...] = get_args(Fixed)

Group = Literal["retrieval", "sts", "transfer", "reviews", "probing"]

GROUPS: tuple[Group, ...] = get_args(Group)

DocumentVector = Literal["text", "sentence_mean", "unit_sentence_mean"]
"""Vector of a document: of title and text together, or the mean of the vectors of its sentences, as
they are or normalised (erratum E3)."""

USUAL: tuple[Group, ...] = ("retrieval", "sts", "transfer")
"""Default groups: long reviews take an hour, and probing files are rarely present."""


class StsTask(Config):
    """Spearman correlation of cosines and human scores of sentence pairs (`all`, as in SimCSE)."""

    group: Literal["sts"] = "sts"
    name: str
    files: tuple[str, ...]
    averaged: bool = Field(default=True, description="One of the seven sets in the papers.")


class RetrievalTask(Config):
    """Retrieval of documents by queries."""

    group: Literal["retrieval"] = "retrieval"
    name: str
    files: tuple[str, ...]
    source: Literal[
        "cranfield",
        "cacm",
        "npl",
        "wdc_clusters",
        "amazon_google",
        "abt_buy",
        "scitldr_titles",
        "scitldr_summaries",
        "stsb",
        "beir",
    ] = Field(description="Data set, which decides the reader of the files.")
    averaged: bool = Field(
        default=True, description="Its measure is nDCG@10, so averages have one measure."
    )


class ProbeTask(Config):
    """Accuracy of a linear probe on frozen vectors."""

    group: Literal["transfer", "reviews", "probing"] = "transfer"
    name: str
    files: tuple[str, ...]
    source: str = Field(description="Name of the data set for the reader.")
    averaged: bool = Field(default=False, description="One of the seven tasks of SentEval.")


Task = StsTask | RetrievalTask | ProbeTask
SuiteTask = Annotated[Task, Field(discriminator="group")]


def _trec(name: str, source: Literal["cranfield", "cacm", "npl"]) -> RetrievalTask:
    files = tuple(f"ir_{source}_{part}.parquet" for part in ("docs", "queries", "qrels"))
    return RetrievalTask(name=name, files=files, source=source)


def _products(
    name: str, source: Literal["wdc_clusters", "amazon_google", "abt_buy"]
) -> RetrievalTask:
    files = (f"product_{source}.parquet",)
    return RetrievalTask(name=name, files=files, source=source, averaged=False)


def _papers(name: str, source: Literal["scitldr_titles", "scitldr_summaries"]) -> RetrievalTask:
    files = ("pairs_scitldr_dev.parquet",)
    return RetrievalTask(name=name, files=files, source=source, averaged=False)


def _senteval(name: str) -> ProbeTask:
    source = name.lower()
    files = (f"transfer_{source}.parquet",)
    return ProbeTask(name=name, files=files, source=source, averaged=True)


def _reviews(name: str, source: str, file: str) -> ProbeTask:
    files = (f"reviews_{file}.parquet",)
    return ProbeTask(group="reviews", name=name, files=files, source=source)


DOMAINS = ("airline", "books", "dvd", "electronics", "kitchen")
"""Domains of reviews: four of Blitzer et al. (2007) and airlines; each is a task."""

PROBING = (
    "sentence_length", "word_content", "tree_depth", "top_constituents", "bigram_shift",
    "past_present", "subj_number", "obj_number", "odd_man_out", "coordination_inversion",
)  # fmt: skip
"""SentEval's files (Conneau et al. 2018)."""

_SICK = ("sickr_train.parquet", "sickr_trial.parquet", "sickr_test.parquet")

SUITE: tuple[Task, ...] = (
    _trec("Cranfield", "cranfield"),
    _trec("CACM", "cacm"),
    _trec("NPL", "npl"),
    _products("WDC", "wdc_clusters"),
    _products("Amazon-Google", "amazon_google"),
    _products("Abt-Buy", "abt_buy"),
    _papers("SciTLDR-titles", "scitldr_titles"),
    _papers("SciTLDR-summaries", "scitldr_summaries"),
    RetrievalTask(
        name="STS-B-retrieval", files=("stsb_test.parquet",), source="stsb", averaged=False
    ),
    *(
        StsTask(name=f"STS{year}", files=(f"sts_sts{year}.parquet",))
        for year in (12, 13, 14, 15, 16)
    ),
    StsTask(name="STS-B", files=("stsb_test.parquet",)),
    StsTask(name="STS-B-dev", files=("stsb_dev.parquet",), averaged=False),
    StsTask(name="SICK-R", files=("sickr_test.parquet",)),
    StsTask(name="SICK-R-all", files=_SICK, averaged=False),
    *map(_senteval, ("MR", "CR", "SUBJ", "MPQA")),
    ProbeTask(
        name="SST2",
        files=("transfer_sst2.parquet", "transfer_sst2_train_phrases.parquet"),
        source="sst2_phrases",
        averaged=True,
    ),
    *map(_senteval, ("TREC", "MRPC")),
    ProbeTask(name="SICK-E", files=_SICK, source="sick_entailment"),
    ProbeTask(name="SNLI", files=("transfer_snli.parquet",), source="snli"),
    ProbeTask(name="SICK-R-regression", files=_SICK, source="sick_regression"),
    ProbeTask(
        name="STS-B-regression",
        files=("stsb_train.parquet", "stsb_dev.parquet", "stsb_test.parquet"),
        source="stsb_regression",
    ),
    _reviews("IMDB", "imdb", "imdb_train"),
    *(_reviews(f"Blitzer-{domain}", f"blitzer_{domain}", "blitzer") for domain in DOMAINS),
    *(
        ProbeTask(group="probing", name=name, files=(f"probing/{name}.txt",), source="probing")
        for name in PROBING
    ),
)

POSITIVES = "stsb_dev.parquet"
"""Pairs for alignment and uniformity, as in SimCSE."""


def beir_task(folder_name: str, split: str = "test") -> RetrievalTask:
    """The task of a BEIR folder and split. A split other than test is part of the name."""
    name = folder_name if split == "test" else f"{folder_name} ({split})"
    files = ("corpus.jsonl", "queries.jsonl", f"qrels/{split}.tsv")
    return RetrievalTask(name=name, files=files, source="beir")


def chosen(names: Sequence[str], beside: Iterable[str] = ()) -> tuple[Task, ...]:
    """Tasks of these names or groups (in any case), in the order of the suite.

    Args:
        names: Names of tasks or groups.
        beside: Names of other tasks, to suggest in the message.

    Raises:
        UsageError: an unknown name.
    """
    asked = {name.lower() for name in names}
    known = (*GROUPS, *(task.name for task in SUITE))
    if unknown := sorted(asked - {name.lower() for name in known}):
        raise UsageError(f"There is no task {unknown[0]!r}{nearest(unknown[0], (*known, *beside))}")
    return tuple(task for task in SUITE if {task.name.lower(), task.group} & asked)
