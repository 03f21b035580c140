"""Rows that read the same never push each other away: batches of real tokens, and their masks."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch

from sentemb_core.methods import hicl as segments
from sentemb_core.methods.parts import info_nce as contrast
from sentemb_core.methods.parts.views import Batch
from sentemb_core.training.batches import sampler_for
from tests import tiny
from tests.methods.recipes import PROMPT, SLICES, config_of, made

COMMON, OTHER = [10, 11, 12, 13, 14, 15], [20, 21, 22, 23, 24, 25]
"""As many tokens as a slice of `SLICES` has."""


Documents = tuple[list[list[int]], ...]
"""Sentences without special tokens."""


def own(document: int) -> list[int]:
    """Words that no other document has."""
    return list(range(30 + 6 * document, 36 + 6 * document))


OPENED_ALIKE = tuple([OTHER if d == 3 else COMMON, own(d)] for d in range(4))
ENDING_APART = tuple([[*(OTHER if d == 3 else COMMON), 70, 71, *own(d)]] for d in range(4))


@dataclass(frozen=True)
class Case:
    """A term of a method, between two views of documents that say the same in part."""

    name: str
    settings: dict[str, Any] = field(default_factory=dict)
    documents: Documents = OPENED_ALIKE
    term: str = "contrast"
    views: tuple[str, str] = ("anchor", "positive")

    def __str__(self) -> str:
        return "-".join([self.name, *map(str, self.settings.values())])


LOCAL = {"term": "local", "views": ("anchor segments", "positive segments")}
OVER_SNCSE = SLICES | {"segment": 13, "base": {"name": "sncse", **PROMPT}}
CASES = (
    Case("sncse", PROMPT, ENDING_APART),
    Case("cpc"),
    Case("ict", {"removal": 1.0}),
    Case("ict", {"removal": 1.0, "context_as": "mean_of_sentences"}),
    Case("hicl", SLICES, **LOCAL),
    Case("hicl", SLICES | {"siblings": "negative"}, **LOCAL),
    Case("hicl", SLICES | {"siblings": "positive"}, **LOCAL),
    Case("hicl", OVER_SNCSE, **LOCAL),
)


def batch_of(case: Case, size: int = 4) -> Batch:
    config = config_of(case.name, case.settings, batch_size=size)
    method, _ = made(case.name, **case.settings)
    corpus = tiny.corpus([len(document) for document in case.documents])
    corpus.sentences = [np.array([2, *row, 3]) for document in case.documents for row in document]
    return sampler_for(config, method, corpus).batch(0)


def wrong_of(case: Case, batch: Batch, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """Which candidates the term holds against which anchors."""
    masks: list[np.ndarray] = []

    def choice(queries, candidates, positive, negative, *_, **__):
        masks.append(negative)
        return queries.sum(), {}

    for module in (contrast, segments):
        monkeypatch.setattr(module, "loss_of_choice", choice)
    method, learner = made(case.name, **case.settings)
    vectors = {name: torch.randn(len(view), 16) for name, view in batch.views.items()}
    method.terms[case.term][1](vectors, batch, learner)
    return masks[0]


def read(batch: Batch, name: str) -> list[str]:
    """What the encoder reads of every row; of a sum, all that is added up."""
    view = batch.views[name]
    if view.tokens:
        return [str(row) for row in view.tokens]
    parts = batch.views["sentences"]
    rows = [str(row) for row in parts.tokens]
    return [str([rows[k] for k in np.flatnonzero(parts.owner == d)]) for d in range(len(view))]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_reads_as_an_anchors_positive_is_never_its_negative(case, monkeypatch):
    batch = batch_of(case)
    left, right = (batch.views[name] for name in case.views)
    texts = read(batch, case.views[1])
    wrong = wrong_of(case, batch, monkeypatch)
    twins = np.array([[one == other for other in texts] for one in texts])
    apart = left.document[:, None] != right.document
    assert (twins & apart).any()
    assert not (wrong & twins).any()
    assert wrong.any()


def test_a_slice_that_its_document_repeats_is_no_sibling_to_push_away(monkeypatch):
    documents = tuple([COMMON, own(d), COMMON] for d in range(4))
    case = Case("hicl", SLICES | {"siblings": "negative"}, documents, **LOCAL)
    batch = batch_of(case)
    wrong = wrong_of(case, batch, monkeypatch)
    view = batch.views["anchor segments"]
    common = np.array([row[1] == COMMON[0] for row in view.tokens])
    same_text = view.owner[:, None] == view.owner
    assert not (wrong & common[:, None] & common).any()
    assert (wrong & same_text).sum() == 4 * 4


def test_what_a_text_repeats_of_a_sibling_is_no_more_wrong_than_the_sibling(monkeypatch):
    case = Case("hicl", SLICES, **LOCAL)
    batch = batch_of(case)
    wrong = wrong_of(case, batch, monkeypatch)
    common = np.array([row[1] == COMMON[0] for row in batch.views["anchor segments"].tokens])
    begins_alike = np.repeat(common[::2], 2)
    assert not wrong[begins_alike][:, common].any()
    assert wrong[~begins_alike][:, common].all()


@pytest.mark.parametrize(
    ("name", "settings", "size"), [("cpc", {}, 4), ("ict", {"removal": 1.0}, 8)]
)
def test_a_sentence_that_is_all_of_anothers_context_is_not_pushed_away_from_it(
    name, settings, size, monkeypatch
):
    documents = tuple([own(d), COMMON] if d % 2 else [COMMON, own(d)] for d in range(4))
    case = Case(name, settings, documents)
    batch = batch_of(case, size)
    wrong = wrong_of(case, batch, monkeypatch)
    anchors, contexts = read(batch, "anchor"), read(batch, "positive")
    twins = np.array([[one == other for other in contexts] for one in anchors])
    assert twins.any()
    assert not (wrong & twins).any()
    assert wrong.any()


def test_equal_sentences_have_several_right_contexts(monkeypatch):
    """What precedes an equal sentence elsewhere is no negative, whatever it says."""
    documents = tuple([own(d), OTHER if d < 2 else COMMON] for d in range(4))
    case = Case("cpc", documents=documents)
    batch = batch_of(case)
    wrong = wrong_of(case, batch, monkeypatch)
    last = np.array([row[1] for row in batch.views["anchor"].tokens])
    assert wrong.tolist() == (last[:, None] != last).tolist()
