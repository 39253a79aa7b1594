"""Quasi-random designs that meet the constraints, and the maximizer over the space of a problem.

Spaces of numbers are searched by BoTorch's ``optimize_acqf_mixed_alternating``. Finite spaces, and
what BoTorch's optimizer cannot move along, are searched by ``acquisition.optimize``, see
``needs_own_search``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.optim.optimize_mixed import optimize_acqf_mixed_alternating
from torch import Tensor

from ax_costaware.acquisition.optimize import NUM_POLISHED, ROUNDS, Optimum, Region
from ax_costaware.acquisition.optimize import maximize as maximize_tasks
from ax_costaware.core.decision import has_much_noise
from ax_costaware.core.method import Method
from ax_costaware.core.problem import Problem, SpaceExhausted
from ax_costaware.exceptions import InputError
from ax_costaware.space.discrete import read
from ax_costaware.space.finite_spaces import all_points, is_untried, untried
from ax_costaware.space.parameters import Value
from ax_costaware.space.space import Space

OPTIMIZER = {"num_restarts": 20, "raw_samples": 1024}
"""Options of the optimiser where the method does not say: Ax's defaults."""

_FINITE_ROUNDS = 50
"""Rounds of changes where there are no real parameters to climb: hardly ever are there so many."""

_RAW_WIDTHS = {False: (1e-4, 1e4), True: (0.1, 1e3)}
"""The least and the largest range of a number in which BoTorch's optimisers find their way, without
and with parameter constraints: their steps and tolerances are in the units of the columns."""

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
    tried += problem.earlier_in_batch
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
    raise InputError(
        f"no point among {MOST_DRAWS} met the parameter constraints {space.constraints}: loosen "
        "them."
    )


def needs_own_search(problem: Problem) -> bool:
    """Return whether to search a space by ``maximum_within``, and not by BoTorch's optimizer.

    - Finitely many points are looked at, or climbed between. The others would climb along the
      columns of choices and integers as if they were real numbers, which is slow where a cost has
      no gradient in them.
    - A choice of several columns moves as a whole.
    - Integers and choices between constraints hardly move one by one.
    - Equality constraints are met by elimination.
    - Ranges are of any size, see ``is_out_of_scale``.
    """
    space = problem.space
    return (
        problem.is_finite
        or not space.smooth
        or bool(space.blocks)
        or bool(read(space.discrete, space.inequality_constraints))
        or space.elimination is not None
        or is_out_of_scale(space)
    )


def is_out_of_scale(space: Space) -> bool:
    """Whether to search a space by ``maximum_within``, in units of the ranges.

    BoTorch's optimisers, which end where slopes are small, would end where they start, and Ax goes
    through all values of an integer. Numbers of few digits they know as real ones only.
    """
    if any(parameter.digits is not None for parameter in space.ranges.values()):
        return True
    least, most = _RAW_WIDTHS[bool(space.sums and space.smooth)]
    widths = space.bounds.diff(dim=0)[0, sorted(space.smooth | space.integers.keys())]
    return not bool(((least <= widths) & (widths <= most)).all())


def maximize(
    problem: Problem,
    acquisition: AcquisitionFunction,
    options: Mapping[str, Any],
    held: Mapping[int, float] | None = None,
) -> Optimum[float]:
    """Return the best point of an acquisition function, see ``Maximize``.

    Args:
        problem: Says what is fixed.
        acquisition: The function, of points ``b x 1 x d``.
        options: ``num_restarts`` and ``raw_samples``.
        held: Further columns that keep a value.

    Raises:
        InputError: If no point meets the parameter constraints.
        SpaceExhausted: If every point was tried, of a space that has finitely many.
    """
    space, held = problem.space, {**problem.held, **(held or {})}
    if needs_own_search(problem) or not space.smooth - held.keys():
        return maximum_within(problem, acquisition, options, held)
    values = {
        column.indices[0]: [column.encode(value)[0] for value in found]
        for column in space.columns.values()
        if (found := column.parameter.values_up_to(MOST_DRAWS)) is not None
    }
    X, _ = optimize_acqf_mixed_alternating(
        acquisition,
        bounds=space.bounds,
        q=1,
        discrete_dims={i: v for i, v in values.items() if i not in held},
        inequality_constraints=space.inequality_constraints or None,
        fixed_features=held,
        **{**OPTIMIZER, **options},
    )
    with torch.no_grad():
        return Optimum(X[0].detach(), float(acquisition(X.unsqueeze(0))))


def maximum_within(
    problem: Problem,
    acquisition: AcquisitionFunction,
    options: Mapping[str, Any],
    held: Mapping[int, float] | None = None,
) -> Optimum[float]:
    """Return the best point of an acquisition function; of finitely many the best untried one.

    The search starts from quasi-random points, and from what was tried with one choice or integer
    changed, or two under constraints. Few points are enumerated.

    Args:
        problem: Says what is fixed, and what was tried.
        acquisition: The function, of points ``b x 1 x d``.
        options: ``num_restarts`` and ``raw_samples``.
        held: Further columns that keep a value.

    Raises:
        InputError: If no point meets the parameter constraints.
        SpaceExhausted: If every point that was looked at was tried, of finitely many.
    """
    space, held = problem.space, {**problem.held, **(held or {})}
    region, options = Region.of(space, held), {**OPTIMIZER, **options}
    points = region.candidates
    if points is None:
        points = space.sobol_points(options["raw_samples"], 0, held)
    if not len(points):
        raise InputError(f"no point met the parameter constraints {list(space.sums)}: loosen them.")
    if region.candidates is None:
        around = space.neighbors(problem.tried.to(points), held)
        if len(around) > options["raw_samples"]:
            around = around[torch.randperm(len(around))[: options["raw_samples"]]]
        points = torch.cat([points, around])
    passed_over = _passed_over(problem)
    points = untried(points.to(passed_over), passed_over)
    if not len(points):
        raise SpaceExhausted

    def function(X: Tensor, _: Tensor) -> Tensor:
        values: Tensor = acquisition(X.unsqueeze(-2))
        if len(passed_over):
            values = values.masked_fill(~is_untried(X, passed_over), -torch.inf)
        return values

    (found,) = maximize_tasks(
        function,
        [region],
        [points],
        num_restarts=(restarts := int(options["num_restarts"])),
        # Where nothing climbs, all of them go by changes.
        num_polished=restarts if problem.is_finite else NUM_POLISHED,
        rounds=_FINITE_ROUNDS if problem.is_finite else ROUNDS,
    )
    return Optimum(found.point[0], float(found.value[0]))


def possible(problem: Problem, points: Tensor) -> Tensor:
    """Those of some points that a trial may be at: of finitely many those that were not tried.

    Where all of the space were, and there is much noise, those that have not failed.
    """
    passed_over = _passed_over(problem)
    return untried(points.to(passed_over), passed_over)


def _passed_over(problem: Problem) -> Tensor:
    """Points that no trial repeats, ``n x d``; none of a space that is not finite."""
    tried = problem.tried
    if not problem.is_finite:
        return tried[:0]
    if len({trial.outcome for trial in problem.observed}) < 2:
        return tried
    if not problem.is_exhausted or not has_much_noise(problem):
        return tried
    every = all_points(problem.space, problem.held)
    if every is not None and len(untried(every.to(tried), tried)):  # as realized
        return tried
    return problem.space.encode([trial.parameters for trial in problem.failed])
