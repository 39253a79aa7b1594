"""Hartmann-6 and Ackley-6 with six inputs that do nothing, as in the experiment on unknown costs.

Hoang et al. 2025, *Bayesian Optimization for Unknown Cost-Varying Variable Subsets with No-Regret
Costs*, appendix C: twelve inputs on the unit cube, of which the first six matter, and seven control
sets, of which two reach the optimum. Outcomes are scaled to mean zero and variance one under
uniform inputs, as those of the data surfaces are.
"""

from __future__ import annotations

from typing import cast

import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.test_functions.base import BaseTestProblem
from botorch.test_functions.synthetic import Ackley, Hartmann
from botorch.utils.sampling import draw_sobol_samples
from gpytorch.kernels import RBFKernel, ScaleKernel
from gpytorch.mlls import ExactMarginalLogLikelihood
from kept_runs import keep, path_of, read
from problems import NOISE_STD, Problem
from torch import Tensor

DIM, RELEVANT = 12, 6
CONTROL_SETS = (
    (0, 1, 2), (3, 4, 5), (6, 7, 8), (9, 10, 11), tuple(range(6)), tuple(range(6, 12)),
    tuple(range(12)),
)  # fmt: skip


def _with_idle_inputs(name: str, base: BaseTestProblem) -> Problem:
    low, high = cast(Tensor, base.bounds).double().unbind()

    def raw(X: Tensor) -> Tensor:
        values: Tensor = base(low + X[..., :RELEVANT] * (high - low), noise=False)
        return values

    sample = raw(draw_sobol_samples(_unit_cube(DIM), n=2**14, q=1, seed=0).squeeze(-2))
    mean, std = sample.mean(), sample.std()
    return Problem(
        name, lambda X: (raw(X) - mean) / std, DIM, 0.2, CONTROL_SETS,
        optimum=float((cast(float, base.optimal_value) - mean) / std),
        relevant=frozenset(range(RELEVANT)),
    )  # fmt: skip


def hartmann6() -> Problem:
    """Hartmann 6-D, to be maximised."""
    return _with_idle_inputs("hartmann6", Hartmann(dim=6, negate=True, dtype=torch.double))


def ackley6() -> Problem:
    """Ackley 6-D on its usual cube, to be maximised."""
    return _with_idle_inputs("ackley6", Ackley(dim=6, negate=True, dtype=torch.double))


def lengthscales(name: str, problem: Problem) -> tuple[list[float], float]:
    """Length-scales and output scale of the model: fitted once where the paper prints none."""
    if problem.optimum is None:
        return [problem.lengthscale] * problem.dim, 1.0
    key = f"hyperparameters_{name}"
    if not path_of(key).exists():
        X = draw_sobol_samples(_unit_cube(problem.dim), n=600, q=1, seed=1).squeeze(-2)
        model = SingleTaskGP(
            X,
            problem.function(X).unsqueeze(-1),
            torch.full((len(X), 1), NOISE_STD**2).to(X),
            covar_module=ScaleKernel(RBFKernel(ard_num_dims=problem.dim)),
            outcome_transform=None,
        )
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        fitted = model.covar_module.base_kernel.lengthscale.clamp(0.05, 100.0).flatten().tolist()
        keep(key, [fitted, model.covar_module.outputscale.item()])
    scales, outputscale = read(key)
    return scales, outputscale


def worst_of(problem: Problem) -> float:
    """The least value of the objective on a quasi-random sample: the zero of quality regret."""
    sample = draw_sobol_samples(_unit_cube(problem.dim), n=2**14, q=1, seed=0).squeeze(-2)
    return float(torch.cat([problem.function(part) for part in sample.split(2048)]).min())


def _unit_cube(dim: int) -> Tensor:
    return torch.stack([torch.zeros(dim), torch.ones(dim)]).double()
