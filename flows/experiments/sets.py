"""The sets that several papers judge by, as columns: those of the suite in its averages."""

from typing import Literal

from sentemb_core.config.experiments import Column, Corpus
from sentemb_core.config.suite import SUITE

ELSEWHERE = ("STS13", "STS15", "SUBJ", "MPQA", "TREC")
"""Not among the open files: columns where a user has them."""


def seven_of(
    group: Literal["sts", "transfer"], corpus: Corpus = "plain_sentences"
) -> tuple[Column, ...]:
    """The seven STS sets, or SentEval's seven tasks, for arms that train on a corpus."""
    return tuple(
        Column(label=task.name, judge=task.name, corpus=corpus, optional=task.name in ELSEWHERE)
        for task in SUITE
        if task.group == group and task.averaged
    )
