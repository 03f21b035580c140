"""The settings of a table that a person may change on the command line."""

from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Group, Parameter, validators

SEVERAL = Parameter(consume_multiple=True, negative="")
OF_CELLS = Group("Of methods-small and few-shot", sort_key=2)
Count = validators.Number(gte=1)


@Parameter(name="*")
@dataclass(frozen=True)
class TableOptions:
    """What is not given is as the table says."""

    preset: Annotated[
        Literal["small", "paper"] | None,
        Parameter(
            help="Of a paper's experiment: what two CPU cores and open corpora allow, or the "
            "paper's own settings, for whoever has its data. Default: small."
        ),
    ] = None
    data: Annotated[
        str | None,
        Parameter(
            help="Folder of the corpora and STS files. Default: $SENTEMB_DATA; for few-shot, "
            "whose corpus is shipped, the repository's."
        ),
    ] = None
    encoder: Annotated[
        str | None,
        Parameter(
            help="Of a paper's experiment: what every row starts from, as for `run`; rows that go "
            "on with a Condenser's head want a folder that has one. Default: the preset's."
        ),
    ] = None
    seeds: Annotated[
        list[int] | None,
        SEVERAL,
        Parameter(help="Each row is their mean. Default: 42 43 44; methods-small: 42."),
    ] = None
    steps: Annotated[
        int | None,
        Parameter(
            validator=Count,
            help="Of each training. Default: 1,000; minilm: 200; a paper's table: 300, most of "
            "mutual's 600.",
        ),
    ] = None
    candidates: Annotated[
        int | None, Parameter(validator=Count, help="Documents in a pool. Default: 1,000.")
    ] = None
    max_documents: Annotated[
        int | None, Parameter(validator=Count, help="A sample of each corpus. Default: all.")
    ] = None
    corpora: Annotated[
        list[str] | None,
        SEVERAL,
        Parameter(
            group=OF_CELLS,
            help="Default: blog_usgov news_reuters21578 plain_sentences, and long_elife for "
            "declutr alone; few-shot: blog_usgov.",
        ),
    ] = None
    encoders: Annotated[
        list[str] | None,
        SEVERAL,
        Parameter(
            group=OF_CELLS,
            help="Default: transformer minilm; few-shot: static.",
        ),
    ] = None
    methods: Annotated[
        list[str] | None,
        SEVERAL,
        Parameter(
            group=OF_CELLS,
            help="Rows (`sentemb methods`). Default: all; few-shot: conpono infocse_idc.",
        ),
    ] = None
    counts: Annotated[
        list[int] | None,
        SEVERAL,
        Parameter(
            group=OF_CELLS,
            help="Numbers of labels, of few-shot alone. Default: 100 250 1000.",
        ),
    ] = None
    batch_size: Annotated[
        int | None,
        Parameter(
            group=OF_CELLS, validator=Count, help="Of each step but those on labels. Default: 64."
        ),
    ] = None
    dim: Annotated[
        int | None,
        Parameter(
            group=OF_CELLS,
            validator=Count,
            help="Width of the transformer from nothing. Default: 128.",
        ),
    ] = None


AS_THE_TABLE_SAYS = TableOptions()
