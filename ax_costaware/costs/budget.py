"""A further budget, in a unit of its own: dollars and hours, say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ax_costaware.argument_checks import check_fields, nonempty_string, positive_number


@dataclass(frozen=True)
class Budget:
    """A budget besides that of ``budget``, with the costs that it pays.

    Raises:
        InputError: If ``unit`` is no name, or ``total`` is not a finite number > 0.
    """

    unit: str
    """Name of the unit of its costs, such as ``"hours"``."""

    total: float
    """Largest total cost of all trials, in this unit."""

    cost: Any
    """Cost of a trial in this unit: a number, a cost object, a function, or the name of a metric in
    which it is reported, from which it is learned."""

    def __post_init__(self) -> None:
        check_fields(self, unit=nonempty_string, total=positive_number)
