"""Losses of single pairs: golden values, slow loops, and what they refuse."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sentemb_core.errors import NoNegativesError
from sentemb_core.methods.bce import binary, pair_bce
from sentemb_core.methods.ct import tension
from sentemb_core.methods.is_bert import jensen_shannon, mutual_information
from sentemb_core.methods.parts.info_nce import binary_cross_entropy
from tests.methods.batches import (
    A,
    B,
    assert_same,
    batch,
    drawn,
    learner,
    may_be_wrong,
    seeds,
    similarity_of,
    tangled,
    view,
)

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "losses.json").read_text())

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


@given(masked_scores())
@settings(max_examples=40)
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


def test_equal_scores_are_no_information():
    assert jensen_shannon(torch.zeros(2, 2), OWN, ~OWN).item() == pytest.approx(0, abs=1e-7)
    assert jensen_shannon(100 * (2 * A - 1), OWN, ~OWN).item() == pytest.approx(-2 * math.log(2))


@given(masked_scores())
@settings(max_examples=40)
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


def test_one_sentence_has_no_negatives():
    own = torch.ones(3, 1, dtype=torch.bool)
    with pytest.raises(NoNegativesError, match=r"\b1\b"):
        jensen_shannon(torch.zeros(3, 1), own, ~own)
    term = mutual_information("tokens")
    with pytest.raises(NoNegativesError, match=r"\b1\b"):
        term({"tokens": torch.zeros(1, 2, 3)}, batch(tokens=view([5], lengths=[2])), learner())


@pytest.mark.parametrize("n", [2, 5, 8, 12])
def test_tension_holds_a_row_against_the_next_seven(n):
    rows = tangled(n, n=n)
    left, right = rows.views.values()

    def slow(v):
        losses = []
        for i, anchor in enumerate(v["anchor"]):
            losses.append((1 + (-similarity_of(anchor, v["positive"][i], "dot")).exp()).log())
            for shift in range(1, min(8, n)):
                j = (i + shift) % n
                if may_be_wrong(left, right, i, j, [i]):
                    score = similarity_of(anchor, v["positive"][j], "dot")
                    losses.append((1 + score.exp()).log())
        return torch.stack(losses).mean()

    assert_same(tension("anchor", "positive"), slow, drawn(rows, 3, seed=n), rows)


def informative(seed):
    lengths = [3, 1, 2, 4]
    sentences = view([0, 1, 1, 2], text=[0, 1, 2, 0], lengths=lengths)
    rows = batch(tokens=sentences, sentence=replace(sentences))
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randn(4, 4, 3, generator=generator, dtype=torch.float64)
    for row, length in enumerate(lengths):
        tokens[row, length:] = 0
    sentence = torch.randn(4, 3, generator=generator, dtype=torch.float64)
    return rows, {"tokens": tokens, "sentence": sentence}


def test_padding_carries_no_information():
    rows, vectors = informative(0)
    tokens = torch.cat([vectors["tokens"], torch.zeros(4, 3, 3, dtype=torch.float64)], dim=1)
    term = mutual_information("tokens")
    plain, _ = term(vectors, rows, learner())
    padded, _ = term({"tokens": tokens}, rows, learner())
    torch.testing.assert_close(plain, padded, atol=1e-14, rtol=0)


def test_a_batch_of_one_document_has_no_information_to_estimate():
    alone = view([5, 5], lengths=[1, 2])
    rows = batch(tokens=alone)
    vectors = {"tokens": torch.randn(2, 2, 3)}
    loss, metrics = mutual_information("tokens")(vectors, rows, learner())
    assert loss.item() == 0
    assert metrics == {"unopposed_anchors": 2}


@pytest.mark.parametrize(
    ("term", "reach"),
    [
        (binary("anchor", "positive", 0.05), 6),
        (tension("anchor", "positive"), 6),
        (tension("anchor", "positive", rivals=2), 3),
    ],
)
@seeds
def test_anchors_without_a_wrong_pair_are_counted(term, reach, seed):
    rows = tangled(seed)
    left, right = rows.views.values()
    lonely = sum(
        not any(may_be_wrong(left, right, i, (i + step) % 6, [i]) for step in range(reach))
        for i in range(6)
    )
    _, metrics = term(drawn(rows, 5), rows, learner())
    assert metrics == {"unopposed_anchors": lonely}


def test_tension_depends_on_neighbourhood_so_only_turns_leave_it_alone():
    rows = batch(anchor=view(range(12)), positive=view(range(12)))
    vectors = drawn(rows, 3)
    term = tension("anchor", "positive")
    before, _ = term(vectors, rows, learner())
    turned = {name: v.roll(5, dims=0) for name, v in vectors.items()}
    torch.testing.assert_close(before, term(turned, rows, learner())[0], atol=1e-12, rtol=0)


def test_orthogonal_pairs_cost_log_2_each():
    value = pair_bce(A, A.flip(0), OWN, OWN.new_zeros(2, 2), temperature=0.05, similarity="cosine")
    assert value.item() == pytest.approx(math.log(2), abs=1e-12)


def test_tension_of_a_large_batch_has_eight_pairs_a_row():
    rows = batch(anchor=view(range(20)), positive=view(range(20)))
    vectors = {name: torch.ones(20, 3) for name in rows.views}  # all logits are 3
    loss, _ = tension("anchor", "positive")(vectors, rows, learner())
    right, wrong = math.log1p(math.exp(-3)), math.log1p(math.exp(3))
    assert loss.item() == pytest.approx((right + 7 * wrong) / 8, rel=1e-6)
