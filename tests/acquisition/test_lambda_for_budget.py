"""The price of cost whose expected spend is the budget, against simulation and independent code."""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.special import ndtr

from ax_costaware.acquisition import expected_spend, lambda_for_budget
from ax_costaware.exceptions import InputError

Array = NDArray[np.float64]


def _boxes(n: int, seed: int) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    mean = rng.normal(0.0, rng.choice([0.1, 1.0, 3.0]), size=n)
    return mean, rng.uniform(0.05, 2.0, size=n), rng.uniform(0.1, 5.0, size=n)


def _tensors(boxes: tuple[Array, ...]) -> tuple[torch.Tensor, ...]:
    return tuple(torch.from_numpy(array) for array in boxes)


def _h(z: Array) -> Array:
    return np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi) + z * ndtr(z)


def _index(mean: Array, sigma: Array, cost: Array) -> Array:
    """Where the expected improvement is the cost, by bisection."""
    spread = np.where(sigma > 0, sigma, 1.0)
    low, high = mean - cost - 1e-9, mean + 40 * sigma
    for _ in range(60):  # Far below the last digit.
        g = 0.5 * (low + high)
        z = (mean - g) / spread
        improvement = np.where(sigma > 0, spread * _h(z), np.maximum(mean - g, 0))
        low, high = np.where(improvement > cost, g, low), np.where(improvement > cost, high, g)
    return 0.5 * (low + high)


@cache
def _noise(draws: int) -> tuple[list[Array], list[Array]]:
    """Standard normal and uniform numbers for eight boxes, which all simulations share."""
    rng = np.random.default_rng(0)
    return [rng.normal(size=draws) for _ in range(8)], [rng.uniform(size=draws) for _ in range(8)]


def _simulated(
    boxes: tuple[Array, Array, Array],
    lmbda: float,
    best_f: float | None,
    draws: int,
    counts: Array | None = None,
) -> tuple[float, float]:
    """Mean cost of the policy over many draws of the boxes, and its standard error."""
    mean, sigma, cost = boxes
    index = _index(mean, sigma, lmbda * cost / (1.0 if counts is None else counts))
    normal, uniform = _noise(draws)
    best = np.full(draws, -np.inf if best_f is None else best_f)
    spent = np.zeros(draws)
    for place, i in enumerate(np.argsort(-index)):
        opens = best < index[i]
        spent += cost[i] * opens
        value = mean[i] + sigma[i] * normal[place]
        if counts is not None:
            value = np.where(uniform[place] < counts[i], value, -np.inf)
        best = np.where(opens, np.maximum(best, value), best)
    return float(spent.mean()), float(spent.std() / math.sqrt(draws))


def _spend(boxes: tuple[Array, Array, Array], lmbda: float, best_f: float | None) -> float:
    """The formula, box by box."""
    mean, sigma, cost = boxes
    index = _index(mean, sigma, lmbda * cost)
    order = np.argsort(-index)
    total = 0.0
    for place, i in enumerate(order):
        before = order[:place]
        if best_f is None or best_f < index[i]:
            total += cost[i] * np.prod(ndtr((index[i] - mean[before]) / sigma[before]))
    return total


@pytest.mark.parametrize("best_f", [None, 0.7])
@pytest.mark.parametrize("seed", range(6))
def test_expected_spend_is_what_a_simulation_of_the_policy_spends(
    seed: int, best_f: float | None
) -> None:
    mean, sigma, cost = _boxes(8, seed)
    if seed % 2:
        sigma[3] = 0.0
    for lmbda in (0.3, 0.03, 0.003):
        simulated, error = _simulated((mean, sigma, cost), lmbda, best_f, draws=200_000)
        spend = expected_spend(*_tensors((mean, sigma, cost)), lmbda, best_f)
        assert abs(spend - simulated) <= 4 * error + 1e-9


@pytest.mark.parametrize("best_f", [None, 0.7])
@pytest.mark.parametrize("seed", range(3))
def test_values_that_may_not_count(seed: int, best_f: float | None) -> None:
    """As those of trials that may come out infeasible."""
    boxes = _boxes(8, seed)
    counts = np.random.default_rng(seed).uniform(size=8)
    tensors, log = _tensors(boxes), torch.from_numpy(np.log(counts))
    for lmbda in (0.3, 0.03, 0.003):
        simulated, error = _simulated(boxes, lmbda, best_f, 200_000, counts)
        spend = expected_spend(*tensors, lmbda, best_f, log)
        assert abs(spend - simulated) <= 4 * error + 1e-9
    price = lambda_for_budget(*tensors, 5.0, 0.7, log)
    assert expected_spend(*tensors, price, 0.7, log) <= 5.0 * (1 + 1e-9)
    assert expected_spend(*tensors, 0.99 * price, 0.7, log) > 5.0
    certain, alike = torch.zeros(8).double(), expected_spend(*tensors, 0.03, best_f)
    assert expected_spend(*tensors, 0.03, best_f, certain) == pytest.approx(alike, rel=1e-12)


