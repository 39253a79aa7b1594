"""Switching costs: costs of setting a parameter to another value than in the trial before.

Examples are an oven that has to heat up, a line that has to be cleaned, or a column that has to be
equilibrated. A switching cost is added to the cost of the trial, in the same unit. It depends on
the trial before, see ``ax_costaware.core.switching``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from numbers import Integral, Real
from typing import Any, TypeAlias

from torch import Tensor

from ax_costaware.argument_checks import (
    check_fields,
    distinct,
    nonnegative_number,
    optional,
    pairs_of,
    plain_value,
    positive_number,
    sequence_of,
    set_fields,
    values_of_one_kind,
)
from ax_costaware.exceptions import InputError
from ax_costaware.laws.marginals.marginal import RawValue
from ax_costaware.space.parameters import Choice, Column, Parameter, Range, Row, Value, takes
from ax_costaware.space.space import Space

SAME_VALUE = 1e-12
"""Relative tolerance of equal settings, for a logarithm and back, or a sum in another order."""

_EXPECTED = (
    "a mapping from one or more names of parameters to finite numbers > 0, LinearSwitch or "
    "TableSwitch"
)
_EXPECTED_TABLE = (
    "finite costs >= 0 by pairs of values, as in {('A', 'B'): 3.0, ('B', 'A'): 1.0} or "
    "{'A': {'B': 3.0}, 'B': {'A': 1.0}}, all numbers or all strings or all booleans"
)


@dataclass(frozen=True)
class LinearSwitch:
    """Cost of changing a number, proportional to the change, such as heating up or cooling down.

    Raises:
        InputError: If a cost is not a finite number >= 0, or both directions are free.
    """

    up: float
    """Cost per unit of an increase, in raw units of the parameter, also on a log scale."""

    down: float
    """Cost per unit of a decrease."""

    unset: float | None = None
    """Cost after a trial that did not set the parameter; required where a control set leaves it
    uncontrolled."""

    def __post_init__(self) -> None:
        check_fields(
            self, up=nonnegative_number, down=nonnegative_number, unset=optional(nonnegative_number)
        )
        if not self.up + self.down:
            raise InputError(f"{self!r}: expected a cost > 0 per unit up, or down, or both.")

    def between(self, before: Value, now: Value) -> float:
        """Return the cost of a change of values."""
        if is_same(before, now):
            return 0.0
        change = float(str(now)) - float(str(before))
        return self.up * change if change > 0 else -self.down * change

    @property
    def after_unset(self) -> float:
        """Cost after a trial that did not set the parameter."""
        return self.unset or 0.0

    @property
    def reversed(self) -> LinearSwitch:
        """The same with both directions exchanged."""
        return LinearSwitch(self.down, self.up, self.unset)

    def largest(self, parameter: Parameter) -> float:
        """Return the largest cost of a change of values of a parameter."""
        values = (parameter.lower, parameter.upper) if isinstance(parameter, Range) else ()
        numbers = [float(str(v)) for v in values or parameter.values_up_to(0) or ()]
        return max(self.up, self.down) * (max(numbers) - min(numbers))

    def at_points(self, column: Column, before: Value, X: Tensor) -> Tensor:
        """Return the costs of changes to points ``... x d``, differentiable."""
        change = column.raw(X) - float(str(before))
        return self.up * change.clamp_min(0.0) + self.down * (-change).clamp_min(0.0)

    def refusal(self, parameter: Parameter) -> str | None:
        """Return what is expected of the cost of a parameter that does not fit it, or None."""
        is_scale = not isinstance(parameter, Choice) or parameter.is_ordered
        if parameter.is_numeric and is_scale:
            return None
        return "a range or ordered numbers, or a TableSwitch over this choice"


@dataclass(frozen=True, init=False, repr=False)
class TableSwitch:
    """Costs of changing a choice, by the value before and the value after."""

    costs: tuple[tuple[RawValue, RawValue, float], ...]
    """Value before, value after, and cost of the change, sorted."""

    unset: float | None = None
    """Cost after a trial that did not set the parameter; None for the largest cost."""

    def __init__(
        self,
        costs: Mapping[Any, Any] | Iterable[Sequence[Any]],
        unset: float | None = None,
    ) -> None:
        """Make a table of switching costs.

        Args:
            costs: Cost of each change, a finite number >= 0, for every ordered pair of different
                values: a mapping from pairs ``(before, after)``, a mapping from values before to
                mappings from values after, or triples ``(before, after, cost)``. A cost from a
                value to itself may be given as zero.
            unset: Cost after a trial that did not set the parameter; None for the largest cost.

        Raises:
            InputError: If costs are empty, not finite numbers >= 0, repeat a pair, mix kinds of
                values, or have a cost of keeping a value; or if ``unset`` is not a number >= 0.
        """
        given = _triples(costs)
        flat = [value for *pair, _ in given for value in pair]
        values = values_of_one_kind(flat, "the values of costs", _EXPECTED_TABLE)
        pairs = list(zip(values[::2], values[1::2], strict=True))
        distinct(pairs, "costs", _EXPECTED_TABLE)
        checked = []
        for (before, after), (*_, cost) in zip(pairs, given, strict=True):
            number = nonnegative_number(plain_value(cost), f"costs[{before!r}, {after!r}]")
            if before != after:
                checked.append((before, after, number))
            elif number:
                raise InputError(
                    f"costs[{before!r}, {after!r}]={cost!r}: expected 0, or no such pair, since "
                    "the value is kept."
                )
        if not any(cost for *_, cost in checked):
            raise InputError(f"costs={costs!r}: expected a cost > 0 of one or more changes.")
        unset = optional(nonnegative_number)(unset, "unset")
        set_fields(self, costs=tuple(sorted(checked)), unset=unset)

    def __repr__(self) -> str:
        unset = "" if self.unset is None else f", unset={self.unset!r}"
        costs = {(before, after): cost for before, after, cost in self.costs}
        return f"TableSwitch({costs!r}{unset})"

    @cached_property
    def _by_pair(self) -> dict[tuple[Value, Value], float]:
        return {(before, after): cost for before, after, cost in self.costs}

    @cached_property
    def _most(self) -> float:
        return max(cost for *_, cost in self.costs)

    def between(self, before: Value, now: Value) -> float:
        """Return the cost of a change of values; the largest one for a value not in the table."""
        if is_same(before, now):
            return 0.0
        found = self._find(before, now)
        return self._most if found is None else found

    def _find(self, before: Value, after: Value) -> float | None:
        """Return the cost of a pair of values, which may be rounded numbers; None without one."""
        if (before, after) in self._by_pair:
            return self._by_pair[before, after]
        alike = (
            cost
            for (one, other), cost in self._by_pair.items()
            if is_same(one, before) and is_same(other, after)
        )
        return next(alike, None)

    @property
    def after_unset(self) -> float:
        """Cost after a trial that did not set the parameter."""
        return self._most if self.unset is None else self.unset

    @property
    def reversed(self) -> TableSwitch:
        """The same with both directions exchanged."""
        return TableSwitch([(b, a, cost) for a, b, cost in self.costs], self.unset)

    def largest(self, parameter: Parameter) -> float:
        """Return the largest cost of a change of values of a parameter."""
        return self._most

    def at_points(self, column: Column, before: Value, X: Tensor) -> Tensor:
        """Return the costs of changes to points ``... x d``, differentiable."""
        assert isinstance(column.parameter, Choice)
        costs = [self.between(before, value) for value in column.parameter.values]
        # Adding zero times X gives a gradient of zero, and not no gradient.
        return column.weights(X) @ X.new_tensor(costs) + 0.0 * X.sum(dim=-1)

    def refusal(self, parameter: Parameter) -> str | None:
        """Return what is expected of the cost of a parameter that does not fit it, or None."""
        if isinstance(parameter, Range):
            return "a choice, or a LinearSwitch over this range"
        values = parameter.values_up_to(0)
        for before, after in permutations(values, 2):
            if self._find(before, after) is None:
                return f"also a cost of the change from {before!r} to {after!r}"
        known = dict.fromkeys(v for one, other, _ in self.costs for v in (one, other))
        if unknown := [v for v in known if not takes(parameter, v)]:
            return f"values out of {list(values)}, and not {unknown[0]!r}"
        return None


@dataclass(frozen=True)
class _FlatSwitch:
    """Cost of any change of a parameter."""

    cost: float
    """The cost."""

    def between(self, before: Value, now: Value) -> float:
        """Return the cost of a change of values."""
        return 0.0 if is_same(before, now) else self.cost

    @property
    def after_unset(self) -> float:
        """Cost after a trial that did not set the parameter."""
        return self.cost

    @property
    def reversed(self) -> _FlatSwitch:
        """The same, since both directions cost the same."""
        return self

    def largest(self, parameter: Parameter) -> float:
        """Return the largest cost of a change of values of a parameter."""
        return self.cost

    def at_points(self, column: Column, before: Value, X: Tensor) -> Tensor:
        """Return the costs of changes to points ``... x d``."""
        return X.new_full(X.shape[:-1], self.cost)

    def refusal(self, parameter: Parameter) -> str | None:
        """Return None: it fits every parameter."""
        return None


Switch: TypeAlias = LinearSwitch | TableSwitch | _FlatSwitch
"""Cost of changing one parameter."""


@dataclass(frozen=True, init=False, repr=False)
class SwitchingCost:
    """Costs of setting parameters to other values than in the trial before."""

    changes: tuple[tuple[str, float | LinearSwitch | TableSwitch], ...]
    """Parameters and the cost of changing each, sorted by parameter."""

    base: Any = None
    """Cost of a trial without its switching cost; None with control sets, which have costs."""

    def __init__(
        self,
        changes: Mapping[str, float | LinearSwitch | TableSwitch] | Iterable[Sequence[Any]],
        base: Any = None,
    ) -> None:
        """Make a switching cost.

        Args:
            changes: Cost of changing each parameter: a mapping from names, or pairs. A finite
                number > 0 is the cost of any change, a ``LinearSwitch`` depends on its size and
                direction, and a ``TableSwitch`` on both values. Costs of several changes add up.
            base: Cost of a trial without its switching cost: any ``cost`` of
                ``cost_aware_strategy``. None for control sets, which have costs of their own.

        Raises:
            InputError: If changes are empty, not by name, not such costs, or repeat a parameter; or
                if ``base`` is itself a switching cost.
        """
        checked: list[tuple[str, float | LinearSwitch | TableSwitch]] = []
        for name, cost in pairs_of(changes, "changes", _EXPECTED):
            if not isinstance(name, str) or not name:
                raise InputError(f"changes has the key {name!r}: expected {_EXPECTED}.")
            if not isinstance(cost, LinearSwitch | TableSwitch):
                expected = "a finite number > 0, a LinearSwitch or a TableSwitch"
                cost = positive_number(cost, f"changes[{name!r}]", expected)
            checked.append((str(name), cost))
        distinct([name for name, _ in checked], "changes", _EXPECTED)
        if isinstance(base, SwitchingCost):
            raise InputError(
                f"base={base!r}: expected the cost of a trial without its switching cost. Give the "
                "changes of all parameters together."
            )
        by_name = sorted(checked, key=lambda change: change[0])
        set_fields(self, changes=tuple(by_name), base=base)

    def __repr__(self) -> str:
        base = "" if self.base is None else f", base={self.base!r}"
        return f"SwitchingCost({dict(self.changes)!r}{base})"

    @cached_property
    def switches(self) -> dict[str, Switch]:
        """Cost of changing each parameter, by name."""
        return {
            name: cost if isinstance(cost, LinearSwitch | TableSwitch) else _FlatSwitch(cost)
            for name, cost in self.changes
        }

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters with a switching cost."""
        return tuple(name for name, _ in self.changes)

    @property
    def depends_on_values(self) -> bool:
        """True if the cost of a change of some parameter depends on its values."""
        return any(not isinstance(switch, _FlatSwitch) for switch in self.switches.values())

    def largest(self, space: Space) -> float:
        """Return the cost of the most expensive change of all parameters."""
        found = (
            max(switch.largest(space.parameters[name]), switch.after_unset)
            for name, switch in self.switches.items()
            if name in space.columns
        )
        return math.fsum(found)

    def between(self, before: Row | None, now: Row) -> float:
        """Return the cost of switching from the settings of one trial to those of the next.

        Args:
            before: Settings of the trial before, by name; None for the first trial, which is free.
            now: Settings of the next trial. Parameters that it does not set are free. Those that
                the trial before did not set count as changed.
        """
        if before is None:
            return 0.0
        return math.fsum(
            switch.between(before[name], now[name]) if name in before else switch.after_unset
            for name, switch in self.switches.items()
            if name in now
        )


def _triples(given: Any) -> list[tuple[Any, Any, Any]]:
    """Return values before and after a change, and its cost."""
    expected = f"costs={given!r}: expected {_EXPECTED_TABLE}."
    found: list[tuple[Any, Any, Any]] = []
    if isinstance(given, Mapping):
        for key, cost in given.items():
            nested = cost.items() if isinstance(cost, Mapping) else None
            if nested is not None:
                found += [(key, after, each) for after, each in nested]
            elif isinstance(key, tuple) and len(key) == 2:
                found.append((*key, cost))
            else:
                raise InputError(expected)
    else:
        for each in sequence_of(given, "costs", _EXPECTED_TABLE):
            if not isinstance(each, list | tuple) or len(each) != 3:
                raise InputError(expected)
            found.append((each[0], each[1], each[2]))
    if not found:
        raise InputError(expected)
    return found


def is_same(one: Any, other: Any) -> bool:
    """True if two settings of a parameter are equal; real numbers to rounding."""
    values = (one, other)
    if all(isinstance(v, Integral) for v in values) or not all(isinstance(v, Real) for v in values):
        return bool(one == other)
    return math.isclose(one, other, rel_tol=SAME_VALUE)
