"""What a decision was between, as far as it was recorded: the rows of ``Query.to_frame``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ax_costaware.methods.method import Method
from ax_costaware.queries.control_sets import ControlSet

_VALUES = ("value", "index", "upper_confidence_bound", "information")
"""Names in the record of what the methods without control sets compare."""


@dataclass(frozen=True)
class Candidate:
    """One of the things that a decision was between; None is what was not recorded of it."""

    control_set: str | None
    """Name of the control set; None for a method without: then only the choice is known."""

    value: float | None
    """What was compared. With control sets the largest expected acquisition value, with the sign
    of maximisation; else the Gittins index, the confidence bound, or what the answer was expected
    to tell, with a tree per unit of cost."""

    upper_bound: float | None
    """Upper confidence bound of the best expected value, with the sign of maximisation, where the
    rule looks at it."""

    mean: float | None
    """Posterior mean of the outcome at the time, in its own unit and sign."""

    standard_deviation: float | None
    """Its standard deviation."""

    cost: float | None
    """Expected cost of a trial, in the user's own unit."""

    cost_standard_error: float | None
    """How uncertain that expectation was."""

    in_play: bool
    """Whether the rule was to choose among this and others."""

    chosen: bool
    """Whether it was chosen."""


def candidates_of(
    method: Method,
    control_set: ControlSet | None,
    decision: Mapping[str, Any],
    expected_cost: float | None,
) -> tuple[Candidate, ...]:
    """The candidates of a decision, in declared order.

    Args:
        method: The method.
        control_set: The control set that was chosen; None for a method without.
        decision: What was recorded of the choice; empty if the strategy did not choose.
        expected_cost: Expected cost of the trial.
    """
    if control_set is None:
        value = next((decision[name] for name in _VALUES if name in decision), None)
        only = Candidate(
            control_set=None,
            value=value,
            upper_bound=None,
            mean=decision.get("mean"),
            standard_deviation=decision.get("standard_deviation"),
            cost=expected_cost,
            cost_standard_error=None,
            in_play=True,
            chosen=True,
        )
        return (only,)
    values, learned = decision.get("values") or {}, decision.get("costs") or {}
    bounds = (decision.get("state") or {}).get("upper") or {}
    found: list[Candidate] = []
    for position, other in enumerate(method.candidates()):
        name, chosen = str(other.name), other.name == control_set.name
        cost, error = learned.get(name, (other.cost, None))
        found.append(
            Candidate(
                control_set=name,
                value=values.get(name),
                upper_bound=bounds.get(str(position)),
                mean=None,
                standard_deviation=None,
                cost=expected_cost if chosen else cost,
                cost_standard_error=error,
                in_play=name in decision.get("in_play", ()) or chosen,
                chosen=chosen,
            )
        )
    return tuple(found)
