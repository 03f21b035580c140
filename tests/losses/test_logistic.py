"""Losses of single pairs: golden values, slow loops, and what they refuse."""

import json
import math
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sentemb_core.errors import NoNegativesError, RecipeError
from sentemb_core.methods.parts.logistic import binary_cross_entropy, jensen_shannon, pair_bce

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "losses.json").read_text())

A = torch.eye(2, dtype=torch.float64)
B = torch.tensor([[0.6, 0.8], [0.8, 0.6]], dtype=torch.float64)
OWN = torch.eye(2, dtype=torch.bool)


@st.composite
def masked_scores(draw):
    n, m = draw(st.integers(1, 4)), draw(st.integers(2, 5))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    scores = 4 * torch.randn(n, m, generator=generator, dtype=torch.float64)
    positive = torch.rand(n, m, generator=generator) < 0.4
    negative = torch.rand(n, m, generator=generator) < 0.5
    positive[0, 0], negative[0, 1] = True, True
    positive[0, 1], negative[0, 0] = False, False
    return scores, positive, negative


def sigmoid(x):
    return 1 / (1 + (-x).exp())


def assert_gradients_equal(fast, slow, ours, theirs):
    torch.testing.assert_close(fast, slow, atol=1e-9, rtol=1e-9)
    fast.backward()
    slow.backward()
    torch.testing.assert_close(ours.grad, theirs.grad, atol=1e-9, rtol=1e-9)


def test_bce_divides_the_cosine_by_the_temperature():
    value = pair_bce(A, B, OWN, ~OWN, temperature=0.05, similarity="cosine")
    assert value.item() == pytest.approx(GOLDEN["bce"]["value"], abs=1e-9, rel=0)


def test_other_readings_of_the_printed_temperature_have_other_values():
    """No cosine is negative here, so that the power that is printed has a value."""
    how = {"similarity": "dot", "temperature": 1.0}
    cosines = A @ B.T
    found = {
        name: pair_bce(scores, A, OWN, ~OWN, **how).item()
        for name, scores in (("literal", cosines**0.05), ("times", cosines * 0.05))
    }
    assert found == pytest.approx({name: GOLDEN["bce"][name] for name in found}, abs=5e-7)


def test_orthogonal_pairs_cost_log_2_each():
    value = pair_bce(A, A.flip(0), OWN, OWN.new_zeros(2, 2), temperature=0.05, similarity="cosine")
    assert value.item() == pytest.approx(math.log(2), abs=1e-12)


@pytest.mark.parametrize("temperature", [0.0, -0.05])
def test_bce_refuses_a_temperature_that_is_not_positive(temperature):
    with pytest.raises(RecipeError):
        pair_bce(A, B, OWN, ~OWN, temperature=temperature, similarity="cosine")


@given(masked_scores())
@settings(deadline=None, max_examples=40)
def test_bce_and_its_gradient_equal_a_slow_loop(drawn):
    weights, positive, negative = drawn
    n, m = weights.shape
    ours, theirs = weights.clone().requires_grad_(), weights.clone().requires_grad_()
    candidates = torch.eye(m, dtype=torch.float64)  # dot products are the weights themselves
    fast = pair_bce(ours, candidates, positive, negative, temperature=0.7, similarity="dot")
    slow = theirs.new_zeros(())
    for i in range(n):
        for j in range(m):
            if positive[i, j]:
                slow = slow - sigmoid(theirs[i, j] / 0.7).log() / n
            elif negative[i, j]:
                slow = slow - sigmoid(-theirs[i, j] / 0.7).log() / n
    assert_gradients_equal(fast, slow, ours, theirs)


def test_tension_of_equal_chances_is_log_2_a_pair():
    right, wrong = torch.zeros(2, dtype=torch.float64), torch.zeros(14, dtype=torch.float64)
    found = {
        "mean": binary_cross_entropy(right, wrong).item(),
        "sum_of_16": binary_cross_entropy(right, wrong, reduction="sum").item(),
    }
    assert found == pytest.approx({name: GOLDEN["contrastive_tension"][name] for name in found})


def test_confident_logits_keep_their_digits():
    logits = torch.tensor([30.0], dtype=torch.float64)
    none = logits[:0]
    right = binary_cross_entropy(logits, none).item()
    wrong = binary_cross_entropy(none, logits).item()
    assert right == pytest.approx(math.log1p(math.exp(-30)), rel=1e-9)
    assert wrong - 30 == pytest.approx(math.log1p(math.exp(-30)), abs=1e-14)


def test_is_bert_has_its_golden_value():
    tokens = torch.tensor([[1.0, 0], [0, 1], [0, 1]])
    sentences = torch.tensor([[1.0, 0], [0, 2]])
    own = torch.tensor([[True, False], [False, True], [False, True]])
    value = jensen_shannon(tokens @ sentences.T, own, ~own)
    assert value.item() == pytest.approx(GOLDEN["is_bert"]["value"], abs=1e-6)


def test_nothing_told_apart_is_no_information():
    assert jensen_shannon(torch.zeros(2, 2), OWN, ~OWN).item() == pytest.approx(0, abs=1e-7)
    assert jensen_shannon(100 * (2 * A - 1), OWN, ~OWN).item() == pytest.approx(-2 * math.log(2))


@given(masked_scores())
@settings(deadline=None, max_examples=40)
def test_jensen_shannon_and_its_gradient_equal_a_slow_loop(drawn):
    scores, positive, negative = drawn
    ours, theirs = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    fast = jensen_shannon(ours, positive, negative)
    joint, marginal = [], []
    for i in range(scores.shape[0]):
        for j in range(scores.shape[1]):
            s = theirs[i, j]
            softplus = (1 + (-s).exp()).log()
            if positive[i, j]:
                joint.append(math.log(2) - softplus)
            if negative[i, j]:
                marginal.append(softplus + s - math.log(2))
    slow = torch.stack(marginal).mean() - torch.stack(joint).mean()
    assert_gradients_equal(fast, slow, ours, theirs)


def test_sentences_that_may_not_be_compared_teach_nothing():
    scores = torch.randn(3, 2, requires_grad=True)
    own = torch.tensor([[True, False], [False, True], [False, True]])
    loss = jensen_shannon(scores, own, torch.zeros_like(own))
    loss.backward()
    assert loss.item() == 0
    assert not scores.grad.any()


def test_one_sentence_has_nothing_to_be_told_from():
    own = torch.ones(3, 1, dtype=torch.bool)
    with pytest.raises(NoNegativesError):
        jensen_shannon(torch.zeros(3, 1), own, ~own)
