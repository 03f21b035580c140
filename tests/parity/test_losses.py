"""Our losses beside those of sentence-transformers, pytorch-metric-learning and torch."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from sentemb_core.methods.ct import tension
from sentemb_core.methods.parts.info_nce import all_pairs, contrast
from sentemb_core.training.gradients import cached_gradients
from tests.methods.batches import batch, learner, view

ROWS = batch(anchor=view(range(6)), positive=view(range(6)))
TWO = ("anchor", "positive", 0.05)


@pytest.fixture
def vectors():
    generator = torch.Generator().manual_seed(0)
    draw = {"generator": generator, "dtype": torch.float64}
    return torch.randn(6, 8, **draw), torch.randn(6, 8, **draw)


@pytest.fixture
def losses():
    return pytest.importorskip("sentence_transformers.sentence_transformer.losses")


@pytest.fixture
def model():
    library = pytest.importorskip("sentence_transformers")
    return library.SentenceTransformer(modules=[nn.Identity()], device="cpu")


def assert_parity(term, theirs, vectors, rows=ROWS, tolerance=1e-12):
    """`theirs` returns its loss, and leaves a gradient when `backward` is called on it."""
    ours_in = [vector.clone().requires_grad_() for vector in vectors]
    theirs_in = [vector.clone().requires_grad_() for vector in vectors]
    loss, _ = term(dict(zip(rows.views, ours_in, strict=True)), rows, learner())
    expected = theirs(*theirs_in)
    loss.backward()
    if expected.requires_grad:
        expected.backward()
    torch.testing.assert_close(loss, expected, atol=tolerance, rtol=0, check_dtype=False)
    for ours, peer in zip(ours_in, theirs_in, strict=True):
        torch.testing.assert_close(ours.grad, peer.grad, atol=tolerance, rtol=0)


def test_one_way_equals_multiple_negatives_ranking_loss(losses, model, vectors):
    peer = losses.MultipleNegativesRankingLoss(model, scale=20.0)
    assert_parity(
        contrast(*TWO), lambda *two: peer.compute_loss_from_embeddings(list(two), None), vectors
    )


def test_one_way_equals_cached_multiple_negatives_ranking_loss(losses, model, vectors):
    peer = losses.CachedMultipleNegativesRankingLoss(model, scale=20.0, mini_batch_size=4)

    def cached(*two):
        chunks = [list(side.split(4)) for side in two]
        return peer.calculate_loss(chunks, None, with_backward=True)

    assert_parity(contrast(*TWO), cached, vectors)


class Mapped(nn.Linear):
    """Stands where a model stands, with something to learn and a dropout to replay."""

    def __init__(self):
        super().__init__(8, 8, dtype=torch.float64)

    def forward(self, features):
        return {"sentence_embedding": F.dropout(super().forward(features["vectors"]), 0.2)}


def test_our_gradient_cache_equals_cached_multiple_negatives_ranking_loss(losses, vectors):
    """In chunks of 4 rows, dropout replayed."""
    model = nn.Sequential(Mapped())
    peer = losses.CachedMultipleNegativesRankingLoss(model, scale=20.0, mini_batch_size=4)
    torch.manual_seed(1)
    expected = peer([{"vectors": rows} for rows in vectors], torch.empty(0))
    expected.backward()
    theirs = [weight.grad.clone() for weight in model.parameters()]

    model.zero_grad()
    chunks = [chunk for rows in vectors for chunk in rows.split(4)]
    chance = {}

    def encode(group, _):
        torch.set_rng_state(chance.setdefault(group, torch.get_rng_state()))
        return model({"vectors": chunks[group]})["sentence_embedding"], None

    def loss(parts):
        rows = zip(ROWS.views, torch.cat(parts).split(6), strict=True)
        return contrast(*TWO)(dict(rows), ROWS, learner())[0]

    torch.manual_seed(1)
    value = cached_gradients(encode, len(chunks), loss)
    assert len(chance) == 4
    torch.testing.assert_close(value, expected.detach(), atol=1e-12, rtol=0)
    ours = [weight.grad for weight in model.parameters()]
    torch.testing.assert_close(ours, theirs, atol=1e-12, rtol=0)


@pytest.mark.parametrize("temperature", [0.05, 0.5])
def test_all_pairs_equals_nt_xent_loss(temperature, vectors):
    library = pytest.importorskip("pytorch_metric_learning.losses")
    peer = library.NTXentLoss(temperature=temperature)
    labels = torch.arange(6).repeat(2)
    assert_parity(
        all_pairs("anchor", "positive", temperature),
        lambda *two: peer(torch.cat(two), labels),
        vectors,
        tolerance=1e-9,
    )


def test_clusters_equal_nt_xent_loss(vectors):
    library = pytest.importorskip("pytorch_metric_learning.losses")
    labels = [0, 0, 0, 1, 1, 2]
    rows = batch(sentence=view([0, 0, 0, 1, 1, 2], group=labels))
    assert_parity(
        contrast("sentence", "sentence", 0.2),
        lambda sentence: library.NTXentLoss(temperature=0.2)(sentence, torch.tensor(labels)),
        vectors[:1],
        rows,
        tolerance=1e-9,
    )


class Read(nn.Module):
    """Stands where a model stands: what it reads is its vector."""

    def forward(self, features):
        return {"sentence_embedding": features["vectors"]}


@pytest.mark.parametrize("rivals", [2, 7])
def test_tension_equals_contrastive_tension_loss(losses, vectors, rivals):
    peer = losses.ContrastiveTensionLoss(Read())
    shifts = range(min(rivals, 5) + 1)
    left = torch.arange(6).repeat(len(shifts))
    right = torch.cat([(torch.arange(6) + shift) % 6 for shift in shifts])

    def pairs(one, other):
        labels = (left == right).double()
        total = peer([{"vectors": one[left]}, {"vectors": other[right]}], labels)
        return total / len(labels)

    assert_parity(tension("anchor", "positive", rivals=rivals), pairs, vectors)


def test_one_way_equals_cross_entropy(vectors):
    def cross_entropy(*two):
        left, right = (F.normalize(vector, dim=-1) for vector in two)
        return F.cross_entropy(left @ right.T / 0.05, torch.arange(6))

    assert_parity(contrast(*TWO), cross_entropy, vectors)
