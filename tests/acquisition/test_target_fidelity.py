"""What a trial at any fidelity is worth to the target: quadrature and finite differences."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from botorch.acquisition.analytic import LogExpectedImprovement
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from torch import Tensor

from ax_costaware.acquisition import LogTargetImprovementPerCost
from ax_costaware.acquisition.feasibility import Feasibility, OutcomeConstraint
from ax_costaware.acquisition.target_fidelity import at_target, target_moments
from ax_costaware.models import FidelityGP
from ax_costaware.models.posterior import FunctionalPosterior
from tests.repeats import mostly_slow

BOUNDS = torch.tensor([[0.0, 0.0, 1.0], [1.0, 2.0, 9.0]], dtype=torch.double)
TARGET = {2: 9.0}
NEGATIVE = ScalarizedPosteriorTransform(torch.tensor([-1.0], dtype=torch.double))


def points(n: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    unit = torch.rand(n, 3, generator=generator, dtype=torch.double)
    return BOUNDS[0] + unit * (BOUNDS[1] - BOUNDS[0])


def model_of(noise: float | None = None) -> FidelityGP:
    X = points(14, seed=0)
    Y = (3 * X[:, :1]).sin() + X[:, 1:2] - 0.1 * (9 - X[:, 2:]) * X[:, :1]
    Yvar = None if noise is None else torch.full_like(Y, noise)
    model = FidelityGP(X, Y, [TARGET], BOUNDS, Yvar)
    if noise is None:
        model.likelihood.noise = 1e-2
    model.eval()
    return model


def worth(model: FidelityGP, best_f: float | Tensor | None = 1.2, **more: object) -> Tensor:
    return LogTargetImprovementPerCost(model, TARGET, best_f, **more)(points(5, 1).unsqueeze(-2))  # type: ignore[arg-type]


@pytest.mark.parametrize("risk_aversion", mostly_slow([0.0, 0.5, 2.0], [0.5]))
@pytest.mark.parametrize("transform", [None, NEGATIVE])
@pytest.mark.parametrize("is_weighed", [False, True])
def test_it_is_the_expected_gain_of_the_bound_at_the_target(
    is_weighed: bool, transform: ScalarizedPosteriorTransform | None, risk_aversion: float
) -> None:
    """By quadrature over outcomes, each of which the model is conditioned on."""
    model, best_f = model_of(), 1.2 if transform is None else -1.0
    sign = 1.0 if transform is None else -1.0
    more = {"log_weight": lambda X: X.new_zeros(len(X))} if is_weighed else {}
    logs = worth(model, best_f, posterior_transform=transform, risk_aversion=risk_aversion, **more)
    found = logs.exp().detach()
    # Even and fine: a Gaussian rule is off by some per cent where the gain begins far in the tail.
    nodes = np.linspace(-9.0, 9.0, 2001)
    weights = np.exp(-0.5 * nodes**2) * (nodes[1] - nodes[0])
    for X, value in zip(points(5, 1), found, strict=True):
        X = X.unsqueeze(0)
        with torch.no_grad():
            outcome = model.posterior(X, observation_noise=True)
            Y = outcome.mean + outcome.variance.sqrt() * torch.tensor(nodes).reshape(-1, 1, 1)
            after = model.condition_on_observations(X.expand(len(nodes), 1, 3), Y)
            told = after.posterior(at_target(X, TARGET))
        bound = sign * told.mean.flatten() - risk_aversion * told.variance.flatten().sqrt()
        gain = (bound - best_f).clamp_min(0.0)
        expected = float((gain * torch.tensor(weights)).sum()) / math.sqrt(2 * math.pi)
        # Assessment, less what the inputs have already, in the part of the variance that it leaves.
        with torch.no_grad():
            now = model.posterior(at_target(X, TARGET))
        left = float(told.variance[0] / now.variance)
        has = sign * float(now.mean) - risk_aversion * float(now.variance.sqrt()) - best_f
        expected -= left * max(has, 0.0) if is_weighed else 0.0
        assert float(value) == pytest.approx(expected, rel=2e-2, abs=1e-9)


def test_at_the_target_without_noise_it_is_the_expected_improvement_per_cost() -> None:
    model = model_of(noise=1e-5)
    X = at_target(points(6, 2), TARGET).unsqueeze(-2)
    found = LogTargetImprovementPerCost(model, TARGET, 1.2, cost=4.0)(X)
    expected = LogExpectedImprovement(model, best_f=1.2)(X) - math.log(4.0)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)


def test_without_an_incumbent_it_is_the_part_that_is_explained() -> None:
    model, X = model_of(), points(5, 1)
    found = worth(model, best_f=None)
    with torch.no_grad():
        both = torch.stack([X, at_target(X, TARGET)], dim=-2)
        covariance = model.posterior(both).distribution.covariance_matrix
        noise = model.posterior(X, observation_noise=True).variance - model.posterior(X).variance
    noisy = covariance[:, 0, 0] + noise.squeeze(-1)
    share = covariance[:, 0, 1].square() / noisy / covariance[:, 1, 1]
    torch.testing.assert_close(found.exp(), share, rtol=1e-5, atol=1e-9)


ENDS = [(None, 1.4), (1.0, None), (0.6, 1.8)]


def shown(lower: float | None, upper: float | None, threshold: float) -> Callable[..., Tensor]:
    """The log chance that a trial shows its inputs to keep to bounds at the target."""
    outcomes = Feasibility(
        [(OutcomeConstraint("m", lower, upper), FunctionalPosterior.of(model_of()))]
    )
    confirmed = outcomes.over(lambda posterior: partial(target_moments, posterior, target=TARGET))
    return lambda X: confirmed.log_probability_shown(X, threshold)


@pytest.mark.parametrize("ends", mostly_slow(ENDS, [(0.6, 1.8)]))
def test_the_chance_is_that_of_outcomes_after_which_it_is_likely_enough(
    ends: tuple[float | None, float | None],
) -> None:
    """By quadrature over outcomes, each of which the model is conditioned on."""
    model, enough = model_of(), 0.8
    lower, upper = OutcomeConstraint("m", *ends).ends
    found = shown(*ends, enough)
    nodes = torch.linspace(-9.0, 9.0, 2001, dtype=torch.double)
    density = (-0.5 * nodes.square()).exp() * (nodes[1] - nodes[0]) / math.sqrt(2 * math.pi)
    normal = torch.distributions.Normal(0.0, 1.0)
    X = points(6, 1)
    chances = found(X).exp().tolist()
    for x, chance in zip(X, chances, strict=True):
        x = x.unsqueeze(0)
        with torch.no_grad():
            outcome = model.posterior(x, observation_noise=True)
            Y = outcome.mean + outcome.variance.sqrt() * nodes.reshape(-1, 1, 1)
            after = model.condition_on_observations(x.expand(len(nodes), 1, 3), Y)
            told = after.posterior(at_target(x, TARGET))
        mean, sigma = told.mean.flatten(), told.variance.flatten().sqrt()
        kept = normal.cdf((upper - mean) / sigma) - normal.cdf((lower - mean) / sigma)
        expected = float(((kept >= enough) * density).sum())
        # Two bounds count as independent ones, each kept as it has to be for both: that is less.
        slack = 3e-3 if None in ends else 0.2
        assert expected - slack <= chance <= expected + 3e-3
    assert max(chances) - min(chances) > 0.3


def test_the_chance_has_the_gradients_of_finite_differences() -> None:
    found = shown(-1.0, 1.4, 0.9)
    X = points(4, 1).requires_grad_(True)
    assert torch.autograd.gradcheck(found, (X,), atol=1e-5)


def test_input_constructor() -> None:
    """The incumbent is the best bound at the target, whose columns JSON may have made text."""
    construct = get_acqf_input_constructor(LogTargetImprovementPerCost)
    X, model = points(6, 2), model_of()
    with torch.no_grad():
        posterior = model.posterior(at_target(X, TARGET), posterior_transform=NEGATIVE)
        best = float((posterior.mean - 0.5 * posterior.variance.sqrt()).max())
    inputs = construct(
        model=model,
        target={"2": 9.0},
        X_baseline=X,
        risk_aversion=0.5,
        posterior_transform=NEGATIVE,
        training_data=None,
    )
    assert inputs["best_f"] == pytest.approx(best)
    by_ax = construct(model=model, target_fidelities=TARGET, X_baseline=X)
    assert by_ax["target"] == LogTargetImprovementPerCost(**inputs).target == TARGET
