"""The softmax terms: masks and wiring against slow loops over the batch's columns."""

import pytest
import torch
from torch import nn

from sentemb_core.methods.parts.info_nce import all_pairs, contrast, info_nce
from tests.methods.fixed import (
    GOLDEN,
    A,
    B,
    assert_same,
    batch,
    cross_entropy,
    drawn,
    learner,
    may_be_wrong,
    seeds,
    similarity_of,
    slow_choice,
    tangled,
    view,
)


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
        contrast("anchor", "positive", *how),
        lambda v: slow_choice(v["anchor"], v["positive"], left, right, how).mean(),
        drawn(rows, 5, seed=seed),
        rows,
    )
    lonely = sum(
        not any(may_be_wrong(left, right, i, j, [i]) for j in range(len(right)))
        for i in range(len(left))
    )
    assert metrics == {"unopposed_anchors": lonely}


def test_a_view_may_choose_among_itself():
    sentences = view([0, 0, 0, 1, 1, 2, 2], group=[0, 0, 1, 2, 2, 3, 3], text=[0, 1, 2, 3, 0, 4, 5])
    rows = batch(sentence=sentences)
    how = (0.1, "cosine")
    assert_same(
        contrast("sentence", "sentence", *how),
        lambda v: slow_choice(v["sentence"], v["sentence"], sentences, sentences, how).mean(),
        drawn(rows, 4),
        rows,
    )


@seeds
def test_a_queue_adds_negatives_and_no_positive(seed):
    rows, how = tangled(seed), (0.05, "cosine")
    keys = torch.randn(3, 5, dtype=torch.float64)
    assert_same(
        contrast("anchor", "positive", *how, queue=True),
        lambda v: slow_choice(
            v["anchor"], v["positive"], *rows.views.values(), how, extra=keys
        ).mean(),
        drawn(rows, 5),
        rows,
        learner(queue=Keys(keys)),
    )


def test_an_empty_queue_changes_nothing():
    rows = tangled(0)
    vectors = drawn(rows, 5)
    plain, _ = contrast("anchor", "positive", 0.05, "cosine")(vectors, rows, learner())
    queued = contrast("anchor", "positive", 0.05, "cosine", queue=True)
    assert queued(vectors, rows, learner(queue=Keys(torch.empty(0, 5))))[0] == plain


@seeds
def test_a_bilinear_map_acts_on_the_anchors_and_learns(seed):
    rows, how = tangled(seed), (1.0, "dot")
    weight = torch.randn(5, 5, dtype=torch.float64)
    linear = nn.Linear(5, 5, bias=False, dtype=torch.float64)
    linear.weight.data = weight.clone()
    slow_weight = weight.clone().requires_grad_()

    def slow(v):
        mapped = torch.stack([slow_weight @ anchor for anchor in v["anchor"]])
        return slow_choice(mapped, v["positive"], *rows.views.values(), how).mean()

    term = contrast("anchor", "positive", *how, bilinear=True)
    assert_same(term, slow, drawn(rows, 5), rows, learner(bilinear=linear))
    torch.testing.assert_close(linear.weight.grad, slow_weight.grad, atol=1e-10, rtol=1e-9)


@seeds
@pytest.mark.parametrize("within", [False, True])
def test_all_pairs_lets_every_row_choose_among_all_others(seed, within):
    rows, how = tangled(seed), (0.1, "cosine")
    n = len(rows.views["anchor"])
    columns = [
        (int(v.document[i]), int(v.text[i]), i) for v in rows.views.values() for i in range(n)
    ]

    def slow(v):
        both = torch.cat([v["anchor"], v["positive"]])
        losses = []
        for i, (document, text, row) in enumerate(columns):
            partner = (i + n) % (2 * n)
            right_texts = {text, columns[partner][1]}
            assert columns[partner][2] == row
            rivals = [
                similarity_of(both[i], both[j], how[1]) / how[0]
                for j, (other, its_text, _) in enumerate(columns)
                if j not in (i, partner)
                and its_text not in right_texts
                and (within or other != document)
            ]
            score = similarity_of(both[i], both[partner], how[1]) / how[0]
            losses.append(cross_entropy(score, [(rival, 1.0) for rival in rivals]))
        return torch.stack(losses).mean()

    term = all_pairs("anchor", "positive", *how, within_document=within)
    assert_same(term, slow, drawn(rows, 5, seed=seed), rows)


