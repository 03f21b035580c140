"""The evaluation suite: every task it knows, and the files it wants of a data folder.

A value here says what is scored; how is the evaluation's matter. A task that the open data lack is
named all the same: whoever has its file puts it into the folder.
"""

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

from pydantic import Field

from sentemb_core.errors import UsageError
from sentemb_core.formats import nearest
from sentemb_core.types import Config

Group = Literal["retrieval", "sts", "transfer", "reviews", "probing"]

GROUPS: tuple[Group, ...] = ("retrieval", "sts", "transfer", "reviews", "probing")

DocumentVector = Literal["text", "sentence_mean", "unit_sentence_mean"]
"""Of title and text as one; or the mean of its sentences' vectors, as they are or each of length 1
(erratum E3)."""

USUAL: tuple[Group, ...] = ("retrieval", "sts", "transfer")
"""What runs unless somebody asks: long reviews take an hour, probing files are seldom there."""


class StsTask(Config):
    """Do cosines order pairs of sentences as people do? Spearman `all`, as in SimCSE."""

    group: Literal["sts"] = "sts"
    name: str
    files: tuple[str, ...]
    averaged: bool = Field(default=True, description="One of the seven sets of the papers.")


class RetrievalTask(Config):
    """Do queries find their documents?"""

    group: Literal["retrieval"] = "retrieval"
    name: str
    files: tuple[str, ...]
    source: Literal[
        "cranfield", "cacm", "npl", "wdc_clusters", "amazon_google", "abt_buy", "stsb", "beir"
    ] = Field(description="What the files are, and so who reads them.")
    averaged: bool = Field(default=True, description="nDCG@10, so that means are of one measure.")


class ProbeTask(Config):
    """Can a linear probe read a property off frozen vectors?"""

    group: Literal["transfer", "reviews", "probing"] = "transfer"
    name: str
    files: tuple[str, ...]
    source: str = Field(description="The reader's name of the set.")
    averaged: bool = Field(default=False, description="One of SentEval's seven.")


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


def _senteval(name: str) -> ProbeTask:
    source = name.lower()
    files = (f"transfer_{source}.parquet",)
    return ProbeTask(name=name, files=files, source=source, averaged=True)


def _reviews(name: str, source: str, file: str) -> ProbeTask:
    files = (f"reviews_{file}.parquet",)
    return ProbeTask(group="reviews", name=name, files=files, source=source)


DOMAINS = ("airline", "books", "dvd", "electronics", "kitchen")
"""Of the reviews: four of Blitzer et al. (2007) and one of airlines; a task each."""

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
"""The set of pairs whose alignment and uniformity are looked at, as in SimCSE."""


def beir_task(folder_name: str, split: str = "test") -> RetrievalTask:
    """A BEIR folder's queries of one split; one that is not test stands in the task's name."""
    name = folder_name if split == "test" else f"{folder_name} ({split})"
    files = ("corpus.jsonl", "queries.jsonl", f"qrels/{split}.tsv")
    return RetrievalTask(name=name, files=files, source="beir")


def chosen(names: Sequence[str], beside: Iterable[str] = ()) -> tuple[Task, ...]:
    """Tasks of these names, or of groups of these names, in the suite's order; case is the same.

    Args:
        names: What was asked for.
        beside: Further names, which none of the suite's tasks has, for the message.

    Raises:
        UsageError: nothing has this name.
    """
    asked = {name.lower() for name in names}
    known = (*GROUPS, *(task.name for task in SUITE))
    if unknown := sorted(asked - {name.lower() for name in known}):
        raise UsageError(f"There is no task {unknown[0]!r}{nearest(unknown[0], (*known, *beside))}")
    return tuple(task for task in SUITE if {task.name.lower(), task.group} & asked)
