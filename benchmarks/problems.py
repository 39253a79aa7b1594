"""The four objectives of the control-set benchmarks, with the published settings.

Tay et al. 2023, *Bayesian Optimization with Cost-varying Variable Subsets*, section 5 and appendix
C: inputs on the unit cube, squared exponential kernel with a fixed length-scale, output scale 1,
noise standard deviation 0.01, marginals truncated normal around 0.5 with a given variance. The
plant and airfoil surfaces are read from ``../shared/data`` beside the checkout.

    python benchmarks/problems.py    # how hard the samples of a Gaussian process are
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from botorch.acquisition.analytic import PosteriorMean
from botorch.models import SingleTaskGP
from botorch.models.deterministic import GenericDeterministicModel
from botorch.optim.optimize import optimize_acqf
from botorch.test_functions.synthetic import Hartmann
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel
from torch import Tensor

from ax_costaware.laws import TruncatedNormal

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
NOISE_STD = 0.01
COSTS = {
    "cheap": (0.01, 0.01, 0.01, 0.1, 0.1, 0.1, 1.0),
    "moderate": (0.1, 0.1, 0.1, 0.2, 0.2, 0.2, 1.0),
    "expensive": (0.6, 0.6, 0.6, 0.8, 0.8, 0.8, 1.0),
}
SUBSETS_OF_THREE = ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2))
PLANT_SETS = ((0, 1), (2, 3), (3, 4), (0, 1, 2), (1, 2, 3), (2, 3, 4), (0, 1, 2, 3, 4))
AIRFOIL_SETS = ((3, 4), (1, 4), (0, 3), (1, 2), (2, 4), (0, 1), (2, 3))


@dataclass(frozen=True)
class Problem:
    """An objective on the unit cube, to be maximised, and its control sets.

    Attributes:
        name: Name on the command line.
        function: Maps ``... x d`` inputs to ``...`` values without noise.
        dim: The number of inputs.
        lengthscale: Length-scale of the model's kernel.
        control_sets: Columns of each control set, in the order of the cost lists.
        optimum: The largest value, where it is known.
        relevant: The columns that matter, where some do not.
        average: Of columns that are set, ``m x d`` nodes and their ``m`` weights: the weighted mean
            over the nodes as a function of a point, where there is a faster way than all ``m``.
    """

    name: str
    function: Callable[[Tensor], Tensor]
    dim: int
    lengthscale: float
    control_sets: tuple[tuple[int, ...], ...]
    optimum: float | None = None
    relevant: frozenset[int] | None = None
    average: Callable[[list[int], Tensor, Tensor], Callable[[Tensor], Tensor]] | None = None

    def marginals(self, variance: float) -> list[TruncatedNormal]:
        """The law of every input when it is not controlled."""
        marginal = TruncatedNormal.from_variance(0.5, variance, 0.0, 1.0)
        return [marginal] * self.dim


def gp_sample(seed: int = 0) -> Problem:
    """A sample of the prior with length-scale 0.1 in three dimensions (4096 Fourier features)."""
    generator = torch.Generator().manual_seed(seed)
    double = {"dtype": torch.double, "generator": generator}
    frequencies = torch.randn(4096, 3, **double) / 0.1  # type: ignore[call-overload]
    phases = 2 * math.pi * torch.rand(4096, **double)  # type: ignore[call-overload]
    weights = torch.randn(4096, **double) * math.sqrt(2 / 4096)  # type: ignore[call-overload]

    def function(X: Tensor) -> Tensor:
        values: Tensor = torch.cos(X @ frequencies.mT + phases) @ weights
        return values

    def average(columns: list[int], nodes: Tensor, masses: Tensor) -> Callable[[Tensor], Tensor]:
        others = [column for column in range(3) if column not in columns]
        angles = nodes[:, others] @ frequencies[:, others].mT
        cosine, sine = masses @ torch.cos(angles), masses @ torch.sin(angles)

        def value(x: Tensor) -> Tensor:
            set_angles = x[columns] @ frequencies[:, columns].mT + phases
            mean: Tensor = (torch.cos(set_angles) * cosine - torch.sin(set_angles) * sine) @ weights
            return mean

        return value

    return Problem("gpsample", function, 3, 0.1, SUBSETS_OF_THREE, average=average)


def gp_interpolant(seed: int = 0) -> Problem:
    """As the paper's code draws samples: the prior at 1000 uniform points, and its mean between."""
    generator = torch.Generator().manual_seed(seed)
    points = torch.rand(1000, 3, dtype=torch.double, generator=generator)
    factor = torch.linalg.cholesky(_rbf(points, points) + 1e-6 * torch.eye(1000).double())
    sample = factor @ torch.randn(1000, 1, dtype=torch.double, generator=generator)
    weights = torch.cholesky_solve(sample, factor).squeeze(-1)

    def function(X: Tensor) -> Tensor:
        return _rbf(X, points) @ weights

    def average(columns: list[int], nodes: Tensor, masses: Tensor) -> Callable[[Tensor], Tensor]:
        others = [column for column in range(3) if column not in columns]
        embedded = weights * (masses @ _rbf(nodes[:, others], points[:, others]))
        return lambda x: (_rbf(x[None, columns], points[:, columns]) @ embedded).squeeze(0)

    return Problem("gpinterpolant", function, 3, 0.1, SUBSETS_OF_THREE, average=average)


