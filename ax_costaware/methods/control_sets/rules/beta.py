r"""Weight of the standard deviation with the regret bound of UCB-CVS.

Theorem 4.1 of Tay et al. 2023, *Bayesian Optimization with Cost-varying Variable Subsets*:
:math:`\beta_t = B + \sigma \sqrt{2 (\gamma_{t-1} + 1 + \log((m + 1) / \delta))}`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ax_costaware.argument_checks import (
    check_fields,
    integer_at_least,
    nonnegative_number,
    number_between_zero_and_one,
    positive_number,
)


@dataclass(frozen=True)
class TheoreticalBeta:
    """Beta for which the regret bound holds with probability ``1 - delta``.

    ``norm_bound`` and ``noise_std`` are in units in which the prior variance of the model is one.

    Raises:
        InputError: Unless ``norm_bound >= 0`` and ``noise_std > 0`` are finite numbers and
            ``delta`` is strictly between 0 and 1.
    """

    norm_bound: float
    """Bound on the norm of the objective in the reproducing kernel Hilbert space of the kernel."""

    noise_std: float
    """Standard deviation that bounds the (sub-Gaussian) noise of an observation."""

    delta: float = 0.1
    """Probability with which the bound may fail."""

    def __post_init__(self) -> None:
        check_fields(
            self,
            norm_bound=nonnegative_number,
            noise_std=positive_number,
            delta=number_between_zero_and_one,
        )

    def __call__(self, information_gain: float, num_control_sets: int) -> float:
        """Return beta of the next decision.

        Args:
            information_gain: Information gain of the observations so far, in nats: half the
                log-determinant of ``I + K / noise_std^2``.
            num_control_sets: Number ``m`` of control sets.

        Returns:
            Beta, without unit.

        Raises:
            InputError: Unless ``information_gain`` is a finite number >= 0 and ``num_control_sets``
                an integer >= 1.
        """
        gain = nonnegative_number(information_gain, "information_gain")
        count = integer_at_least(num_control_sets, 1, "num_control_sets")
        confidence = math.log((count + 1) / self.delta)
        return self.norm_bound + self.noise_std * math.sqrt(2 * (gain + 1 + confidence))
