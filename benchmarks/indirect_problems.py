"""The problems of ``indirect.py``: a function, what is averaged for a query, and grids.

Functions are scaled to mean 0 and standard deviation 1 on the grid of their inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from ax_costaware.laws import (
    ColumnNodes,
    Conditional,
    GaussianConditional,
    JointNodes,
    LearnedConditional,
)

POINTS = 31
"""Points of a grid per dimension."""

Function = Callable[[Tensor], Tensor]


def branin(X: Tensor) -> Tensor:
    """Minus Branin's function; three maxima of the same value."""
    x, y = X[..., 0], X[..., 1]
    parabola = y - 5.1 / (4 * math.pi**2) * x**2 + 5 / math.pi * x - 6
    return -(parabola**2 + 10 * (1 - 1 / (8 * math.pi)) * x.cos() + 10)


def two_hills(X: Tensor) -> Tensor:
    """A narrow high hill and a broad lower one: the maximum of the averages is on the other."""
    narrow = (X - 0.25).square().sum(dim=-1) / 0.1**2
    broad = (X - 0.7).square().sum(dim=-1) / 0.25**2
    return (-0.5 * narrow).exp() + 0.8 * (-0.5 * broad).exp()


def camel(X: Tensor) -> Tensor:
    """Minus the logarithm of the six-hump camel function; two maxima of the same value."""
    x, y = X[..., 0], X[..., 1]
    hump = (4 - 2.1 * x**2 + x**4 / 3) * x**2 + x * y + (4 * y**2 - 4) * y**2
    return -(hump + 1.04).log1p()


def peaks(X: Tensor) -> Tensor:
    """Three hills and two pits."""
    x, y = X[..., 0], X[..., 1]
    first = 3 * (1 - x) ** 2 * (-(x**2) - (y + 1) ** 2).exp()
    second = 10 * (x / 5 - x**3 - y**5) * (-(x**2) - y**2).exp()
    return first - second - (-((x + 1) ** 2) - y**2).exp() / 3


def ackley(X: Tensor) -> Tensor:
    """Minus Ackley's function, but for a constant: one peak among ripples."""
    waves = (2 * math.pi * X).cos().mean(dim=-1).exp()
    return 20 * (-0.2 * X.square().mean(dim=-1).sqrt()).exp() + waves


def bowl(X: Tensor) -> Tensor:
    """A quadratic function with its maximum inside."""
    return -8 * (X[..., 0] - 0.37) ** 2 - (X[..., 1] - 0.62) ** 2


@dataclass(frozen=True)
class Problem:
    """A function on X, and the law of a point given a query in the unit square."""

    function: Function
    bounds: tuple[tuple[float, float], tuple[float, float]]
    """Lower and upper bounds of X."""
    map: str
    """Mean of the point given a query: linear, or by the cosine of each column."""
    variance: float
    """Variance of the point about its mean, before it is moved into the bounds."""
    lengthscale: tuple[float, float]
    """Length-scales on the unit square, where hyperparameters are fixed."""
    outputscale: float
    noise: float = 0.1
    """Standard deviation of the noise of an average."""
    known: bool = False
    """Whether the conditional is known, and not learned from pairs."""
    num_pairs: int = 300
    """Pairs from which it is learned."""
    scatter: str = "normal"
    """Or "two modes", on either side of the mean, or "uneven": three times as wide where the first
    column of the query is one as where it is zero."""

    def mean(self, A: Tensor) -> Tensor:
        """Mean of the point given queries ``... x 2``."""
        lower, upper = self.box()
        part = A if self.map == "linear" else (math.pi / 2 * A).cos()
        mean: Tensor = lower + part * (upper - lower)
        return mean

    def box(self) -> Tensor:
        """Bounds of X, ``2 x 2``."""
        return torch.tensor(self.bounds, dtype=torch.double)

    def draw(self, A: Tensor, normals: Tensor) -> Tensor:
        """Points given queries, by standard normal numbers."""
        lower, upper = self.box()
        scatter = math.sqrt(self.variance) * normals
        if self.scatter == "two modes":
            scatter = scatter / 3 + 3 * math.sqrt(self.variance) * normals[..., :1].sign()
        elif self.scatter == "uneven":
            scatter = scatter * (0.5 + A[..., :1])
        return (self.mean(A) + scatter).clamp(lower, upper)


PUBLISHED = {
    "linear": Problem(branin, ((-5, 0), (10, 15)), "linear", 0.5, (0.25, 0.55), 2.0),
    "linear_wide": Problem(branin, ((-5, 0), (10, 15)), "linear", 4.0, (0.25, 0.55), 2.0),
    "cosine": Problem(branin, ((-5, 0), (10, 15)), "cosine", 0.5, (0.25, 0.55), 2.0),
    "cosine_wide": Problem(branin, ((-5, 0), (10, 15)), "cosine", 4.0, (0.25, 0.55), 2.0),
    "two_hills": Problem(
        two_hills, ((0, 0), (1, 1)), "linear", 0.0064, (0.15, 0.15), 2.0, 0.02, True
    ),
}
"""Those of ``indirect.py``."""

_BRANIN = ((-5.0, 0.0), (10.0, 15.0))
_GIVEN = (0.3, 0.3), 2.0

