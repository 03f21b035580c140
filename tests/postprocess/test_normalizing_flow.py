"""The normalizing flow: log-determinant, training, and its dense layers."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sentemb_core.errors import BadEmbeddingError, DivergedError, UsageError
from sentemb_core.postprocess.normalizing_flow import (
    NormalizingFlow,
    Step,
    fitted_flow,
)


def bent(seed: int, n: int = 600, dim: int = 9) -> np.ndarray:
    """Correlated vectors on a curved sheet, far from a normal distribution."""
    rng = np.random.default_rng(seed)
    flat = rng.normal(size=(n, dim))
    flat[:, dim // 2] = 2 * flat[:, 0] ** 2 + 0.3 * flat[:, dim // 2]
    return (flat @ rng.normal(size=(dim, dim)) + 3).astype(np.float32)


def disturbed(dim: int, seed: int, **shape: int) -> NormalizingFlow:
    """Every parameter away from where it starts, in double precision."""
    flow = NormalizingFlow(dim, seed, width=4, **shape)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weights in flow.parameters():
            weights.add_(torch.randn(weights.shape, generator=generator) * 0.3)
    return flow.double().requires_grad_(False)


SHAPES = {"dim": st.integers(8, 20), "levels": st.integers(1, 3), "depth": st.integers(1, 3)}


@settings(max_examples=20)
@given(seed=st.integers(0, 1000), **SHAPES)
def test_log_determinant_equals_the_jacobians(seed: int, dim: int, levels: int, depth: int):
    flow = disturbed(dim, seed, levels=levels, depth=depth)
    vector = torch.randn(dim, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(lambda u: flow(u[None])[0], vector)
    expected = torch.linalg.slogdet(jacobian).logabsdet
    torch.testing.assert_close(flow.log_determinant(), expected, rtol=1e-8, atol=1e-8)


def test_coupling_and_permutation_keep_the_volume():
    step = Step(6, 4).double()
    torch.nn.init.normal_(step.last.weight)
    vector = torch.randn(6, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(lambda u: step(u[None])[0], vector)
    assert torch.linalg.slogdet(jacobian).logabsdet.abs() < 1e-12


def test_initial_likelihood_is_standard_normal():
    flow = NormalizingFlow(12, seed=1).double()
    vectors = torch.randn(5, 12, dtype=torch.float64) * 3
    expected = vectors.square().sum(1) / 2 + 6 * math.log(2 * math.pi)
    torch.testing.assert_close(flow.negative_log_likelihood(vectors), expected, rtol=0, atol=1e-12)


def test_normalised_likelihood_is_the_fitted_normals():
    data = torch.from_numpy(bent(2)).double()
    flow = NormalizingFlow(9, seed=0).double()
    flow.normalise_first(data)
    normal = torch.distributions.Normal(data.mean(0), data.std(0))
    expected = -normal.log_prob(data).sum(1)
    torch.testing.assert_close(flow.negative_log_likelihood(data), expected, rtol=1e-9, atol=1e-9)


@settings(max_examples=20)
@given(seed=st.integers(0, 1000), dim=st.integers(8, 20), levels=st.integers(2, 3))
def test_level_keeps_the_second_half_of_the_level_before(seed, dim, levels):
    less, more = (disturbed(dim, seed, levels=count) for count in (levels - 1, levels))
    vectors = torch.randn(7, dim, dtype=torch.float64)
    done = dim // 2 ** (levels - 1)
    torch.testing.assert_close(more(vectors)[:, done:], less(vectors)[:, done:], rtol=0, atol=0)
    assert not torch.allclose(more(vectors)[:, :done], less(vectors)[:, :done])


def test_training_beats_a_diagonal_normal_on_held_out_vectors():
    train, held = torch.from_numpy(bent(0, n=1500)).split(1000)
    plain = NormalizingFlow(9, seed=0)
    plain.normalise_first(train)
    flow = fitted_flow(train.numpy(), seed=0, epochs=6)
    before, after = (f.negative_log_likelihood(held).mean().item() for f in (plain, flow))
    assert after < before - 1


def test_progress_counts_processed_vectors():
    processed: list[int] = []
    vectors = np.random.default_rng(0).normal(size=(100, 8)).astype(np.float32)
    fitted_flow(vectors, 0, epochs=2, batch_size=40, progress=processed.append)
    assert processed == [40, 80, 100, 140, 180, 200]


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[tuple[torch.Tensor, int]]:
    """The vectors of every step of a training, and its number of threads."""
    seen: list[tuple[torch.Tensor, int]] = []
    measured = NormalizingFlow.negative_log_likelihood

    def noted(self: NormalizingFlow, vectors: torch.Tensor) -> torch.Tensor:
        seen.append((vectors, torch.get_num_threads()))
        return measured(self, vectors)

    monkeypatch.setattr(NormalizingFlow, "negative_log_likelihood", noted)
    return seen


def test_every_epoch_has_its_own_order(batches):
    vectors = torch.from_numpy(bent(0, n=100))
    fitted_flow(vectors.numpy(), seed=0, epochs=2, batch_size=40)
    seen = [batch for batch, _ in batches]
    orders = [
        [vectors.eq(row).all(1).nonzero().item() for row in torch.cat(seen[start : start + 3])]
        for start in (0, 3)
    ]
    stored = list(range(100))
    assert [sorted(order) for order in orders] == [stored, stored]
    assert orders[0] != orders[1]
    assert stored not in orders


def test_flow_depends_on_the_seed_alone():
    found: list[NormalizingFlow] = []
    for seed in (4, 4, 5):
        torch.rand(1)  # whatever was drawn before
        found.append(fitted_flow(bent(1), seed))
    one, again, other = found
    orders = [[step.order for step in flow.steps] for flow in (one, other)]
    assert not all(map(torch.equal, *orders))
    assert all(map(torch.equal, one.state_dict().values(), again.state_dict().values()))
    assert not all(map(torch.equal, one.state_dict().values(), other.state_dict().values()))


def test_global_generator_is_unchanged():
    before = torch.random.get_rng_state()
    fitted_flow(bent(1), seed=4).layers()
    assert torch.equal(torch.random.get_rng_state(), before)


@settings(max_examples=20)
@given(seed=st.integers(0, 1000), **SHAPES)
def test_layers_equal_the_flow(seed: int, dim: int, levels: int, depth: int):
    flow = disturbed(dim, seed, levels=levels, depth=depth)
    vectors = torch.randn(7, dim, dtype=torch.float64)
    torch.testing.assert_close(flow.layers()(vectors), flow(vectors), rtol=1e-9, atol=1e-9)


def test_rounding_is_not_enlarged():
    vectors = bent(0)
    vectors[:, 2] = 0.25 + np.random.default_rng(0).normal(size=len(vectors)) * 1e-8
    flow = NormalizingFlow(9, seed=0)
    flow.normalise_first(torch.from_numpy(vectors))
    deviations = flow(torch.from_numpy(vectors)).std(dim=0).sort().values
    assert deviations[0] < 1e-6
    torch.testing.assert_close(deviations[1:], torch.ones(8), rtol=1e-4, atol=0)


def test_unfit_vectors_are_refused():
    with pytest.raises(UsageError, match=r"\b8 dimensions; found 7\b.*whitening"):
        NormalizingFlow(7, seed=0)
    for vectors in (np.ones((9, 8), np.float32), np.full((9, 8), np.nan, np.float32)):
        with pytest.raises(BadEmbeddingError, match=r"differ; 9 "):
            fitted_flow(vectors, seed=0)
    with pytest.raises(DivergedError, match=r"nan .*1e\+06.*whitening"):
        fitted_flow(bent(0), seed=0, learning_rate=1e6, epochs=3)


def test_flow_trains_on_one_thread(batches):
    """Sums are added up in another order on another number of threads."""
    torch.set_num_threads(2)
    fitted_flow(bent(0, n=64), seed=0)
    assert ({threads for _, threads in batches}, torch.get_num_threads()) == ({1}, 2)
