r"""Schedule of the weight of the standard deviation in an upper confidence bound.

It is that of the experiments of Bogunovic, Scarlett and Cevher 2016, *Time-Varying Gaussian Process
Bandit Optimization*, whose bound is :math:`\mu + \sqrt{\beta_t} \sigma`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ax_costaware.argument_checks import (
    check_fields,
    nonnegative_number,
    number_above_one,
    positive_number,
)


@dataclass(frozen=True)
class LogarithmicBeta:
    """``beta_t = scale * log(rate * t)`` in round ``t = 1, 2, ...``; its square root weighs sigma.

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
        """Return beta of a round.

        Args:
            round_index: The round, counted from 1.
        """
        return self.scale * math.log(self.rate * round_index)


def checked_beta(beta: Any, name: str) -> float | LogarithmicBeta:
    """Return a number >= 0 or a schedule; the default schedule for None.

    Raises:
        InputError: For anything else.
    """
    if beta is None:
        return LogarithmicBeta()
    return beta if isinstance(beta, LogarithmicBeta) else nonnegative_number(beta, name)
