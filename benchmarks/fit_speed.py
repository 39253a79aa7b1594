"""What it saves to search for hyperparameters by their logarithms, as ``MaternGP`` does.

    python benchmarks/fit_speed.py                       # one or two minutes

On outcomes of the panel's problems, half of the points all over the space and half about one of
them as a run ends, the same model is fitted from the same start by BoTorch's fit with
hyperparameters as they are, which is BoTorch's way, and by logarithms; one thread, CPU seconds.
"""

from __future__ import annotations

import time

import torch
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize
from botorch.models.utils.gpytorch_modules import get_matern_kernel_with_gamma_prior
from botorch.optim.fit import fit_gpytorch_mll_scipy
from panel_cells import CELLS
from torch import Tensor

from ax_costaware.models import DenseMarginalLogLikelihood, MaternGP

PROBLEMS = (
    *("hartmann6", "ackley4", "rosenbrock4", "levy16", "boosting", "noisy hartmann3", "smooth4"),
    *("branin2", "rough6", "styblinski5", "peaks3"),
)
SIZES = 7, 20, 40, 80
WAYS = "as they are", "by logarithms"
ALIKE = 1e-3
"""Log-likelihoods of the data that differ by less are of the same optimum."""


def outcomes(problem: str, n: int) -> tuple[Tensor, Tensor]:
    """Points ``n x d`` and outcomes ``n x 1``."""
    cell = CELLS[problem]
    X = torch.quasirandom.SobolEngine(cell.dim, scramble=True, seed=n).draw(n, dtype=torch.double)
    generator = torch.Generator().manual_seed(n)
    about = 0.1 * torch.randn(n // 2, cell.dim, generator=generator, dtype=torch.double)
    X[: n // 2] = (X[-1] + about).clamp(0, 1)
    return X, cell.value(X).unsqueeze(-1)


def fit(way: str, X: Tensor, Y: Tensor) -> tuple[float, int, float]:
    """Log-likelihood of the data and the priors at the end, steps and CPU seconds of a fit."""
    transform = Normalize(X.shape[-1], bounds=torch.tensor([[0.0], [1.0]]).expand(2, X.shape[-1]))
    if way == WAYS[0]:
        kernel = get_matern_kernel_with_gamma_prior(X.shape[-1])
        model = SingleTaskGP(X, Y, covar_module=kernel, input_transform=transform)
    else:
        model = MaternGP(X, Y, input_transform=transform)
    mll = DenseMarginalLogLikelihood(model.likelihood, model)
    mll.train()
    started = time.process_time()
    result = fit_gpytorch_mll_scipy(mll)
    return -result.fval * len(X), result.step, time.process_time() - started


def main() -> None:
    """Print a table, and the sums."""
    torch.set_num_threads(1)
    fit(WAYS[0], *outcomes("branin2", 7))  # what is imported at first
    total = {way: [0.0, 0.0] for way in WAYS}
    better, alike = dict.fromkeys(WAYS, 0), 0
    print("| problem | n | steps, as they are | by logarithms | CPU seconds | | log-likelihood | |")
    print("|---" * 8 + "|")
    for problem in PROBLEMS:
        for n in SIZES:
            found = {way: fit(way, *outcomes(problem, n)) for way in WAYS}
            for way, (_, steps, seconds) in found.items():
                total[way][0] += steps
                total[way][1] += seconds
            (first, *_), (second, *_) = found.values()
            alike += abs(first - second) < ALIKE
            better[WAYS[0]] += first >= second + ALIKE
            better[WAYS[1]] += second >= first + ALIKE
            cells = [
                f"{each[i]:{form}}"
                for i, form in ((1, ""), (2, ".3f"), (0, ".3f"))
                for each in found.values()
            ]
            print(f"| {problem} | {n} | " + " | ".join(cells) + " |")
    print()
    for way, (all_steps, all_seconds) in total.items():
        print(f"{way}: {all_steps:.0f} steps, {all_seconds:.2f} CPU seconds, ", end="")
        print(f"{all_seconds / total[WAYS[0]][1]:.2f} of the first; alone better in {better[way]}")
    print(f"The same optimum in {alike} fits of {len(PROBLEMS) * len(SIZES)}")


if __name__ == "__main__":
    main()
