"""Samples of the optimum against exact draws at many points; the best guess against a grid."""

from __future__ import annotations

import pytest
import torch
from scipy.stats import ks_2samp
from torch import Tensor

from ax_costaware.acquisition import LatentSpace, best_latent_points, sample_optima
from ax_costaware.acquisition.local_search import ascend
from ax_costaware.exceptions import InputError
from ax_costaware.models import LatentPaths
from tests.acquisition.indirect_models import (
    BOUNDS,
    arms_model,
    indirect_model,
    line_model,
    posterior_of,
    rational_quadratic,
)
from tests.repeats import mostly_slow

SPACE = LatentSpace(BOUNDS)
LINE = LatentSpace(torch.tensor([[0.0], [1.0]], dtype=torch.double))


def grid(n: int = 201) -> Tensor:
    sides = [torch.linspace(low, high, n, dtype=torch.double) for low, high in BOUNDS.T.tolist()]
    return torch.cartesian_prod(*sides)


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("n", mostly_slow([3, 40], [40]))
def test_paths_are_maximised(learned: bool, n: int) -> None:
    posterior = posterior_of(indirect_model(n, learned))
    inputs, outputs = sample_optima(posterior, SPACE, 32, seed=3)
    assert inputs.shape == (32, 2)
    assert bool(((inputs >= BOUNDS[0]) & (inputs <= BOUNDS[1])).all())
    paths = LatentPaths(posterior, 32, 3)
    with torch.no_grad():
        assert torch.allclose(paths(inputs.unsqueeze(1)).squeeze(1), outputs)
        highest = torch.cat([paths(part) for part in grid().split(4000)], dim=-1).amax(dim=-1)
    assert bool((outputs >= highest - 1e-6).all())


def test_the_distribution_is_that_of_dense_joint_draws() -> None:
    model = line_model()
    X = torch.linspace(0, 1, 301, dtype=torch.double).unsqueeze(-1)
    joint = model.latent_posterior(X)
    root = torch.linalg.cholesky(
        joint.covariance_matrix.detach() + 1e-9 * torch.eye(301, dtype=torch.double)
    )
    generator = torch.Generator().manual_seed(5)
    noise = torch.randn(301, 600, dtype=torch.double, generator=generator)
    heights, rows = (joint.mean.detach() + root @ noise).max(dim=0)
    inputs, outputs = sample_optima(posterior_of(model), LINE, 600, seed=1)
    assert ks_2samp(outputs.numpy(), heights.numpy()).pvalue > 0.01
    assert ks_2samp(inputs.flatten().numpy(), X[rows].flatten().numpy()).pvalue > 0.01


def test_finite_spaces_are_sampled_exactly() -> None:
    points = ((0.0,), (0.3,), (0.8,))
    model = arms_model(points, ((0.5, 0.3, 0.2), (0.0, 0.2, 0.8)), 0.4)
    X = torch.tensor(points, dtype=torch.double)
    space = LatentSpace(torch.tensor([[0.0], [1.0]], dtype=torch.double), candidates=X)
    inputs, outputs = sample_optima(posterior_of(model), space, 20000, seed=2)
    joint = model.latent_posterior(X)
    torch.manual_seed(0)
    heights, rows = joint.rsample(torch.Size([20000])).squeeze(-1).detach().max(dim=-1)
    for row, point in enumerate(X.flatten().tolist()):
        expected = (rows == row).double().mean()
        assert float((inputs == point).double().mean()) == pytest.approx(float(expected), abs=0.02)
        assert ks_2samp(outputs[inputs[:, 0] == point], heights[rows == row]).pvalue > 1e-3
    # The same space, as a choice.
    choice = LatentSpace(space.bounds, choices={0: [0.0, 0.3, 0.8]})
    again = sample_optima(posterior_of(model), choice, 20000, seed=2)
    assert torch.equal(again[0], inputs)
    assert torch.equal(again[1], outputs)


def test_a_kernel_without_features_is_sampled_jointly() -> None:
    posterior = posterior_of(indirect_model(kernel=rational_quadratic()))
    inputs, outputs = sample_optima(posterior, SPACE, 8, seed=1)
    assert inputs.shape == (8, 2)
    mean, variance = posterior.latent(inputs)
    assert bool(((outputs - mean).abs() < 6 * variance.sqrt()).all())


def test_draws_follow_from_the_seed_alone() -> None:
    posterior = posterior_of(indirect_model())
    state = torch.get_rng_state()

    def values(seed: int) -> Tensor:
        inputs, outputs = sample_optima(posterior, SPACE, 4, seed)
        return torch.cat([*inputs.T, outputs])

    first = values(7)
    torch.manual_seed(123)
    assert torch.equal(values(7), first)
    assert not torch.equal(values(8), first)
    torch.set_rng_state(state)
    values(7)
    assert torch.equal(torch.get_rng_state(), state)
    assert not first.requires_grad
    with pytest.raises(InputError, match="num_samples=0"):
        sample_optima(posterior, SPACE, 0)


