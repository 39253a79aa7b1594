r"""Schedules of the weight of the standard deviation in an upper confidence bound.

The bound is :math:`\mu + \sqrt{\beta_t} \sigma` (Bogunovic, Scarlett and Cevher 2016, *Time-Varying
Gaussian Process Bandit Optimization*; Wang et al. 2020, *Cost-Efficient Online Hyperparameter
Optimization*).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from ax_costaware.argument_checks import (
    at_least,
    check_fields,
    nonnegative_number,
    number_above_one,
    number_between_zero_and_one,
    positive_number,
)
from ax_costaware.exceptions import InputError


class BetaSchedule(ABC):
    """Weight of the upper confidence bound as a function of the round."""

    @abstractmethod
    def __call__(self, round_index: float) -> float:
        """Return beta of a round.

        Args:
            round_index: The round, counted from 1.
        """


@dataclass(frozen=True)
class LogarithmicBeta(BetaSchedule):
    """``beta_t = scale * log(rate * t)`` in round ``t = 1, 2, ...``, as in published experiments.

    Raises:
        InputError: Unless ``scale`` is a finite number > 0 and ``rate`` a finite number > 1.
    """

    scale: float = 0.8
    """Factor of the logarithm."""

    rate: float = 4.0
    """Factor of the round; above 1, so that beta is positive from the first round."""

    def __post_init__(self) -> None:
        check_fields(self, scale=positive_number, rate=number_above_one)

    def __call__(self, round_index: float) -> float:
        """Return beta of a round; see ``BetaSchedule``."""
        return self.scale * math.log(self.rate * round_index)


@dataclass(frozen=True)
class FiniteDomainBeta(BetaSchedule):
    """``beta_t = 2 log(n t^2 pi^2 / (6 delta))`` for ``n`` points: Theorem 4 of Wang et al.

    The theorem bounds the regret with probability ``1 - delta`` in the paper's model. A weight of
    this size explores much longer than that of published experiments.

    Raises:
        InputError: Unless ``num_points`` is an integer >= 1 and ``delta`` in (0, 1).
    """

    num_points: int
    """Number of points that can be used."""

    delta: float = 0.05
    """Probability that the bound fails."""

    def __post_init__(self) -> None:
        check_fields(self, num_points=at_least(1), delta=number_between_zero_and_one)

    def __call__(self, round_index: float) -> float:
        """Return beta of a round; see ``BetaSchedule``."""
        return 2 * math.log(self.num_points * (math.pi * round_index) ** 2 / (6 * self.delta))


@dataclass(frozen=True)
class CompactDomainBeta(BetaSchedule):
    """Weight of Theorem 7 of Wang et al. for a compact domain in ``[0, side]^d``.

    ``beta_t = 2 log(2 pi^2 t^2 / (3 delta)) + 2 d log(t^2 d b side sqrt(log(4 d a / delta)))``,
    where each partial derivative exceeds ``L`` somewhere with probability ``a exp(-(L / b)^2)`` at
    most.

    Raises:
        InputError: If a field is out of its range, or ``4 d a <= delta``.
    """

    dimension: int
    """Number of inputs ``d``."""

    a: float
    """Factor of the bound on the derivatives."""

    b: float
    """Scale of the derivatives."""

    side: float = 1.0
    """Side of the cube."""

    delta: float = 0.05
    """Probability that the bound fails."""

    def __post_init__(self) -> None:
        check_fields(
            self,
            dimension=at_least(1),
            a=positive_number,
            b=positive_number,
            side=positive_number,
            delta=number_between_zero_and_one,
        )
        if 4 * self.dimension * self.a <= self.delta:
            raise InputError(f"a={self.a!r}: expected 4 * dimension * a > delta={self.delta!r}.")

    def __call__(self, round_index: float) -> float:
        """Return beta of a round, >= 0; see ``BetaSchedule``."""
        d, squared = self.dimension, round_index**2
        root = math.sqrt(math.log(4 * d * self.a / self.delta))
        covering = math.log(squared * d * self.b * self.side * root)
        return max(
            2 * math.log(2 * math.pi**2 * squared / (3 * self.delta)) + 2 * d * covering, 0.0
        )


def checked_beta(beta: Any, name: str) -> float | BetaSchedule:
    """Return a number >= 0 or a schedule; the default schedule for None.

    Raises:
        InputError: For anything else.
    """
    if beta is None:
        return LogarithmicBeta()
    return beta if isinstance(beta, BetaSchedule) else nonnegative_number(beta, name)