PROBLEMS = {
    **PUBLISHED,
    "linear, few pairs": Problem(branin, _BRANIN, "linear", 0.5, *_GIVEN, num_pairs=30),
    "peaks": Problem(peaks, ((-3, -3), (3, 3)), "linear", 0.1, *_GIVEN, 0.2, True),
    "ackley": Problem(ackley, ((-4, -4), (5, 5)), "cosine", 0.3, *_GIVEN),
    "camel": Problem(camel, ((-2, -1.5), (2, 1.5)), "linear", 0.04, *_GIVEN, 0.1, True),
    "cosine, noisy": Problem(branin, _BRANIN, "cosine", 4.0, *_GIVEN, 0.3, num_pairs=30),
    "peaks, few pairs": Problem(peaks, ((-3, -3), (3, 3)), "linear", 0.1, *_GIVEN, num_pairs=40),
    "camel, two modes": Problem(
        camel, ((-2, -1.5), (2, 1.5)), "linear", 0.04, *_GIVEN, num_pairs=100, scatter="two modes"
    ),
    "peaks, uneven": Problem(
        peaks, ((-3, -3), (3, 3)), "cosine", 0.1, *_GIVEN, num_pairs=100, scatter="uneven"
    ),
    "bowl": Problem(bowl, ((0, 0), (1, 1)), "linear", 0.01, *_GIVEN, 0.3, True),
}
"""Those of ``averages.py``, too."""


def unit_grid(points: int = POINTS) -> Tensor:
    """A grid on the unit square."""
    side = torch.linspace(0, 1, points, dtype=torch.double)
    return torch.cartesian_prod(side, side)


@cache
def target_grid(name: str) -> Tensor:
    """The grid of X."""
    lower, upper = PROBLEMS[name].box()
    grid: Tensor = lower + unit_grid() * (upper - lower)
    return grid


@cache
def _scale(name: str) -> tuple[float, float]:
    values = PROBLEMS[name].function(target_grid(name))
    return float(values.mean()), float(values.std())


def value(name: str, X: Tensor) -> Tensor:
    """The scaled function."""
    mean, deviation = _scale(name)
    scaled: Tensor = (PROBLEMS[name].function(X) - mean) / deviation
    return scaled


@cache
def optimum(name: str) -> float:
    """The largest value, from the best points of the grid uphill."""
    grid = target_grid(name)
    starts = grid[value(name, grid).topk(20).indices]
    lower, upper = PROBLEMS[name].box().tolist()
    ends = (
        minimize(
            lambda x: -float(value(name, grid.new_tensor(x))),
            start.numpy(),
            bounds=list(zip(lower, upper, strict=True)),
            method="L-BFGS-B",
        )
        for start in starts
    )
    return max(float(value(name, grid).max()), *(-float(end.fun) for end in ends))


@cache
def average_grid(name: str) -> Tensor:
    """The averages at the queries of the unit grid, by 4096 Sobol points."""
    engine = torch.quasirandom.SobolEngine(2, scramble=True, seed=0)
    normals = torch.special.ndtri(engine.draw(4096, dtype=torch.double).clamp(1e-9, 1 - 1e-9))
    problem = PROBLEMS[name]
    return torch.stack([value(name, problem.draw(a, normals)).mean() for a in unit_grid()])


def pairs(name: str, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Points and their queries."""
    problem = PROBLEMS[name]
    A = torch.rand(problem.num_pairs, 2, dtype=torch.double, generator=generator)
    normals = torch.randn(problem.num_pairs, 2, dtype=torch.double, generator=generator)
    return problem.draw(A, normals), A


def conditional_of(
    name: str, seed: int, of_pairs: Callable[..., Conditional] = LearnedConditional
) -> Conditional:
    """The conditional of a run, where the law is not known as a class has it from pairs."""
    problem = PROBLEMS[name]
    if problem.known:
        lower, upper = problem.bounds
        sides = [high - low for low, high in zip(lower, upper, strict=True)]
        return GaussianConditional(
            ((sides[0], 0.0), (0.0, sides[1])),
            lower,
            problem.variance,
            lower=lower,
            upper=upper,
            outside="clip",
        )
    X, A = pairs(name, torch.Generator().manual_seed(1000 + seed))
    return of_pairs(X.numpy(), A.numpy())


@dataclass(frozen=True)
class MappedCell(Conditional):
    """The points of a cell of the unit square, seen through a problem's map.

    A query is the level of the cell and its centre; its half width is ``2 ** -(level + 1)``.
    """

    problem: Problem
    num_nodes: int = 16

    @property
    def num_query_columns(self) -> int:
        return 3

    @property
    def num_latent_columns(self) -> int:
        return 2

    def within(self, lower: Any, upper: Any) -> Self:
        del lower, upper
        return self

    def column_rule(self, A: Tensor) -> ColumnNodes:
        """Gauss-Legendre nodes in each column of the cell, mapped."""
        points, weights = np.polynomial.legendre.leggauss(self.num_nodes)
        offsets = torch.as_tensor(points).to(A)
        half = torch.pow(2.0, -(A[..., :1] + 1)).unsqueeze(-1)
        nodes = A[..., None, 1:] + half * offsets.unsqueeze(-1)
        weight = torch.as_tensor(weights / 2).to(A).unsqueeze(-1)
        return ColumnNodes(self.problem.mean(nodes), weight.expand_as(nodes))

    def joint_rule(self, A: Tensor) -> JointNodes:
        """The grid of the columns' nodes."""
        rule = self.column_rule(A)
        x, y = rule.nodes[..., 0], rule.nodes[..., 1]
        u, v = rule.weights[..., 0], rule.weights[..., 1]
        J = self.num_nodes
        nodes = torch.stack(
            [x.unsqueeze(-1).expand(*x.shape, J), y.unsqueeze(-2).expand(*x.shape, J)], dim=-1
        )
        return JointNodes(
            nodes.flatten(-3, -2), (u.unsqueeze(-1) * v.unsqueeze(-2)).flatten(-2, -1)
        )
