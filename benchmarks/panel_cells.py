"""The cells of the panel: an objective, a law of costs and a budget each, on the unit cube.

Half of the cells are for developing defaults, the other half are run once, to confirm them. All
objectives are to be maximised and brought to a range of about one, so that losses compare.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from botorch.models import SingleTaskGP
from botorch.sampling.pathwise import draw_kernel_feature_paths
from botorch.test_functions import synthetic
from botorch.utils.sampling import draw_sobol_samples
from gpytorch.kernels import MaternKernel, RBFKernel
from gpytorch.means import ZeroMean
from panel_tables import table_surrogate
from torch import Tensor

from ax_costaware.space import Choice, Range, Space
from ax_costaware.space.parameters import Row

Function = Callable[[Tensor], Tensor]
"""From points ``n x d`` on the unit cube to values ``n``."""

LEARNED_SPREAD = 0.05
"""Standard deviation of the logarithm of a cost that has to be learned, around its law."""

_LOOKS = 2**14
"""Sobol points by which ranges and mean costs are told."""

_PLACES = {"fir": 0.62, "oak": 0.08, "elm": 0.93, "ash": 0.35, "yew": 0.5}
"""Where the values of a choice lie on their input, in an order that tells nothing."""

_MOST = 9
"""The largest whole number."""


@dataclass(frozen=True)
class Cell:
    """An objective, what trials of it cost, and a budget."""

    name: str
    """Name on the command line and in tables."""

    dim: int
    """Number of inputs."""

    objective: str
    """Name of the objective, of ``OBJECTIVES`` or a table."""

    law: str
    """How costs lie: one of ``LAWS``, or ``"measured"`` for a table's own."""

    ratio: float = 1.0
    """The most expensive trial's cost by the cheapest one's."""

    learned: bool = False
    """Whether costs have to be learned."""

    noise: float = 0.0
    """Standard deviation of the noise, as a part of the objective's range."""

    mean_costs: float = 25.0
    """The budget, in mean costs of a trial."""

    confirms: bool = False
    """Whether the cell was kept aside while defaults were chosen."""

    choices: tuple[int, ...] = ()
    """Inputs that are choices without an order, among as many places as there are ``_PLACES``."""

    integers: tuple[int, ...] = ()
    """Inputs that are whole numbers, from 0 to ``_MOST``."""

    limit: float | None = None
    """What the first two inputs may be together."""

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the inputs."""
        return tuple(f"x{i}" for i in range(self.dim))

    @cached_property
    def space(self) -> Space:
        """The search space."""

        def parameter(i: int, name: str) -> Range | Choice:
            if i in self.choices:
                return Choice(name, tuple(_PLACES))
            if i in self.integers:
                return Range(name, 0, _MOST, is_integer=True)
            return Range(name, 0.0, 1.0)

        sums = [] if self.limit is None else [({"x0": 1.0, "x1": 1.0}, self.limit)]
        return Space.of([parameter(i, name) for i, name in enumerate(self.names)], sums)

    def point(self, row: Row) -> Tensor:
        """The point of a parameterization on the unit cube, ``1 x d``."""

        def number(i: int, value: Any) -> float:
            if i in self.choices:
                return _PLACES[value]
            return float(value) / _MOST if i in self.integers else float(value)

        values = [number(i, row[name]) for i, name in enumerate(self.names)]
        return torch.tensor([values], dtype=torch.double)

    def _valid(self, X: Tensor) -> Tensor:
        """Points of the cube with choices and whole numbers where they can be."""
        X = X.clone()
        for i in self.choices:
            places = torch.tensor(list(_PLACES.values()), dtype=torch.double)
            X[:, i] = places[(X[:, i, None] - places).abs().argmin(-1)]
        for i in self.integers:
            X[:, i] = (X[:, i] * _MOST).round() / _MOST
        return X

    @cached_property
    def _raw(self) -> Function:
        if self.law == "measured":
            return table_surrogate(self.objective, "score")
        objective = OBJECTIVES[self.objective](self.dim)
        if not (self.choices or self.integers or self.limit):
            return objective

        def function(X: Tensor) -> Tensor:
            values = objective(self._valid(X))
            if self.limit is not None:
                values[X[:, 0] + X[:, 1] > self.limit + 1e-6] = -math.inf
            return values

        return function

    @cached_property
    def _looks(self) -> Tensor:
        cube = torch.stack([torch.zeros(self.dim), torch.ones(self.dim)]).double()
        points: Tensor = self._valid(draw_sobol_samples(cube, _LOOKS, 1, seed=1).squeeze(1))
        return points

    @cached_property
    def _scale(self) -> tuple[float, float]:
        """The best value (found by brute force and ascent), and its distance to the median."""
        values = self._raw(self._looks)
        found = ascend(self._raw, self._looks[values.topk(32).indices])
        best = max(float(self._raw(found).max()), float(values.max()))
        return best, best - float(values[values.isfinite()].median())

    @cached_property
    def optimum(self) -> Tensor:
        """The best point, ``d``."""
        values = self._raw(self._looks)
        found = ascend(self._raw, self._looks[values.topk(32).indices])
        best: Tensor = self._valid(found[self._raw(found).argmax(keepdim=True)])[0]
        return best

    def value(self, X: Tensor) -> Tensor:
        """The objective without noise, ``n``: 0 at its best, -1 at its median."""
        best, spread = self._scale
        return (self._raw(X) - best) / spread

    def cost(self, X: Tensor) -> Tensor:
        """What trials cost without noise, ``n``: 1 for the mean trial."""
        return self._relative_cost(X) / self._mean_cost

    @cached_property
    def _mean_cost(self) -> float:
        return float(self._relative_cost(self._looks).mean())

    def _relative_cost(self, X: Tensor) -> Tensor:
        if self.law == "measured":
            return table_surrogate(self.objective, "log_seconds")(X).exp()
        return torch.exp(math.log(self.ratio) * LAWS[self.law](X, self.optimum))


def ascend(function: Function, X: Tensor) -> Tensor:
    """Points moved to where a function is better, by a random search of shrinking width."""
    generator = torch.Generator().manual_seed(0)
    best, values = X.clone(), function(X)
    steps = 200 * X.shape[-1]
    for step in range(steps):
        width = 0.1 * 1e-4 ** (step / steps)
        noise = torch.randn(best.shape, generator=generator, dtype=best.dtype)
        moved = (best + width * noise).clamp(0, 1)
        found = function(moved)
        better = found > values
        best[better], values[better] = moved[better], found[better]
    return best


def _test_function(
    name: str, bounds: tuple[float, float] | None = None
) -> Callable[[int], Function]:
    def of(dim: int) -> Function:
        kind = getattr(synthetic, name)
        fixed = {"Branin", "SixHumpCamel", "Cosine8"}
        arguments: dict[str, Any] = {} if name in fixed else {"dim": dim}
        if name == "Shekel":
            arguments = {"m": 10}
        if bounds is not None:
            arguments["bounds"] = [bounds] * dim
        test = kind(negate=True, dtype=torch.double, **arguments)
        lower, upper = test.bounds

        def function(X: Tensor) -> Tensor:
            values: Tensor = test((lower + (upper - lower) * X).clamp(lower, upper), noise=False)
            return values

        return function

    return of


def _gp_sample(rough: bool, lengthscale: float) -> Callable[[int], Function]:
    """A draw from a Gaussian process by 1024 random Fourier features."""

    def of(dim: int) -> Function:
        kernel = (MaternKernel(nu=1.5) if rough else RBFKernel()).double()
        kernel.lengthscale = lengthscale * math.sqrt(dim)
        prior = SingleTaskGP(
            torch.zeros(1, dim).double(),
            torch.zeros(1, 1).double(),
            covar_module=kernel,
            mean_module=ZeroMean(),
            outcome_transform=None,
        )
        with torch.random.fork_rng():
            torch.manual_seed(dim)
            path = draw_kernel_feature_paths(prior, sample_shape=torch.Size(), num_features=1024)

        def function(X: Tensor) -> Tensor:
            with torch.no_grad():
                values: Tensor = path(X)
                return values

        return function

    return of


def _sum_of_peaks(dim: int) -> Function:
    """Three peaks of unequal width; the narrowest is the highest."""
    generator = torch.Generator().manual_seed(17)
    centres = 0.15 + 0.7 * torch.rand(3, dim, generator=generator, dtype=torch.double)
    widths, heights = (
        torch.tensor([0.12, 0.25, 0.5]).double(),
        torch.tensor([1.0, 0.8, 0.6]).double(),
    )

    def function(X: Tensor) -> Tensor:
        distance = torch.cdist(X, centres).square() / (dim * widths.square())
        values: Tensor = (heights * torch.exp(-distance)).sum(-1)
        return values

    return function


OBJECTIVES: dict[str, Callable[[int], Function]] = {
    "branin": _test_function("Branin"),
    "camel": _test_function("SixHumpCamel", (-1.5, 1.5)),
    "hartmann": _test_function("Hartmann"),
    "ackley": _test_function("Ackley", (-1.0, 1.3)),
    "levy": _test_function("Levy"),
    "rosenbrock": _test_function("Rosenbrock", (-2.0, 2.0)),
    "styblinski": _test_function("StyblinskiTang"),
    "griewank": _test_function("Griewank", (-4.0, 5.0)),
    "rastrigin": _test_function("Rastrigin", (-1.2, 1.5)),
    "michalewicz": _test_function("Michalewicz"),
    "shekel": _test_function("Shekel"),
    "cosine": _test_function("Cosine8"),
    "smooth sample": _gp_sample(rough=False, lengthscale=0.2),
    "rough sample": _gp_sample(rough=True, lengthscale=0.3),
    "peaks": _sum_of_peaks,
}
"""Objectives by name, each made for a number of inputs."""


def _from_optimum(X: Tensor, optimum: Tensor) -> Tensor:
    """Distance from the optimum, as a part of the largest there is."""
    farthest = torch.maximum(optimum, 1 - optimum).norm()
    distance: Tensor = (X - optimum).norm(dim=-1) / farthest
    return distance


LAWS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "flat": lambda X, _: torch.zeros_like(X[:, 0]),
    "along one": lambda X, best: X[:, 0] if best[0] > 0.5 else 1 - X[:, 0],
    "away along one": lambda X, best: 1 - X[:, 0] if best[0] > 0.5 else X[:, 0],
    "mean": lambda X, _: X.mean(-1),
    "rising": lambda X, best: 1 - _from_optimum(X, best),
    "falling": _from_optimum,
    "unrelated": lambda X, _: 0.5 + 0.5 * torch.sin(5 * X[:, 0] + 1) * torch.cos(3 * X[:, 1]),
}
"""Part of the logarithm of ``ratio``, from points and the best point: expensive at the optimum's
end of an input, cheap there, the mean of all inputs, rising towards the optimum, falling, or none
of these."""


CELLS = {
    cell.name: cell
    for cell in [
        Cell("branin2", 2, "branin", "along one", 20, mean_costs=20),
        Cell("hartmann6", 6, "hartmann", "rising", 50, learned=True, mean_costs=40),
        Cell("ackley4", 4, "ackley", "mean", 21),
        Cell("rough6", 6, "rough sample", "unrelated", 100, learned=True),
        Cell("levy5", 5, "levy", "away along one", 30, learned=True),
        Cell("rosenbrock4", 4, "rosenbrock", "along one", 150, learned=True),
        Cell("noisy hartmann3", 3, "hartmann", "along one", 20, learned=True, noise=0.05),
        Cell("smooth8", 8, "smooth sample", "flat"),
        Cell("peaks3", 3, "peaks", "falling", 40, mean_costs=40),
        Cell("boosting", 4, "boosting", "measured", learned=True),
        Cell("camel2", 2, "camel", "rising", 100, learned=True, mean_costs=20, confirms=True),
        Cell("styblinski5", 5, "styblinski", "rising", 100, learned=True, mean_costs=40),
        Cell("ackley8", 8, "ackley", "unrelated", 50, learned=True, confirms=True),
        Cell("smooth4", 4, "smooth sample", "along one", 30, mean_costs=40),
        Cell("rosenbrock6", 6, "rosenbrock", "away along one", 100, confirms=True),
        Cell("noisy hartmann4", 4, "hartmann", "flat", noise=0.1, confirms=True),
        Cell("levy16", 16, "levy", "mean", 21, learned=True),
        Cell("shekel4", 4, "shekel", "along one", 50, learned=True, confirms=True),
        Cell("cosine8", 8, "cosine", "falling", 20, confirms=True),
        Cell("griewank5", 5, "griewank", "unrelated", 30, learned=True, confirms=True),
        Cell("rastrigin3", 3, "rastrigin", "along one", 40, confirms=True),
        Cell("michalewicz5", 5, "michalewicz", "mean", 20, learned=True, confirms=True),
        Cell("smooth6", 6, "smooth sample", "falling", 60, mean_costs=40, confirms=True),
        Cell("rough3", 3, "rough sample", "rising", 50, learned=True, confirms=True),
        Cell("noisy branin2", 2, "branin", "along one", 20, mean_costs=20, noise=0.1),
        Cell("noisy ackley4", 4, "ackley", "mean", 21, learned=True, noise=0.05),
        Cell("noisy levy5", 5, "levy", "away along one", 30, learned=True, noise=0.05),
        Cell("noisy boosting", 4, "boosting", "measured", learned=True, noise=0.1),
        Cell("noisy digits", 4, "digits", "measured", learned=True, noise=0.11),
        Cell("noisy camel2", 2, "camel", "rising", 100, True, 0.1, mean_costs=20, confirms=True),
        Cell("noisy griewank5", 5, "griewank", "unrelated", 30, True, 0.1, confirms=True),
        Cell("noisy michalewicz5", 5, "michalewicz", "mean", 20, True, 0.1, confirms=True),
        Cell("noisy forest", 4, "forest", "measured", 1.0, True, 0.1, confirms=True),
        Cell(
            "mixed hartmann6",
            6,
            "hartmann",
            "along one",
            20,
            choices=(3,),
            integers=(4,),
            limit=0.8,
        ),
        Cell("mixed levy5", 5, "levy", "rising", 50, True, choices=(2,), limit=1.1),
        Cell("mixed styblinski5", 5, "styblinski", "along one", 50, choices=(4,), limit=0.8),
        Cell(
            "mixed ackley5",
            5,
            "ackley",
            "along one",
            30,
            choices=(2,),
            integers=(3,),
            limit=0.8,
            confirms=True,
        ),
        Cell(
            "mixed michalewicz5", 5, "michalewicz", "rising", 40, True, choices=(3,), confirms=True
        ),
        Cell(
            "mixed griewank6",
            6,
            "griewank",
            "unrelated",
            30,
            True,
            choices=(4,),
            integers=(3,),
            limit=0.9,
            confirms=True,
        ),
        Cell("network", 4, "network", "measured", learned=True, confirms=True),
        Cell("forest", 4, "forest", "measured", learned=True, confirms=True),
    ]
}
"""The cells by name."""
