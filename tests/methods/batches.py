"""Batches of fixed float64 vectors and what a person who reads the columns says of them."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from sentemb_core.methods.parts.method import CrossSampleTerm, Learner
from sentemb_core.methods.parts.views import Batch, View
from tests import tiny

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "info_nce.json").read_text())
seeds = pytest.mark.parametrize("seed", range(3))

A = torch.eye(2, dtype=torch.float64)
B = torch.tensor([[0.6, 0.8], [0.8, 0.6]], dtype=torch.float64)


def view(document, *, group=None, text=None, owner=None, lengths=None) -> View:
    """Rows of these documents; groups and texts differ unless given."""
    n = len(document)
    return View(
        tokens=[np.ones(k, dtype=np.int64) for k in (lengths or [1] * n)],
        document=np.array(document, dtype=np.int64),
        group=np.arange(n) if group is None else np.array(group, dtype=np.int64),
        text=np.arange(n) if text is None else np.array(text, dtype=np.int64),
        owner=None if owner is None else np.array(owner, dtype=np.int64),
    )


def batch(**views: View) -> Batch:
    return Batch(views, pairs=len(next(iter(views.values()))))


def learner(similarity: str = "cosine", **networks: nn.Module) -> Learner:
    return Learner(tiny.static(similarity=similarity), networks=nn.ModuleDict(networks))


def tangled(seed: int, *, n: int = 6) -> Batch:
    """Two views of n rows that share documents, repeat texts and texts of each other."""
    rng = np.random.default_rng(seed)
    document = rng.integers(4, size=n)
    return batch(
        anchor=view(document, text=rng.integers(6, size=n)),
        positive=view(document, text=rng.integers(6, size=n)),
    )


def drawn(rows: Batch, *shape: int, seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(len(found), *shape, generator=generator, dtype=torch.float64)
        for name, found in rows.views.items()
    }


def may_be_wrong(left: View, right: View, i: int, j: int, own: list[int], *, within=False) -> bool:
    """Whether candidate j can be held against anchor i, whose right answers are `own`."""

    def repeats(mine: np.ndarray, theirs: np.ndarray) -> bool:
        return theirs[j] in {mine[i], *(theirs[p] for p in own)}

    return (
        j not in own
        and not repeats(left.text, right.text)
        and not repeats(wording_of(left), wording_of(right))
        and (within or left.document[i] != right.document[j])
    )


def wording_of(view: View) -> np.ndarray:
    """Hashes of what the rows themselves say."""
    return view.text if view.wording is None else view.wording


def similarity_of(a: Tensor, b: Tensor, similarity: str) -> Tensor:
    score = (a * b).sum()
    return score / (a.norm() * b.norm()) if similarity == "cosine" else score


def cross_entropy(right: Tensor, wrong: list[tuple[Tensor, float]]) -> Tensor:
    """-log of the share of `right` beside (logit, weight) of what is wrong."""
    total = right.exp() + sum(weight * logit.exp() for logit, weight in wrong)
    return total.log() - right


def slow_choice(queries, candidates, left, right, how, *, within=False, extra=()):
    """Losses per anchor and positive, straight from the columns."""
    temperature, similarity = how
    itself = left is right
    losses = []
    for i in range(len(left)):
        own = [
            j
            for j in range(len(right))
            if left.group[i] == right.group[j] and not (itself and i == j)
        ]
        scores = [similarity_of(queries[i], c, similarity) / temperature for c in candidates]
        rivals = [
            scores[j]
            for j in range(len(right))
            if not (itself and i == j) and may_be_wrong(left, right, i, j, own, within=within)
        ]
        rivals += [similarity_of(queries[i], c, similarity) / temperature for c in extra]
        losses += [cross_entropy(scores[p], [(rival, 1.0) for rival in rivals]) for p in own]
    return torch.stack(losses)


def slow_segments(
    anchors, candidates, left, right, how, siblings, averaged, *, negatives="second"
) -> Tensor:
    """Mean over segments; each chooses the one of its sequence that has its place there.

    The wrong ones are of the candidates' view, or of the anchors'.
    """
    temperature, similarity = how
    other, rivals = (left, anchors) if negatives == "first" else (right, candidates)

    def place(owner, row):
        return sum(owner[k] == owner[row] for k in range(row))

    def own_in(view, i):
        """The segments of the sequence, and the one of them at the same place."""
        sequence = [j for j in range(len(view)) if left.owner[i] == view.owner[j]]
        return sequence, [j for j in sequence if place(left.owner, i) == place(view.owner, j)]

    losses = []
    for i in range(len(left)):
        sequence, itself = own_in(right, i)
        own = sequence if siblings == "positive" else itself
        logits = [similarity_of(anchors[i], candidates[j], similarity) / temperature for j in own]
        sequence, itself = own_in(other, i)
        known = itself if siblings == "negative" else sequence
        wrong = [j for j in range(len(other)) if may_be_wrong(left, other, i, j, known)]
        if siblings == "negative":
            wrong += [
                j
                for j in sequence
                if j not in itself
                and (left.wording is None or wording_of(left)[i] != wording_of(other)[j])
            ]
        weights = [1 / list(other.owner).count(other.owner[j]) if averaged else 1.0 for j in wrong]
        scores = [similarity_of(anchors[i], rivals[j], similarity) / temperature for j in wrong]
        against = list(zip(scores, weights, strict=True))
        losses.append(torch.stack([cross_entropy(logit, against) for logit in logits]).mean())
    return torch.stack(losses).mean()


def assert_same(
    term: CrossSampleTerm,
    slow: Callable[[Mapping[str, Tensor]], Tensor],
    vectors: Mapping[str, Tensor],
    rows: Batch,
    who: Learner | None = None,
) -> Mapping[str, float]:
    """Loss and gradient of `term` are those of `slow`; returns the term's metrics."""
    ours = {name: value.clone().requires_grad_() for name, value in vectors.items()}
    theirs = {name: value.clone().requires_grad_() for name, value in vectors.items()}
    loss, metrics = term(ours, rows, who or learner())
    expected = slow(theirs)
    assert expected.item() != 0
    torch.testing.assert_close(loss, expected, atol=1e-10, rtol=1e-10)
    loss.backward()
    expected.backward()
    for name in vectors:
        torch.testing.assert_close(ours[name].grad, theirs[name].grad, atol=1e-10, rtol=1e-9)
    return metrics
