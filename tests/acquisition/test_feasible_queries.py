"""Control sets under bounds on other outcomes: probabilities, what queries count as, the search."""

from __future__ import annotations

import math
from functools import cache, partial

import pytest
import torch
from botorch.models import SingleTaskGP
from gpytorch.kernels import MaternKernel
from scipy.stats import norm
from torch import Tensor

from ax_costaware.acquisition import optimize_control_sets
from ax_costaware.acquisition.feasibility import (
    Feasibility,
    OutcomeConstraint,
    feasibility_weighted,
)
from ax_costaware.acquisition.objectives import log_probability_of_queries
from ax_costaware.acquisition.partial_query import QueryNodes
from ax_costaware.laws import sobol_nodes
from ax_costaware.laws.marginals import Uniform
from ax_costaware.models.posterior import FunctionalPosterior

CONTROLS = [[0], [0, 1]]
NODES, WEIGHTS = sobol_nodes([Uniform(0, 1), Uniform(0, 1)], 32)
LAWS = [QueryNodes(NODES, WEIGHTS, columns) for columns in CONTROLS]
UNIT = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)
BOUNDS = (OutcomeConstraint("a", upper=0.2), OutcomeConstraint("b", -1.0, 0.5))


@cache
def gp(seed: int, product: bool = True) -> SingleTaskGP:
    torch.manual_seed(seed)
    X = torch.rand(5, 2, dtype=torch.double)
    kernel = None if product else MaternKernel(nu=2.5, ard_num_dims=2)
    model = SingleTaskGP(X, torch.randn(5, 1, dtype=torch.double), covar_module=kernel)
    model.covar_module.lengthscale = torch.tensor([[0.4, 0.6]])
    return model.eval()


def feasibility(product: bool = True) -> Feasibility[FunctionalPosterior]:
    models = (gp(seed, product) for seed in (1, 2))
    return Feasibility(list(zip(BOUNDS, map(FunctionalPosterior.of, models), strict=True)))


def nodes_of(point: Tensor, controlled: list[int]) -> Tensor:
    nodes = NODES.clone()
    nodes[:, controlled] = point[controlled]
    return nodes


def expected(model: SingleTaskGP, point: Tensor, controlled: list[int]) -> tuple[float, float]:
    posterior = model.posterior(nodes_of(point, controlled))
    variance = WEIGHTS @ posterior.distribution.covariance_matrix @ WEIGHTS
    return float(WEIGHTS @ posterior.mean.squeeze(-1)), float(variance) ** 0.5


def chance(point: Tensor, controlled: list[int]) -> float:
    (a, sd_a), (b, sd_b) = (expected(gp(seed), point, controlled) for seed in (1, 2))
    return float(
        norm.cdf((0.2 - a) / sd_a) * (norm.cdf((0.5 - b) / sd_b) - norm.cdf((-1 - b) / sd_b))
    )


@pytest.mark.parametrize("product", [True, False])
def test_the_probability_is_that_of_samples(product: bool) -> None:
    """Of the other outcomes' averages over the uncontrolled inputs; with gradients."""
    queries = log_probability_of_queries(feasibility(product), LAWS, None)
    torch.manual_seed(7)
    X, sets = torch.rand(4, 2, dtype=torch.double), torch.tensor([1, 0, 0, 1])
    found = queries(X, sets).exp()
    for x, index, probability in zip(X, sets.tolist(), found.tolist(), strict=True):
        samples = torch.ones(20_000, dtype=torch.bool)
        for seed, bound in enumerate(BOUNDS, start=1):
            posterior = gp(seed, product).posterior(nodes_of(x, CONTROLS[index]))
            values, vectors = torch.linalg.eigh(posterior.distribution.covariance_matrix.detach())
            z = torch.randn(len(values), 20_000, dtype=torch.double)
            drawn = WEIGHTS @ (vectors @ (values.clamp_min(0.0).sqrt().unsqueeze(-1) * z))
            drawn += WEIGHTS @ posterior.mean.detach().squeeze(-1)
            lower = -math.inf if bound.lower is None else bound.lower
            assert bound.upper is not None
            samples &= (drawn >= lower) & (drawn <= bound.upper)
        assert probability == pytest.approx(float(samples.double().mean()), abs=0.015)
    assert torch.autograd.gradcheck(lambda x: queries(x, sets), X.requires_grad_(True), atol=1e-5)


@pytest.mark.parametrize(
    ("acquisition", "threshold", "is_required"),
    [
        ("ucb", 1.0, False),
        ("ucb", 0.3, False),
        ("mean", 0.6, True),
        ("ei", 1.0, False),
        ("feasible", 1.0, False),
    ],
)
def test_no_query_on_a_grid_counts_more(
    acquisition: str, threshold: float, is_required: bool
) -> None:
    worst = None if acquisition == "ei" else -2.0
    found = optimize_control_sets(
        gp(0),
        UNIT,
        CONTROLS,
        NODES,
        WEIGHTS,
        acquisition=acquisition,
        best_f=0.3,
        feasibility=feasibility(),
        weighted=partial(
            feasibility_weighted,
            worst=worst,
            log_threshold=math.log(threshold),
            is_required=is_required,
        ),
    )

    def worth(x: Tensor, controlled: list[int]) -> float:
        mean, sd = expected(gp(0), x, controlled)
        weight = min(chance(x, controlled) / threshold, 1.0)
        if is_required:
            missing = 0.95 * math.log(threshold) - math.log(chance(x, controlled))
            weight = math.exp(-500.0 * max(missing, 0.0) ** 2)
        if acquisition == "feasible":
            return chance(x, controlled)
        if acquisition == "ei":
            z = (mean - 0.3) / sd
            return weight * sd * float(z * norm.cdf(z) + norm.pdf(z))
        if acquisition == "ucb":
            posterior = gp(0).posterior(nodes_of(x, controlled))
            mean += 2.0 * float(posterior.variance.sqrt().squeeze(-1) @ WEIGHTS)
        return weight * (mean + 2.0) - 2.0

    side = torch.linspace(0, 1, 6, dtype=torch.double)
    with torch.no_grad():
        for i, controlled in enumerate(CONTROLS):
            value = float(found.value[i])
            assert value == pytest.approx(worth(found.point[i], controlled), abs=1e-6)
            grid = torch.cartesian_prod(side, side if i else side[:1])
            assert value >= max(worth(x, controlled) for x in grid) - 1e-6


def test_what_is_below_the_least_value_is_no_better_for_being_infeasible() -> None:
    values, log_p = torch.tensor([[0.2, 0.9], [-1.0, -1.0]], dtype=torch.double)
    low, high = feasibility_weighted(values, log_p, worst=0.5).tolist()
    assert low == 0.2
    assert 0.5 < high < 0.9
