"""What is refused by acquisition functions and searches, by the name of the argument."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf, nan
from typing import Any

import pytest
import torch
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
    expected_spend,
    lambda_for_budget,
    optimize_control_sets,
)
from ax_costaware.acquisition.partial_query import QueryNodes
from ax_costaware.exceptions import InputError, UnsupportedInputError
from ax_costaware.laws import TruncatedNormal, sobol_nodes
from ax_costaware.models import FidelityGP
from tests.acquisition.indirect_models import BOUNDS, indirect_model
from tests.acquisition.test_pandora_box import ensemble

UNIT = torch.tensor([[0.0] * 3, [1.0] * 3], dtype=torch.double)
X = torch.rand(12, 3, generator=torch.Generator().manual_seed(0), dtype=torch.double)
GP = SingleTaskGP(X, X.sum(dim=-1, keepdim=True).sin())
FIDELITIES = FidelityGP(X, X[:, :1], [{2: 1.0}], UNIT)
NODES, WEIGHTS = sobol_nodes([TruncatedNormal(0.5, 0.2, 0.0, 1.0)] * 3, 32)
INDIRECT = indirect_model()
ONES = torch.ones(3).double()


def noisy(**changes: Any) -> object:
    arguments = {"model": GP, "X_baseline": X, "cost": 1.0, **changes}
    return LogNoisyExpectedImprovementPerCost(**arguments)


def index_at(cost: Any) -> Tensor:
    return PandoraBoxGittinsIndex(GP, cost, 0.01)(X[:3].unsqueeze(-2))


def improvement(**changes: Any) -> object:
    return LogExpectedImprovementPerCost(**{"model": GP, "best_f": 0.0, "cost": 1.0, **changes})


def at_target(target: Any = None, **changes: Any) -> Tensor:
    arguments = {"best_f": 1.0, "target": {2: 1.0} if target is None else target, **changes}
    return LogTargetImprovementPerCost(FIDELITIES, **arguments)(X[:2].unsqueeze(-2))


def max_value(**changes: Any) -> object:
    return ConditionalMaxValueEntropySearch(INDIRECT, **{"latent_max_samples": ONES, **changes})


def joint(**changes: Any) -> object:
    optima = {"optimal_inputs": torch.zeros(3, 2).double(), "optimal_outputs": ONES}
    return ConditionalJointEntropySearch(INDIRECT, **{**optima, **changes})


def bound(**changes: Any) -> object:
    arguments = {"controlled": [0], "nodes": NODES, "weights": WEIGHTS, **changes}
    return ExpectedUpperConfidenceBound(GP, **arguments)


def search(**changes: Any) -> object:
    arguments = {"bounds": UNIT, "control_sets": [[0]], "nodes": NODES, "weights": WEIGHTS}
    return optimize_control_sets(GP, **{**arguments, **changes})


def spend(**changes: Any) -> None:
    """Both functions refuse the same."""
    boxes = {"mean": ONES, "sigma": ONES, "cost": ONES, "best_f": None, **changes}
    with pytest.raises(InputError) as refused:
        expected_spend(**boxes, lmbda=1.5)
    with pytest.raises(InputError) as again:
        lambda_for_budget(**boxes, budget=1.5)
    assert str(refused.value) == str(again.value)
    raise again.value


def constraint(columns: list[int], number: int | None = None, rhs: float = 0.5) -> Any:
    return [(torch.tensor(columns), torch.ones(number or len(columns)).double(), rhs)]


def answers(
    nodes: Callable[[Tensor], Tensor] = lambda z: z,
    weights: Callable[[Tensor], Tensor] = lambda w: w,
) -> Any:
    """Nodes and weights that are given for each point, changed."""

    def given(points: Tensor) -> tuple[Tensor, Tensor]:
        at, even = QueryNodes(torch.rand(4, 3).double(), torch.full((4,), 0.25), [0])(points)
        return nodes(at), weights(even)

    return [given]


def one(changed: int, value: float) -> Tensor:
    """Ones but for one."""
    return torch.where(torch.arange(3) == changed, value, ONES)


SPREAD = [lambda X: X, lambda X: 1.0, lambda X: 0 * X[:, 0], lambda X: X[:, 0] - 2]
BEYOND = [lambda X: X[:, 0] * nan, lambda X: X[:, 0] * inf]
UNEVEN = [WEIGHTS[:3], 2 * WEIGHTS, torch.cat([1 + WEIGHTS[:1], WEIGHTS[1:] - 1 / 31])]
NONE = torch.ones(0)

CASES: list[tuple[Any, str, list[Any], str]] = [
    (noisy, "X_baseline", [X[:0], X[0], torch.full((12, 3), nan)], "X_baseline: got"),
    (
        noisy,
        "is_feasible",
        [ONES > 0, X[:, 0] > 2, torch.ones(12), [True] * 12],
        "is_feasible|False",
    ),
    (noisy, "exponent", [-1.0], "exponent"),
    (noisy, "cost", [-1.0], "cost"),
    (noisy, "num_samples", [0], "num_samples"),
    (noisy, "X_pending", [X[0]], "X_pending"),
    (noisy, "model", [ensemble()], "Ensemble"),
    (index_at, "cost", [*SPREAD, *BEYOND], "cost: "),
    (improvement, "cost", [0.0, -1.0, nan, inf, "2", None, True, int], "cost="),
    (improvement, "exponent", [-1.0, nan, inf, "a"], "exponent="),
    (improvement, "best_f", [nan, torch.zeros(2)], "best_f="),
    (partial(PandoraBoxGittinsIndex, GP, 1.0), "lmbda", [0.0, -1.0, nan, inf, "a"], "lmbda="),
    (partial(PandoraBoxGittinsIndex, GP, 1.0, 0.1), "X_pending", [X[0]], "X_pending: got"),
    (at_target, "best_f", [nan], "best_f"),
    (at_target, "risk_aversion", [-1.0], "risk_aversion"),
    (at_target, "cost", [-1.0], "cost"),
    (at_target, "target", [{1: nan}, [1], {3: 9.0}, {"epochs": 9.0}], "target"),
    (
        max_value,
        "latent_max_samples",
        [1.0, NONE, torch.zeros(2, 1), torch.tensor([nan])],
        "latent_max_samples",
    ),
    (max_value, "cost", [0.0, "free"], "cost="),
    (max_value, "X_pending", [torch.zeros(2)], "X_pending: got"),
    (
        partial(ConditionalMaxValueEntropySearch, latent_max_samples=ONES),
        "model",
        [GP],
        "model: got a SingleTaskGP",
    ),
    (
        joint,
        "optimal_inputs",
        [torch.zeros(2, 2), ONES, torch.full((3, 2), inf), None, torch.zeros(3, 5).double()],
        "optimal_inputs|points of 2 columns",
    ),
    (joint, "optimal_outputs", [torch.zeros(3, 1)], "optimal_outputs: got"),
    (joint, "cost", [nan], "cost=nan"),
    (bound, "controlled", [[], [0, 0], [3], [-1], [0.5], [True]], "controlled: got"),
    (bound, "beta", [-1.0, nan, inf], "beta="),
    (bound, "nodes", [torch.rand(4), torch.full((32, 3), nan)], "nodes: got"),
    (bound, "weights", UNEVEN, "weights"),
    (
        partial(
            PartialQueryLogExpectedImprovement, GP, controlled=[0], nodes=NODES, weights=WEIGHTS
        ),
        "best_f",
        [nan, inf],
        "best_f=",
    ),
    (search, "control_sets", [[], [[0], []], [[7]]], "control_sets: got"),
    (search, "fixed_features", [{-1: 0.5}], "fixed_features: got"),
    (search, "fixed_features", [{0: nan}], r"fixed_features\[0\]"),
    (search, "discrete", [[((7,), torch.ones(2, 1))], [((0,), torch.ones(2))]], "discrete"),
    (search, "discrete", [[((0, 1), torch.eye(2))]], r"control set \[0\] has a part"),
    (
        search,
        "inequality_constraints",
        [constraint([-1]), constraint([0, 7]), constraint([0], rhs=nan), constraint([0], rhs=2.0)],
        "inequality_constraints",
    ),
    (search, "inequality_constraints", [constraint([0], 2)], "finite coefficients"),
    (search, "default", [torch.zeros(2)], "default: got"),
    (partial(search, acquisition="ei"), "best_f", [nan], "best_f="),
    (search, "X_pending", [X[0]], "X_pending: got"),
    (search, "bounds", [torch.zeros(3, 2), UNIT.flip(0)], "bounds|lower <= upper"),
    (search, "acquisition", ["pi", "feasible"], "acquisition="),
    (search, "beta", [-1.0], "beta="),
    (search, "num_restarts", [0], "num_restarts="),
    (search, "raw_samples", [-3], "raw_samples="),
    (search, "seed", [1.5], "seed="),
    (search, "weights", [torch.ones(32)], "weights"),
    (search, "given", [[], [None, None]], "given: got"),
    (
        search,
        "given",
        [answers(lambda z: z[0]), answers(lambda z: z[..., :2]), answers(lambda z: z / 0)],
        r"nodes of given\[0\]",
    ),
    (search, "given", [answers(lambda z: z + 0.1)], r"given\[0\]: got nodes whose"),
    (
        search,
        "given",
        [answers(weights=lambda w, f=f: f * w) for f in (2, -1, inf)]
        + [answers(weights=lambda w: w[0])],
        r"weights of given\[0\]",
    ),
    (
        partial(LatentSpace),
        "bounds",
        [
            *(None, torch.zeros(2, 2).long(), BOUNDS.flip(0)),
            *(torch.tensor([[0.0], [inf]]), torch.zeros(3, 2)),
        ],
        "bounds|lower <= upper",
    ),
    (
        partial(LatentSpace, BOUNDS),
        "choices",
        [{2: [1]}, {0: []}, {0: [11]}, {0: [nan]}],
        "choices",
    ),
    (
        partial(LatentSpace, BOUNDS),
        "candidates",
        [torch.zeros(3, 1), torch.zeros(0, 2), torch.full((1, 2), nan), [[0.0, 0.0]]],
        "candidates: got",
    ),
    (spend, "mean", [torch.ones(2)], "sigma of shape"),
    (spend, "mean", [torch.ones(3, 1)], "mean of shape"),
    (spend, "mean", [one(1, nan)], r"mean\[1\]=nan"),
    (spend, "sigma", [1.0], "sigma of shape"),
    (spend, "sigma", [one(2, -1.0), one(2, inf)], r"sigma\[2\]="),
    (spend, "cost", [torch.ones(2)], "cost of shape"),
    (spend, "cost", [one(1, 0.0), one(1, nan), 1e308 * ONES], r"cost\[1\]="),
    (partial(spend, sigma=NONE, cost=NONE), "mean", [NONE], "empty"),
    (spend, "best_f", [nan], "best_f="),
    (spend, "log_probability", [one(1, 2.0) - one(1, 0.0), nan * ONES], r"log_probability\["),
    (spend, "log_probability", [-ONES[:2]], "log_probability of shape"),
    (
        partial(lambda_for_budget, ONES, ONES, ONES),
        "budget",
        [0, -1.0, nan, inf, None, "1"],
        "budget=",
    ),
    (partial(expected_spend, ONES, ONES, ONES), "lmbda", [0, -1.0, nan, inf, None, "1"], "lmbda="),
]


@pytest.mark.parametrize(
    ("call", "argument", "refused", "name"), CASES, ids=[f"{i}-{c[1]}" for i, c in enumerate(CASES)]
)
def test_refused_arguments(call: Any, argument: str, refused: list[Any], name: str) -> None:
    for value in refused:
        with pytest.raises((InputError, UnsupportedInputError), match=name):
            call(**{argument: value})
