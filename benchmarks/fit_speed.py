"""What it saves to search for hyperparameters by their logarithms, as models of the package do.

    python benchmarks/fit_speed.py                       # three or four minutes

On outcomes of the panel's problems, half of the points all over the space and half about one of
them as a run ends, the same model is fitted from the same start by BoTorch's fit with
hyperparameters as they are, which is BoTorch's way, and by logarithms; one thread, CPU seconds. Of
fidelities the last input is one, of drift it is the time, and averages are of points about one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from botorch.models.transforms import Normalize
from botorch.optim.fit import fit_gpytorch_mll_scipy
from panel_cells import CELLS
from torch import Tensor

from ax_costaware.laws import GaussianConditional
from ax_costaware.models import (
    ConditionalMeanProcess,
    DefaultGP,
    DenseMarginalLogLikelihood,
    FidelityGP,
    MaternGP,
    TimeVaryingGP,
    conditional_mean_process,
    configurable_gp,
    fidelity_gp,
    matern_gp,
    time_varying_gp,
)

PROBLEMS = (
    *("hartmann6", "ackley4", "rosenbrock4", "levy16", "boosting", "noisy hartmann3", "smooth4"),
    *("branin2", "rough6", "styblinski5", "peaks3"),
)
SIZES = 7, 20, 40, 80
WAYS = "as they are", "by logarithms"
ALIKE = 1e-3
"""Log-likelihoods of the data that differ by less are of the same optimum."""


class Fit(NamedTuple):
    """How a fit ended."""

    likelihood: float
    """Log-likelihood of the data and the priors."""

    steps: int
    """Steps of the search."""

    seconds: float
    """CPU seconds."""


def outcomes(problem: str, n: int) -> tuple[Tensor, Tensor]:
    """Points ``n x d`` and outcomes ``n x 1``."""
    cell = CELLS[problem]
    X = torch.quasirandom.SobolEngine(cell.dim, scramble=True, seed=n).draw(n, dtype=torch.double)
    generator = torch.Generator().manual_seed(n)
    about = 0.1 * torch.randn(n // 2, cell.dim, generator=generator, dtype=torch.double)
    X[: n // 2] = (X[-1] + about).clamp(0, 1)
    return X, cell.value(X).unsqueeze(-1)


def _control_sets(X: Tensor, Y: Tensor) -> DefaultGP:
    return DefaultGP(X, Y, input_transform=Normalize(X.shape[-1], bounds=_cube(X)))


def _cube(X: Tensor) -> Tensor:
    return X.new_tensor([[0.0], [1.0]]).expand(2, X.shape[-1])


def _fidelity(X: Tensor, Y: Tensor) -> FidelityGP:
    return FidelityGP(X, Y, [{-1: 1.0}], _cube(X))


def _average(X: Tensor, Y: Tensor) -> ConditionalMeanProcess:
    d = X.shape[-1]
    unit = tuple(tuple(float(i == j) for j in range(d)) for i in range(d))
    return ConditionalMeanProcess(X, Y, GaussianConditional(unit, (0.0,) * d, (0.01,) * d))


MODELS: dict[str, tuple[Callable[[Tensor, Tensor], Any], ModuleType]] = {
    "objective": (
        lambda X, Y: MaternGP(X, Y, input_transform=Normalize(X.shape[-1], bounds=_cube(X))),
        matern_gp,
    ),
    "control sets": (_control_sets, configurable_gp),
    "fidelities": (_fidelity, fidelity_gp),
    "drift": (TimeVaryingGP, time_varying_gp),
    "averages": (_average, conditional_mean_process),
}
"""Makers of models, with the modules in which they turn to logarithms."""


def fit(name: str, way: str, X: Tensor, Y: Tensor) -> Fit:
    """Fit a model one way."""
    make, module = MODELS[name]
    if way == WAYS[0]:
        with patch.object(module, "search_by_logarithms"):
            model = make(X, Y)
    else:
        model = make(X, Y)
    mll = DenseMarginalLogLikelihood(model.likelihood, model)
    mll.train()
    started = time.process_time()
    result = fit_gpytorch_mll_scipy(mll)
    return Fit(-result.fval * len(X), result.step, time.process_time() - started)


def main() -> None:
    """Print a table."""
    torch.set_num_threads(1)
    fit("objective", WAYS[0], *outcomes("branin2", 7))  # what is imported at first
    print("| model | fits | steps, as they are | by logarithms | CPU seconds | | ratio | ", end="")
    print("same optimum | better by logarithms | worse |")
    print("|---" * 10 + "|")
    for name in MODELS:
        data = [outcomes(problem, n) for problem in PROBLEMS for n in SIZES]
        before, after = ([fit(name, way, X, Y) for X, Y in data] for way in WAYS)
        gains = [b.likelihood - a.likelihood for a, b in zip(before, after, strict=True)]
        steps = [sum(each.steps for each in fits) for fits in (before, after)]
        seconds = [sum(each.seconds for each in fits) for fits in (before, after)]
        print(
            f"| {name} | {len(data)} | {steps[0]} | {steps[1]} | {seconds[0]:.1f} | "
            f"{seconds[1]:.1f} | {seconds[1] / seconds[0]:.2f} | "
            f"{sum(abs(gain) < ALIKE for gain in gains)} | {sum(gain >= ALIKE for gain in gains)} |"
            f" {sum(gain <= -ALIKE for gain in gains)} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
