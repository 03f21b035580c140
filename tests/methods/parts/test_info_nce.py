"""The kernel against the papers' golden values, a slow loop, and what must not change it."""

import math
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from sentemb_core.methods.parts.info_nce import (
    LOGITS,
    all_pairs,
    contrast,
    count_unopposed,
    info_nce,
    loss_of_choice,
)
from tests.examples import at_least
from tests.methods.batches import (
    GOLDEN,
    A,
    B,
    assert_same,
    batch,
    drawn,
    learner,
    may_be_wrong,
    seeds,
    slow_choice,
    tangled,
    view,
)

COSINE = {"temperature": 0.05, "similarity": "cosine"}


def one_way(left: Tensor, right: Tensor, **how) -> Tensor:
    own = torch.eye(len(left), len(right), dtype=torch.bool)
    return info_nce(left, right, own, ~own, **{**COSINE, **how})


def slow_info_nce(queries, candidates, positive, negative, temperature, similarity, bias):
    """Per positive the softmax cross-entropy against the row's negatives, one number at a time."""
    losses = []
    for i in range(len(queries)):
        scores = []
        for j in range(len(candidates)):
            score = (queries[i] * candidates[j]).sum()
            if similarity == "cosine":
                score = score / queries[i].norm() / candidates[j].norm()
            scores.append(score / temperature + bias[i, j])
        rivals = [j for j in range(len(candidates)) if negative[i, j] and not positive[i, j]]
        row = []
        for p in range(len(candidates)):
            if positive[i, p]:
                chances = torch.stack([scores[p], *(scores[j] for j in rivals)]).softmax(0)
                row.append(-chances[0].log())
        losses.append(row)
    return losses


def reduced(rows: list[list[Tensor]], reduction: str) -> Tensor:
    every = [loss for row in rows for loss in row]
    if reduction == "positives":
        return torch.stack(every).mean()
    return torch.stack([torch.stack(row).mean() for row in rows if row]).mean()


def assert_golden(value: Tensor, name: str, tolerance: float = 1e-9):
    assert value.item() == pytest.approx(GOLDEN[name], abs=tolerance, rel=0)


def test_simcse_is_the_one_way_form():
    assert one_way(A, B).item() == pytest.approx(math.log(1 + math.exp(4)), abs=1e-12)


def test_the_symmetric_form_is_the_mean_of_both_directions():
    assert_golden((one_way(A, B) + one_way(B, A)) / 2, "symmetric")


def test_equal_vectors_leave_the_logarithm_of_their_number():
    same = torch.ones(7, 3, dtype=torch.float64)
    assert one_way(same, same).item() == pytest.approx(math.log(7), abs=1e-12)
    three = torch.eye(3, dtype=torch.float64)
    assert_golden(one_way(three, three), "identical_orthogonal_3", 1e-14)


@st.composite
def problems(draw):
    n, m, dim = draw(st.integers(1, 5)), draw(st.integers(1, 6)), draw(st.integers(2, 4))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    queries = torch.randn(n, dim, generator=generator, dtype=torch.float64)
    candidates = torch.randn(m, dim, generator=generator, dtype=torch.float64)
    positive = torch.rand(n, m, generator=generator) < 0.4
    positive[0, 0] = True
    negative = torch.rand(n, m, generator=generator) < 0.6
    bias = torch.randn(n, m, generator=generator, dtype=torch.float64)
    return queries, candidates, positive, negative, bias


@given(
    problems(),
    st.sampled_from(["cosine", "dot"]),
    st.sampled_from(["positives", "anchors"]),
    st.sampled_from([0.02, 0.05, 1.0]),
    st.sampled_from([3, 1_024]),
)
@at_least(120)
def test_loss_and_gradient_equal_a_slow_loop(problem, similarity, reduction, temperature, logits):
    queries, candidates, positive, negative, bias = problem
    fast_inputs = [queries.clone().requires_grad_(), candidates.clone().requires_grad_()]
    with patch("sentemb_core.methods.parts.info_nce.LOGITS", logits):
        fast = info_nce(
            *fast_inputs,
            positive,
            negative,
            temperature=temperature,
            similarity=similarity,
            bias=bias,
            reduction=reduction,
        )
    slow_inputs = [queries.clone().requires_grad_(), candidates.clone().requires_grad_()]
    rows = slow_info_nce(*slow_inputs, positive, negative, temperature, similarity, bias)
    slow = reduced(rows, reduction)
    fast.backward()
    slow.backward()
    torch.testing.assert_close(fast, slow, atol=1e-9, rtol=1e-9)
    for ours, theirs in zip(fast_inputs, slow_inputs, strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, atol=1e-9, rtol=1e-9)


def test_no_logits_are_kept_for_the_gradient_of_a_large_batch():
    n = 2 * math.isqrt(LOGITS)
    queries, candidates = torch.randn(2, n, 2, requires_grad=True)
    own = torch.eye(n, dtype=torch.bool)
    kept: list[int] = []

    def note(saved: Tensor) -> Tensor:
        if saved.is_floating_point():
            kept.append(saved.numel())
        return saved

    with torch.autograd.graph.saved_tensors_hooks(note, lambda saved: saved):
        info_nce(queries, candidates, own, ~own, **COSINE)
    assert kept
    assert max(kept) <= LOGITS, "four times as many in all"


