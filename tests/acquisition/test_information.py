"""Information about the best query: against dense linear algebra, quadrature and grids."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import cast

import pytest
import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.models import KroneckerMultiTaskGP, MixedSingleTaskGP, ModelListGP, SingleTaskGP
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel
from torch import Tensor

from ax_costaware.acquisition import best_queries, optimize_control_sets
from ax_costaware.acquisition.best_queries import (
    Information,
    maximal_controls,
    sample_best_queries,
)
from ax_costaware.acquisition.criteria import MEAN
from ax_costaware.acquisition.objectives import NodeObjective
from ax_costaware.acquisition.partial_query import QueryNodes
from ax_costaware.acquisition.starts import SearchDomain
from ax_costaware.exceptions import UnsupportedInputError
from ax_costaware.models.cached_posterior import CachedPosterior
from ax_costaware.models.fourier_path import FourierPath
from ax_costaware.queries import Uniform, sobol_nodes

NOISE = 0.04


def gp(n: int = 6, d: int = 2, kernel: RBFKernel | MaternKernel | None = None) -> SingleTaskGP:
    """A GP with fixed hyperparameters on ``n`` points of a smooth function."""
    generator = torch.Generator().manual_seed(n)
    X = torch.rand(n, d, dtype=torch.double, generator=generator)
    Y = torch.sin(5 * X).sum(dim=-1, keepdim=True)
    base = RBFKernel(ard_num_dims=d) if kernel is None else kernel
    model = SingleTaskGP(X, Y, covar_module=ScaleKernel(base), outcome_transform=None)
    base.lengthscale = torch.full((d,), 0.3, dtype=torch.double)
    model.covar_module.outputscale = torch.tensor(1.3, dtype=torch.double)
    model.likelihood.noise = torch.tensor(NOISE, dtype=torch.double)
    return cast(SingleTaskGP, model.eval().requires_grad_(False))


def cached(model: SingleTaskGP) -> CachedPosterior:
    posterior = CachedPosterior.from_model(model)
    assert posterior is not None
    return posterior


def query(seed: int, m: int = 5) -> tuple[Tensor, Tensor]:
    """Nodes and weights of a query that leaves the second input to chance."""
    nodes, weights = sobol_nodes([Uniform(0, 1)] * 2, m, seed=seed)
    nodes[:, 0] = nodes[0, 0]
    return nodes, weights


def unit_cube(d: int) -> Tensor:
    return torch.stack([torch.zeros(d), torch.ones(d)]).double()


def domain(d: int) -> SearchDomain:
    half = torch.full((d,), 0.5, dtype=torch.double)
    return SearchDomain(unit_cube(d), default=half, discrete=(), constraints=(), fixed={})


@pytest.mark.parametrize(
    "kernel", [None, MaternKernel(nu=2.5, ard_num_dims=2)], ids=["rbf", "matern"]
)
def test_linear_information_is_that_of_the_joint_gaussian(kernel: MaternKernel | None) -> None:
    model = gp(kernel=kernel)
    posterior = cached(model)
    queries = [query(1), query(2)]
    best = Information(posterior, torch.zeros(2, 2).double(), queries)
    points = torch.rand(4, 2, dtype=torch.double, generator=torch.Generator().manual_seed(3))
    information = best.information(points)
    for i, point in enumerate(points):
        expected = 0.0
        for nodes, weights in queries:
            joint = model.posterior(torch.cat([point.unsqueeze(0), nodes]))
            covariance = joint.distribution.covariance_matrix
            to_pair = torch.zeros(2, len(nodes) + 1).double()
            to_pair[0, 0], to_pair[1, 1:] = 1.0, weights
            pair = to_pair @ covariance @ to_pair.T
            pair[0, 0] += NOISE
            expected += float(0.5 * (pair[0, 0].log() + pair[1, 1].log() - pair.logdet())) / 2
        assert information[i] == pytest.approx(expected, rel=1e-6)


def test_the_bound_adds_what_a_truncated_density_tells() -> None:
    """One sample and one point: the entropy of y given f(x*) = b and f(x) <= b, by quadrature."""
    model = gp()
    posterior = cached(model)
    star = torch.tensor([[0.7, 0.2]], dtype=torch.double)
    point = torch.tensor([[0.6, 0.35]], dtype=torch.double)
    joint = model.posterior(torch.cat([point, star]))
    mean, covariance = joint.mean.flatten(), joint.distribution.covariance_matrix
    bound = float(mean[1] + 0.8 * covariance[1, 1].sqrt())
    best = Information(
        posterior, star, [(star, torch.ones(1).double())], torch.tensor([bound]).double()
    )
    information = best.information(point)
    slope = covariance[0, 1] / covariance[1, 1]
    m = float(mean[0] + slope * (bound - mean[1]))
    v = float(covariance[0, 0] - slope * covariance[0, 1])
    y = torch.linspace(m - 9, m + 9, 20_001, dtype=torch.double)
    # y's density: a Gaussian times the probability that f(x) is below the bound given y.
    gain, left = v / (v + NOISE), math.sqrt(v * NOISE / (v + NOISE))
    log_p = -0.5 * (y - m) ** 2 / (v + NOISE)
    log_p = log_p + torch.special.log_ndtr((bound - m - gain * (y - m)) / left)
    step = y[1] - y[0]
    log_p = log_p - (log_p.exp().sum() * step).log()
    entropy = -float((log_p.exp() * log_p).sum() * step)
    before = 0.5 * math.log(2 * math.pi * math.e * (float(covariance[0, 0]) + NOISE))
    assert float(information) == pytest.approx(before - entropy, rel=1e-6)


def test_a_trial_is_worth_the_average_over_where_it_lands() -> None:
    posterior = cached(gp())
    best = Information(posterior, torch.zeros(2, 2).double(), [query(1), query(2)])
    nodes, weights = sobol_nodes([Uniform(0, 1)] * 2, 16)
    laws = [QueryNodes(nodes, weights, [0]), QueryNodes(nodes, weights, [0, 1])]
    information = best
    objective = NodeObjective(laws, information, MEAN)
    X = torch.rand(3, 2, dtype=torch.double, generator=torch.Generator().manual_seed(1))
    values = objective(X, torch.tensor([0, 1, 0]))
    for row in (0, 2):
        landed = nodes.clone()
        landed[:, 0] = X[row, 0]
        assert values[row] == pytest.approx(float(weights @ information.information(landed)))
    assert values[1] == pytest.approx(float(information.information(X[1:2])))
    coarse = objective(X, torch.tensor([0, 1, 0]), coarse=True)
    assert coarse[1] == values[1]
    assert 0.3 * values[0] < coarse[0] < 3 * values[0]


@pytest.mark.parametrize("bounded", [False, True])
def test_gradient_against_finite_differences(bounded: bool) -> None:
    posterior = cached(gp())
    stars = torch.tensor([[0.7, 0.2], [0.1, 0.9]], dtype=torch.double)
    queries = [(star.unsqueeze(0), torch.ones(1).double()) for star in stars]
    bounds = torch.tensor([2.5, 2.0]).double() if bounded else None
    best = Information(posterior, stars, queries, bounds)
    nodes, weights = sobol_nodes([Uniform(0, 1)] * 2, 8)
    laws = [QueryNodes(nodes, weights, [0])]
    objective = NodeObjective(laws, best, MEAN)
    X = torch.tensor([[0.33, 0.5], [0.81, 0.5]], dtype=torch.double, requires_grad=True)
    sets = torch.zeros(2, dtype=torch.long)
    (gradient,) = torch.autograd.grad(objective(X, sets).sum(), X)
    step = torch.zeros(2, 2).double()
    step[:, 0] = 1e-5
    difference = (objective(X + step, sets) - objective(X - step, sets)) / 2e-5
    torch.testing.assert_close(gradient[:, 0], difference.detach(), rtol=1e-5, atol=1e-8)


def test_knows_more_where_noise_is_less_and_nothing_far_away() -> None:
    model = gp()
    star = torch.tensor([[0.7, 0.2]], dtype=torch.double)
    points = torch.tensor([[0.7, 0.2], [9.0, 9.0]], dtype=torch.double)
    found = []
    for noise in (0.01, 1.0):
        posterior = replace(cached(model), noise=torch.full((6,), noise).double())
        best = Information(posterior, star, [(star, torch.ones(1).double())])
        found.append(best.information(points))
    assert found[0][0] > found[1][0] > 0
    assert found[0][1] == pytest.approx(0.0, abs=1e-12)


def test_maximal_controls() -> None:
    assert maximal_controls([[0], [1], [0, 1], [2], [2, 0]]) == [2, 4]
    assert maximal_controls([[0]]) == [0]


class TestSamples:
    @pytest.mark.parametrize(
        "kernel", [None, MaternKernel(nu=2.5, ard_num_dims=2)], ids=["batched", "one by one"]
    )
    def test_are_the_optima_of_posterior_samples(
        self, kernel: MaternKernel | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(best_queries, "NUM_SAMPLES", 3)
        posterior = cached(gp(kernel=kernel))
        nodes, weights = sobol_nodes([Uniform(0, 1)] * 2, 8)
        controls = [[0], [0, 1]]
        laws = [QueryNodes(nodes, weights, held) for held in controls]
        best = sample_best_queries(posterior, laws, controls, domain(2), seed=5)
        line = torch.linspace(0, 1, 101, dtype=torch.double)
        grid = torch.cartesian_prod(line, line)
        k = posterior.prior_covariance(grid, posterior.X)
        assert best.bounds is not None
        for i in range(3):
            path = posterior.prior_mean + FourierPath.draw(posterior, 5 + i)(grid, k)
            assert best.bounds[i] >= path.max() - 1e-6
            assert best.bounds[i] <= path.max() + 0.01
            nearest = grid[path.argmax()]
            assert (best.points[i] - nearest).abs().max() <= 0.02

    def test_leave_to_chance_what_no_control_set_controls(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(best_queries, "NUM_SAMPLES", 2)
        posterior = cached(gp())
        nodes, weights = sobol_nodes([Uniform(0, 1)] * 2, 128)
        laws = [QueryNodes(nodes, weights, [0])]
        best = sample_best_queries(posterior, laws, [[0]], domain(2), seed=5)
        assert best.bounds is None
        assert len(best.nodes) == 2 * 64
        torch.testing.assert_close(best.membership.sum(dim=0), torch.ones(2).double())


def test_search_finds_the_largest_information() -> None:
    model = gp()
    nodes, weights = sobol_nodes([Uniform(0, 1)] * 2, 16)
    found = optimize_control_sets(
        model, unit_cube(2), [[0], [0, 1]], nodes, weights, acquisition="information", seed=3
    )
    posterior = cached(model)
    laws = [QueryNodes(nodes, weights, [0]), QueryNodes(nodes, weights, [0, 1])]
    best = sample_best_queries(posterior, laws, [[0], [0, 1]], domain(2), seed=3)
    objective = NodeObjective(laws, best, MEAN)
    line = torch.linspace(0, 1, 201, dtype=torch.double)
    along = objective(torch.stack([line, line], dim=-1), torch.zeros(201, dtype=torch.long))
    assert found.values[0] >= along.max() - 1e-6
    grid = torch.cartesian_prod(line[::4], line[::4])
    everywhere = objective(grid, torch.ones(len(grid), dtype=torch.long))
    assert found.values[1] >= everywhere.max() - 1e-6
    assert found.values[1] >= found.values[0]


@pytest.mark.parametrize("controls", [[[0], [0, 1]], [[0], [1]]], ids=["bounded", "random"])
def test_minimising_the_negative_tells_as_much(controls: list[list[int]]) -> None:
    """Also where the sampled optimum bounds the function, then from below."""
    up, down = gp(), gp()
    down.set_train_data(targets=-down.train_targets, strict=True)
    down.mean_module.constant = -down.mean_module.constant
    minimise = ScalarizedPosteriorTransform(-torch.ones(1, dtype=torch.double))
    nodes, weights = sobol_nodes([Uniform(0, 1)] * 2, 16)
    one, other = (
        optimize_control_sets(
            model, unit_cube(2), controls, nodes, weights,
            acquisition="information", posterior_transform=transform, seed=3,
        )
        for model, transform in ((up, None), (down, minimise))
    )  # fmt: skip
    torch.testing.assert_close(one.values, other.values, rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(one.points, other.points, rtol=0, atol=1e-6)


def test_same_seed_same_answer_and_pending_points_are_learned_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(best_queries, "NUM_SAMPLES", 4)
    model = gp()
    nodes, weights = sobol_nodes([Uniform(0, 1)] * 2, 16)

    def search(pending: Tensor | None = None) -> tuple[Tensor, Tensor]:
        return optimize_control_sets(
            model, unit_cube(2), [[0, 1]], nodes, weights, acquisition="information",
            X_pending=pending, seed=1,
        )  # fmt: skip

    first, again = search(), search()
    assert torch.equal(first[0], again[0])
    assert (search(pending=first[0])[0] - first[0]).abs().max() > 0.02


def test_refuses_models_that_it_cannot_sample() -> None:
    X = torch.rand(4, 2, dtype=torch.double)
    model = KroneckerMultiTaskGP(X, X)
    nodes, weights = sobol_nodes([Uniform(0, 1)] * 2, 4)
    two = ModelListGP(gp(), gp())
    for bad in (model, two):
        with pytest.raises(UnsupportedInputError, match=r"model: got \w+; the acquisition 'inform"):
            optimize_control_sets(
                bad, unit_cube(2), [[0]], nodes, weights, acquisition="information"
            )
    mixed = MixedSingleTaskGP(X.round(), X[:, :1], cat_dims=[1])
    with pytest.raises(UnsupportedInputError, match=r"model: got Mixed\w+; the acquisition 'ts'"):
        optimize_control_sets(mixed, unit_cube(2), [[0]], nodes, weights, acquisition="ts")


@pytest.mark.parametrize("dtype", [torch.double, torch.float])
def test_a_trial_at_the_best_point_tells_a_finite_amount(dtype: torch.dtype) -> None:
    """In single precision a billionth of its variance is none, which it would be divided by."""
    posterior = cached(gp(kernel=MaternKernel(nu=2.5, ard_num_dims=2)).to(dtype))
    points = torch.rand(20, 2, generator=torch.Generator().manual_seed(0)).to(dtype)
    queries = [(point.unsqueeze(0), torch.ones(1, dtype=dtype)) for point in points]
    best = Information(posterior, points, queries)
    best.bounds = best.means + best.variances.sqrt()
    information = best.information(points)
    assert bool(information.isfinite().all())
    assert bool((information > 0).all())
