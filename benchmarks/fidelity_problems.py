"""The problems of ``fidelity.py``: functions of inputs and fidelities, with costs and budgets.

The augmented functions of BoTorch; Branin's function with a coarse and a medium simulation whose
bias is as large as the function and points to the wrong hill; and a measured table of learning
curves, which ``fidelity_tables.py`` makes. By these the method's settings were chosen; the
functions of Currin and Park, with the approximations of Xiong, Qian and Wu 2013, "Sequential Design
and Analysis of High-Accuracy and Low-Accuracy Computer Codes", and trainings in the cloud with
parts of the training set, from ``../shared/data``, were run once, afterwards. All are maximised,
and the target of a fidelity is one.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from botorch.test_functions.multi_fidelity import (
    AugmentedBranin,
    AugmentedHartmann,
    AugmentedRosenbrock,
)
from botorch.utils.sampling import draw_sobol_samples
from kept_runs import RESULTS
from scipy.interpolate import RBFInterpolator
from torch import Tensor

from ax_costaware.space import Choice, Range, Space

CLOUD = Path(__file__).parents[2] / "shared" / "data" / "cloud_training.csv"


@dataclass(frozen=True)
class Problem:
    """A function of points whose last columns are fidelities with the target one."""

    function: Callable[[Tensor], Tensor]
    """To be maximised: ``n x d`` to ``n``."""

    bounds: Tensor
    """``2 x d``."""

    num_fidelities: int
    """How many of the last columns are fidelities."""

    cost: Callable[[Tensor], Tensor]
    """What trials cost: ``n x d`` to ``n``."""

    budget: float
    """What a run may cost."""

    best: float
    """The best value at the target."""

    levels: tuple[float, ...] = ()
    """The values that the only fidelity takes; empty: all between its bounds."""

    steps: tuple[int, ...] = ()
    """Into how many equal steps each input is divided; empty: not at all."""

    @property
    def target(self) -> dict[int, float]:
        """Columns of the fidelities, and their values at the target."""
        d = self.bounds.shape[-1]
        return dict.fromkeys(range(d - self.num_fidelities, d), 1.0)

    @property
    def space(self) -> Space:
        """The same for a method."""
        parameters: list[Any] = [
            Range(f"x{i}", *ends) for i, ends in enumerate(self.bounds.T.tolist())
        ]
        for i, steps in enumerate(self.steps):
            values = tuple(step / steps for step in range(steps + 1))
            parameters[i] = Choice(parameters[i].name, values, is_ordered=True)
        if self.levels:
            parameters[-1] = Choice(parameters[-1].name, self.levels, is_ordered=True)
        return Space.of(parameters)

    def rounded(self, X: Tensor) -> Tensor:
        """Points with inputs at their nearest steps."""
        if not self.steps:
            return X
        steps = X.new_tensor(self.steps)
        inputs = (X[..., : len(steps)] * steps).round() / steps
        return torch.cat([inputs, X[..., len(steps) :]], dim=-1)

    def cost_of(self, row: Any) -> float:
        """What a parameterization costs."""
        return float(self.cost(point_of(row)))

    def regret(self, X: Tensor) -> float:
        """How far the value of a point ``1 x d`` at the target falls short."""
        at = X.detach().clone()
        at[:, list(self.target)] = 1.0
        return self.best - float(self.function(at))


def point_of(row: Any) -> Tensor:
    """A parameterization as a point ``1 x d``."""
    return torch.tensor([[float(row[f"x{i}"]) for i in range(len(row))]], dtype=torch.double)


def _misleading() -> Problem:
    branin = AugmentedBranin(negate=True)

    def function(X: Tensor) -> Tensor:
        at = X.clone()
        at[..., 2] = 1.0
        distance = (X[..., 0] + 2).square() + (X[..., 1] - 4).square()
        value: Tensor = branin(at)
        return value + 100 * (1 - X[..., 2]) * torch.exp(-distance / 20)

    def cost(X: Tensor) -> Tensor:
        return 0.05 + X[..., 2]

    return Problem(
        function, torch.as_tensor(branin.bounds), 1, cost, 14.0, -0.397887, levels=(0.1, 0.3, 1.0)
    )


def _network() -> Problem:
    """Learning curves: accuracy after a part of 50 epochs, of width, rate and penalty."""
    rows = [json.loads(line) for line in (RESULTS / "fidelity_network.jsonl").open()]
    points, scores = ([row[name] for row in rows] for name in ("point", "scores"))
    curves = RBFInterpolator(np.array(points), np.array(scores), kernel="linear")
    last = np.array(scores).shape[1] - 1

    def function(X: Tensor) -> Tensor:
        values = curves(X[..., :3].numpy().clip(0, 1)).clip(0, 1)
        at = (X[..., 3].numpy() * (last + 1) - 1).clip(0, last)
        low = np.floor(at).astype(int)
        high, part = np.minimum(low + 1, last), at - low
        each = np.arange(len(values))
        return torch.tensor((1 - part) * values[each, low] + part * values[each, high])

    bounds = torch.tensor([[0.0, 0.0, 0.0, 0.02], [1.0] * 4], dtype=torch.double)
    grid = draw_sobol_samples(bounds, 2**14, 1, seed=0).squeeze(1)
    grid = torch.cat([grid, torch.cat([torch.tensor(points).double(), grid[: len(rows), 3:]], 1)])
    grid[:, 3] = 1.0
    return Problem(
        function, bounds, 1, lambda X: 0.02 + X[..., 3], 8.0, float(function(grid).max())
    )


def _cloud() -> Problem:
    """Trainings in the cloud: accuracy in per cent after a part of the training set, and dollars.

    Inputs are the machine by its price, the number of its cores together, the learning rate, the
    batch size and the synchronism, each by its place among the values. Each was trained anew.
    """
    with CLOUD.open() as file:
        rows = list(csv.DictReader(file))
    prices = ("t2.small", "t2.medium", "t2.xlarge", "t2.2xlarge")
    columns = [
        [prices.index(row["vm_flavor"]) for row in rows],
        [int(row["n_workers"]) * 2 ** prices.index(row["vm_flavor"]) for row in rows],
        [float(row["learning_rate"]) for row in rows],
        [float(row["batch_size"]) for row in rows],
        [float(row["synchronism"] == "sync") for row in rows],
        [float(row["training_set_size"]) for row in rows],
    ]
    places = [np.unique(column, return_inverse=True) for column in columns]
    shape = tuple(len(values) for values, _ in places)
    accuracy, dollars = np.empty(shape), np.empty(shape)
    at = tuple(place for _, place in places)
    accuracy[at] = [100 * float(row["accuracy"]) for row in rows]
    dollars[at] = [float(row["dollars"]) for row in rows]
    levels = places[-1][0] / places[-1][0][-1]
    steps = tuple(n - 1 for n in shape[:-1])
    mean = float(dollars[..., -1].mean())

    def found(table: npt.NDArray[np.float64], X: Tensor) -> Tensor:
        at = (X[..., :-1].detach().clamp(0, 1) * X.new_tensor(steps)).round().long().unbind(-1)
        size = (X[..., -1:].detach() - torch.as_tensor(levels)).abs().argmin(-1)
        return torch.as_tensor(table)[(*at, size)]

    bounds = torch.tensor([[0.0] * 5 + [float(levels[0])], [1.0] * 6], dtype=torch.double)
    return Problem(
        lambda X: found(accuracy, X),
        bounds,
        1,
        lambda X: found(dollars / mean, X),
        5.0,
        float(accuracy[..., -1].max()),
        tuple(levels.tolist()),
        steps,
    )


def _currin(x: Tensor, y: Tensor) -> Tensor:
    ratio = (2300 * x**3 + 1900 * x**2 + 2092 * x + 60) / (100 * x**3 + 500 * x**2 + 4 * x + 20)
    return (1 - torch.exp(-0.5 / y.clamp_min(1e-9))) * ratio


def _currin_nearby(X: Tensor) -> Tensor:
    """The approximation: the mean of four points nearby."""
    x, y = X[..., 0], X[..., 1]
    above, below = y + 0.05, (y - 0.05).clamp_min(0.0)
    return 0.25 * sum((_currin(x + d, z) for d in (0.05, -0.05) for z in (above, below)), 0 * x)


def _park(X: Tensor) -> Tensor:
    a, b, c, d = X[..., 0].clamp_min(1e-3), X[..., 1], X[..., 2], X[..., 3]
    root = (1 + (b + c.square()) * d / a.square()).sqrt()
    return 0.5 * a * (root - 1) + (a + 3 * d) * torch.exp(1 + c.sin())


def _park_nearby(X: Tensor) -> Tensor:
    a, b, c = X[..., 0], X[..., 1], X[..., 2]
    return (1 + a.sin() / 10) * _park(X) - 2 * a + b.square() + c.square() + 0.5


def _approximated(
    high: Callable[[Tensor], Tensor], low: Callable[[Tensor], Tensor], d: int, best: float
) -> Callable[[], Problem]:
    """A function and its approximation, mixed by the fidelity."""

    def function(X: Tensor) -> Tensor:
        x, s = X[..., :-1], X[..., -1]
        return s * high(x) + (1 - s) * low(x)

    bounds = torch.tensor([[0.0] * (d + 1), [1.0] * (d + 1)], dtype=torch.double)
    return lambda: Problem(function, bounds, 1, lambda X: 0.1 + X[..., -1], 6.0, best)


def _augmented(
    function: Any, num_fidelities: int, cost: Callable[[Tensor], Tensor], budget: float, best: float
) -> Callable[[], Problem]:
    return lambda: Problem(function, function.bounds, num_fidelities, cost, budget, best)


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "Branin": _augmented(
        AugmentedBranin(negate=True), 1, lambda X: 0.1 + X[..., 2], 8.0, -0.397887
    ),
    "Hartmann": _augmented(
        AugmentedHartmann(negate=True), 1, lambda X: 5.0 + X[..., 6], 150.0, 3.32237
    ),
    "Rosenbrock": _augmented(
        AugmentedRosenbrock(dim=5, negate=True), 2, lambda X: 0.1 + X[..., 3:].prod(-1), 8.0, 0.0
    ),
    "misleading": _misleading,
    "network": _network,
    "Currin": _approximated(lambda X: _currin(X[..., 0], X[..., 1]), _currin_nearby, 2, 13.798722),
    "Park": _approximated(_park, _park_nearby, 4, 25.589254),
    "cloud": _cloud,
}
"""Problems by name. The cost of Hartmann is that of BoTorch's tutorials; those of Branin and
Rosenbrock are of the form of Wu et al. 2019, with a larger fixed part."""


@cache
def problem_of(name: str) -> Problem:
    """The problem of this name."""
    return PROBLEMS[name]()
