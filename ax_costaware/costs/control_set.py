r"""Control sets: the inputs that a kind of trial controls, and its cost.

Control set :math:`\mathcal{I}_i` with cost :math:`c_i` in Tay et al. 2023, *Bayesian Optimization
with Cost-varying Variable Subsets*, section 3. Costs are in the user's unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ax_costaware.argument_checks import (
    checked_items,
    distinct,
    instance_of,
    nonempty_string,
    nonnegative_number,
    positive_number,
    set_fields,
)
from ax_costaware.costs.cost import Cost
from ax_costaware.costs.switching_cost import SwitchingCost
from ax_costaware.exceptions import InputError

_EXPECTED_PARAMETERS = "a list of one or more distinct parameter names"
_EXPECTED_COST = (
    "a finite number > 0, a value object such as AffineCost({'time': 2.0}) over parameters that "
    "the control set controls, or None for a cost that is learned"
)


@dataclass(frozen=True, init=False, repr=False)
class ControlSet:
    """A kind of trial, which controls some inputs, while the others are random."""

    parameters: tuple[str, ...]
    """Names of the controlled parameters, in the given order."""

    cost: float | Cost | None
    """Cost of one trial, in the user's unit: a number, or a function of the controlled values; None
    if it is learned."""

    name: str
    """Name, which defaults to the parameters joined by ``+``."""

    fixed_cost: float = 0.0
    """Known part of a learned cost, which every trial costs at least."""

    def __init__(
        self,
        parameters: Iterable[str],
        cost: float | Cost | None = None,
        name: str | None = None,
        fixed_cost: float = 0.0,
    ) -> None:
        """Make a control set.

        Args:
            parameters: Names of the controlled parameters.
            cost: Cost of one trial: a finite number > 0; a value object, such as ``AffineCost``,
                over names of controlled parameters; or None to learn it.
            name: Name of the control set; None for the parameters joined by ``+``.
            fixed_cost: Known part of a learned cost: a finite number >= 0, below the cost of every
                trial. Reported costs include it.

        Raises:
            InputError: If parameters are empty, not distinct or a bare string; if the cost is not
                a finite number > 0, or depends on other parameters; if the name is not a non-empty
                string; or if the fixed cost is not a finite number >= 0, or is given with a cost.
        """
        check = partial(nonempty_string, expected=_EXPECTED_PARAMETERS)
        names = checked_items(parameters, "parameters", _EXPECTED_PARAMETERS, check)
        distinct(names, "parameters", _EXPECTED_PARAMETERS)
        if name is not None:
            nonempty_string(name, "name", "a non-empty string, or None")
        checked_cost = None if cost is None else _checked_cost(cost, names)
        fixed = nonnegative_number(fixed_cost, "fixed_cost")
        if fixed and checked_cost is not None:
            raise InputError(
                f"cost={cost!r}, fixed_cost={fixed_cost!r}: expected fixed_cost only with "
                "cost=None, where it is the known part of a cost that has to be learned."
            )
        set_fields(
            self,
            parameters=names,
            cost=checked_cost,
            name="+".join(names) if name is None else str(name),
            fixed_cost=fixed,
        )

    @property
    def cost_varies(self) -> bool:
        """True if the cost is declared and depends on the values that are set."""
        return isinstance(self.cost, Cost)

    def cost_at(self, values: Mapping[str, Any]) -> float | None:
        """Return the declared cost of a trial with these values; None if it is learned.

        Args:
            values: Values of the controlled parameters, in raw units. Others are ignored.

        Raises:
            InputError: If the cost is not a finite number > 0 there.
        """
        if not isinstance(self.cost, Cost):
            return self.cost
        try:
            return self.cost.at(values)
        except InputError as error:
            raise InputError(f"cost of control set {self.name!r}: {error}") from error

    def __repr__(self) -> str:
        fixed = f", fixed_cost={self.fixed_cost!r}" if self.fixed_cost else ""
        return (
            f"ControlSet(parameters={self.parameters!r}, cost={self.cost!r}, "
            f"name={self.name!r}{fixed})"
        )


def _checked_cost(cost: Any, controlled: Sequence[str]) -> float | Cost:
    """Return a declared cost, which may depend on controlled parameters only."""
    if isinstance(cost, SwitchingCost):
        raise InputError(
            f"cost={cost!r}: expected the cost of this control set alone. The next trial may be of "
            "another one, so switching costs are the argument switching_cost of the method."
        )
    if not isinstance(cost, Cost):
        return positive_number(cost, "cost", _EXPECTED_COST)
    if others := [key for key in cost.parameters if key not in controlled]:
        raise InputError(
            f"cost={cost!r} reads {others}, but the control set controls {list(controlled)} alone: "
            "expected a cost over names of parameters that it controls."
        )
    # A cost without parameters is a number.
    return cost if cost.parameters else cost.at({})


def check_control_sets(control_sets: Iterable[ControlSet]) -> tuple[ControlSet, ...]:
    """Return the checked control sets of one experiment, in the same order.

    Raises:
        InputError: If there are none, one is not a ``ControlSet``, or two have the same name or
            control the same parameters, in whatever order.
    """
    expected = "a list of one or more ControlSet with distinct names and parameters"
    check = partial(instance_of, kind=ControlSet, expected=expected)
    checked = checked_items(control_sets, "control_sets", expected, check)
    by_name: dict[str, ControlSet] = {}
    by_parameters: dict[frozenset[str], ControlSet] = {}
    for control_set in checked:
        parameters = frozenset(control_set.parameters)
        if parameters in by_parameters:
            raise InputError(
                f"control_sets has {by_parameters[parameters]!r} and {control_set!r}, which "
                f"control the same parameters: expected {expected}."
            )
        if control_set.name in by_name:
            raise InputError(
                f"control_sets has two control sets named {control_set.name!r}, "
                f"{by_name[control_set.name]!r} and {control_set!r}: expected {expected}."
            )
        by_parameters[parameters] = by_name[control_set.name] = control_set
    return checked
