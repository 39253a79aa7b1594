"""CPU time of the Gittins index as an acquisition function, beside BoTorch's own LogEI.

The setting is d = 16 inputs and n = 100 observations, one thread. Each row is measured in the same
process, alternating with BoTorch's ``LogExpectedImprovement``, so that the ratio does not depend on
the machine: one evaluation with gradient of 200 points, and a whole ``optimize_acqf`` (3200 raw
samples, 160 restarts). For an exact GP our acquisition functions read a cached factor; "through
model.posterior" is what they take for any other model, that is, the price of the formula alone.

    python benchmarks/gittins_speed.py

Results go to ``benchmarks/results/gittins_speed.json``.
"""

from __future__ import annotations

import json
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.acquisition.analytic import LogExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.utils.gpytorch_modules import get_matern_kernel_with_gamma_prior
from botorch.optim.optimize import optimize_acqf
from gittins_problems import cost_of
from gpytorch.mlls import ExactMarginalLogLikelihood
from kept_runs import RESULTS

from ax_costaware.acquisition import LogExpectedImprovementPerCost, PandoraBoxGittinsIndex
from ax_costaware.models import LogNormalCostModel
from ax_costaware.models.posterior import ModelPosterior

DIM, NUM_OBSERVATIONS, NUM_POINTS = 16, 100, 200
RAW_SAMPLES, NUM_RESTARTS = 3200, 160
EVALUATIONS, OPTIMISATIONS = 41, 3


def cpu_seconds(call: Callable[[], Any]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def compare(
    functions: dict[str, AcquisitionFunction],
    job: Callable[[AcquisitionFunction], Any],
    repeats: int,
) -> dict[str, float]:
    """Median CPU seconds of every function, the repeats taken in turns."""
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for repeat in range(repeats + 1):
        for name, function in functions.items():
            torch.manual_seed(repeat)
            seconds[name].append(cpu_seconds(lambda f=function: job(f)))  # type: ignore[misc]
    return {name: statistics.median(values[1:]) for name, values in seconds.items()}


def main() -> None:
    """Measure, print and write."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", RuntimeWarning)
    torch.manual_seed(0)
    X = torch.rand(NUM_OBSERVATIONS, DIM, dtype=torch.double)
    y = torch.sin(3 * X.sum(-1, keepdim=True)) + X[:, :1]
    points = torch.rand(NUM_POINTS, 1, DIM, dtype=torch.double)
    bounds = torch.stack([torch.zeros(DIM), torch.ones(DIM)]).double()
    cost = cost_of(DIM)
    results: dict[str, Any] = {}
    kernels = {
        "BoTorch's default kernel": None,
        "scaled Matern 5/2": get_matern_kernel_with_gamma_prior(ard_num_dims=DIM),
    }
    for title, kernel in kernels.items():
        model = SingleTaskGP(X, y, covar_module=kernel)
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        through_posterior = PandoraBoxGittinsIndex(model, cost, 1e-4)
        through_posterior._posterior = ModelPosterior(model, None)
        functions: dict[str, AcquisitionFunction] = {
            "LogExpectedImprovement (BoTorch)": LogExpectedImprovement(model, best_f=y.max()),
            "PandoraBoxGittinsIndex": PandoraBoxGittinsIndex(model, cost, 1e-4),
            "PandoraBoxGittinsIndex, learned cost": PandoraBoxGittinsIndex(
                model, LogNormalCostModel(X, cost(X), bounds=bounds), 1e-4
            ),
            "PandoraBoxGittinsIndex through model.posterior": through_posterior,
            "LogExpectedImprovementPerCost": LogExpectedImprovementPerCost(model, y.max(), cost),
        }

        def evaluate(function: AcquisitionFunction) -> None:
            x = points.clone().requires_grad_()
            torch.autograd.grad(function(x).sum(), x)

        def optimise(function: AcquisitionFunction) -> None:
            optimize_acqf(function, bounds, q=1, num_restarts=NUM_RESTARTS, raw_samples=RAW_SAMPLES)

        table = {
            "evaluation": compare(functions, evaluate, EVALUATIONS),
            "optimize_acqf": compare(functions, optimise, OPTIMISATIONS),
        }
        print(f"\n{title}: CPU seconds and ratio to BoTorch's LogEI")
        rows = {}
        for name in functions:
            rows[name] = {
                job: {"cpu_s": times[name], "ratio": times[name] / next(iter(times.values()))}
                for job, times in table.items()
            }
            print(
                f"  {name:48s}"
                + "".join(
                    f" {job} {cell['cpu_s']:.4f} s, {cell['ratio']:.2f}x"
                    for job, cell in rows[name].items()
                )
            )
        results[title] = rows
    path = RESULTS / "gittins_speed.json"
    path.write_text(json.dumps(results, indent=1) + "\n")
    print(f"\nwrote {path}")


if __name__ == "__main__":
    main()
