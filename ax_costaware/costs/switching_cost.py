"""Switching costs: costs of setting a parameter to another value than in the trial before.

Examples are an oven that has to heat up, a line that has to be cleaned, or a column that has to be
equilibrated. A switching cost is added to the cost of the trial, in the same unit. It depends on
the trial before, see ``ax_costaware.core.switching``.
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
"""Relative tolerance of equal settings, for a logarithm and back, or a sum in another order."""

_EXPECTED = "a mapping from one or more names of parameters to finite numbers > 0"


@dataclass(frozen=True, init=False, repr=False)
class SwitchingCost:
    """Costs of setting parameters to other values than in the trial before."""

    changes: tuple[tuple[str, float], ...]
    """Parameters and the cost of changing each, sorted by parameter."""

    base: Any = None
    """Cost of a trial without its switching cost; None with control sets, which have costs."""

    def __init__(
        self, changes: Mapping[str, float] | Iterable[Sequence[Any]], base: Any = None
    ) -> None:
        """Make a switching cost.

        Args:
            changes: Cost of changing each parameter, whatever its values: a mapping from names to
                finite numbers > 0, or pairs of both. Costs of several changes add up.
            base: Cost of a trial without its switching cost: any ``cost`` of
                ``cost_aware_strategy``. None for control sets, which have costs of their own.

        Raises:
            InputError: If changes are empty, not by name, not > 0, or repeat a parameter; or if
                ``base`` is itself a switching cost.
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
        """Names of the parameters with a switching cost."""
        return tuple(name for name, _ in self.changes)

    @property
    def most(self) -> float:
        """Cost of changing all of them."""
        return math.fsum(cost for _, cost in self.changes)

    def between(self, before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> float:
        """Return the cost of switching from the settings of one trial to those of the next.

        Args:
            before: Settings of the trial before, by name; None for the first trial, which is free.
            now: Settings of the next trial. Parameters that it does not control are free. Those
                that the trial before did not control count as changed.
        """
        if before is None:
            return 0.0
        return math.fsum(
            cost
            for name, cost in self.changes
            if name in now and not (name in before and is_same(before[name], now[name]))
        )


def is_same(one: Any, other: Any) -> bool:
    """True if two settings of a parameter are equal; real numbers to rounding."""
    values = (one, other)
    if all(isinstance(v, Integral) for v in values) or not all(isinstance(v, Real) for v in values):
        return bool(one == other)
    return math.isclose(one, other, rel_tol=SAME_VALUE)
