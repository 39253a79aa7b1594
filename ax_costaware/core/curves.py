"""Learning curves: intermediate outcomes of a trial, as outcomes at lower fidelities.

Steps are in units of ``Traits.progress_parameter``, a fidelity. The outcome of a trial of twenty
epochs after five of them is the outcome of a trial of five epochs with the same inputs. The model
learns how strongly the points of one curve are correlated. They cost nothing besides the trial.
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
"""Points of a curve to fit to, besides its last one. The cost of a fit grows with their cube."""


class CurvePoint(NamedTuple):
    """Intermediate outcome of a trial."""

    trial_index: int
    """Index of the trial."""

    inputs: dict[str, Any]
    """Realized parameterization, with the step as its progress parameter."""

    mean: float
    """Value of the metric."""

    sem: float | None
    """Standard error of the value; None if unknown."""


def curve_points(method: Method, problem: Problem, metric: str) -> list[CurvePoint]:
    """Return the points of all curves to fit to, without the last one of each, the outcome.

    Steps below the parameter's lower bound are left out, such as step 0 before any training.

    Args:
        method: Names the progress parameter.
        problem: Inputs of the decision.
        metric: Metric of the curves.

    Raises:
        InputError: If a step is above the parameter's upper bound.
    """
    ranges = problem.space.ranges
    parameter = ranges.get(method.traits.progress_parameter(ranges) or "")
    found: list[CurvePoint] = []
    if parameter is None:
        return found
    # An excluded trial may have no arm, and then no parameters.
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
        # The trial that it resumes has reported the earlier steps.
        earlier = trial.resumes_trial
        known = -math.inf if earlier is None else reached[earlier]
        new = [step for step in steps if step > known and not math.isclose(step, last)]
        for step in thinned(new):
            inputs = {**trial.inputs, parameter.name: step}
            found.append(CurvePoint(trial.index, inputs, *curve[step]))
    return found


def thinned(steps: Sequence[float]) -> Sequence[float]:
    """Return at most ``MOST_POINTS`` increasing steps, geometrically spaced from the first."""
    if len(steps) <= MOST_POINTS:
        return steps
    # The position after the last one is that of the outcome.
    places = np.geomspace(1, len(steps) + 1, MOST_POINTS + 1)[:-1].round()
    places = np.maximum(places, np.arange(1, MOST_POINTS + 1)).astype(int)
    return [steps[place - 1] for place in np.unique(places)]
