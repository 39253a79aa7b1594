"""Improvement per cost over an uncertain incumbent."""

from __future__ import annotations

import math

import pytest
import torch
from botorch.models import SingleTaskGP
from botorch.models.transforms.outcome import Standardize
from botorch.optim import optimize_acqf
from botorch.utils.sampling import draw_sobol_normal_samples
from gpytorch.priors import SmoothedBoxPrior
from torch import Tensor

from ax_costaware.acquisition import (
    LogNoisyExpectedImprovementPerCost,
)
from ax_costaware.acquisition.noisy_improvement import NUM_BASELINE, has_found_noise
from tests.acquisition.test_pandora_box import ensemble

BOUNDS = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)
POINTS = torch.rand(7, 1, 2, generator=torch.Generator().manual_seed(3), dtype=torch.double)


def gp(
    noise: float | None = None, n: int = 12, sign: float = 1.0, part: float = 1.0
) -> tuple[SingleTaskGP, Tensor]:
    """A model of a noisy wave, and its points; with noise that is given or that is assumed."""
    generator = torch.Generator().manual_seed(1)
    X = part * torch.rand(n, 2, generator=generator, dtype=torch.double)
    Y = (4 * X).sin().sum(-1, keepdim=True)
    Y = sign * (Y + 0.3 * torch.randn(n, 1, generator=generator, dtype=torch.double))
    model = SingleTaskGP(X, Y, None if noise is None else torch.full_like(Y, noise))
    model.covar_module.lengthscale = torch.tensor([0.4, 0.6]).double()
    if noise is None:
        model.likelihood.noise = torch.tensor([0.1]).double()
    return model, X


def cost(X: Tensor) -> Tensor:
    return 1 + 3 * X[..., 0]


def brute_force(model: SingleTaskGP, X: Tensor, points: Tensor, best_of: Tensor) -> Tensor:
    """Log expected improvement of each point over the best of uncertain values, by many samples."""
    values = []
    for point in points:
        posterior = model.posterior(torch.cat([X, point]))
        root = torch.linalg.cholesky(
            posterior.distribution.covariance_matrix + 1e-9 * torch.eye(len(X) + 1).double()
        )
        z = draw_sobol_normal_samples(len(X) + 1, 2**15, dtype=torch.double, seed=5)
        sample = posterior.mean.squeeze(-1) + z @ root.mT
        gain = sample[:, -1] - sample[:, :-1][:, best_of].amax(dim=-1)
        values.append(gain.clamp_min(0).mean().log())
    return torch.stack(values).detach()


def agree(got: Tensor, expected: Tensor, tolerance: float) -> bool:
    """Whether values agree where improvement is seen in more than a handful of samples."""
    seen = expected > -5.0
    assert int(seen.sum()) >= 3
    assert bool((got[~seen] < -4.9).all())
    return torch.allclose(got.detach()[seen], expected[seen], atol=tolerance)


def test_it_is_the_expectation_over_uncertain_incumbents() -> None:
    model, X = gp()
    ours = LogNoisyExpectedImprovementPerCost(model, X, cost, num_samples=2**12)
    expected = brute_force(model, X, POINTS, torch.ones(len(X), dtype=torch.bool))
    log_cost = cost(POINTS.squeeze(-2)).log()
    assert agree(ours(POINTS) + log_cost, expected, 0.03)
    few = LogNoisyExpectedImprovementPerCost(model, X, cost)
    assert agree(few(POINTS) + log_cost, expected, 0.2)


def test_only_feasible_points_are_improved_on() -> None:
    model, X = gp()
    feasible = torch.arange(len(X)) % 3 == 0
    ours = LogNoisyExpectedImprovementPerCost(
        model, X, 1.0, is_feasible=feasible, num_samples=2**12
    )
    expected = brute_force(model, X, POINTS, feasible)
    assert agree(ours(POINTS), expected, 0.03)


def test_small_values_may_be_good() -> None:
    (model, X), (negative, _) = gp(), gp(sign=-1.0)
    expected = LogNoisyExpectedImprovementPerCost(model, X, cost, num_samples=2**11)(POINTS)
    mirrored = LogNoisyExpectedImprovementPerCost(
        negative, X, cost, num_samples=2**11, maximize=False
    )
    assert agree(mirrored(POINTS), expected.detach(), 0.03)


