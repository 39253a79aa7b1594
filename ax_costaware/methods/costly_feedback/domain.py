"""Data that the costly-feedback loop and its domains exchange.

A domain holds the points that can be used, finitely many (``FiniteDomain``) or a box
(``BoxDomain``), and the posterior of the model there. Outcomes are in the user's own unit
throughout, and are maximized.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from gpytorch.kernels import Kernel
from numpy.typing import NDArray

from ax_costaware.argument_checks import at_least, check_fields
from ax_costaware.exceptions import InputError
from ax_costaware.models.kernels import IndependentKernel

Point: TypeAlias = NDArray[np.float64]

NO_FORGETTING = 1e-12
"""Least forgetting rate, for a model that does not take zero."""


@dataclass(frozen=True)
class ResetEvery:
    """Forget everything after blocks of ``rounds`` rounds, and nothing inside a block: R-GP-UCB.

    A baseline of Bogunovic, Scarlett and Cevher 2016, *Time-Varying Gaussian Process Bandit
    Optimization*.

    Raises:
        InputError: Unless ``rounds`` is an integer >= 1.
    """

    rounds: int
    """Number of rounds of a block."""

    def __post_init__(self) -> None:
        check_fields(self, rounds=at_least(1))


@dataclass(frozen=True)
class Hyperparameters:
    """The model of an outcome: ``mean`` plus a process plus noise.

    The covariance is ``outputscale * kernel(x, x') * (1 - forgetting)^(|t - t'| / 2)``.
    """

    kernel: Kernel
    """Kernel over points, in the coordinates that the domain gives it."""

    forgetting: float
    """Forgetting rate per round, in ``[0, 1)``."""

    noise: float
    """Variance of the noise of a measurement."""

    outputscale: float = 1.0
    """Factor of the kernel."""

    mean: float = 0.0
    """Prior mean."""


class Observation(NamedTuple):
    """A measurement."""

    key: Any
    """Key of the point in its domain, a plain value: an index, or a tuple of coordinates."""

    round: int
    """Round in which it was made."""

    value: float
    """Measured outcome."""


def check_kernel(kernel: Kernel, dimension: int, in_box: bool) -> None:
    """Check that a kernel is one over the points of a domain.

    Args:
        kernel: The kernel.
        dimension: Number of coordinates of a point.
        in_box: True if the points are those of a box.

    Raises:
        InputError: If it is not.
    """
    name = type(kernel).__name__
    expected = f"a kernel over points with {dimension} coordinates"
    points = torch.linspace(0, 1, 2 * dimension, dtype=torch.double).reshape(2, dimension)
    try:
        covariance = kernel(points).to_dense()
    except (IndexError, RuntimeError) as error:
        raise InputError(f"kernel={name}(...): expected {expected}.") from error
    if covariance.shape != (2, 2):
        raise InputError(f"kernel={name}(...) is batched: expected {expected}, one for all.")
    if in_box and any(isinstance(part, IndependentKernel) for part in kernel.modules()):
        raise InputError(
            f"kernel={name}(...) with bounds: the points of a box have nothing to do with each "
            "other; expected candidates, or another kernel."
        )
