"""A plant that oxidises ammonia: 21 days of measurements, and a simulator fitted to them.

The table is from Brownlee, *Statistical Theory and Methodology in Science and Engineering*, second
edition, Wiley 1965, pages 491-500; it is in the public domain. Air flow is the rate of operation of
the plant, the water cools the coils of the absorption tower, the acid circulates there (per mille,
minus 500), and the stack loss is the ammonia that escapes, per mille of what goes in.

The simulator is ours. Stack loss is the posterior mean of a Gaussian process fitted to the table, a
linear trend plus a squared exponential kernel (of the kernels tried the one with the smallest
leave-one-out error: 3.7, against 4.1 without the trend), and a day's measurement adds the noise
that was fitted. What is to be maximised is a margin: ammonia absorbed, less ``ESCAPE_PENALTY``
times the ammonia that escapes. The penalty is an assumption, chosen so that the best air flow
depends on the cooling; with a small one full throttle is always best, with a large one the lowest.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
from gpytorch.kernels import LinearKernel, ScaleKernel
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import Tensor

INPUTS = ("air_flow", "water_temp", "acid_conc")
DAYS = np.array(
    [  # air flow, water temperature, acid concentration, stack loss
        (80, 27, 89, 42),
        (80, 27, 88, 37),
        (75, 25, 90, 37),
        (62, 24, 87, 28),
        (62, 22, 87, 18),
        (62, 23, 87, 18),
        (62, 24, 93, 19),
        (62, 24, 93, 20),
        (58, 23, 87, 15),
        (58, 18, 80, 14),
        (58, 18, 89, 14),
        (58, 17, 88, 13),
        (58, 18, 82, 11),
        (58, 19, 93, 12),
        (50, 18, 89, 8),
        (50, 18, 86, 7),
        (50, 19, 72, 8),
        (50, 19, 79, 8),
        (50, 20, 80, 9),
        (56, 20, 82, 15),
        (70, 20, 91, 15),
    ],
    dtype=float,
)
MEASURED = {name: DAYS[:, column].tolist() for column, name in enumerate(INPUTS)}
BOUNDS = {name: (min(values), max(values)) for name, values in MEASURED.items()}
ESCAPE_PENALTY = 20.0


class Plant:
    """The simulator, with a random state of its own.

    Args:
        seed: Seed of the inputs that nobody controls and of the noise.
    """

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        bounds = torch.tensor(list(BOUNDS.values()), dtype=torch.double).T
        standardize = Standardize(1)
        self._gp = SingleTaskGP(
            torch.from_numpy(DAYS[:, :-1]),
            torch.from_numpy(DAYS[:, -1:]),
            covar_module=ScaleKernel(LinearKernel())
            + ScaleKernel(get_covar_module_with_dim_scaled_prior(ard_num_dims=len(INPUTS))),
            input_transform=Normalize(len(INPUTS), bounds=bounds),
            outcome_transform=standardize,
        )
        fit_gpytorch_mll(ExactMarginalLogLikelihood(self._gp.likelihood, self._gp))
        noise_variance = self._gp.likelihood.noise.detach() * standardize.stdvs.square()
        self.noise_std: float = noise_variance.sqrt().item()

    def stack_loss(self, X: Tensor) -> Tensor:
        """Stack loss without noise (per mille) at the rows of ``X`` (``n x 3``, as ``INPUTS``)."""
        with torch.no_grad():  # in pieces: a posterior holds the covariance of all its points
            means = [self._gp.posterior(part).mean.squeeze(-1) for part in X.split(1000)]
        return torch.cat(means)

    def realize(self, controlled: Mapping[str, float]) -> dict[str, float]:
        """The inputs of a day: the uncontrolled ones are each as on a random day of the table."""
        drawn = {name: float(self._random.choice(MEASURED[name])) for name in INPUTS}
        return drawn | dict(controlled)

    def measure(self, inputs: Mapping[str, float]) -> float:
        """The margin of a day with these inputs, as measured."""
        X = torch.tensor([[inputs[name] for name in INPUTS]], dtype=torch.double)
        noise = self.noise_std * self._random.standard_normal()
        return margin(X, self.stack_loss(X) + noise).item()

    def expected_margin(self, controlled: Mapping[str, float]) -> float:
        """The true expected margin with these inputs controlled: exact, over the table's days."""
        columns = [
            torch.tensor([controlled[name]] if name in controlled else MEASURED[name]).double()
            for name in INPUTS
        ]
        X = torch.cartesian_prod(*columns)
        return margin(X, self.stack_loss(X)).mean().item()

    def best_margin(self) -> float:
        """The largest margin without noise on a grid in steps of a half."""
        X = torch.cartesian_prod(
            *(torch.arange(low, high + 0.5, 0.5).double() for low, high in BOUNDS.values())
        )
        return margin(X, self.stack_loss(X)).max().item()


def margin(X: Tensor, stack_loss: Tensor) -> Tensor:
    """Ammonia absorbed less the penalty on what escapes, in units of air flow.

    Args:
        X: Inputs, ``n x 3``.
        stack_loss: Ammonia that escapes, per mille of what goes in; ``n``.
    """
    ammonia = X[:, INPUTS.index("air_flow")]
    escaped = ammonia * stack_loss / 1000.0
    return ammonia - escaped - ESCAPE_PENALTY * escaped
