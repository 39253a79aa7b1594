"""Rules and search together: looking at few control sets decides as looking at all does."""

from itertools import combinations

import pytest
import torch
from botorch.models import SingleTaskGP
from gpytorch.kernels import RBFKernel

from ax_costaware.acquisition import optimize_control_sets
from ax_costaware.laws import ProductNodes, TruncatedNormal, sobol_nodes
from ax_costaware.methods import ControlSetHistory, EpsilonSchedule

DIM = 5
SUBSETS = [s for size in range(1, DIM + 1) for s in combinations(range(DIM), size)]
HISTORY = ControlSetHistory(
    parameters=tuple(frozenset(map(str, subset)) for subset in SUBSETS),
    costs=tuple(float(len(subset)) for subset in SUBSETS),
    plays=(0,) * len(SUBSETS),
    affordable=(True,) * len(SUBSETS),
    round=1,
)


@pytest.fixture(scope="module")
def all_values():
    generator = torch.Generator().manual_seed(5)
    X = torch.rand(30, DIM, dtype=torch.double, generator=generator)
    Y = torch.sin(3 * X).sum(dim=-1, keepdim=True) * torch.linspace(0.5, 1.5, DIM).sum() / DIM
    model = SingleTaskGP(X, Y - Y.mean(), covar_module=RBFKernel(), outcome_transform=None)
    model.covar_module.lengthscale = 0.6
    model.likelihood.noise = 1e-3
    marginals = [TruncatedNormal(0.5, 0.2, 0.0, 1.0)] * DIM
    bounds = torch.stack([torch.zeros(DIM), torch.ones(DIM)]).double()

    def evaluate(indices):
        return optimize_control_sets(
            model.eval(), bounds, [SUBSETS[i] for i in indices], *sobol_nodes(marginals, 32),
            product=ProductNodes.from_marginals(marginals),
        ).value.tolist()  # fmt: skip

    return evaluate, evaluate(range(len(SUBSETS)))


@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.3, 1.0, 5.0])
def test_epsilon_schedule_decides_as_if_all_were_optimised(epsilon, all_values):
    evaluate, values = all_values
    asked = []

    def counted(indices):
        asked.extend(indices)
        return evaluate(indices)

    decision = EpsilonSchedule.constant(epsilon).decide(HISTORY, counted)
    qualifying = [i for i, value in enumerate(values) if value + epsilon >= max(values)]
    cheapest = min(HISTORY.costs[i] for i in qualifying)
    best = max((i for i in qualifying if HISTORY.costs[i] == cheapest), key=lambda i: values[i])
    assert decision.index == best
    assert len(asked) == len(set(asked)) < len(SUBSETS)
