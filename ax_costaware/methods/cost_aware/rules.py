"""Rules for the price of a unit of cost, and for stopping when no trial is worth its cost.

The rules of Xie, Astudillo, Frazier, Scully and Terenin 2024, *Cost-aware Bayesian Optimization via
the Pandora's Box Gittins Index*, on plain numbers. The price of cost (their lambda) is in units of
the objective per unit of cost. Indices and best values are in one unit of the objective, with the
sign of maximization. Where outcomes are noisy, the best value so far is the largest posterior mean
at an evaluated point.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

from ax_costaware.argument_checks import (
    boolean,
    check_fields,
    finite_number,
    number_above_one,
    optional,
    positive_number,
)


@dataclass(frozen=True)
class GittinsDecay:
    """Price of a unit of cost that is divided by ``factor`` whenever no trial is worth its cost.

    The decay of PBGI-D, which spends a budget without a given value of a unit of cost. Its prices
    are in standardized units of the objective, as a ``StandardizedPrice``, per mean cost of a
    trial: then the unit of cost does not matter. That of the paper is
    ``GittinsDecay(per_mean_cost=False)``.

    Raises:
        InputError: Unless ``initial`` and ``factor`` are finite, ``initial > 0`` and
            ``factor > 1``.
    """

    initial: float = 0.1
    """The first price."""

    factor: float = 2.0
    """Divisor of the price at each decay."""

    per_mean_cost: bool = True
    """True if prices are per mean cost of the trials so far; False if per unit of cost."""

    def __post_init__(self) -> None:
        check_fields(self, initial=positive_number, factor=number_above_one, per_mean_cost=boolean)

    def after(self, lmbda: float, index: float, incumbent: float) -> float:
        """Return the price of the next decision.

        Args:
            lmbda: The price in force.
            index: The largest Gittins index at that price.
            incumbent: The best value so far.

        Returns:
            ``lmbda`` where ``index > incumbent``, else ``lmbda / factor``, which is kept above zero
            when it would underflow.

        Raises:
            InputError: Unless ``lmbda`` is a finite number > 0 and the others are finite.
        """
        price = positive_number(lmbda, "lmbda")
        if finite_number(index, "index") > finite_number(incumbent, "incumbent"):
            return price
        return min(price, max(price / self.factor, sys.float_info.min))


@dataclass(frozen=True)
class _PricedStop:
    """Base of stopping rules with a price of their own, or the price in force."""

    lmbda: float | None = None
    """Price of the rule; None for the price in force."""

    def __post_init__(self) -> None:
        check_fields(self, lmbda=optional(positive_number))

    def price(self, lmbda: float | None) -> float:
        """Return the price of the rule, given the price in force.

        Raises:
            InputError: If neither the rule has a price nor ``lmbda`` is a finite number > 0.
        """
        return positive_number(lmbda, "lmbda") if self.lmbda is None else self.lmbda


@dataclass(frozen=True)
class GittinsStop(_PricedStop):
    """Stop when the best value so far is at least the largest Gittins index.

    This is optimal on independent boxes (Weitzman 1979): no trial is worth its cost then.

    Raises:
        InputError: Unless ``lmbda`` is None or a finite number > 0.
    """

    def decide(self, index: float, incumbent: float, lmbda: float | None) -> tuple[bool, str]:
        """Decide whether to stop.

        Args:
            index: The largest Gittins index at ``price(lmbda)``.
            incumbent: The best value so far.
            lmbda: The price in force.

        Returns:
            True to stop, and the reason, a phrase with the numbers that decided. It holds for
            either sign of the objective.

        Raises:
            InputError: Unless ``index`` and ``incumbent`` are finite; see also ``price``.
        """
        price = self.price(lmbda)
        excess = finite_number(index, "index") - finite_number(incumbent, "incumbent")
        if excess > 0:
            return (
                False,
                f"the largest Gittins index is better than the best value so far by {excess:.6g}: "
                f"at a price of {price:.6g} for a unit of cost there is a trial worth its cost",
            )
        return (
            True,
            f"the largest Gittins index falls short of the best value so far by {abs(excess):.6g}: "
            f"at a price of {price:.6g} for a unit of cost no trial is worth its cost",
        )


@dataclass(frozen=True)
class ImprovementPerCostStop(_PricedStop):
    """Stop when no trial's expected improvement exceeds the price of its cost.

    The rule for expected improvement per cost. At one price it agrees with ``GittinsStop``: the
    index of a trial is at most the incumbent if and only if ``EI(x) <= lmbda * c(x)``.

    Raises:
        InputError: Unless ``lmbda`` is None or a finite number > 0.
    """

    def decide(self, log_improvement_per_cost: float, lmbda: float | None) -> tuple[bool, str]:
        """Decide whether to stop.

        Args:
            log_improvement_per_cost: The natural logarithm of expected improvement divided by
                cost, of the trial where that is largest, or of the one that would be run;
                ``-inf`` where none is left.
            lmbda: The price in force.

        Returns:
            True to stop, and the reason, as ``GittinsStop.decide``.

        Raises:
            InputError: If the logarithm is NaN, ``inf`` or no number; see also ``price``.
        """
        price = self.price(lmbda)
        log_ratio = log_improvement_per_cost
        if log_ratio != -math.inf:
            expected = "a finite number or -inf"
            log_ratio = finite_number(log_ratio, "log_improvement_per_cost", expected)
        stop = log_ratio <= math.log(price)
        # Show a power of e if the number itself would underflow or overflow.
        plain = -700 < log_ratio < 700 or log_ratio == -math.inf
        ratio = f"{math.exp(log_ratio):.6g}" if plain else f"exp({log_ratio:.6g})"
        return (
            stop,
            f"the expected improvement per unit of cost of the best trial is {ratio}, "
            f"{'not above' if stop else 'above'} the price of {price:.6g} for a unit of cost",
        )
