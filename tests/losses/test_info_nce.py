"""The kernel against the papers' golden values, a slow loop, and what must not change it."""

import json
import math
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from sentemb_core.methods.parts.info_nce import LOGITS, count_unopposed, info_nce

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "info_nce.json").read_text())

A = torch.eye(2, dtype=torch.float64)
B = torch.tensor([[0.6, 0.8], [0.8, 0.6]], dtype=torch.float64)
COSINE = {"temperature": 0.05, "similarity": "cosine"}


def one_way(left: Tensor, right: Tensor, **how) -> Tensor:
    own = torch.eye(len(left), len(right), dtype=torch.bool)
    return info_nce(left, right, own, ~own, **{**COSINE, **how})


def all_pairs(left: Tensor, right: Tensor, **how) -> Tensor:
    both, n = torch.cat([left, right]), len(left)
    partner = torch.roll(torch.eye(2 * n, dtype=torch.bool), n, dims=1)
    other = ~torch.eye(2 * n, dtype=torch.bool)
    return info_nce(both, both, partner, other, **{**COSINE, **how})


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
    assert_golden(one_way(A, B), "one_way")
    assert one_way(A, B).item() == pytest.approx(math.log(1 + math.exp(4)), abs=1e-12)


def test_the_symmetric_form_is_the_mean_of_both_directions():
    assert_golden((one_way(A, B) + one_way(B, A)) / 2, "symmetric")


def test_nt_xent_runs_over_all_pairs_with_self_excluded():
    assert_golden(all_pairs(A, B), "all_pairs_mean")
    assert_golden(4 * all_pairs(A, B), "all_pairs_sum")


def test_consert_adds_the_two_means():
    assert_golden(2 * all_pairs(A, B, temperature=0.1), "two_means")


def test_the_literal_inner_product_of_mutual():
    assert_golden(one_way(A, B, temperature=1.0, similarity="dot"), "dot")


def test_a_queue_is_more_candidates():
    queue = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    assert_golden(one_way(A, torch.cat([B, queue])), "queue")


def test_the_document_is_no_negative():
    x = torch.eye(3, dtype=torch.float64)
    y = torch.tensor([[0.6, 0.8, 0], [0.8, 0.6, 0], [0, 0, 1]], dtype=torch.float64)
    document = torch.tensor([0, 0, 1])
    other = document[:, None] != document
    own = torch.eye(3, dtype=torch.bool)
    assert_golden(info_nce(x, y, own, other, **COSINE), "same_document_masked", 1e-10)
    assert_golden(one_way(x, y), "same_document_unmasked", 1e-6)


def test_declutr_averages_its_positives_before_the_cosine():
    spans = [[[1.0, 0.0], [0.6, 0.8]], [[0.0, 1.0], [0.0, 1.0]]]
    means = torch.tensor(spans, dtype=torch.float64).mean(dim=1)
    assert_golden(all_pairs(A, means), "declutr_two_positives")


def test_hicl_is_four_instances():
    h = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]], dtype=torch.float64)
    other_view = torch.tensor([[0.8, 0.6], [0.6, 0.8], [1.0, 0.0]], dtype=torch.float64)
    owner = torch.tensor([0, 0, 1])
    pooled = torch.tensor([[0.8, 0.2, 0.0], [0.0, 0.0, 1.0]], dtype=torch.float64)
    own, rivals = torch.eye(3, dtype=torch.bool), owner[:, None] != owner
    local = info_nce(h, other_view, own, rivals, **COSINE)
    overall = one_way(pooled @ h, pooled @ other_view)
    sequence = owner[:, None] == torch.arange(2)
    assert_golden(local, "hicl_local")
    assert_golden(one_way(h, other_view), "hicl_local_same_sequence_negative")
    assert_golden(overall, "hicl_global")
    assert_golden(info_nce(h, pooled @ h, sequence, ~sequence, **COSINE), "hicl_entail")
    assert_golden(0.05 * local + 0.95 * overall, "hicl_total")


def test_sg_opt_contrasts_layers():
    layers = [[1.0, 0.0], [0.6, 0.8], [0.0, 1.0], [0.0, 1.0]]
    candidates = torch.tensor(layers, dtype=torch.float64)
    sentence = torch.tensor([0, 0, 1, 1])
    value = info_nce(
        A[sentence],
        candidates,
        torch.eye(4, dtype=torch.bool),
        sentence[:, None] != sentence,
        temperature=0.5,
        similarity="cosine",
    )
    assert_golden(value, "sg_opt")


def test_conpono_scores_bilinearly():
    context = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    targets = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64)
    weight = torch.diag(torch.tensor([2.0, 1.0], dtype=torch.float64))
    value = one_way(context @ weight.T, targets, temperature=1.0, similarity="dot")
    assert_golden(value, "conpono_bilinear")


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
@settings(deadline=None, max_examples=120)
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
@settings(deadline=None, max_examples=50)
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
@settings(deadline=None, max_examples=50)
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
