"""Parameter constraints: their checks, and equalities that Ax states as two inequalities."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from ax_costaware.exceptions import InputError
from ax_costaware.space.parameters import Choice, Fixed, Parameter, Range, Row

WeightedSum: TypeAlias = tuple[Mapping[str, float], float]
"""Weights of raw values by name, and the number to which their sum is compared."""

ROUNDING = 5e-9
"""Tolerance added to a limit on integers or choices, since BoTorch has none for them."""

_MIN_VARIATION = 1e-3
"""Smallest variation of a sum for which an absolute tolerance of 1e-8 is negligible."""


def sums_and_equalities(
    parameters: Mapping[str, Parameter],
    sums: Sequence[WeightedSum],
    equalities: Sequence[WeightedSum],
) -> tuple[list[WeightedSum], list[WeightedSum]]:
    """Return inequality and equality constraints.

    Ax's Client takes inequalities only. Two of them that bound a sum of real numbers by the same
    number from both sides are an equality.

    Args:
        parameters: All parameters, by name.
        sums: Inequalities ``sum <= limit``.
        equalities: Equalities ``sum == value``.

    Raises:
        InputError: If a constraint is on a parameter that is not a number on a linear scale, or an
            equality on one that is not real.
    """
    for each in sums:
        for name in each[0]:
            if reason := _reason_against(parameters.get(name), is_equality=False):
                raise InputError(
                    f"parameter constraint {shown(each, '<=')!r}: {name!r} {reason}. Expected "
                    "ranges, or choices with an order, on a linear scale."
                )
    rest, found = list(sums), list(equalities)
    for weights, limit in sums:
        opposite = opposite_of((weights, limit))
        if (weights, limit) not in rest or opposite not in rest:
            continue
        read = [parameters[name] for name in weights]
        is_real = any(isinstance(p, Range) and _is_continuous(p) for p in read)
        # Sums of integers alone stay inequalities: their points can be enumerated.
        if is_real or not any(map(_reason_against, read)):
            rest.remove((weights, limit))
            rest.remove(opposite)
            found.append((weights, limit))
    for each in found:
        for name in each[0]:
            if reason := _reason_against(parameters.get(name)):
                raise InputError(
                    f"equality constraint {shown(each)!r}: {name!r} {reason}. Expected ranges of "
                    "real numbers on a linear scale. Leave out one parameter, and compute it from "
                    "the others where the trial is run."
                )
    return [_in_size(c, parameters) for c in rest], [_in_size(c, parameters) for c in found]


def opposite_of(constraint: WeightedSum) -> WeightedSum:
    """Return the constraint ``sum >= limit`` of ``sum <= limit``, as a constraint from above."""
    weights, limit = constraint
    return {name: -weight for name, weight in weights.items()}, -limit


def _in_size(constraint: WeightedSum, parameters: Mapping[str, Parameter]) -> WeightedSum:
    """Scale a sum that varies little, so that an absolute tolerance is negligible for it."""
    weights, value = constraint
    ranges = {name: parameters[name] for name in weights}
    varies = sum(
        abs(weights[name]) * (p.upper - p.lower)
        for name, p in ranges.items()
        if not isinstance(p, Fixed)
    )
    if not 0 < varies < _MIN_VARIATION:
        return constraint
    return {name: weight / varies for name, weight in weights.items()}, value / varies


def check_room(
    parameters: Mapping[str, Parameter], sums: Sequence[WeightedSum], fixed: Row
) -> None:
    """Refuse fixed values with which no point within the bounds satisfies an inequality.

    Args:
        parameters: All parameters, by name.
        sums: Inequalities ``sum <= limit``.
        fixed: Fixed values by name.

    Raises:
        InputError: If a sum is above its limit for all values of the other parameters.
    """

    def least(name: str, weight: float) -> float:
        p = parameters[name]
        ends = (p.value, p.value) if isinstance(p, Fixed) else (p.lower, p.upper)
        return min(weight * float(str(fixed.get(name, end))) for end in ends)

    for weights, limit in sums:
        held = {name: value for name, value in fixed.items() if name in weights}
        total = math.fsum(least(name, weight) for name, weight in weights.items())
        if held and total > limit + 1e-8:
            raise InputError(
                f"fixed parameters {held}: parameter constraint {shown((weights, limit), '<=')!r} "
                f"leaves no room, since the sum is at least {total:g}."
            )


def shown(constraint: WeightedSum, sign: str = "==") -> str:
    """Return a constraint as text, such as ``"x + 2*y == 1"``."""
    weights, value = constraint
    terms = [name if weight == 1 else f"{weight:g}*{name}" for name, weight in weights.items()]
    return f"{' + '.join(terms)} {sign} {value:g}"


def _is_continuous(parameter: Range) -> bool:
    """True if a range has all real values between its bounds."""
    return not parameter.is_integer and parameter.digits is None


def _reason_against(parameter: Parameter | None, is_equality: bool = True) -> str | None:
    """Return the reason why a constraint cannot be on a parameter, or None."""
    if parameter is None:
        return "is no parameter"
    if isinstance(parameter, Fixed):
        return None if parameter.is_numeric else "is no number"
    if is_equality and not (isinstance(parameter, Range) and _is_continuous(parameter)):
        return "does not take all values between its bounds"
    if isinstance(parameter, Choice) and not parameter.is_ordered:
        return "is a choice of values without an order"
    is_logit = isinstance(parameter, Range) and parameter.logit_scale
    return "is searched on another scale" if parameter.log_scale or is_logit else None
