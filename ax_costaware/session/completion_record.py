"""What is recorded of a trial's outcome, by ``complete_trial`` and by the package's runners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ax.core.trial import Trial
from ax.core.types import TParamValue

from ax_costaware.queries.control_sets import ControlSet
from ax_costaware.session.outcomes import RawData, read_outcomes
from ax_costaware.session.realized import read_realized
from ax_costaware.session.reported_cost import check_cost_of_control_set, read_cost


def completion_record(
    trial: Trial,
    *,
    raw_data: RawData | None,
    realized: Mapping[str, TParamValue] | None,
    cost: float | None,
    controlled: Sequence[str] | None,
    learned: ControlSet | None,
    cost_metric: str | None,
) -> dict[str, Any]:
    """The record of a completed trial, after everything in it was checked.

    Args:
        trial: The trial; nothing of it is changed.
        raw_data: As of ``complete_trial``.
        realized: As of ``complete_trial``.
        cost: As of ``complete_trial``.
        controlled: Names of the parameters that the trial controls; None for all of them.
        learned: The trial's control set; its cost is needed where it is unknown.
        cost_metric: Metric under which costs are reported, for a method that learns them.

    Returns:
        ``realized``, by parameter; ``outcomes``, by metric the mean and its standard error (None if
        unknown); and ``cost``, where it is known.

    Raises:
        UserInputError: As of ``complete_trial``.
    """
    outcomes = read_outcomes(raw_data, trial.experiment, cost_metric)
    values = read_realized(realized, trial.experiment.search_space, controlled)
    paid = read_cost(cost, outcomes, cost_metric)
    check_cost_of_control_set(paid, trial.index, learned)
    if paid is not None and cost_metric is not None:
        outcomes.setdefault(cost_metric, (paid, None))
    record: dict[str, Any] = {
        "realized": values,
        "outcomes": {metric: list(outcome) for metric, outcome in outcomes.items()},
    }
    if paid is not None:
        record["cost"] = paid
    return record
