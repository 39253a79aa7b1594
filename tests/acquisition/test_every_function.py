"""What every acquisition function promises: gradients, batches, pending points, copies."""

from __future__ import annotations

import pickle
from functools import cache
from typing import Any

import pytest
import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.models import SingleTaskGP
from torch import Tensor

from ax_costaware.acquisition import (
    ConditionalJointEntropySearch,
    ConditionalMaxValueEntropySearch,
    ExpectedUpperConfidenceBound,
    LatentSpace,
    LogExpectedImprovementPerCost,
    LogNoisyExpectedImprovementPerCost,
    LogTargetImprovementPerCost,
    PandoraBoxGittinsIndex,
    PartialQueryLogExpectedImprovement,
    sample_optima,
)
from ax_costaware.costs import AffineCost
from ax_costaware.laws import Uniform, sobol_nodes
from ax_costaware.models import FidelityGP
from tests.acquisition.indirect_models import BOUNDS, indirect_model, posterior_of

OF_GP = ("index", "improvement", "noisy", "ucb", "ei")
OF_AVERAGES = ("max value", "noise aware", "joint", "truncated")
NAMES = (*OF_GP, "target", *OF_AVERAGES)
NEGATIVE = ScalarizedPosteriorTransform(torch.tensor([-1.0], dtype=torch.double))
COST = AffineCost({0: 3.0}, fixed=1.0)
POINTS = torch.rand(7, 1, 2, generator=torch.Generator().manual_seed(3), dtype=torch.double)


def data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    X = torch.rand(10, 2, dtype=torch.double, generator=generator)
    noise = 0.1 * torch.randn(10, 1, dtype=torch.double, generator=generator)
    return X, (4 * X).sin().sum(-1, keepdim=True) + noise


@cache
def optima() -> tuple[Tensor, Tensor]:
    inputs, outputs = sample_optima(posterior_of(indirect_model()), LatentSpace(BOUNDS), 6, seed=1)
    return inputs, outputs - outputs.mean() + 0.5


def made(name: str, sign: float = 1.0, dtype: torch.dtype = torch.double, **options: Any) -> Any:
    X, Y = (values.to(dtype) for values in data())
    if name == "target":
        model = FidelityGP(X, sign * Y, [{1: 1.0}], torch.tensor([[0.0] * 2, [1.0] * 2]).to(X))
        return LogTargetImprovementPerCost(model, {1: 1.0}, 1.2, COST, **options)
    if name in OF_AVERAGES:
        inputs, outputs = optima()
        model = indirect_model(sign=sign)
        if name in ("max value", "noise aware"):
            options["noise_aware"] = name == "noise aware"
            return ConditionalMaxValueEntropySearch(model, outputs, cost=COST, **options)
        options["truncate"] = name == "truncated"
        return ConditionalJointEntropySearch(model, inputs, outputs, cost=COST, **options)
    gp = SingleTaskGP(X, sign * Y)
    rule = [part.to(dtype) for part in sobol_nodes([Uniform(0, 1)] * 2, 8)]
    if name == "index":
        return PandoraBoxGittinsIndex(gp, COST, 0.01, **options)
    if name == "improvement":
        return LogExpectedImprovementPerCost(gp, 0.3, COST, **options)
    if name == "noisy":
        return LogNoisyExpectedImprovementPerCost(gp, X, COST, **options)
    if name == "ucb":
        return ExpectedUpperConfidenceBound(gp, [0], *rule, **options)
    return PartialQueryLogExpectedImprovement(gp, 0.5, [0], *rule, **options)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_finite_differences(name: str) -> None:
    assert torch.autograd.gradcheck(made(name), (POINTS.clone().requires_grad_(),), atol=1e-4)


@pytest.mark.filterwarnings("ignore:The model inputs are of type torch.float32")
@pytest.mark.parametrize(
    ("name", "dtype"),
    [*((name, torch.double) for name in NAMES), *((name, torch.float) for name in OF_GP)],
)
def test_batches_are_their_rows(name: str, dtype: torch.dtype) -> None:
    function = made(name, dtype=dtype)
    for batch_shape in ((), (3,), (2, 3)):
        X = torch.rand(*batch_shape, 1, 2, dtype=dtype)
        values = function(X)
        assert values.shape == (batch_shape or (1,))
        assert values.dtype == dtype
        alone = torch.stack([function(row) for row in X.reshape(-1, 1, 2)]).reshape(values.shape)
        rtol = 1e-3 if dtype is torch.float else 1e-7
        torch.testing.assert_close(values, alone, rtol=rtol, atol=0)
    with pytest.raises(AssertionError, match="q=1"):
        function(torch.rand(3, 2, 2, dtype=dtype))
    assert function(POINTS[:0].to(dtype)).shape == (0,)


@pytest.mark.parametrize("name", NAMES)
def test_minimising_is_maximising_the_negative(name: str) -> None:
    found = made(name, -1.0, posterior_transform=NEGATIVE)(POINTS)
    torch.testing.assert_close(found, made(name)(POINTS), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_points_under_evaluation_are_worth_less(name: str) -> None:
    pending = made(name)(POINTS).argmax()
    function = made(name, X_pending=POINTS[pending])
    after, before = function(POINTS), made(name)(POINTS)
    assert not torch.equal(after, before)
    # Without noise a smaller variance may make the bound more surprising.
    assert name == "max value" or after[pending] < before[pending]
    function.set_X_pending(None)
    torch.testing.assert_close(function(POINTS), before)
    function.set_X_pending(POINTS[pending])
    torch.testing.assert_close(function(POINTS), after)


@pytest.mark.parametrize("name", NAMES)
def test_copies_are_the_same(name: str) -> None:
    function = made(name, X_pending=POINTS[0])
    copy = pickle.loads(pickle.dumps(function))
    torch.testing.assert_close(copy(POINTS), function(POINTS), rtol=0, atol=0)
