"""Local searches from the best of many points."""

from __future__ import annotations

import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits
from torch import Tensor

from ax_costaware.acquisition.optimize import Region, maximize
from ax_costaware.space.elimination import LinearConstraints

BOUNDS = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)


@pytest.mark.parametrize("height", [1e-310, 1e-200, 1.0, 1e200])
def test_heights_of_any_size(height: float) -> None:
    """The optimum is found at any scale; where values are subnormal it is one of the starts.

    Such is information that is nought to rounding: the inverse of its height is infinite.
    """

    def hill(X: Tensor, _: Tensor) -> Tensor:
        return height * torch.exp(-4 * (X - 0.4).square().sum(dim=-1))

    points = torch.rand(32, 2, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    (found,) = maximize(hill, [Region(BOUNDS)], [points], num_restarts=2)
    if height < 1e-300:
        assert bool((points == found.point[0]).all(dim=-1).any())
    else:
        assert (found.point[0] - 0.4).abs().max() < 1e-3


@pytest.mark.parametrize("constraints", [(), [(torch.tensor([0, 1]), -torch.ones(2), -1.0)]])
def test_a_single_start(constraints: LinearConstraints) -> None:
    """It does not tell how much values vary, and is climbed from all the same."""
    start = torch.full((1, 2), 0.2, dtype=torch.double)
    constraints = [(i, weights.double(), rhs) for i, weights, rhs in constraints]
    region = Region(BOUNDS, constraints=constraints)
    (found,) = maximize(lambda X, _: X.sum(dim=-1), [region], [start])
    assert float(found.point.sum()) == pytest.approx(1.0 if constraints else 2.0, abs=1e-6)


def test_linear_algebra_of_the_optimiser_has_one_thread() -> None:
    """SciPy's L-BFGS-B calls BLAS on vectors of a few entries, where threads wait for each other.

    On two virtual cores a decision between control sets took 2.3 s with them and 0.09 s without.
    """
    seen: list[int] = []

    def blas_threads() -> list[int]:
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    def hill(X: Tensor, _: Tensor) -> Tensor:
        if X.requires_grad:
            seen.extend(blas_threads())
        return -(X - 0.4).square().sum(dim=-1)

    points = torch.rand(8, 2, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    with threadpool_limits(limits=2, user_api="blas"):
        before = blas_threads()
        if not before:
            pytest.skip("this build of SciPy has no threads that can be counted")
        maximize(hill, [Region(BOUNDS)], [points], num_restarts=1)
        assert blas_threads() == before
    assert seen
    assert set(seen) == {1}