def test_known_values_alone() -> None:
    boxes = (
        torch.tensor([1.0, 2.0, 2.0]).double(),
        torch.zeros(3).double(),
        torch.tensor([1.0, 4.0, 5.0]).double(),
    )
    # At the price p the indices are 1 - p, 2 - 4 p and 2 - 5 p: only the first of them is opened.
    assert expected_spend(*boxes, 0.3) == 4.0
    assert expected_spend(*boxes, 0.4) == 1.0
    assert expected_spend(*boxes, 0.3, best_f=0.9) == 0.0
    assert lambda_for_budget(*boxes, budget=3.0) == pytest.approx(1 / 3, rel=1e-9)
    assert lambda_for_budget(*boxes, budget=1.0) == pytest.approx(1 / 3, rel=1e-9)
    assert lambda_for_budget(*boxes, budget=4.0) == 0.0
    assert lambda_for_budget(*boxes, budget=3.0, best_f=1.5) == pytest.approx(1 / 8, rel=1e-9)


@pytest.mark.parametrize("best_f", [None, 0.5])
@pytest.mark.parametrize("n", [63, 64, 65, 200])
def test_blocks_are_the_formula(n: int, best_f: float | None) -> None:
    boxes = _boxes(n, n)
    for lmbda in (1.0, 1e-2, 1e-5):
        assert expected_spend(*_tensors(boxes), lmbda, best_f) == pytest.approx(
            _spend(boxes, lmbda, best_f), rel=1e-9, abs=1e-12
        )


@pytest.mark.parametrize(
    ("seed", "most"), [(seed, 120 if seed < 30 else 700) for seed in range(36)]
)
def test_the_price_is_the_least_that_keeps_to_the_budget(seed: int, most: int) -> None:
    rng = np.random.default_rng(seed)
    boxes = _tensors(_boxes(int(rng.integers(1, most)), seed))
    best_f = None if seed % 2 else float(rng.normal())
    least, total = float(boxes[2].min()), float(boxes[2].sum())
    budget = least + rng.uniform(0.05, 0.8) * (total - least) if total > least else total / 2
    if best_f is None and budget < least:
        budget = least
    price = lambda_for_budget(*boxes, budget, best_f)
    if price == 0.0:
        assert expected_spend(*boxes, 1e-300, best_f) <= budget
    else:
        assert expected_spend(*boxes, price, best_f) <= budget * (1 + 1e-12)
        assert expected_spend(*boxes, price * (1 - 1e-8), best_f) > budget


@pytest.mark.parametrize("best_f", [None, 0.5])
def test_units_of_cost_and_value(best_f: float | None) -> None:
    mean, sigma, cost = _tensors(_boxes(40, 7))
    price = lambda_for_budget(mean, sigma, cost, 30.0, best_f)
    for value_unit, cost_unit in itertools.product([1e-12, 1.0, 1e12], repeat=2):
        scaled = lambda_for_budget(
            mean * value_unit,
            sigma * value_unit,
            cost * cost_unit,
            30.0 * cost_unit,
            None if best_f is None else best_f * value_unit,
        )
        assert scaled == pytest.approx(price * value_unit / cost_unit, rel=1e-8)


def test_zero_where_the_budget_does_not_bind() -> None:
    boxes = _tensors(_boxes(5, 0))
    total = float(boxes[2].sum())
    assert lambda_for_budget(*boxes, total) == 0.0
    assert lambda_for_budget(*boxes, 2 * total, best_f=0.0) == 0.0
    assert 0 < lambda_for_budget(*boxes, 0.99 * total) < 1e-3
    # The second box cannot beat the first at any price that is a floating-point number.
    far = (torch.tensor([0.0, -1e6]).double(), torch.ones(2).double(), torch.ones(2).double())
    assert lambda_for_budget(*far, 1.5) == 0.0


def test_a_price_beyond_floating_point_numbers_is_refused() -> None:
    mean, sigma = torch.tensor([0.0, 1e305], dtype=torch.double), torch.zeros(2).double()
    with pytest.raises(InputError, match=r"budget=1\.0"):
        lambda_for_budget(mean, sigma, torch.tensor([1.0, 1.5]).double(), 1.0)


def test_tensors_of_single_precision_and_with_gradients() -> None:
    boxes = _tensors(_boxes(20, 3))
    single = tuple(tensor.float().requires_grad_(True) for tensor in boxes)
    assert lambda_for_budget(*single, 10.0) == pytest.approx(
        lambda_for_budget(*boxes, 10.0), rel=1e-4
    )
    assert expected_spend(*single, 0.1) == pytest.approx(expected_spend(*boxes, 0.1), rel=1e-4)


def test_many_boxes_form_no_square_matrix() -> None:
    boxes = _tensors(_boxes(30_000, 6))
    price = lambda_for_budget(*boxes, 200.0)
    assert expected_spend(*boxes, price) == pytest.approx(200.0, rel=1e-6)
