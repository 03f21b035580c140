"""A transfer task of the suite as its examples."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from sentemb_core.config.suite import DOMAINS, ProbeTask
from sentemb_core.evaluation.transfer import TransferTask
from sentemb_core.evaluation.transfer_files import (
    read_labelled,
    read_phrases,
    read_probing,
    read_relatedness,
    read_reviews,
)

UNDECIDED = ("-", -1)
"""Of SNLI's pairs on which its annotators did not agree, in its own release and on the hub: no
class, as in SentEval."""

READERS: Mapping[str, Callable[..., TransferTask]] = {
    "mrpc": partial(read_labelled, pairs=True),
    "sst2_phrases": read_phrases,
    "sick_entailment": partial(read_labelled, target="entailment", pairs=True),
    "snli": partial(read_labelled, pairs=True, no_class=UNDECIDED),
    "sick_regression": read_relatedness,
    "stsb_regression": read_relatedness,
    "imdb": read_reviews,
    **{f"blitzer_{domain}": partial(read_reviews, domain=domain) for domain in DOMAINS},
    "probing": read_probing,
}
"""By source; every other one is a file of classes."""


def read_probe(task: ProbeTask, folder: Path) -> TransferTask:
    """The examples of the task's files.

    Raises:
        BadDataError: as the reader of the set.
    """
    reader = READERS.get(task.source, read_labelled)
    return reader(task.name, *(folder / file for file in task.files))
