"""What a loop lends to a method where its surroundings do not: a design, and an optimiser."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from torch import Tensor

from ax_costaware.acquisition.local_search import LocalSearch
from ax_costaware.acquisition.starts import satisfied
from ax_costaware.exceptions import InputError
from ax_costaware.methods.equalities import shown
from ax_costaware.methods.method import Method
from ax_costaware.methods.parameters import Value
from ax_costaware.methods.problem import Maximum, Problem, SpaceExhausted

OPTIMIZER = {"num_restarts": 20, "raw_samples": 1024}
"""Options of the optimiser where the method does not say: Ax's defaults."""

_ROUNDS = 3
"""How often choices and integers are changed where real parameters have arrived."""

_FURTHER = 4
"""Local searches from what is changed."""

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
    problem: Problem,
    acquisition: AcquisitionFunction,
    options: Mapping[str, Any],
    held: Mapping[int, float] | None = None,
) -> Maximum:
    """The best point of an acquisition function, of a space with real parameters.

    Real parameters climb from the best quasi-random points, and from what was tried with one choice
    or integer changed. Where they arrive such changes are tried again.

    Args:
        problem: Says what is fixed, and what equality constraints determine.
        acquisition: The function, of points ``b x 1 x d``.
        options: ``num_restarts`` and ``raw_samples``.
        held: Further columns that keep a value.

    Raises:
        InputError: If no point meets the parameter constraints.
    """
    space, options = problem.space, {**OPTIMIZER, **options}
    held = {**problem.held, **(held or {})}
    points = space.sobol_points(options["raw_samples"], 0, held)
    if not len(points):
        raise InputError(f"no point met the parameter constraints {list(space.sums)}: loosen them.")
    search = LocalSearch(
        space.bounds,
        sorted({*problem.immovable, *held}),
        space.inequality_constraints,
        space.elimination,
    )

    def function(X: Tensor) -> Tensor:
        values: Tensor = acquisition(X.unsqueeze(-2))
        return values

    def climbed(points: Tensor, number: int) -> Tensor:
        # All in step as if there were no inequality constraints, then a few that left them anew.
        starts, ends = replace(search, constraints=()).climb(function, points, number)
        out = ~satisfied(ends, search.constraints)
        if not bool(out.any()):
            return ends
        _, inside = search.climb(function, starts[out][:_FURTHER], _FURTHER)
        return torch.cat([ends[~out], inside])

    around = space.neighbors(problem.tried.to(points), held)
    best, highest = points[:1], -math.inf
    points = torch.cat([points, around])
    for number in (int(options["num_restarts"]), *[_FURTHER] * _ROUNDS):
        ends = climbed(points, number)
        with torch.no_grad():
            values = function(ends)
        if float(values.max()) <= highest:
            break
        best, highest = ends[values.argmax()].detach(), float(values.max())
        points = space.neighbors(ends.detach(), held)
        if not len(points):
            break
    return Maximum(best, highest)
