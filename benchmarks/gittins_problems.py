"""The objectives and the cost of the published experiments on the Gittins index.

Xie, Astudillo, Frazier, Scully and Terenin 2024, "Cost-aware Bayesian Optimization via the
Pandora's Box Gittins Index" (NeurIPS), section 4 and appendix C. Inputs are on the unit cube;
every objective is to be maximised, so Ackley, Levy and Rosenbrock carry a minus sign. The cost of
a point is

- ``20 mean(x) + 1``, between 1 and 21, as in the authors' code;
- ``20 sum(x) + 1``, between 1 and 20 d + 1, as the paper prints (equation 83); or
- one for every point.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from botorch.models import SingleTaskGP
from botorch.sampling.pathwise import draw_kernel_feature_paths
from botorch.test_functions.synthetic import Ackley, Levy, Rosenbrock
from gpytorch.kernels import MaternKernel
from gpytorch.means import ZeroMean
from torch import Tensor

from ax_costaware.costs import AffineCost
from ax_costaware.models import MaternGP

GP_LENGTHSCALE = 0.1
GP_NOISE = 1e-6
"""Noise variance of the fixed model of GP samples, for the factor's sake; outcomes have none."""


@dataclass(frozen=True)
class Problem:
    """An objective on the unit cube, to be maximised."""

    name: str
    dim: int
    function: Callable[[Tensor], Tensor]
    """From points ``n x d`` to values ``n``."""

    optimum: float | None
    """Largest value; None where it is not known."""

    fixed_model: bool
    """Whether the model has the true hyperparameters, and outcomes are not standardised."""

    costs: str = "known"
    """The law of costs: ``"uniform"``, ``"printed"``, or else that of the authors' code."""

    @property
    def budget(self) -> float:
        """What all trials after the initial ones may cost: 25 d, as in the authors' script.

        Where all cost the same these are the 25 d trials of figure 17 for GP samples; for the
        other functions 10 d, as in that figure where length-scales are 1, since their number is
        printed nowhere. Under the printed law, whose mean is ``10 d + 1`` instead of 11, what
        as many trials cost.
        """
        if self.costs == "printed":
            return 25.0 * self.dim * (10.0 * self.dim + 1.0) / 11.0
        return (10.0 if self.costs == "uniform" and not self.fixed_model else 25.0) * self.dim


def cost_of(dim: int, costs: str = "known") -> AffineCost:
    """The cost of a point under a law, see ``Problem.costs``."""
    weight = {"uniform": 0.0, "printed": 20.0}.get(costs, 20.0 / dim)
    return AffineCost(dict.fromkeys(range(dim), weight), fixed=1.0)


def problem(name: str, dim: int, seed: int, costs: str = "known") -> Problem:
    """The problem of that name; every seed has a GP sample of its own."""
    if name == "gpsample":
        return Problem(f"gpsample{dim}", dim, gp_sample(dim, seed), None, True, costs)
    lower, upper, test_class = {
        "ackley": (-1.0, 1.0, Ackley),
        "levy": (-10.0, 10.0, Levy),
        "rosenbrock": (-5.0, 10.0, Rosenbrock),
    }[name]
    test = test_class(dim=dim, negate=True, bounds=[(lower, upper)] * dim).double()

    def function(x: Tensor) -> Tensor:
        values: Tensor = test(lower + (upper - lower) * x)
        return values

    return Problem(f"{name}{dim}", dim, function, 0.0, False, costs)


def gp_sample(dim: int, seed: int) -> Callable[[Tensor], Tensor]:
    """A draw from the prior of the fixed model by 1024 random Fourier features."""
    prior = FixedMaternGP(torch.zeros(1, dim).double(), torch.zeros(1, 1).double())
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        path = draw_kernel_feature_paths(prior, sample_shape=torch.Size(), num_features=1024)

    def function(x: Tensor) -> Tensor:
        with torch.no_grad():
            values: Tensor = path(x)
            return values

    return function


def model_of(problem: Problem, X: Tensor, y: Tensor) -> SingleTaskGP:
    """The model of ``n`` outcomes, to be fitted unless its hyperparameters are the true ones.

    Kernel and priors are the paper's: Matern-5/2, with length-scales that do not grow with the
    number of inputs.
    """
    if problem.fixed_model:
        return FixedMaternGP(X, y.unsqueeze(-1))
    return MaternGP(X, y.unsqueeze(-1))


class FixedMaternGP(SingleTaskGP):
    """The model that GP samples are drawn from."""

    def __init__(self, train_X: Tensor, train_Y: Tensor) -> None:
        kernel = MaternKernel(nu=2.5).double()
        kernel.lengthscale = GP_LENGTHSCALE
        super().__init__(
            train_X,
            train_Y,
            train_Yvar=torch.full_like(train_Y, GP_NOISE),
            covar_module=kernel,
            mean_module=ZeroMean(),
            outcome_transform=None,
        )
        self.requires_grad_(False)