def test_a_weight_counts_as_a_cost_that_is_less() -> None:
    """Of half the probability a trial is worth half, in the value and in the margin."""
    model, X = gp()
    plain = LogNoisyExpectedImprovementPerCost(model, X, cost, exponent=0.5)
    halved = LogNoisyExpectedImprovementPerCost(
        model, X, cost, exponent=0.5, log_weight=lambda X: X.new_full(X.shape[:-1], math.log(0.5))
    )
    torch.testing.assert_close(halved(POINTS), plain(POINTS) - math.log(2.0))
    points = POINTS.squeeze(-2)
    torch.testing.assert_close(halved.margin(points, 0.1), plain.margin(points, 0.2))


def test_points_under_evaluation_are_incumbents_too() -> None:
    model, X = gp()
    before = LogNoisyExpectedImprovementPerCost(model, X, cost)
    point, _ = optimize_acqf(before, BOUNDS, 1, 4, 64)
    after = LogNoisyExpectedImprovementPerCost(model, X, cost, X_pending=point)
    both = LogNoisyExpectedImprovementPerCost(model, torch.cat([X, point]), cost)
    assert torch.equal(after(POINTS), both(POINTS))
    assert after(point.unsqueeze(0)).item() < before(point.unsqueeze(0)).item() - 5
    after.set_X_pending(None)
    assert torch.equal(after(POINTS), before(POINTS))
    pair, _ = optimize_acqf(before, BOUNDS, 2, 4, 64, sequential=True)
    assert float((pair[0] - pair[1]).norm()) > 0.02


def test_of_many_points_the_best_are_looked_at() -> None:
    model, X = gp(n=NUM_BASELINE + 30, part=0.3)
    acquisition = LogNoisyExpectedImprovementPerCost(model, X, 1.0, num_samples=2**12)
    best = model.posterior(X).mean.flatten().topk(20).indices
    anywhere = torch.rand(512, 1, 2, generator=torch.Generator().manual_seed(0)).double()
    points = anywhere[acquisition(anywhere).topk(4).indices]
    expected = brute_force(model, X[best], points, torch.ones(20, dtype=torch.bool))
    assert agree(acquisition(points), expected, 0.05)


@pytest.mark.filterwarnings("ignore:The model inputs are of type torch.float32")
@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_single_precision_in_any_unit(unit: float) -> None:
    X = torch.rand(40, 2, generator=torch.Generator().manual_seed(1), dtype=torch.double) / 10
    values = []
    for dtype, scale in ((torch.double, 1.0), (torch.float, unit)):
        Y = scale * (40 * X).sin().sum(-1, keepdim=True)
        transform = Standardize(1, min_stdv=0.0)
        model = SingleTaskGP(X.to(dtype), Y.to(dtype), outcome_transform=transform)
        model.likelihood.noise = torch.tensor([0.1]).to(dtype)
        acquisition = LogNoisyExpectedImprovementPerCost(model, X.to(dtype), 1.0)
        values.append(acquisition(POINTS.to(dtype)).double() - math.log(scale))
    assert agree(values[1], values[0].detach(), 0.2)


def test_noise_is_found_above_the_mode_of_its_prior() -> None:
    model, _ = gp()
    mode = model.likelihood.noise_covar.noise_prior.mode
    for part, expected in ((0.99, False), (1.01, True)):
        model.likelihood.noise = part * mode
        assert has_found_noise(model) is expected
        assert has_found_noise(model, 0.5)
        assert not has_found_noise(model, 2.0)
    known, _ = gp(noise=0.01)
    assert has_found_noise(known)
    model.likelihood.noise_covar.register_prior("noise_prior", SmoothedBoxPrior(0.1, 1), "noise")
    assert has_found_noise(model)
    assert not has_found_noise(ensemble())


def test_a_trial_is_worth_its_cost_where_its_margin_is_above_zero() -> None:
    model, X = gp()
    acquisition = LogNoisyExpectedImprovementPerCost(model, X, cost)
    values = acquisition(POINTS).detach()
    for price in values.exp().tolist():
        excess = values - math.log(price)
        margins = acquisition.margin(POINTS.squeeze(-2), price)
        assert bool(((margins > 0) == (excess > 0)).logical_or(excess.abs() < 1e-9).all())
