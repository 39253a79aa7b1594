"""Checks of an Ax experiment for all methods, and translation of errors to Ax's.

Methods and the layers below raise the package's own errors, which do not depend on Ax. Ax's users
expect Ax's errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from ax.core.optimization_config import OptimizationConfig
from ax.core.types import ComparisonOp
from ax.exceptions.core import (
    AxError,
    DataRequiredError,
    OptimizationShouldStop,
    UnsupportedError,
    UserInputError,
)

from ax_costaware.acquisition.feasibility import OutcomeConstraint, merged
from ax_costaware.argument_checks import nonempty_string
from ax_costaware.core.method import Method
from ax_costaware.core.objectives import Objective
from ax_costaware.core.problem import Problem, Stop
from ax_costaware.exceptions import InputError, UnsupportedInputError


@contextmanager
def ax_errors() -> Iterator[None]:
    """Raise the package's own errors as Ax's; also a decorator."""
    try:
        yield
    except UnsupportedInputError as error:
        raise UnsupportedError(str(error)) from error
    except InputError as error:
        raise UserInputError(str(error)) from error


def check_optimization_config(config: OptimizationConfig | None) -> OptimizationConfig:
    """Check that objectives are single metrics, and all bounds are numbers; return the config."""
    if config is None:
        raise UserInputError(
            "the experiment has no objective: call configure_optimization before asking for trials."
        )
    if config.is_bope_problem or any(len(terms) != 1 for terms in config.objective._parsed[1]):
        raise UnsupportedError(
            f"the objective has several metrics, {sorted(config.objective.metric_names)}, in one "
            "value: expected a single metric, or several objectives with commas between them."
        )
    for constraint in config.all_constraints:
        if constraint.relative or len(constraint.metric_names) != 1:
            raise UnsupportedError(
                f"outcome constraint {constraint.expression!r} is "
                f"{'relative to a baseline' if constraint.relative else 'of several metrics'}: "
                "expected one metric with a number as its bound, such as 'emissions <= 5'."
            )
    return config


def objectives_of(config: OptimizationConfig | None) -> tuple[Objective, ...]:
    """Return the objectives, with their thresholds, if there are several; else none."""
    if config is None or not config.is_moo_problem:
        return ()
    thresholds = {}
    for threshold in config.objective_thresholds:
        ((metric, weight),) = threshold.metric_weights
        thresholds[metric] = threshold.bound / weight
    return tuple(
        Objective(name, weight < 0, thresholds.get(name))
        for ((name, weight),) in config.objective._parsed[1]
    )


def constraints_of(config: OptimizationConfig | None) -> tuple[OutcomeConstraint, ...]:
    """Return the outcome constraints of an experiment that passed ``check_optimization_config``.

    Raises:
        InputError: If a metric has several bounds on one side, or no value between its bounds.
    """
    found = []
    for constraint in [] if config is None else config.outcome_constraints:
        ((metric, weight),) = constraint.metric_weights
        bound = constraint.bound / weight
        is_upper = (constraint.op is ComparisonOp.LEQ) == (weight > 0)
        bounds = (None, bound) if is_upper else (bound, None)
        found.append(OutcomeConstraint(metric, *bounds))
    return merged(found)


def check_one_arm(n: int | None) -> None:
    """Refuse several arms for one trial."""
    if n is not None and n != 1:
        raise UnsupportedError(
            f"n={n}: a cost belongs to one arm, so a trial takes one arm. Ask for several "
            "trials instead."
        )


def usable_device(name: str) -> torch.device:
    """Return the device with a name, after a check that torch computes on it.

    Raises:
        InputError: If torch does not compute there in double precision.
    """
    nonempty_string(name, "torch_device")
    try:
        float(torch.ones((), dtype=torch.double, device=name))
    except Exception as error:  # The error depends on the device.
        raise InputError(
            f"torch_device={name!r}: torch {torch.__version__} does not compute there in double "
            f"precision ({error}). Expected 'cpu', or a device of this machine such as 'cuda:0'."
        ) from error
    return torch.device(name)


def no_trial_error(method: Method, problem: Problem, stop: Stop, note: str = "") -> AxError:
    """Return the error for the end of a run, or for a wait for pending trials.

    Pending trials may raise the value of another trial, or lower its expected cost.
    """
    running = [other for other in problem.pending if other.trial_index is not None]
    is_final = stop.is_final and all(method.cost_at(o.parameters) is not None for o in running)
    if is_final or problem.earlier_in_batch or not running:
        return OptimizationShouldStop(stop.reason + note)
    return DataRequiredError(
        f"No trial for now: {stop.reason.removeprefix('Stopped: ')}{note} Trials "
        f"{[other.trial_index for other in running]} are pending, and their outcomes may "
        "change that: ask again once they have reported, or were marked as abandoned."
    )
