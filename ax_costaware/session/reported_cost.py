"""Reading what the user says a trial cost, before anything is written. In the user's own unit."""

from __future__ import annotations

import math
from typing import Any

from ax.exceptions.core import UserInputError

from ax_costaware.ax_bridge.client import Outcomes
from ax_costaware.queries.control_sets import ControlSet
from ax_costaware.session.numbers import nonnegative_number, positive_number

_SAME = 1e-9
"""Relative difference of one cost that is given in two places."""


def read_cost(cost: Any, outcomes: Outcomes, metric: str | None) -> float | None:
    """What the trial cost; None if the user does not say.

    Args:
        cost: The argument ``cost`` of ``complete_trial``.
        outcomes: What was measured, by metric.
        metric: The metric under which costs are reported, for a method that learns them. Such a
            cost is never zero, since the model is of its logarithm.

    Raises:
        UserInputError: If a cost is not finite, is negative, or is zero where costs are learned, or
            if ``cost`` and the metric's value disagree.
    """
    if metric is None:
        return None if cost is None else nonnegative_number(cost, "cost")
    what = f"raw_data[{metric!r}]"
    measured = None if metric not in outcomes else positive_number(outcomes[metric][0], what)
    if cost is None:
        return measured
    given = positive_number(cost, "cost")
    if measured is not None and not math.isclose(given, measured, rel_tol=_SAME):
        raise UserInputError(
            f"cost={cost!r} and {what}={measured!r} disagree: expected one cost of the trial."
        )
    return given


def check_cost_of_control_set(
    cost: float | None, trial_index: int, control_set: ControlSet | None
) -> None:
    """Refuse a cost that a control set of unknown cost cannot learn from.

    Args:
        cost: What the user says that the trial cost; None if nothing.
        trial_index: Index of the trial.
        control_set: The trial's control set, if it has one.

    Raises:
        UserInputError: If the cost of the control set is unknown, and ``cost`` is None or not
            larger than its known part.
    """
    if control_set is None or control_set.cost is not None:
        return
    if cost is None:
        raise UserInputError(
            f"cost=None: trial {trial_index} used control set {control_set.name!r}, whose cost is "
            "not known and is learned from what trials cost: expected the trial's cost."
        )
    if not cost > 0:
        raise UserInputError(
            f"cost={cost!r}: expected a finite number > 0, because the cost of control set "
            f"{control_set.name!r}, which trial {trial_index} used, is not known and is learned."
        )
    if not cost > control_set.fixed_cost:
        raise UserInputError(
            f"cost={cost!r}: expected more than {control_set.fixed_cost:g}, what trial "
            f"{trial_index} cost at least by the fixed_cost of control set {control_set.name!r}."
        )
