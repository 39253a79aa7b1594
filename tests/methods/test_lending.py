"""The search that is lent for choices, integers and constraints, beside all that there is."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.models import SingleTaskGP
from torch import Tensor

from ax_costaware.methods import Choice, Problem, Range, Space
from ax_costaware.methods.lending import maximum_within
from ax_costaware.methods.parameters import Row

SOILS = ("sand", "clay", "peat", "loam", "silt")
SPACE = Space.of(
    [
        Range("dose", 0.0, 1.0),
        Range("rate", 0.0, 1.0),
        Choice("soil", SOILS),
        Range("pots", 0, 40, is_integer=True),
        Choice("lid", (True, False)),
    ],
    [({"dose": 1.0, "rate": 1.0}, 1.0)],
)
_MODEL = SingleTaskGP(torch.rand(2, 9).double(), torch.rand(2, 1).double())


class Hills(AcquisitionFunction):
    """A hill for each choice, at different places, the higher ones beyond the constraint."""

    def __init__(self) -> None:
        super().__init__(_MODEL)

    def forward(self, X: Tensor) -> Tensor:
        """Values of points ``b x 1 x d``: ``b``."""
        dose, rate, pots = X[:, 0, 0], X[:, 0, 1], X[:, 0, 7]
        soil = X[:, 0, 2:7] @ torch.arange(5.0).to(X)
        at, lid = 0.2 + 0.15 * soil, X[:, 0, 8]
        distance = (dose - at).square() + (rate - at).square() + ((pots - 9 * soil) / 40).square()
        return (1 + 0.2 * soil + 0.1 * lid) * (-3 * distance).exp()


def highest(held: Row) -> float:
    """The largest value by brute force."""
    grid = torch.linspace(0, 1, 201).double()
    dose, rate = (axis.flatten() for axis in torch.meshgrid(grid, grid, indexing="ij"))
    within = dose + rate <= 1 + 1e-9
    best = -math.inf
    for soil, pots, lid in itertools.product(SOILS, range(41), (True, False)):
        row: Row = {"dose": 0.0, "rate": 0.0, "soil": soil, "pots": pots, "lid": lid}
        if any(row[name] != value for name, value in held.items()):
            continue
        X = SPACE.encode([row]).repeat(int(within.sum()), 1)
        X[:, 0], X[:, 1] = dose[within], rate[within]
        best = max(best, float(Hills()(X.unsqueeze(1)).max()))
    return best


@pytest.mark.parametrize("held", [{}, {"soil": "clay"}, {"pots": 11, "lid": False}])
def test_the_best_point_of_all(held: Row) -> None:
    columns = SPACE.columns_of(held)
    found = maximum_within(Problem(SPACE), Hills(), {"raw_samples": 64, "num_restarts": 4}, columns)
    (row,) = SPACE.decode(found.point.unsqueeze(0))
    assert SPACE.meets(row)
    assert all(row[name] == value for name, value in held.items())
    assert found.value == pytest.approx(float(Hills()(SPACE.encode([row]).unsqueeze(1))), abs=1e-9)
    # The grid is no finer than that.
    assert highest(held) - 1e-9 <= found.value <= highest(held) + 1e-4
