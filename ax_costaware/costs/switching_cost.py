"""Switching costs: of setting a parameter to another value than in the trial before.

An oven that has to heat up, a line that has to be cleaned, a column that has to be equilibrated. It
comes on top of what a trial costs otherwise, in the same unit, and depends on the trial before, so
that it is no cost of a parameterization alone: see ``ax_costaware.core.switching``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from ax_costaware.argument_checks import distinct, pairs_of, positive_number, set_fields
from ax_costaware.exceptions import InputError

SAME_VALUE = 1e-12
"""How far two settings of one real number may be apart, relatively: a logarithm and back, or a sum
in another order. Stores keep all digits."""

_EXPECTED = "a mapping from one or more names of parameters to finite numbers > 0"


@dataclass(frozen=True, init=False, repr=False)
class SwitchingCost:
    """What it costs to set parameters to other values than in the trial before."""

    changes: tuple[tuple[str, float], ...]
    """Parameters and the cost of changing each, sorted by parameter."""

    base: Any = None
    """Cost of a trial without its switching cost; None where something else says so."""

    def __init__(
        self, changes: Mapping[str, float] | Iterable[Sequence[Any]], base: Any = None
    ) -> None:
        """A switching cost.

        Args:
            changes: What it costs to change each parameter, whatever its values are: a mapping from
                names to finite numbers > 0, or pairs of them. Costs of several changes add up.
            base: Cost of a trial without its switching cost: all that ``cost_aware_strategy`` takes
                as a ``cost``. None for control sets, which have costs of their own.

        Raises:
            InputError: For changes that are none, not of names, not > 0 or of one parameter twice;
                for a ``base`` that is itself a switching cost.
        """
        checked: list[tuple[str, float]] = []
        for name, cost in pairs_of(changes, "changes", _EXPECTED):
            if not isinstance(name, str) or not name:
                raise InputError(f"changes has the key {name!r}: expected {_EXPECTED}.")
            checked.append((str(name), positive_number(cost, f"changes[{name!r}]")))
        distinct([name for name, _ in checked], "changes", _EXPECTED)
        if isinstance(base, SwitchingCost):
            raise InputError(
                f"base={base!r}: expected the cost of a trial without its switching cost. Give the "
                "changes of all parameters together."
            )
        set_fields(self, changes=tuple(sorted(checked)), base=base)

    def __repr__(self) -> str:
        base = "" if self.base is None else f", base={self.base!r}"
        return f"SwitchingCost({dict(self.changes)!r}{base})"

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters that cost something to change."""
        return tuple(name for name, _ in self.changes)

    @property
    def most(self) -> float:
        """What it costs to change all of them."""
        return math.fsum(cost for _, cost in self.changes)

    def between(self, before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> float:
        """What it costs to go over from the settings of one trial to those of the next.

        Args:
            before: What the trial before set, by name; None: there was none, and nothing is paid.
            now: What the next one sets. What it leaves to chance costs nothing; what the trial
                before left to chance is somewhere else.
        """
        if before is None:
            return 0.0
        return math.fsum(
            cost
            for name, cost in self.changes
            if name in now and not (name in before and is_same(before[name], now[name]))
        )


def is_same(one: Any, other: Any) -> bool:
    """Whether two settings of a parameter are the same value; of real numbers, to rounding."""
    values = (one, other)
    if all(isinstance(v, Integral) for v in values) or not all(isinstance(v, Real) for v in values):
        return bool(one == other)
    return math.isclose(one, other, rel_tol=SAME_VALUE)
