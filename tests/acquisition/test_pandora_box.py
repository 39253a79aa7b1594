"""The Gittins index and its peer as acquisition functions of BoTorch models."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.acquisition.cost_aware import GenericCostAwareUtility, InverseCostWeightedUtility
from botorch.acquisition.objective import GenericMCObjective, ScalarizedPosteriorTransform
from botorch.exceptions.errors import UnsupportedError
from botorch.models import SingleTaskGP
from botorch.models.cost import AffineFidelityCostModel, FixedCostModel
from botorch.models.model import Model
from botorch.posteriors.posterior import Posterior
from botorch.sampling.normal import SobolQMCNormalSampler
from torch import Tensor

from ax_costaware.acquisition import (
    LogExpectedImprovementPerCost,
    PandoraBoxGittinsIndex,
    gittins_index,
    incumbent,
)
from ax_costaware.acquisition.cost_aware_analytic import CostAwareAnalyticAcquisitionFunction
from ax_costaware.costs import AffineCost, TrialContext, log_cost_function
from ax_costaware.costs.cost_model import ANY_TRIAL
from ax_costaware.exceptions import InputError, UnsupportedInputError
from ax_costaware.models import FunctionalPosterior, LogNormalCostModel

D = 2
BOUNDS = torch.tensor([[0.0] * D, [1.0] * D], dtype=torch.double)


class LearnedCost:
    """A model of the cost, as far as acquisition functions know one."""

    def log_cost(self, X: Tensor, trial: TrialContext = ANY_TRIAL) -> Tensor:
        return 1.0 + X[..., 0] - (X[..., 1] - 0.2).square()


class Ensemble(SingleTaskGP):
    """Two GPs on the same data, posterior samples of the hyperparameters say."""

    _is_ensemble = True

    def posterior(self, X: Tensor, *args: Any, **kwargs: Any) -> Posterior:
        return super().posterior(X.unsqueeze(-3), *args, **kwargs)


def data(n: int = 10, dtype: torch.dtype = torch.double) -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    X = torch.rand(n, D, dtype=torch.double)
    Y = (4 * X).sin().sum(-1, keepdim=True) + 0.1 * torch.randn(n, 1).double()
    return X.to(dtype), Y.to(dtype)


def gp(dtype: torch.dtype = torch.double) -> SingleTaskGP:
    return SingleTaskGP(*data(dtype=dtype))


def ensemble() -> Ensemble:
    X, Y = data()
    model = Ensemble(X.expand(2, -1, -1), Y.expand(2, -1, -1))
    model.covar_module.lengthscale = torch.tensor([0.3, 0.9]).double().reshape(2, 1, 1)
    return model


def linear_cost(X: Tensor) -> Tensor:
    return 1 + 3 * X[..., 0]


def learned_cost() -> LogNormalCostModel:
    X, _ = data()
    return LogNormalCostModel(X, linear_cost(X), bounds=BOUNDS)


COSTS = {
    "number": 2.5,
    "callable": linear_cost,
    "value object": AffineCost({0: 3.0}, fixed=1.0),
    "model": LearnedCost(),
    "log-normal": learned_cost(),
}


def made(
    name: str, model: Model, cost: Any, **options: Any
) -> CostAwareAnalyticAcquisitionFunction:
    if name == "index":
        return PandoraBoxGittinsIndex(model, cost, 0.01, **options)
    return LogExpectedImprovementPerCost(model, 0.3, cost, **options)


@pytest.mark.parametrize("cost", list(COSTS))
@pytest.mark.parametrize("maximize", [True, False])
def test_values_from_the_models_posterior(cost: str, maximize: bool) -> None:
    model = gp()
    points = torch.rand(7, 1, D, dtype=torch.double)
    posterior = model.posterior(points)
    mean, sigma = posterior.mean.flatten(), posterior.variance.flatten().sqrt()  # type: ignore[attr-defined]
    X = points.squeeze(1)
    true_cost = {
        "number": torch.full((7,), 2.5).double(),
        "callable": linear_cost(X),
        "value object": linear_cost(X),
        "log-normal": learned_cost().expected_cost(X),
        "model": LearnedCost().log_cost(X).exp(),
    }[cost]
    index = made("index", model, COSTS[cost], maximize=maximize)(points)
    sign = 1 if maximize else -1
    assert torch.allclose(index, gittins_index(sign * mean, sigma, 0.01 * true_cost), rtol=1e-6)
    value = made("improvement", model, COSTS[cost], maximize=maximize, exponent=0.7)(points)
    log_ei = LogExpectedImprovement(model, best_f=0.3, maximize=maximize)(points)
    assert torch.allclose(value, log_ei - 0.7 * true_cost.log(), rtol=1e-5)


def test_several_outcomes_with_a_transform() -> None:
    X, Y = data()
    two = SingleTaskGP(X, torch.cat([Y, -Y], dim=-1))
    with pytest.raises(UnsupportedError, match="posterior transform"):
        PandoraBoxGittinsIndex(two, 1.0, 0.1)
    first = ScalarizedPosteriorTransform(torch.tensor([1.0, 0.0], dtype=torch.double))
    points = torch.rand(4, 1, D, dtype=torch.double)
    value = PandoraBoxGittinsIndex(two, 1.0, 0.1, posterior_transform=first)(points)
    assert torch.allclose(value, PandoraBoxGittinsIndex(gp(), 1.0, 0.1)(points), rtol=1e-6)


def test_an_ensemble_is_averaged() -> None:
    model = ensemble()
    members = []
    for lengthscale in (0.3, 0.9):
        member = gp()
        member.covar_module.lengthscale = lengthscale
        members.append(member)
    points = torch.rand(4, 1, D, dtype=torch.double)
    index = made("index", model, linear_cost)(points)
    assert torch.allclose(
        index, sum(made("index", m, linear_cost)(points) for m in members) / 2, rtol=1e-6
    )
    value = made("improvement", model, linear_cost)(points)
    logs = torch.stack([made("improvement", m, linear_cost)(points) for m in members])
    assert torch.allclose(value, logs.logsumexp(0) - math.log(2), rtol=1e-6)
    X, _ = data()
    means = torch.stack([m.posterior(X).mean.flatten().detach() for m in members]).mean(0)  # type: ignore[attr-defined]
    best, row = incumbent(model, X)
    assert best == pytest.approx(float(means.max()), rel=1e-6)
    assert row == int(means.argmax())
    # Mean and variance of a draw from one of the members, each as likely.
    mean, variance = FunctionalPosterior.of(model).mixture(X)
    parts = [FunctionalPosterior.of(member)(X) for member in members]
    second_moment = sum(v + m.square() for m, v in parts) / 2
    assert torch.allclose(mean, means, rtol=1e-6)
    assert torch.allclose(variance, second_moment - means.square(), rtol=1e-5)


def test_pending_points_are_the_average_over_fantasies() -> None:
    """The index is linear in the mean, so one fantasy at the mean is the average over all."""
    model = gp()
    pending = torch.rand(2, D, dtype=torch.double)
    points = torch.rand(6, 1, D, dtype=torch.double)
    fantasized = PandoraBoxGittinsIndex(model, linear_cost, 0.01, X_pending=pending)(points)
    sampler = SobolQMCNormalSampler(torch.Size([512]), seed=0)
    fantasies = model.fantasize(pending, sampler)
    posterior = fantasies.posterior(points.unsqueeze(1))
    mean, sigma = posterior.mean.flatten(1), posterior.variance.flatten(1).sqrt()  # type: ignore[attr-defined]
    sampled = gittins_index(mean, sigma, 0.01 * linear_cost(points.squeeze(1)).unsqueeze(-1))
    assert torch.allclose(fantasized, sampled.mean(-1), atol=2e-3)
    alone = PandoraBoxGittinsIndex(model, linear_cost, 0.01)(points)
    assert not torch.allclose(fantasized, alone, atol=2e-3)


@pytest.mark.parametrize("maximize", [True, False])
def test_incumbent_is_the_best_mean_at_an_evaluated_point(maximize: bool) -> None:
    model, (X, _) = gp(), data()
    means = model.posterior(X).mean.flatten().detach()  # type: ignore[attr-defined]
    value, row = incumbent(model, X, maximize=maximize)
    assert value == pytest.approx(float(means.max() if maximize else means.min()), rel=1e-8)
    assert row == int(means.argmax() if maximize else means.argmin())
    # Away from what was evaluated it matters how little is known.
    X = torch.rand(20, 2, generator=torch.Generator().manual_seed(1), dtype=torch.double)
    posterior = model.posterior(X)  # type: ignore[attr-defined]
    means, sd = (m.flatten().detach() for m in (posterior.mean, posterior.variance.sqrt()))
    bounds = means - 20 * sd if maximize else means + 20 * sd
    value, row = incumbent(model, X, maximize=maximize, risk_aversion=20.0)
    assert value == pytest.approx(float(bounds[row]), rel=1e-6)
    assert row == int(bounds.argmax() if maximize else bounds.argmin())
    assert row != int(means.argmax() if maximize else means.argmin())
    with pytest.raises(InputError, match=r"X: got shape \(0, 2\)"):
        incumbent(model, X[:0])
    with pytest.raises(InputError, match="risk_aversion"):
        incumbent(model, X, risk_aversion=-0.5)


def test_each_of_several_models_in_one_fantasizes_pending_points() -> None:
    X, Y = data()
    parts = [SingleTaskGP(X, sign * Y) for sign in (1.0, 2.0, -1.0)]
    batch = SingleTaskGP(X.expand(3, -1, -1), torch.stack([Y, 2 * Y, -Y]))
    pending, P = torch.rand(3, D, dtype=torch.double), torch.rand(3, 1, D, dtype=torch.double)
    for count in (1, 2, 3):
        found = LogExpectedImprovementPerCost(batch, 0.5, 1.0, X_pending=pending[:count])(P)
        each = [
            LogExpectedImprovementPerCost(part, 0.5, 1.0, X_pending=pending[:count])(point)
            for part, point in zip(parts, P, strict=True)
        ]
        torch.testing.assert_close(found, torch.cat(each), rtol=1e-5, atol=1e-8)
    with pytest.raises(UnsupportedInputError, match=r"SingleTaskGP of batch shape \(3,\); it"):
        incumbent(batch, X)


def test_costs_of_botorch() -> None:
    """Deterministic models and weighted utilities are costs; other modules are refused by name."""
    X = torch.rand(5, 1, D, dtype=torch.double)
    costs = AffineFidelityCostModel({1: 2.0}, 0.5)
    found = PandoraBoxGittinsIndex(gp(), costs, 0.1)(X)
    assert torch.equal(found, PandoraBoxGittinsIndex(gp(), AffineCost({1: 2}, 0.5), 0.1)(X))
    points = X.squeeze(-2)
    utility = InverseCostWeightedUtility(costs)
    assert torch.equal(log_cost_function(utility)(points), log_cost_function(costs)(points))
    assert torch.allclose(log_cost_function(utility)(points), -utility(X, torch.ones(5)).log())
    weighted = LogExpectedImprovementPerCost(gp(), 0.0, utility)
    assert torch.equal(weighted(X), LogExpectedImprovementPerCost(gp(), 0.0, costs)(X))
    # A model of the logarithm, with an objective that makes a cost of it; outputs add up.
    logs = SingleTaskGP(points, points.sum(dim=-1, keepdim=True))
    exponential = GenericMCObjective(lambda Y, X: Y.squeeze(-1).exp())
    found = log_cost_function(InverseCostWeightedUtility(logs, cost_objective=exponential))(points)
    assert torch.allclose(found, logs.posterior(points).mean.squeeze(-1))
    both = InverseCostWeightedUtility(FixedCostModel(torch.tensor([1.0, 2.0]).double()))
    assert torch.allclose(log_cost_function(both)(X), torch.full((5, 1), math.log(3.0)).double())
    (slope,) = torch.autograd.grad(
        log_cost_function(utility)(points.requires_grad_()).sum(), points
    )
    assert torch.allclose(slope[:, 1], 2.0 / (0.5 + 2.0 * points[:, 1]))
    free = InverseCostWeightedUtility(AffineFidelityCostModel({1: -2.0}, 0.0))
    with pytest.raises(InputError, match=r"cost: the callable returned -.*"):
        log_cost_function(free)(points)
    for cost, shown in (
        (GenericCostAwareUtility(lambda X, deltas: deltas), "a GenericCostAwareUtility"),
        (gp(), "a SingleTaskGP"),
        (FixedCostModel(torch.ones(2)), "a FixedCostModel with 2 outputs"),
        (LogNormalCostModel, r"<class .*LogNormalCostModel'>"),
    ):
        with pytest.raises(InputError, match=f"cost={shown}"):
            PandoraBoxGittinsIndex(gp(), cost, 0.1)
