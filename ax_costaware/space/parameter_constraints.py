"""Parameter constraints: which there can be, and sums that are bounded from both sides."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from ax_costaware.exceptions import InputError
from ax_costaware.space.parameters import Choice, Fixed, Parameter, Range, Row

WeightedSum: TypeAlias = tuple[Mapping[str, float], float]
"""Weights of raw values by name, and the number that their sum is compared with."""

ROUNDING = 5e-9
"""What a sum with integers or choices may be over its limit, of which BoTorch forgives nothing."""

_LEAST_SIZE = 1e-3
"""How much a sum varies at least, beside a tolerance of 1e-8."""


def sums_and_equalities(
    parameters: Mapping[str, Parameter],
    sums: Sequence[WeightedSum],
    equalities: Sequence[WeightedSum],
) -> tuple[list[WeightedSum], list[WeightedSum]]:
    """Parameter constraints of both kinds.

    A sum of real numbers that is at most and at least the same number is equal to it: Ax's Client
    takes inequalities only.

    Args:
        parameters: All parameters, by name.
        sums: Inequalities: what a sum is at most.
        equalities: What a sum is.

    Raises:
        InputError: If one reads what is no number on a linear scale, an equality no real one.
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
        # Of integers alone there are points to draw.
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
    """That a sum is at least what it is at most; with both it is that."""
    weights, limit = constraint
    return {name: -weight for name, weight in weights.items()}, -limit


def _in_size(constraint: WeightedSum, parameters: Mapping[str, Parameter]) -> WeightedSum:
    """A constraint whose tolerance counts for little: a sum that varies by little is multiplied."""
    weights, value = constraint
    ranges = {name: parameters[name] for name in weights}
    varies = sum(
        abs(weights[name]) * (p.upper - p.lower)
        for name, p in ranges.items()
        if not isinstance(p, Fixed)
    )
    if not 0 < varies < _LEAST_SIZE:
        return constraint
    return {name: weight / varies for name, weight in weights.items()}, value / varies


def check_room(
    parameters: Mapping[str, Parameter], sums: Sequence[WeightedSum], fixed: Row
) -> None:
    """Refuse what is fixed where it leaves nothing of the bounds that keeps to an inequality.

    Args:
        parameters: All parameters, by name.
        sums: Inequalities: what a sum is at most.
        fixed: Parameters that are fixed, with their values.

    Raises:
        InputError: If a sum is more, whatever the others are.
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
    """A constraint as it is written."""
    weights, value = constraint
    terms = [name if weight == 1 else f"{weight:g}*{name}" for name, weight in weights.items()]
    return f"{' + '.join(terms)} {sign} {value:g}"


def _is_continuous(parameter: Range) -> bool:
    """Whether a range takes all values between its bounds."""
    return not parameter.is_integer and parameter.digits is None


def _reason_against(parameter: Parameter | None, is_equality: bool = True) -> str | None:
    """Why a constraint cannot read a parameter; None if it can."""
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
