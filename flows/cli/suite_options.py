"""Which tasks `benchmark` and `compare` put to models, and how a document becomes a vector."""

from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter

from flows.cli.table_options import SEVERAL


@Parameter(name="*")
@dataclass(frozen=True)
class SuiteOptions:
    """`benchmark_settings.BenchmarkSettings` has a field for each."""

    tasks: Annotated[
        list[str] | None,
        SEVERAL,
        Parameter(
            help="Names of tasks, or groups: retrieval, sts, transfer, reviews, probing. Default: "
            "the first three. The name of a --beir folder: it alone."
        ),
    ] = None
    data: Annotated[
        str | None, Parameter(help="Folder of the suite's files. Default: $SENTEMB_DATA.")
    ] = None
    beir: Annotated[
        list[str] | None,
        SEVERAL,
        Parameter(
            help="Folders in BEIR's format: tasks too, by qrels/test.tsv or the only split there "
            "is."
        ),
    ] = None
    split: Annotated[
        str | None,
        Parameter(
            name="--beir-split",
            help="Which queries of the BEIR folders: those of qrels/NAME.tsv. Default: test, or "
            "the only ones there are.",
        ),
    ] = None
    vectors: Annotated[
        Literal["text", "sentence_mean", "unit_sentence_mean"],
        Parameter(
            help="What makes a document's vector: its text as one, as MTEB does, or the mean of "
            "its sentences', as they are or of length 1."
        ),
    ] = "text"


THE_USUAL = SuiteOptions()
