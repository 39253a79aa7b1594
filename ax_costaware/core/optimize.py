"""Quasi-random designs within constraints, and the maximizer over the space of a problem.

Spaces of numbers are searched by BoTorch's ``optimize_acqf_mixed_alternating``. Spaces that it
cannot search well are searched by ``acquisition.optimize``, see ``needs_own_search``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
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
from ax_costaware.space.parameters import Choice, FreeParameter, Value
from ax_costaware.space.space import Space

OPTIMIZER = {"num_restarts": 20, "raw_samples": 1024}
"""Default options of the optimizer, as in Ax."""

_FINITE_ROUNDS = 50
"""Largest number of rounds of discrete local search without real parameters, seldom reached."""

_RAW_WIDTHS = {False: (1e-4, 1e4), True: (0.1, 1e3)}
"""Smallest and largest range width that BoTorch's optimizers handle, without and with parameter
constraints: their step sizes and tolerances are in the units of the columns."""

_NUM_FACES = 8
"""Number of selections of parts that are searched."""

_MIN_OF_FACE = 16
"""Least number of quasi-random points of a selection of parts."""

MOST_DRAWS = 10_000
"""Quasi-random points to try for one trial before the constraints count as infeasible."""


def design_of(problem: Problem, method: Method) -> Iterator[dict[str, Value]]:
    """Yield the feasible points of the quasi-random design, from the next trial on.

    Raises:
        SpaceExhausted: If it has no further point.
        InputError: If no point of it is feasible.
    """
    space, trials = problem.space, problem.trials
    # The position in the sequence is counted by trials, so skipped points may shift it: points of
    # earlier trials are skipped by their values.
    repeats = method.traits.repeats_design and not space.smooth
    tried = [] if repeats else [dict(trial.parameters) for trial in trials]
    tried += problem.earlier_in_batch
    found, misses = 0, 0
    for drawn in space.design(method.seed):
        row = space.pinned(space.ordered({**drawn, **problem.given}))
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
    """True if ``maximum_within`` searches the space, and not BoTorch's optimizer.

    BoTorch's optimizer does not handle well

    - finite spaces, where it relaxes choices and integers although costs have no gradient there;
    - one-hot or described choices and tables of candidates, whose columns change together;
    - constraints on integers and choices, which seldom allow a change of one of them alone;
    - equality constraints, which are satisfied by elimination here;
    - nonlinear constraints, for which it needs feasible starts;
    - inactive parameters, which are pinned;
    - ranges of very different width, see ``is_out_of_scale``.
    """
    space = problem.space
    return (
        problem.is_finite
        or space.listed is not None
        or bool(space.at_most)
        or not space.smooth
        or any(_is_coded(column.parameter) for column in space.columns.values())
        or bool(read(space.discrete, space.inequality_constraints))
        or space.elimination is not None
        or bool(space.nonlinear or space.conditions)
        or is_out_of_scale(space)
    )


def _is_coded(parameter: FreeParameter) -> bool:
    """True for a choice that is no number in the model, but one-hot or its descriptors."""
    if not isinstance(parameter, Choice):
        return False
    return parameter.is_one_hot or parameter.descriptors is not None


def is_out_of_scale(space: Space) -> bool:
    """True if the ranges of a space need a search in units of the ranges.

    BoTorch's optimizers stop where slopes are small in the units of the columns, and would stop
    where they start. They also take parameters with a number of ``digits`` as real ones.
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
        problem: Inputs of the decision, with the fixed values.
        acquisition: The function, of points ``b x 1 x d``.
        options: ``num_restarts`` and ``raw_samples``.
        held: Values of further columns to hold.

    Raises:
        InputError: If no point satisfies the parameter constraints.
        SpaceExhausted: If the space is finite, and every point of it was tried.
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
    """Return the best point of an acquisition function; in a finite space the best untried one.

    Small finite spaces are enumerated. Otherwise the search starts from quasi-random points, and
    from neighbors of tried points, in which one choice or integer is changed, or two under
    constraints.

    Args:
        problem: Inputs of the decision, with the fixed values and the tried points.
        acquisition: The function, of points ``b x 1 x d``.
        options: ``num_restarts`` and ``raw_samples``.
        held: Values of further columns to hold.

    Raises:
        InputError: If no point satisfies the parameter constraints.
        SpaceExhausted: If the space is finite, and every candidate was tried.
    """
    space, held = problem.space, {**problem.held, **(held or {})}
    region, options = Region.of(space, held), {**OPTIMIZER, **options}
    points = region.candidates
    if space.at_most and points is None:
        return _maximum_of_faces(problem, acquisition, options, held)
    if points is None:
        points = space.sobol_points(options["raw_samples"], 0, held)
    if not len(points):
        raise InputError(
            f"no point met the parameter constraints {space.constraints}: loosen them."
        )
    if region.candidates is None:
        around = space.neighbors(problem.tried.to(points), held)
        if len(around) > options["raw_samples"]:
            around = around[torch.randperm(len(around))[: options["raw_samples"]]]
        points = torch.cat([points, around])
    excluded = _excluded_points(problem)
    points = untried(points.to(excluded), excluded)
    if not len(points):
        raise SpaceExhausted

    def function(X: Tensor, _: Tensor) -> Tensor:
        values: Tensor = acquisition(X.unsqueeze(-2))
        if len(excluded) and region.candidates is None:
            values = values.masked_fill(~is_untried(X, excluded), -torch.inf)
        return values

    (found,) = maximize_tasks(
        function,
        [region],
        [points],
        num_restarts=(restarts := int(options["num_restarts"])),
        # Without real parameters no start moves by gradients, so all need the discrete search.
        num_polished=restarts if problem.is_finite else NUM_POLISHED,
        rounds=_FINITE_ROUNDS if problem.is_finite else ROUNDS,
    )
    return Optimum(found.point[0], float(found.value[0]))


