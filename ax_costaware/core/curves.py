"""Learning curves: intermediate outcomes of a trial, as outcomes at lower fidelities.

Steps are in units of ``Method.progress_parameter``, a fidelity. The outcome of a trial of twenty
epochs after five of them is the outcome of a trial of five epochs with the same inputs. The model
learns how strongly the points of one curve are correlated. They cost nothing beside the trial.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ax_costaware.core.history import blaming
from ax_costaware.core.method import Method
from ax_costaware.core.problem import Problem
from ax_costaware.exceptions import InputError

MOST_POINTS = 10
"""Points of a curve that are learned from, beside its last one: a fit takes their number cubed."""


class CurvePoint(NamedTuple):
    """What a trial reported on its way."""

    trial_index: int
    """The trial."""

    inputs: dict[str, Any]
    """Its parameterization, with the progress that it had made."""

    mean: float
    """The outcome."""

    sem: float | None
    """Its standard error; None if that is not known."""


def curve_points(method: Method, problem: Problem, metric: str) -> list[CurvePoint]:
    """The points of all curves that are learned from, but for the last of each: an outcome.

    Steps before the parameter's first value are left out, such as that of no training at all.

    Args:
        method: Names the parameter.
        problem: Has the trials.
        metric: Whose curves.

    Raises:
        InputError: If a trial reported progress beyond the parameter's last value.
    """
    ranges = problem.space.ranges
    parameter = ranges.get(method.progress_parameter(ranges) or "")
    found: list[CurvePoint] = []
    if parameter is None:
        return found
    # One that was excluded may have no arm.
    trials = [trial for trial in problem.trials if parameter.name in trial.inputs]
    reached = {t.index: float(str(t.inputs[parameter.name])) for t in trials}
    for trial in trials:
        if trial.has_lost_value:
            continue
        curve = trial.curves.get(metric) or {}
        steps = [step for step in sorted(curve) if step >= parameter.lower]
        if steps and steps[-1] > parameter.upper:
            with blaming(trial):
                raise InputError(
                    f"its progression is {steps[-1]:g}: expected units of {parameter.name!r}, at "
                    f"most {parameter.upper:g}."
                )
        last = reached[trial.index]
        # What it went on from reported the steps until then.
        earlier = trial.resumes_trial
        known = -math.inf if earlier is None else reached[earlier]
        new = [step for step in steps if step > known and not math.isclose(step, last)]
        for step in thinned(new):
            inputs = {**trial.inputs, parameter.name: step}
            found.append(CurvePoint(trial.index, inputs, *curve[step]))
    return found


def thinned(steps: Sequence[float]) -> Sequence[float]:
    """At most ``MOST_POINTS`` of increasing steps, the first of them, at geometric distances."""
    if len(steps) <= MOST_POINTS:
        return steps
    # The place after the last is that of the outcome.
    places = np.geomspace(1, len(steps) + 1, MOST_POINTS + 1)[:-1].round()
    places = np.maximum(places, np.arange(1, MOST_POINTS + 1)).astype(int)
    return [steps[place - 1] for place in np.unique(places)]