@pytest.mark.parametrize("learned", [False, True])
def test_the_best_point_and_the_other_local_optima(learned: bool) -> None:
    posterior = posterior_of(indirect_model(40, learned))
    X, mean, variance = best_latent_points(posterior, SPACE, num_restarts=12)
    with torch.no_grad():
        on_grid, _ = posterior.latent(grid())
        values = on_grid.reshape(201, 201)
    assert float(mean[0]) >= float(values.max()) - 1e-9
    assert bool((mean.diff() <= 0).all())
    assert torch.allclose(torch.stack(posterior.latent(X)), torch.stack([mean, variance]))
    # Each is at least as high as what is near it.
    steps = 0.02 * torch.randn(200, 2, generator=torch.Generator().manual_seed(0)).double()
    for x, height in zip(X, mean, strict=True):
        near = (x + steps).clamp(*BOUNDS)
        assert float(posterior.latent(near)[0].max().detach()) <= float(height) + 1e-6
    assert float(torch.pdist(X).min()) > 0.1


def test_points_of_a_space() -> None:
    space = LatentSpace(
        torch.tensor([[0.0, -1.0, 3.0], [2.0, 1.0, 3.0]], dtype=torch.double), {0: [0, 1, 2]}
    )
    points = space.sobol(300, seed=1)
    assert points.shape == (300, 3)
    assert set(points[:, 0].tolist()) == {0, 1, 2}
    assert bool((points[:, 1].abs() <= 1).all())
    assert bool((points[:, 2] == 3).all())
    assert space.held == (0, 2)
    assert space.points is None
    assert torch.equal(space.sobol(300, seed=1), points)
    lattice = LatentSpace(space.bounds, {0: [0, 1, 2], 1: (-1, 1)})
    assert lattice.points is not None
    assert lattice.points.tolist() == [[i, j, 3] for i in (0, 1, 2) for j in (-1, 1)]
    assert len(lattice.sobol(100, 0)) == 6
    chosen = lattice.sobol(4, 0)
    assert len(chosen.unique(dim=0)) == 4
    wide = LatentSpace(BOUNDS, {0: range(-5, 11), 1: torch.linspace(0, 15, 500).tolist()})
    assert wide.points is None
    inputs, outputs = sample_optima(posterior_of(indirect_model()), wide, 4)
    assert bool((inputs[:, 0] == inputs[:, 0].round()).all())
    assert bool(outputs.isfinite().all())


def test_ascent_of_many_concave_functions() -> None:
    """Ill-conditioned quadratics, most of whose maxima are on a face of the box."""
    generator = torch.Generator().manual_seed(3)
    bounds = torch.tensor([[-1.0, 0.0, 10.0], [1.0, 5.0, 40.0]], dtype=torch.double)
    width = bounds[1] - bounds[0]
    centre = torch.rand(20, 3, generator=generator).double() * 2 - 0.5
    rotation, _ = torch.linalg.qr(torch.randn(20, 3, 3, generator=generator).double())
    curvature = torch.tensor([1.0, 10.0, 100.0]).double() / 50

    def each_at(X: Tensor, which: Tensor) -> Tensor:
        offset = ((X - bounds[0]) / width - centre[which]).unsqueeze(1) @ rotation[which]
        values: Tensor = -(curvature * offset.squeeze(1).square()).sum(dim=-1)
        return values

    def function(X: Tensor, row: Tensor) -> Tensor:
        return each_at(X, row // 2)

    starts = bounds[0] + width * torch.rand(40, 3, generator=generator).double()
    free = torch.ones_like(starts, dtype=torch.bool)
    ends = ascend(function, starts, bounds, free, 60)
    values = function(ends, torch.arange(40))
    assert torch.allclose(values[::2], values[1::2], atol=2e-7)  # a concave function has one
    steps = 0.01 * width * torch.randn(500, 40, 3, generator=generator)
    near = (ends + steps).clamp(*bounds).reshape(-1, 3)
    around = function(near, torch.arange(40).repeat(500)).reshape(500, 40)
    assert bool((around <= values + 2e-8).all())


def test_ascent_never_falls_and_holds_columns() -> None:
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)

    def function(X: Tensor, row: Tensor | None = None) -> Tensor:
        waves: Tensor = (30 * X[..., 0]).sin() * (20 * X[..., 1]).cos()
        return waves

    generator = torch.Generator().manual_seed(1)
    starts = torch.rand(40, 2, generator=generator).double()
    starts[:20, 1] += 5  # what is held may be out of the bounds
    free = torch.tensor([True, False]).expand(40, -1)
    ends = ascend(function, starts, bounds, free, 60)
    assert bool((function(ends) >= function(starts)).all())
    assert torch.equal(ends[:, 1], starts[:, 1])
    # Inside, an end is at a summit of the line; else at an end of it.
    inside = (ends[:, 0] > 0) & (ends[:, 0] < 1)
    summits = (20 * starts[:, 1]).cos().abs()
    assert torch.allclose(function(ends)[inside], summits[inside], atol=1e-5)
    flat = ascend(lambda X, row: 0.0 * X.sum(dim=-1), starts, bounds, free, 60)
    assert torch.equal(flat, starts)
    still = ascend(function, starts, bounds, torch.zeros_like(free), 60)
    assert torch.equal(still, starts)