def _maximum_of_faces(
    problem: Problem,
    acquisition: AcquisitionFunction,
    options: Mapping[str, Any],
    held: Mapping[int, float],
) -> Optimum[float]:
    """Return the best point of an acquisition function if few parts may be present.

    Quasi-random points of each selection of parts are compared. The best selections are searched.
    """
    space = problem.space
    faces = space.faces(0, held)
    some = max(int(options["raw_samples"]) // max(len(faces), 1), _MIN_OF_FACE)
    scored = []
    for face, part in faces:
        points = part.sobol_points(some, 0, {**held, **space.columns_of(face)})
        if len(points):
            with torch.no_grad():
                scored.append((float(acquisition(points.unsqueeze(-2)).max()), face, part))
    if not scored:
        raise InputError(f"no point met the constraints {[*space.constraints, *space.at_most]}.")
    scored.sort(key=lambda each: -each[0])
    fewer = {
        "num_restarts": max(int(options["num_restarts"]) // _NUM_FACES, 2),
        "raw_samples": some,
    }
    found = []
    for _, face, part in scored[:_NUM_FACES]:
        at = replace(problem, space=part, fixed={**problem.fixed, **face})
        with suppress(SpaceExhausted):
            found.append(maximum_within(at, acquisition, fewer, held))
    if not found:
        raise SpaceExhausted
    return max(found, key=lambda optimum: optimum.value)


def possible(problem: Problem, points: Tensor) -> Tensor:
    """Return the points at which a trial is allowed: in a finite space those not yet tried.

    If all points of the space were tried and there is much noise, those that have not failed.
    """
    excluded = _excluded_points(problem)
    return untried(points.to(excluded), excluded)


def _excluded_points(problem: Problem) -> Tensor:
    """Return the points that no trial may repeat, ``n x d``; none in an infinite space."""
    tried = problem.tried
    if not problem.is_finite:
        return tried[:0]
    if len({trial.outcome for trial in problem.observed}) < 2:
        return tried
    failed = problem.space.encode([trial.parameters for trial in problem.failed])
    if problem.repeats is not None:
        return failed
    if not problem.is_exhausted or not has_much_noise(problem):
        return tried
    every = all_points(problem.space, problem.held)
    if every is not None and len(untried(every.to(tried), tried)):  # as realized
        return tried
    return failed
