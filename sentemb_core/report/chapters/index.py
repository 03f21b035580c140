"""The chapters of a report's page, in reading order.

A chapter with nothing to show says in one sentence why.
"""

from collections.abc import Callable

from sentemb_core.report.chapters.clusters import before_and_after, clusters
from sentemb_core.report.chapters.examples import evaluation, examples, lost_queries
from sentemb_core.report.chapters.gain import verdict, what_moved
from sentemb_core.report.chapters.learning import (
    lexical_overlap,
    projection,
    similarities,
    training,
)
from sentemb_core.report.chapters.origin import data, reproduce, timings
from sentemb_core.report.chapters.parts import Drawings
from sentemb_core.report.data import RunReport
from sentemb_core.report.markup import Html

Chapter = Callable[[RunReport, Drawings], Html]
CHAPTERS: dict[str, tuple[str, Chapter]] = {
    "verdict": ("Verdict", verdict),
    "what-moved": ("What moved", what_moved),
    "before-and-after": ("One document, before and after", before_and_after),
    "clusters": ("Clusters", clusters),
    "similarities": ("Similarities", similarities),
    "lexical-overlap": ("Words against meaning", lexical_overlap),
    "projection": ("Sentences on common axes", projection),
    "training": ("Training", training),
    "examples": ("Best and worst pairs", examples),
    "lost-queries": ("Queries that went wrong", lost_queries),
    "evaluation": ("On the evaluation suite", evaluation),
    "data": ("Data and quarantine", data),
    "timings": ("Time and cache", timings),
    "reproduce": ("Reproduce this run", reproduce),
}
"""Anchor, title and content of every chapter."""
