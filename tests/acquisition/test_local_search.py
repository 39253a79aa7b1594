"""Searches from the best of many points."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ax_costaware.acquisition.local_search import LocalSearch

BOUNDS = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)


@pytest.mark.parametrize("height", [1e-310, 1e-200, 1.0, 1e200])
def test_heights_of_any_size(height: float) -> None:
    """The optimum is found at any scale; where values are subnormal the search ends at its start.

    Such is information that is nought to rounding: the inverse of its height is infinite.
    """

    def hill(X: Tensor) -> Tensor:
        return height * torch.exp(-4 * (X - 0.4).square().sum(dim=-1))

    points = torch.rand(32, 2, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    starts, ends = LocalSearch(BOUNDS, ()).climb(hill, points, 2)
    if height < 1e-300:
        assert torch.equal(starts, ends)
    else:
        assert (ends[0] - 0.4).abs().max() < 1e-3
