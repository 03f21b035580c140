"""Our kernel beside sentence-transformers' and torch's own."""

import pytest
import torch
import torch.nn.functional as F

from sentemb_core.losses.info_nce import info_nce


@pytest.fixture
def vectors():
    generator = torch.Generator().manual_seed(0)
    draw = {"generator": generator, "dtype": torch.float64}
    return torch.randn(6, 8, **draw), torch.randn(6, 8, **draw)


def test_one_way_equals_multiple_negatives_ranking_loss(vectors):
    losses = pytest.importorskip("sentence_transformers.sentence_transformer.losses")
    sentence_transformers = pytest.importorskip("sentence_transformers")
    model = sentence_transformers.SentenceTransformer(modules=[torch.nn.Identity()], device="cpu")
    theirs = losses.MultipleNegativesRankingLoss(model, scale=20.0)
    own = torch.eye(6, dtype=torch.bool)
    ours = info_nce(*vectors, own, ~own, temperature=0.05, similarity="cosine")
    expected = theirs.compute_loss_from_embeddings(list(vectors), None)
    torch.testing.assert_close(ours, expected, atol=1e-12, rtol=0)


def test_one_way_equals_cross_entropy_in_loss_and_gradient(vectors):
    ours_in = [vector.clone().requires_grad_() for vector in vectors]
    theirs_in = [vector.clone().requires_grad_() for vector in vectors]
    own = torch.eye(6, dtype=torch.bool)
    ours = info_nce(*ours_in, own, ~own, temperature=0.05, similarity="cosine")
    left, right = (F.normalize(vector, dim=-1) for vector in theirs_in)
    theirs = F.cross_entropy(left @ right.T / 0.05, torch.arange(6))
    ours.backward()
    theirs.backward()
    torch.testing.assert_close(ours, theirs, atol=1e-12, rtol=0)
    for our, their in zip(ours_in, theirs_in, strict=True):
        torch.testing.assert_close(our.grad, their.grad, atol=1e-12, rtol=0)