@given(problems(), st.integers(0, 1000))
def test_the_order_of_a_batch_does_not_matter(problem, seed):
    queries, candidates, positive, negative, _ = problem
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randperm(len(queries), generator=generator)
    columns = torch.randperm(len(candidates), generator=generator)
    before = info_nce(queries, candidates, positive, negative, **COSINE)
    after = info_nce(
        queries[rows],
        candidates[columns],
        positive[rows][:, columns],
        negative[rows][:, columns],
        **COSINE,
    )
    torch.testing.assert_close(before, after)


@given(problems(), st.floats(0.01, 100))
def test_cosine_ignores_the_length_of_vectors(problem, scale):
    queries, candidates, positive, negative, _ = problem
    before = info_nce(queries, candidates, positive, negative, **COSINE)
    after = info_nce(queries * scale, candidates / scale, positive, negative, **COSINE)
    torch.testing.assert_close(before, after)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_an_anchor_without_negatives_gives_nothing_and_is_counted(dtype):
    queries = torch.randn(3, 4).to(dtype).requires_grad_()
    candidates = torch.randn(3, 4).to(dtype).requires_grad_()
    own = torch.eye(3, dtype=torch.bool)
    negative = ~own
    negative[1] = False
    loss = info_nce(queries, candidates, own, negative, **COSINE)
    loss.backward()
    assert queries.grad[1].eq(0).all()
    assert queries.grad.isfinite().all()
    assert candidates.grad.isfinite().all()
    assert count_unopposed(own, negative) == 1
    alone = info_nce(queries, candidates, own, torch.zeros_like(own), **COSINE)
    assert alone.item() == 0
    assert count_unopposed(own, torch.zeros_like(own)) == 3


def test_a_batch_without_positives_gives_zero_and_no_gradient():
    queries = torch.randn(2, 3, requires_grad=True)
    none, every = torch.zeros(2, 2, dtype=torch.bool), torch.ones(2, 2, dtype=torch.bool)
    for reduction in ("positives", "anchors"):
        loss = info_nce(queries, torch.randn(2, 3), none, every, **COSINE, reduction=reduction)
        loss.backward()
        assert loss.item() == 0
        assert queries.grad.eq(0).all()


def test_large_margins_keep_their_digits():
    """At a margin of 20 torch's softplus would drop 2e-9."""
    queries = torch.tensor([[1.0]], dtype=torch.float64)
    candidates = torch.tensor([[0.0], [20.5]], dtype=torch.float64)
    own = torch.tensor([[True, False]])
    value = info_nce(queries, candidates, own, ~own, temperature=1.0, similarity="dot")
    assert value.item() - 20.5 == pytest.approx(math.log1p(math.exp(-20.5)), rel=1e-5)


def test_huge_logits_stay_finite_in_float32():
    queries = (1e4 * torch.randn(4, 8)).requires_grad_()
    own = torch.eye(4, dtype=torch.bool)
    loss = info_nce(queries, 1e4 * torch.randn(4, 8), own, ~own, temperature=0.05, similarity="dot")
    loss.backward()
    assert loss.isfinite()
    assert queries.grad.isfinite().all()


def test_a_positive_is_never_a_negative():
    queries, candidates = torch.randn(3, 4), torch.randn(5, 4)
    positive = torch.rand(3, 5) < 0.5
    positive[:, 0] = True
    every = torch.ones(3, 5, dtype=torch.bool)
    torch.testing.assert_close(
        info_nce(queries, candidates, positive, every, **COSINE),
        info_nce(queries, candidates, positive, ~positive, **COSINE),
    )


@seeds
@pytest.mark.parametrize("how", [(0.05, "cosine"), (1.0, "dot")])
@pytest.mark.parametrize("reduction", ["positives", "anchors"])
def test_rows_of_zeros_count_nowhere(seed, how, reduction):
    """Loss and gradients are those of the batch without these rows."""
    rng = np.random.default_rng(seed)
    ends = [torch.from_numpy(rng.normal(size=(n, 4))) for n in (7, 9)]
    zero = [rng.random(len(end)) < 0.4 for end in ends]
    positive, negative = rng.random((2, 7, 9)) < 0.5
    for end, rows in zip(ends, zero, strict=True):
        end[torch.from_numpy(rows)] = 0
        end.requires_grad_()
    loss, metrics = loss_of_choice(*ends, positive, negative, *how, reduction=reduction)
    loss.backward()
    left, right = (~rows for rows in zero)
    kept = [
        end.detach()[torch.from_numpy(rows)].requires_grad_()
        for end, rows in zip(ends, (left, right), strict=True)
    ]
    masks = (mask[left][:, right] for mask in (positive, negative))
    alone, _ = loss_of_choice(*kept, *masks, *how, reduction=reduction)
    torch.testing.assert_close(loss, alone)
    if alone.requires_grad:
        alone.backward()
    for end, rows, own in zip(ends, zero, kept, strict=True):
        assert end.grad[torch.from_numpy(rows)].eq(0).all()
        torch.testing.assert_close(end.grad[torch.from_numpy(~rows)], own.grad)
    assert metrics.get("zero_rows", 0) == sum(rows.sum() for rows in zero)


