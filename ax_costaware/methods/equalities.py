"""Equality constraints on inputs, as they are declared: which there are, and which are refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from ax_costaware.exceptions import InputError
from ax_costaware.methods.parameters import Fixed, Parameter, Range

WeightedSum: TypeAlias = tuple[Mapping[str, float], float]
"""Weights of raw values by name, and the number that their sum is compared with."""


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
        InputError: If an equality reads a parameter that is no real number on a linear scale.
    """
    for weights, value in equalities:
        for name in weights:
            if reason := _reason_against(parameters.get(name)):
                raise InputError(
                    f"equality constraint {shown((weights, value))!r}: {name!r} {reason}. "
                    "Expected ranges of real numbers on a linear scale. Leave out one parameter, "
                    "and compute it from the others where the trial is run."
                )
    rest, found = list(sums), list(equalities)
    for weights, limit in sums:
        opposite = {name: -weight for name, weight in weights.items()}, -limit
        if (weights, limit) not in rest or opposite not in rest:
            continue
        if not any(_reason_against(parameters.get(name)) for name in weights):
            rest.remove((weights, limit))
            rest.remove(opposite)
            found.append((weights, limit))
    return rest, found


def shown(equality: WeightedSum) -> str:
    """An equality as it is written."""
    weights, value = equality
    terms = [name if weight == 1 else f"{weight:g}*{name}" for name, weight in weights.items()]
    return f"{' + '.join(terms)} == {value:g}"


def _reason_against(parameter: Parameter | None) -> str | None:
    """Why an equality cannot read a parameter; None if it can."""
    if parameter is None:
        return "is no parameter"
    if isinstance(parameter, Fixed):
        return None if parameter.is_numeric else "is no number"
    if not isinstance(parameter, Range) or parameter.is_integer:
        return "does not take all values between its bounds"
    return "is searched on another scale" if parameter.log_scale or parameter.logit_scale else None
