"""What a loop lends to a method where its surroundings do not: a design, and an optimiser."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from botorch.acquisition.acquisition import AcquisitionFunction

from ax_costaware.acquisition.local_search import LocalSearch
from ax_costaware.exceptions import InputError
from ax_costaware.methods.equalities import shown
from ax_costaware.methods.method import Method
from ax_costaware.methods.parameters import Value
from ax_costaware.methods.problem import Maximum, Problem, SpaceExhausted

OPTIMIZER = {"num_restarts": 20, "raw_samples": 1024}
"""Options of the optimiser where the method does not say: Ax's defaults."""

MOST_DRAWS = 10_000
"""Quasi-random points tried for one trial before the constraints count as impossible to meet."""


def design_of(problem: Problem, method: Method) -> Iterator[dict[str, Value]]:
    """The quasi-random design from the next trial on, as far as it meets the constraints.

    Raises:
        SpaceExhausted: If it has no further point.
        InputError: If it has none at all.
    """
    space, trials = problem.space, problem.trials
    # What was passed over is not counted among the trials, so that their points may come again.
    repeats = method.repeats_design and not space.smooth
    tried = [] if repeats else [dict(trial.parameters) for trial in trials]
    tried += problem.undelivered
    found, misses = 0, 0
    for drawn in space.design(method.seed):
        row = space.ordered({**drawn, **problem.fixed})
        misses += 1
        if space.meets(row):
            found += 1
            if found > problem.next_index and row not in tried:
                misses = 0
                yield row
        if misses == MOST_DRAWS:
            break
    if found:
        raise SpaceExhausted
    constraints = [*space.sums, *map(shown, space.equalities)]
    raise InputError(
        f"no point among {MOST_DRAWS} met the parameter constraints {constraints}: loosen them."
    )


def maximum_within(
    problem: Problem, acquisition: AcquisitionFunction, options: Mapping[str, Any]
) -> Maximum:
    """The best point of an acquisition function where equality constraints determine columns.

    Args:
        problem: Says which these are, and what is fixed.
        acquisition: The function, of points ``b x 1 x d``.
        options: ``num_restarts`` and ``raw_samples``.

    Raises:
        InputError: If no point meets the parameter constraints.
    """
    space, options = problem.space, {**OPTIMIZER, **options}
    points = space.sobol_points(options["raw_samples"], 0, problem.held)
    if not len(points):
        raise InputError(f"no point met the parameter constraints {list(space.sums)}: loosen them.")
    search = LocalSearch(
        space.bounds, problem.immovable, space.inequality_constraints, space.elimination
    )
    _, ends = search.climb(
        lambda X: acquisition(X.unsqueeze(-2)), points, int(options["num_restarts"])
    )
    with torch.no_grad():
        values = acquisition(ends.unsqueeze(-2))
    return Maximum(ends[values.argmax()].detach(), float(values.max()))
