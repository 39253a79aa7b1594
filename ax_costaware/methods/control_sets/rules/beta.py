r"""Weight of the standard deviation in the regret bounds of UCB-CVS.

Theorems 4.1 and 4.4 of Tay et al. 2023, *Bayesian Optimization with Cost-varying Variable Subsets*:
:math:`\beta_t = B + \sigma \sqrt{2 (\gamma_{t-1} + 1 + \log(a / \delta))}` with :math:`a = m + 1`
and :math:`a = 2 m`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

from ax_costaware.argument_checks import (
    check_fields,
    integer_at_least,
    nonnegative_number,
    number_between_zero_and_one,
    one_of,
    positive_number,
)


@dataclass(frozen=True)
class TheoreticalBeta:
    """Beta of the theorems on the regret of UCB-CVS, with the information gain of the observations.

    ``norm_bound`` and ``noise_std`` are in units in which the prior variance of the model is one.
    The theorems also presume a posterior whose noise variance is ``1 + 2 / T`` after ``T`` trials
    (Lemma A.4): ``surrogate_spec=FixedHyperparameters(..., noise_variance=1 + 2 / T)``.

    Raises:
        InputError: Unless ``norm_bound >= 0`` and ``noise_std > 0`` are finite numbers, ``delta``
            is strictly between 0 and 1, and ``theorem`` is ``"4.1"`` or ``"4.4"``.
    """

    norm_bound: float
    """Bound on the norm of the objective in the reproducing kernel Hilbert space of the kernel."""

    noise_std: float
    """Standard deviation that bounds the (sub-Gaussian) noise of an observation."""

    delta: float = 0.1
    """Probability with which the bound may fail."""

    theorem: str = "4.1"
    """``"4.1"``; or ``"4.4"``, on cheap control sets that are played before the most expensive."""

    def __post_init__(self) -> None:
        check_fields(
            self,
            norm_bound=nonnegative_number,
            noise_std=positive_number,
            delta=number_between_zero_and_one,
            theorem=partial(one_of, allowed=("4.1", "4.4")),
        )

    def __call__(self, information_gain: float, num_control_sets: int) -> float:
        """Return beta of the next decision.

        Args:
            information_gain: Information gain of the observations so far, in nats: half the
                log-determinant of ``I + K / lambda``, with the model's noise variance ``lambda``.
            num_control_sets: Number ``m`` of control sets.

        Returns:
            Beta, without unit.

        Raises:
            InputError: Unless ``information_gain`` is a finite number >= 0 and ``num_control_sets``
                an integer >= 1.
        """
        gain = nonnegative_number(information_gain, "information_gain")
        count = integer_at_least(num_control_sets, 1, "num_control_sets")
        events = count + 1 if self.theorem == "4.1" else 2 * count
        confidence = math.log(events / self.delta)
        return self.norm_bound + self.noise_std * math.sqrt(2 * (gain + 1 + confidence))