@pytest.mark.parametrize("make", [contrast, all_pairs])
def test_the_order_of_a_batch_does_not_matter(make):
    rows = tangled(1)
    order = torch.randperm(len(rows.views["anchor"]), generator=torch.Generator().manual_seed(0))
    moved = batch(
        **{
            name: view(
                v.document[order.numpy()], group=v.group[order.numpy()], text=v.text[order.numpy()]
            )
            for name, v in rows.views.items()
        }
    )
    vectors = drawn(rows, 5)
    term = make("anchor", "positive", 0.05, "cosine")
    before, _ = term(vectors, rows, learner())
    after, _ = term({name: v[order] for name, v in vectors.items()}, moved, learner())
    torch.testing.assert_close(before, after, atol=1e-12, rtol=0)


def test_the_forms_of_the_papers_have_their_golden_values():
    two = ("anchor", "positive", 0.05, "cosine")
    queue = learner(queue=Keys(torch.tensor([[1.0, 0.0]])))
    found = {
        "one_way": value(contrast(*two), A, B),
        "all_pairs_mean": value(all_pairs(*two), A, B),
        "all_pairs_sum": 4 * value(all_pairs(*two), A, B),
        "two_means": 2 * value(all_pairs("anchor", "positive", 0.1, "cosine"), A, B),
        "dot": value(contrast("anchor", "positive", 1.0, "dot"), A, B),
        "queue": value(contrast(*two, queue=True), A, B, who=queue),
    }
    assert found == pytest.approx({name: GOLDEN[name] for name in found}, abs=1e-9, rel=0)


def test_a_document_is_masked():
    x = torch.eye(3, dtype=torch.float64)
    y = torch.tensor([[0.6, 0.8, 0], [0.8, 0.6, 0], [0, 0, 1]], dtype=torch.float64)
    rows = batch(anchor=view([0, 0, 1]), positive=view([0, 0, 1], text=[3, 4, 5]))
    two = ("anchor", "positive", 0.05, "cosine")
    masked = value(contrast(*two), x, y, rows=rows)
    own = torch.eye(3, dtype=torch.bool)
    unmasked = info_nce(x, y, own, ~own, temperature=0.05, similarity="cosine").item()
    assert masked == pytest.approx(GOLDEN["same_document_masked"], abs=1e-10)
    assert unmasked == pytest.approx(GOLDEN["same_document_unmasked"], abs=1e-6)


def test_declutr_keeps_anchors_of_its_document_as_negatives():
    spans = torch.tensor([[[1, 0], [0.6, 0.8]], [[0, 1], [0, 1]]], dtype=torch.float64)
    rows = batch(anchor=view([0, 0]), positive=view([0, 0], text=[2, 3]))
    term = all_pairs("anchor", "positive", 0.05, "cosine", within_document=True)
    found = value(term, A, spans.mean(dim=1), rows=rows)
    assert found == pytest.approx(GOLDEN["declutr_two_positives"], abs=1e-9)


def test_conpono_maps_its_context():
    linear = nn.Linear(2, 2, bias=False, dtype=torch.float64)
    linear.weight.data = torch.diag(torch.tensor([2.0, 1.0], dtype=torch.float64))
    context = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    targets = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64)
    rows = batch(anchor=view([0]), positive=view([0, 1, 2]))
    term = contrast("anchor", "positive", 1.0, "dot", bilinear=True)
    found = value(term, context, targets, rows=rows, who=learner(bilinear=linear))
    assert found == pytest.approx(GOLDEN["conpono_bilinear"], abs=1e-9)