def _rbf(X: Tensor, Y: Tensor) -> Tensor:
    """The kernel of the samples, from ``... x d`` and ``n x d`` points to ``... x n``."""
    squares = ((X.unsqueeze(-2) - Y) / 0.1).square().sum(-1)
    return torch.exp(-squares / 2)


def hartmann() -> Problem:
    """Hartmann 3-D, negated so that it is maximised."""
    base = Hartmann(dim=3, negate=True, dtype=torch.double)
    return Problem("hartmann", lambda X: base(X, noise=False), 3, 0.1, SUBSETS_OF_THREE)


def _weighted_kernel(
    name: str, kernel: RBFKernel | MaternKernel, bounds: list[list[float]] | None
) -> Callable[[Tensor], Tensor]:
    parameters = json.loads((DATA / f"{name}_gp.json").read_text())
    table = np.genfromtxt(DATA / f"{name}_gp.csv", delimiter=",", names=True)
    names = table.dtype.names or ()
    inputs = torch.tensor(np.stack([table[name] for name in names[:5]], axis=-1))
    weights = torch.tensor(table["gp_weight"])
    kernel = kernel.double()
    kernel.lengthscale = torch.tensor(parameters["lengthscales"], dtype=torch.double)
    limits = torch.tensor(bounds or [[0.0, 1.0]] * 5, dtype=torch.double)

    @torch.no_grad()
    def function(X: Tensor) -> Tensor:
        raw = limits[:, 0] + X * (limits[:, 1] - limits[:, 0])
        flat = raw.reshape(-1, 5)
        parts = [kernel(part, inputs).to_dense() @ weights for part in flat.split(512)]
        values: Tensor = parameters["mean"] + parameters["outputscale"] * torch.cat(parts)
        return values.reshape(X.shape[:-1])

    return function


def plant() -> Problem:
    """The plant growth simulator, five inputs scaled to the unit cube by their bounds."""
    bounds = json.loads((DATA / "plant_growth_gp.json").read_text())["bounds"]
    function = _weighted_kernel("plant_growth", RBFKernel(ard_num_dims=5), bounds)
    return Problem("plant", function, 5, 0.2, PLANT_SETS)


def airfoil() -> Problem:
    """The airfoil self-noise simulator, five inputs on the unit cube."""
    function = _weighted_kernel("airfoil", MaternKernel(nu=2.5, ard_num_dims=5), None)
    return Problem("airfoil", function, 5, 0.2, AIRFOIL_SETS)


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "gpsample": gp_sample,
    "hartmann": hartmann,
    "plant": plant,
    "airfoil": airfoil,
}
DRAWN: dict[str, Callable[[int], Problem]] = {
    "gpsample": gp_sample,
    "gpinterpolant": gp_interpolant,
}
"""Those that are another one for each seed."""


def fixed_gp(
    X: Tensor, y: Tensor, lengthscale: float | list[float], outputscale: float = 1.0
) -> SingleTaskGP:
    """The papers' model: fixed hyperparameters, no transforms.

    Args:
        X: ``n x d`` inputs on the unit cube.
        y: ``n`` outcomes.
        lengthscale: The same for every input, or one for each.
        outputscale: Prior variance of the function.
    """
    kernel = ScaleKernel(RBFKernel(ard_num_dims=X.shape[-1]))
    model = SingleTaskGP(X, y.unsqueeze(-1), covar_module=kernel, outcome_transform=None)
    kernel.base_kernel.lengthscale = torch.tensor(lengthscale).to(X)
    kernel.outputscale = torch.tensor(outputscale).to(X)
    model.mean_module.constant.data.zero_()
    model.likelihood.noise_covar.noise = NOISE_STD**2
    return model.eval()


def hardness(function: Callable[[Tensor], Tensor]) -> tuple[float, float]:
    """The best value, found by brute force, and the part of the domain within 0.5 of it."""
    bounds = torch.stack([torch.zeros(3), torch.ones(3)]).double()
    sobol = torch.quasirandom.SobolEngine(3, True, seed=0).draw(2**16, dtype=torch.double)
    values = torch.cat([function(X) for X in sobol.split(1024)])
    mean = PosteriorMean(GenericDeterministicModel(lambda X: function(X).unsqueeze(-1)))
    starts = sobol[values.topk(50).indices].unsqueeze(-2)
    _, found = optimize_acqf(mean, bounds, 1, num_restarts=50, batch_initial_conditions=starts)
    assert found is not None
    best = float(found)
    return best, float((values > best - 0.5).double().mean())


def main() -> None:
    for name, draw in DRAWN.items():
        best, near = np.array([hardness(draw(seed).function) for seed in range(10)]).T
        shown = ", ".join(f"{value:.2f}" for value in best)
        print(f"{name}: best {best.mean():.2f} ({shown}), within 0.5 of it {near.mean():.2%}")


if __name__ == "__main__":
    main()
