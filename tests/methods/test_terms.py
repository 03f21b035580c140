"""The terms of one or two methods: wiring and masks against slow loops, and golden values."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from sentemb_core.config.methods import HiCL
from sentemb_core.errors import NoNegativesError
from sentemb_core.methods.hicl import hicl, segment_contrast
from sentemb_core.methods.parts.copies import FrozenCopy
from sentemb_core.methods.parts.info_nce import contrast
from sentemb_core.methods.parts.logistic import binary, mutual_information, tension
from sentemb_core.methods.parts.method import Learner
from sentemb_core.methods.parts.views import owners
from sentemb_core.methods.sg_opt import distance_to_start, layer_contrast
from sentemb_core.methods.sncse import soft_negative
from tests import tiny
from tests.methods.fixed import (
    GOLDEN,
    A,
    assert_same,
    batch,
    cross_entropy,
    drawn,
    learner,
    may_be_wrong,
    seeds,
    similarity_of,
    slow_segments,
    tangled,
    view,
)

OWNER = [0, 0, 0, 1, 2, 2, 3, 4, 4]
SLICED = view(
    [0, 0, 0, 1, 2, 2, 0, 3, 3], group=OWNER, text=[0, 0, 0, 1, 2, 2, 3, 2, 2], owner=OWNER
)  # sequence 3 comes from the document of sequence 0; 2 and 4 are one text of two documents


def segments_of(seed: int):
    """Five sequences sliced into 3, 1, 2, 1 and 2; a longer second view of the fourth."""
    longer = view(
        [0, 0, 0, 1, 2, 2, 0, 3, 3, 0],
        group=[*OWNER, 3],
        text=[0, 0, 0, 1, 2, 2, 3, 2, 2, 3],
        owner=[*OWNER, 3],
    )
    rows = batch(anchor=SLICED, positive=longer)
    return rows, drawn(rows, 5, seed=seed)


@seeds
@pytest.mark.parametrize("averaged", [False, True])
@pytest.mark.parametrize("negatives", ["second", "first"])
@pytest.mark.parametrize("siblings", ["ignored", "negative", "positive"])
def test_a_segment_chooses_itself_among_segments_of_other_sequences(
    seed, siblings, negatives, averaged
):
    rows, vectors = segments_of(seed)
    left, right = rows.views["anchor"], rows.views["positive"]

    def slow(v):
        views = v["anchor"], v["positive"], left, right
        return slow_segments(*views, (0.1, "cosine"), siblings, averaged, negatives=negatives)

    term = segment_contrast(
        "anchor",
        "positive",
        0.1,
        "cosine",
        rivals={"second": None, "first": "anchor"}[negatives],
        siblings=siblings,
        averaged=averaged,
    )
    assert_same(term, slow, vectors, rows)


H = torch.tensor([[1, 0], [0, 1], [0.6, 0.8]], dtype=torch.float64)
OTHER = torch.tensor([[0.8, 0.6], [0.6, 0.8], [1, 0]], dtype=torch.float64)
SUMS = torch.tensor([[0.8, 0.2, 0], [0, 0, 1]], dtype=torch.float64)
TWO_TEXTS = view([0, 0, 1], group=[0, 0, 1], text=[0, 0, 1], owner=[0, 0, 1])


def values_of_hicl(**settings) -> dict[str, tuple[float, float]]:
    """Weight and value of each term that a recipe joins, on the golden example."""
    method = hicl(HiCL(**settings), tiny.bert())
    vectors = {"anchor": SUMS @ H, "positive": SUMS @ OTHER}
    vectors |= {"anchor segments": H, "positive segments": OTHER}
    rows = batch(
        **{"anchor": owners(TWO_TEXTS), "positive": owners(TWO_TEXTS)},
        **{"anchor segments": TWO_TEXTS, "positive segments": replace(TWO_TEXTS)},
    )
    return {
        name: (weight, term(vectors, rows, learner())[0].item())
        for name, (weight, term) in method.terms.items()
    }


def test_hicl_has_its_golden_values():
    found = values_of_hicl(alpha=0.05)
    assert found.pop("local") == pytest.approx((0.05, GOLDEN["hicl_local"]), abs=1e-9)
    assert list(found.values()) == [pytest.approx((0.95, GOLDEN["hicl_global"]), abs=1e-9)]
    _, harder = values_of_hicl(siblings="negative")["local"]
    assert harder == pytest.approx(GOLDEN["hicl_local_same_sequence_negative"], abs=1e-9)


def test_hicl_v2_has_its_golden_entailment():
    """Segments choose among the sums of their own view."""
    found = values_of_hicl(beta=0.1)
    assert found["entailment"] == pytest.approx((0.1, GOLDEN["hicl_entail"]), abs=1e-9)


@seeds
@pytest.mark.parametrize("siblings", ["ignored", "negative", "positive"])
def test_with_one_segment_a_sequence_the_local_term_is_the_plain_one(seed, siblings):
    rows = tangled(seed)
    vectors = drawn(rows, 5)
    how = ("anchor", "positive", 0.05, "cosine")
    plain, _ = contrast(*how)(vectors, rows, learner())
    term = segment_contrast(*how, siblings=siblings, averaged=True)
    torch.testing.assert_close(term(vectors, rows, learner())[0], plain, atol=1e-12, rtol=0)


def test_segments_need_not_stand_in_order():
    rows, vectors = segments_of(0)
    order = np.array([4, 0, 7, 3, 1, 6, 5, 8, 2])  # segments of one sequence keep theirs
    anchor = rows.views["anchor"]
    moved = replace(
        anchor,
        **{name: getattr(anchor, name)[order] for name in ("document", "group", "text", "owner")},
    )
    term = segment_contrast("anchor", "positive", 0.05, "cosine")
    before, _ = term(vectors, rows, learner())
    shuffled = {**vectors, "anchor": vectors["anchor"][order]}
    after, _ = term(shuffled, batch(anchor=moved, positive=rows.views["positive"]), learner())
    torch.testing.assert_close(before, after, atol=1e-12, rtol=0)


def layered(rows, seed, layers=3):
    return {
        "anchor": drawn(rows, 4, seed=seed)["anchor"],
        "positive": drawn(rows, layers, 4, seed=seed)["positive"],
    }


@seeds
def test_an_anchor_chooses_each_of_its_layers_against_all_layers_of_others(seed):
    rows = tangled(seed)
    left, right = rows.views.values()

    def slow(v):
        losses = []
        for i, anchor in enumerate(v["anchor"]):
            rivals = [
                (similarity_of(anchor, layer, "cosine") / 0.1, 1.0)
                for j in range(len(right))
                if may_be_wrong(left, right, i, j, [i])
                for layer in v["positive"][j]
            ]
            losses += [
                cross_entropy(similarity_of(anchor, layer, "cosine") / 0.1, rivals)
                for layer in v["positive"][i]
            ]
        return torch.stack(losses).mean()

    metrics = assert_same(
        layer_contrast("anchor", "positive", 0.1), slow, layered(rows, seed), rows
    )
    assert metrics["unopposed_anchors"] % 3 == 0


def test_sg_opt_has_its_golden_value_and_is_one_way_with_one_layer():
    rows = batch(anchor=view([0, 1]), positive=view([0, 1]))
    layers = torch.tensor([[[1, 0], [0.6, 0.8]], [[0, 1], [0, 1]]], dtype=torch.float64)
    term = layer_contrast("anchor", "positive", 0.5)
    value, _ = term({"anchor": A, "positive": layers}, rows, learner())
    assert value.item() == pytest.approx(GOLDEN["sg_opt"], abs=1e-9)
    tangle = tangled(0)
    vectors = layered(tangle, 0, layers=1)
    single, _ = term(vectors, tangle, learner())
    flat = {**vectors, "positive": vectors["positive"][:, 0]}
    plain, _ = contrast("anchor", "positive", 0.5, "cosine")(flat, tangle, learner())
    torch.testing.assert_close(single, plain, atol=1e-12, rtol=0)


def test_the_distance_to_the_start_pulls_what_learns():
    encoder = tiny.bert()
    encoder.backbone.embeddings.word_embeddings.weight.requires_grad_(requires_grad=False)
    start = FrozenCopy(encoder)
    who = Learner(encoder, networks=nn.ModuleDict({"start": start}))
    term = distance_to_start()
    rows = tangled(0)
    assert term({}, rows, who)[0].item() == 0
    with torch.no_grad():
        for weight in encoder.parameters():
            weight += 0.5
    loss, metrics = term({}, rows, who)
    loss.backward()
    learning = [weight for weight in encoder.parameters() if weight.requires_grad]
    count = sum(weight.numel() for weight in learning)
    assert count < sum(weight.numel() for weight in encoder.parameters())
    assert loss.item() == pytest.approx(0.25 * count, rel=1e-4)
    for weight in learning:
        torch.testing.assert_close(weight.grad, torch.ones_like(weight), atol=1e-5, rtol=0)
    assert all(weight.grad is None for weight in start.parameters())
    assert metrics == {}


@seeds
def test_a_negated_sentence_is_held_between_two_margins_row_by_row(seed):
    rows = batch(one=view(range(6)), two=view(range(6)), three=view(range(6)))

    def slow(v):
        total = 0
        for z1, z2, z3 in zip(v["one"], v["two"], v["three"], strict=True):
            gap = similarity_of(z1, z3, "cosine") - similarity_of(z1, z2, "cosine")
            total = total + (gap + 0.1).clamp(min=0) + (-gap - 0.3).clamp(min=0)
        return total / 6

    term = soft_negative("one", "two", "three", low=0.1, high=0.3)
    assert_same(term, slow, drawn(rows, 5, seed=seed), rows)


@seeds
def test_bce_judges_every_pair_that_the_masks_allow(seed):
    rows = tangled(seed)
    left, right = rows.views.values()

    def slow(v):
        total = 0
        for i, anchor in enumerate(v["anchor"]):
            for j, candidate in enumerate(v["positive"]):
                x = similarity_of(anchor, candidate, "cosine") / 0.05
                if i == j:
                    total = total + (1 + (-x).exp()).log()
                elif may_be_wrong(left, right, i, j, [i]):
                    total = total + (1 + x.exp()).log()
        return total / len(left)

    assert_same(binary("anchor", "positive", 0.05, "cosine"), slow, drawn(rows, 5), rows)


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


def test_tension_of_a_large_batch_has_eight_pairs_a_row():
    rows = batch(anchor=view(range(20)), positive=view(range(20)))
    vectors = {name: torch.ones(20, 3) for name in rows.views}  # all logits are 3
    loss, _ = tension("anchor", "positive")(vectors, rows, learner())
    right, wrong = math.log1p(math.exp(-3)), math.log1p(math.exp(3))
    assert loss.item() == pytest.approx((right + 7 * wrong) / 8, rel=1e-6)


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


@seeds
def test_tokens_belong_to_their_sentence_and_to_no_other_documents(seed):
    rows, vectors = informative(seed)
    left = rows.views["tokens"]

    def slow(v):
        joint, marginal = [], []
        means = [v["tokens"][j, : len(own)].mean(0) for j, own in enumerate(left.tokens)]
        for i, tokens in enumerate(left.tokens):
            for t in range(len(tokens)):
                for j in range(4):
                    s = similarity_of(v["tokens"][i, t], means[j], "dot")
                    if i == j:
                        joint.append(math.log(2) - (1 + (-s).exp()).log())
                    elif may_be_wrong(left, left, i, j, [i]):
                        marginal.append((1 + (-s).exp()).log() + s - math.log(2))
        return torch.stack(marginal).mean() - torch.stack(joint).mean()

    assert_same(mutual_information("tokens"), slow, {"tokens": vectors["tokens"]}, rows)


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


def test_a_single_sentence_has_none_at_all():
    alone = view([5], lengths=[2])
    rows = batch(tokens=alone)
    vectors = {"tokens": torch.zeros(1, 2, 3)}
    with pytest.raises(NoNegativesError):
        mutual_information("tokens")(vectors, rows, learner())


@pytest.mark.parametrize(
    ("term", "reach"),
    [
        (binary("anchor", "positive", 0.05, "cosine"), 6),
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


def reordered(rows, order):
    return batch(
        **{
            name: replace(
                found,
                tokens=[found.tokens[k] for k in order],
                document=found.document[order],
                group=found.group[order],
                text=found.text[order],
            )
            for name, found in rows.views.items()
        }
    )


@pytest.mark.parametrize(
    "term",
    [
        segment_contrast("tokens", "sentence", 0.1, "cosine"),
        binary("tokens", "sentence", 0.1, "cosine"),
        soft_negative("tokens", "sentence", "tokens", low=0.1, high=0.3),
    ],
)
def test_the_order_of_a_batch_does_not_matter(term):
    rows, vectors = informative(1)
    flat = {name: v.reshape(4, -1)[:, :3] for name, v in vectors.items()}
    order = [2, 0, 3, 1]
    before, _ = term(flat, rows, learner())
    moved = {name: v[order] for name, v in flat.items()}
    after, _ = term(moved, reordered(rows, order), learner())
    torch.testing.assert_close(before, after, atol=1e-12, rtol=0)


def test_neither_does_it_for_tokens_and_layers():
    rows, vectors = informative(1)
    order = [2, 0, 3, 1]
    moved = {name: v[order] for name, v in vectors.items()}
    for term in (
        mutual_information("tokens"),
        layer_contrast("sentence", "tokens", 1.0),
    ):
        before, _ = term(vectors, rows, learner())
        after, _ = term(moved, reordered(rows, order), learner())
        torch.testing.assert_close(before, after, atol=1e-12, rtol=0)


def test_tension_depends_on_neighbourhood_so_only_turns_leave_it_alone():
    rows = batch(anchor=view(range(12)), positive=view(range(12)))
    vectors = drawn(rows, 3)
    term = tension("anchor", "positive")
    before, _ = term(vectors, rows, learner())
    turned = {name: v.roll(5, dims=0) for name, v in vectors.items()}
    torch.testing.assert_close(before, term(turned, rows, learner())[0], atol=1e-12, rtol=0)