def test_a_view_that_chooses_among_itself_counts_its_zero_rows_once():
    vectors = torch.cat([torch.zeros(2, 4), torch.randn(3, 4)])
    positive, negative = np.zeros((5, 5), dtype=bool), ~np.eye(5, dtype=bool)
    _, metrics = loss_of_choice(vectors, vectors, positive, negative, 0.05, "cosine")
    assert metrics["zero_rows"] == 2


class Keys(nn.Module):
    def __init__(self, keys):
        super().__init__()
        self.register_buffer("keys", keys)


def value(term, one, other, **options):
    n, m = len(one), len(other)
    rows = options.pop("rows", None) or batch(
        anchor=view(range(n)), positive=view(range(m) if m >= n else range(n))
    )
    loss, _ = term({"anchor": one, "positive": other}, rows, options.get("who") or learner())
    return loss.item()


@seeds
@pytest.mark.parametrize("how", [(0.05, "cosine"), (1.0, "dot")])
def test_one_way_is_a_slow_loop_over_the_rows_of_other_documents_and_texts(seed, how):
    rows = tangled(seed)
    left, right = rows.views["anchor"], rows.views["positive"]
    metrics = assert_same(
        contrast("anchor", "positive", how[0]),
        lambda v: slow_choice(v["anchor"], v["positive"], left, right, how).mean(),
        drawn(rows, 5, seed=seed),
        rows,
        learner(how[1]),
    )
    lonely = sum(
        not any(may_be_wrong(left, right, i, j, [i]) for j in range(len(right)))
        for i in range(len(left))
    )
    assert metrics == {"unopposed_anchors": lonely}


def test_an_empty_queue_changes_nothing():
    rows = tangled(0)
    vectors = drawn(rows, 5)
    plain, _ = contrast("anchor", "positive", 0.05)(vectors, rows, learner())
    queued = contrast("anchor", "positive", 0.05, queue=True)
    assert queued(vectors, rows, learner(queue=Keys(torch.empty(0, 5))))[0] == plain


def test_the_forms_of_the_papers_have_their_golden_values():
    two = ("anchor", "positive", 0.05)
    queue = learner(queue=Keys(torch.tensor([[1.0, 0.0]])))
    found = {
        "one_way": value(contrast(*two), A, B),
        "all_pairs_mean": value(all_pairs(*two), A, B),
        "all_pairs_sum": 4 * value(all_pairs(*two), A, B),
        "two_means": 2 * value(all_pairs("anchor", "positive", 0.1), A, B),
        "dot": value(contrast("anchor", "positive", 1.0), A, B, who=learner("dot")),
        "queue": value(contrast(*two, queue=True), A, B, who=queue),
    }
    assert found == pytest.approx({name: GOLDEN[name] for name in found}, abs=1e-9, rel=0)


def test_a_document_is_masked():
    x = torch.eye(3, dtype=torch.float64)
    y = torch.tensor([[0.6, 0.8, 0], [0.8, 0.6, 0], [0, 0, 1]], dtype=torch.float64)
    rows = batch(anchor=view([0, 0, 1]), positive=view([0, 0, 1], text=[3, 4, 5]))
    two = ("anchor", "positive", 0.05)
    masked = value(contrast(*two), x, y, rows=rows)
    own = torch.eye(3, dtype=torch.bool)
    unmasked = info_nce(x, y, own, ~own, temperature=0.05, similarity="cosine").item()
    assert masked == pytest.approx(GOLDEN["same_document_masked"], abs=1e-10)
    assert unmasked == pytest.approx(GOLDEN["same_document_unmasked"], abs=1e-6)


def test_declutr_keeps_anchors_of_its_document_as_negatives():
    spans = torch.tensor([[[1, 0], [0.6, 0.8]], [[0, 1], [0, 1]]], dtype=torch.float64)
    rows = batch(anchor=view([0, 0]), positive=view([0, 0], text=[2, 3]))
    term = all_pairs("anchor", "positive", 0.05, within_document=True)
    found = value(term, A, spans.mean(dim=1), rows=rows)
    assert found == pytest.approx(GOLDEN["declutr_two_positives"], abs=1e-9)


def test_conpono_maps_its_context():
    linear = nn.Linear(2, 2, bias=False, dtype=torch.float64)
    linear.weight.data = torch.diag(torch.tensor([2.0, 1.0], dtype=torch.float64))
    context = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    targets = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64)
    rows = batch(anchor=view([0]), positive=view([0, 1, 2]))
    term = contrast("anchor", "positive", 1.0, bilinear=True)
    found = value(term, context, targets, rows=rows, who=learner("dot", bilinear=linear))
    assert found == pytest.approx(GOLDEN["conpono_bilinear"], abs=1e-9)
