"""Searching below a limit of the cost."""

from __future__ import annotations

import math

import pytest
import torch
from botorch.optim import optimize_acqf
from botorch.test_functions.synthetic import Branin
from botorch.utils.sampling import draw_sobol_samples
from torch import Tensor

from ax_costaware.acquisition import PandoraBoxGittinsIndex
from ax_costaware.acquisition.cost_limit import CostLimited, NegativeLogCost
from ax_costaware.models.fixed_hyperparameters import FixedHyperparameterGP

UNIT = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)


def cost(X: Tensor) -> Tensor:
    """Between 1 and 3."""
    return 1.0 + X.sum(dim=-1)


@pytest.fixture
def index() -> PandoraBoxGittinsIndex:
    """The index of a model of a smooth function that is best where it is expensive."""
    X = draw_sobol_samples(UNIT, n=8, q=1, seed=0).squeeze(-2)
    Y = (X.sum(dim=-1, keepdim=True) + 0.01 * Branin()(10 * X).unsqueeze(-1)).double()
    return PandoraBoxGittinsIndex(FixedHyperparameterGP(X, Y, lengthscale=0.5), cost, lmbda=0.01)


# A line search may end at the bend of the penalty, and BoTorch starts again.
@pytest.mark.filterwarnings("ignore:Optimization failed:RuntimeWarning")
@pytest.mark.parametrize("limit", [1.2, 2.0, 2.9])
def test_the_best_below_the_limit_is_found(index: PandoraBoxGittinsIndex, limit: float) -> None:
    """Not more expensive, and better than all of a fine grid but for the margin."""
    points = draw_sobol_samples(UNIT, n=256, q=1, seed=1).squeeze(-2)
    below = CostLimited(index, cost, limit, points)
    found, value = optimize_acqf(below, UNIT, q=1, num_restarts=4, raw_samples=64)
    assert float(cost(found)) <= limit
    # Up to rounding, since a batch of points is not summed in the order of a single one.
    assert float(value) <= float(index(found)) * (1 + 1e-12)
    side = torch.linspace(0, 1, 101, dtype=torch.double)
    grid = torch.cartesian_prod(side, side)
    payable = grid[cost(grid) <= limit]
    with torch.no_grad():
        best = float(index(payable.unsqueeze(-2)).max())
    assert float(index(found)) > best - 0.05


def test_nothing_changes_well_below_the_limit(index: PandoraBoxGittinsIndex) -> None:
    """And beyond it everything is worse than anything below."""
    points = draw_sobol_samples(UNIT, n=256, q=1, seed=1)
    below = CostLimited(index, cost, 2.0, points.squeeze(-2))
    with torch.no_grad():
        plain, found = index(points), below(points)
    costs = cost(points.squeeze(-2))
    free = costs < 2.0 * math.exp(-0.02)
    assert torch.equal(found[free], plain[free])
    assert found[costs >= 2.0].max() <= plain.min() + 1e-9


def test_the_negative_log_cost_is_largest_at_the_cheapest_point(
    index: PandoraBoxGittinsIndex,
) -> None:
    """Its best point is the cheapest one; a constant has a gradient, too."""
    found, _ = optimize_acqf(
        NegativeLogCost(index.model, cost), UNIT, q=1, num_restarts=2, raw_samples=8
    )
    assert float(cost(found)) == pytest.approx(1.0)
    X = torch.rand(3, 1, 2, dtype=torch.double, requires_grad=True)
    values = NegativeLogCost(index.model, 2.5)(X)
    assert torch.allclose(values, torch.full_like(values, -math.log(2.5)))
    (gradient,) = torch.autograd.grad(values.sum(), X)
    assert not gradient.any()
