"""Acquisition functions of queries that leave some inputs to their law: sums over nodes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from botorch.sampling.normal import SobolQMCNormalSampler
from botorch.utils.sampling import manual_seed
from torch import Tensor

from ax_costaware.acquisition import (
    ExpectedUpperConfidenceBound,
    PartialQueryLogExpectedImprovement,
)
from ax_costaware.acquisition.control_sets import PartialQueryAcquisition
from ax_costaware.acquisition.criteria import confidence_bound
from ax_costaware.exceptions import InputError, UnsupportedInputError

NEGATIVE = ScalarizedPosteriorTransform(torch.tensor([-1.0]).double())
NAMES = ["ucb", "ei", "upper", "lower", "lcb", "mean"]
BETA, BEST_F = 1.7, 0.5


def made(name: str, model: Any, controlled: list[int], rule: Any, **options: Any) -> Any:
    if name == "ucb":
        return ExpectedUpperConfidenceBound(model, controlled, *rule, beta=BETA, **options)
    if name == "ei":
        return PartialQueryLogExpectedImprovement(model, BEST_F, controlled, *rule, **options)
    transform, pending = options.get("posterior_transform"), options.get("X_pending")
    criterion = confidence_bound(name, BETA)
    return PartialQueryAcquisition(model, controlled, *rule, criterion, transform, pending)


def at_nodes(x: Tensor, controlled: list[int], nodes: Tensor) -> Tensor:
    rows = nodes.clone()
    rows[:, controlled] = x[controlled]
    return rows


def by_hand(name: str, posterior: Any, weights: Tensor) -> Tensor:
    """From the joint posterior of the nodes."""
    mean, covariance = posterior.mean.squeeze(-1), posterior.distribution.covariance_matrix
    if name in ("ucb", "lcb", "mean"):
        factor = {"ucb": BETA, "lcb": -BETA, "mean": 0.0}[name]
        return weights @ (mean + factor * covariance.diagonal().sqrt())
    std = (weights @ covariance @ weights).sqrt()
    if name == "ei":
        normal, u = torch.distributions.Normal(0.0, 1.0), (weights @ mean - BEST_F) / std
        return (std * (normal.log_prob(u).exp() + u * normal.cdf(u))).log()
    return weights @ mean + (BETA if name == "upper" else -BETA) * std


@pytest.mark.parametrize("kernel", ["rbf", "matern"])
@pytest.mark.parametrize("controlled", [[0], [0, 2], [0, 1, 2]])
@pytest.mark.parametrize("transform", [None, NEGATIVE])
@pytest.mark.parametrize("name", NAMES)
def test_values_are_sums_over_nodes(make_model, kernel, controlled, transform, name, rule):
    model = make_model(kernel)
    acqf = made(name, model, controlled, rule, posterior_transform=transform)
    X = torch.rand(3, 2, 1, 3, dtype=torch.double, generator=torch.Generator().manual_seed(1))
    values = acqf(X)
    assert values.shape == (3, 2)
    for x, value in zip(X[:, 1, 0], values[:, 1], strict=True):
        nodes = at_nodes(x, controlled, rule[0])
        with torch.no_grad():
            posterior = model.posterior(nodes, posterior_transform=transform)
            expected = by_hand(name, posterior, rule[1])
        if name == "ei":
            value, expected = value.exp(), expected.exp()
        torch.testing.assert_close(value.detach(), expected, rtol=1e-6, atol=1e-6)


def test_pending_points_agree_with_many_fantasies(model, rule):
    """The fantasized mean is the exact expectation over fantasies."""
    pending = torch.tensor([[0.2, 0.4, 0.6], [0.7, 0.1, 0.5]], dtype=torch.double)
    X = torch.rand(3, 1, 3, dtype=torch.double)
    acqf = made("ucb", model, [0, 1], rule, X_pending=pending)
    fantasies = model.fantasize(pending, SobolQMCNormalSampler(torch.Size([256]), seed=1))
    nodes, weights = rule
    for x, value in zip(X, acqf(X), strict=True):
        posterior = fantasies.posterior(at_nodes(x[0], [0, 1], nodes)[:, None, None])
        bound = (posterior.mean + BETA * posterior.variance.sqrt()).squeeze(-1).squeeze(-1)
        assert torch.allclose(value, weights @ bound.mean(dim=-1), atol=0.02)
    acqf.set_X_pending(None)
    assert torch.equal(acqf(X), made("ucb", model, [0, 1], rule)(X))


def test_optimize_acqf_with_fixed_features_and_sequential_batches(model, rule, bounds):
    acqf = made("ucb", model, [0], rule)
    options = {"q": 2, "num_restarts": 2, "raw_samples": 16, "sequential": True}
    with manual_seed(0):
        candidates, _ = optimize_acqf(acqf, bounds, fixed_features={1: 0.5, 2: 0.5}, **options)
    assert candidates.shape == (2, 3)
    assert (candidates[:, 1:] == 0.5).all()
    grid = torch.linspace(0, 1, 400, dtype=torch.double).reshape(-1, 1, 1).repeat(1, 1, 3)
    acqf.set_X_pending(None)
    assert acqf(candidates[:1].unsqueeze(0)) >= acqf(grid).max() - 1e-4


def test_input_constructors(model, rule):
    """Without an incumbent it is the best mean of the query at the controlled values tried."""
    query = {"model": model, "controlled": [0], "nodes": rule[0].tolist()}
    query["weights"] = rule[1].tolist()
    X = torch.rand(4, 3, dtype=torch.double)
    for cls, given in (
        (ExpectedUpperConfidenceBound, {"beta": 1.0}),
        (PartialQueryLogExpectedImprovement, {"best_f": 0.0}),
    ):
        construct = get_acqf_input_constructor(cls)
        inputs = construct(**query, training_data=None, X_pending=None, **given)
        direct = cls(model, controlled=[0], nodes=rule[0], weights=rule[1], **given)
        assert torch.equal(cls(**inputs)(X.unsqueeze(-2)), direct(X.unsqueeze(-2)))
    means = [model.posterior(at_nodes(x, [0], rule[0])).mean.squeeze(-1) @ rule[1] for x in X]
    assert construct(**query, X_baseline=X)["best_f"] == pytest.approx(max(means).item())
    with pytest.raises(InputError, match="best_f=None"):
        construct(**query)


def test_refuses_several_models_in_one(rule):
    """As many as there are nodes: each node would get a model of its own."""
    nodes, weights = rule
    X, Y = torch.rand(len(nodes), 5, 3).double(), torch.rand(len(nodes), 5, 1).double()
    acqf = made("ucb", SingleTaskGP(X, Y), [0], (nodes, weights))
    with pytest.raises(UnsupportedInputError, match="model"):
        acqf(torch.rand(2, 1, 3).double())
