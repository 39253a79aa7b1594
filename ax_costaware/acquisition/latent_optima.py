r"""Space, posterior samples and best points of the latent optimum behind averages.

Entropy search over queries needs draws of :math:`x^* = \arg\max f` and :math:`f^* = \max f` from
the posterior of the latent function, not of its averages (Zhang et al. 2024, "Indirect Query
Bayesian Optimization with Integrated Feedback", section 5.1). On a finite space they are exact
joint draws. Otherwise sample paths (Wilson et al. 2020) are maximised in one batch. All values have
the sign of maximisation and the posterior's unit.

The space of latent points differs from that of queries; see
``laws.conditionals``. A point is a row in raw units; a choice is a column that takes some values
only, such as an integer or the code of a category.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ax_costaware.acquisition.feasibility import NO_BOUNDS, Feasibility
from ax_costaware.acquisition.latent_samples import (
    BoundedPaths,
    joint_draws,
    moments_of,
)
from ax_costaware.acquisition.optimize import Region, maximize
from ax_costaware.argument_checks import checked_bounds, finite_tensor, integer_at_least
from ax_costaware.exceptions import InputError, UnsupportedInputError
from ax_costaware.laws.quadrature import uniforms
from ax_costaware.models.posterior import ExactPosterior

MOST_FINITE = 2000
"""Largest size of a space whose points are enumerated and sampled jointly."""

# Restarts per path: the best raw point is almost always in the basin of the maximum.
_STARTS_OF_PATH = 3

# Factor by which half of the raw points are stretched towards the faces of the box, and the most
# columns for which all corners are added.
_STRETCH = 1.2
_MOST_CORNERED = 6

# Points that are sampled jointly if the kernel has no Fourier features.
_JOINT_POINTS = 1000

# Most values of paths in memory.
_MOST_VALUES = 2**22


@dataclass(frozen=True, eq=False)
class LatentSpace:
    """Space of the latent points: a box with choices among its columns, or a finite set.

    Raises:
        InputError: If the bounds are no box, choices have no values or lie outside of the bounds,
            or candidates are not finite points with ``d`` columns.
    """

    bounds: Tensor
    """``2 x d`` bounds in raw units."""

    choices: Mapping[int, Sequence[float]] = field(default_factory=dict)
    """Values of the columns that are choices."""

    candidates: Tensor | None = None
    """``m x d`` points of a finite space; None for a box."""

    def __post_init__(self) -> None:
        bounds = checked_bounds(self.bounds)
        if not bounds.is_floating_point():
            raise InputError(f"bounds={bounds.tolist()}: expected floating-point numbers.")
        d = bounds.shape[-1]
        for column, values in self.choices.items():
            if column not in range(d):
                raise InputError(
                    f"choices has the column {column!r}: expected one of 0 to {d - 1}."
                )
            lower, upper = bounds[:, column].tolist()
            if not len(values) or not all(lower <= value <= upper for value in values):
                raise InputError(
                    f"choices[{column}]={values!r}: expected one or more values from {lower:g} to"
                    f" {upper:g}."
                )
        if self.candidates is not None:
            expected = f"m x {d} finite numbers, m > 0"
            finite_tensor(self.candidates, "candidates", (None, d), expected)

    @property
    def num_columns(self) -> int:
        """The number ``d`` of columns."""
        return self.bounds.shape[-1]

    @property
    def held(self) -> tuple[int, ...]:
        """Columns that a local search cannot move: choices, and those with a single value."""
        fixed = torch.nonzero(self.bounds[0] == self.bounds[1]).flatten().tolist()
        return tuple(sorted({*self.choices, *fixed}))

    def held_at(self, values: Mapping[int, float]) -> LatentSpace:
        """Return the part of the space where some columns have these values.

        Raises:
            InputError: If it has no point there.
        """
        if not values:
            return self
        points = self.candidates
        if points is not None:
            columns = list(values)
            points = points[(points[:, columns] == points.new_tensor([*values.values()])).all(-1)]
            if not len(points):
                raise InputError(f"columns held at {dict(values)}: expected those of a candidate.")
        choices = {**self.choices, **{column: (value,) for column, value in values.items()}}
        return LatentSpace(self.bounds, choices, points)

    @property
    def region(self) -> Region:
        """The space as the maximizer takes it."""
        blocks = [((column,), self.values(column).unsqueeze(-1)) for column in self.choices]
        return Region(self.bounds, blocks)

    @property
    def points(self) -> Tensor | None:
        """All ``m x d`` points: the candidates, or up to ``MOST_FINITE`` combinations of choices.

        None for any other space.
        """
        if self.candidates is not None:
            return self.candidates.to(self.bounds)
        if len(self.held) < self.num_columns:
            return None
        values = [self.values(column) for column in range(self.num_columns)]
        if math.prod(len(column) for column in values) > MOST_FINITE:
            return None
        return torch.cartesian_prod(*values).reshape(-1, self.num_columns)

    def sobol(self, n: int, seed: int) -> Tensor:
        """Return points that are spread over the space.

        Args:
            n: Their number; fewer if the space has fewer.
            seed: Seed of the design; the global random state stays as it was.

        Returns:
            ``n x d`` points of the space, distinct where it is finite.
        """
        points = self.points
        if points is not None:
            if len(points) <= n:
                return points
            generator = torch.Generator().manual_seed(seed)
            return points[torch.randperm(len(points), generator=generator)[:n]]
        design = uniforms(self.num_columns, n, seed).to(self.bounds)
        rows = self.bounds[0] + (self.bounds[1] - self.bounds[0]) * design
        for column in self.held:
            values = self.values(column)
            place = (design[:, column] * len(values)).long().clamp_max(len(values) - 1)
            rows[:, column] = values[place]
        return rows

    def values(self, column: int) -> Tensor:
        """Return the values of a column that is held."""
        values = self.choices.get(column, self.bounds[:1, column].tolist())
        return self.bounds.new_tensor([float(value) for value in values])


def sample_optima(
    posterior: ExactPosterior,
    space: LatentSpace,
    num_samples: int = 16,
    seed: int = 0,
    feasibility: Feasibility[ExactPosterior] = NO_BOUNDS,
) -> tuple[Tensor, Tensor]:
    """Draw the optimum of the latent function from its posterior.

    Draws are exact if the space has at most ``MOST_FINITE`` points. A kernel without Fourier
    features is sampled jointly at points spread over the space.

    Args:
        posterior: The posterior.
        space: Space of the optimum.
        num_samples: Number ``S`` of draws.
        seed: Seed of the draws; the global random state stays as it was.
        feasibility: Posteriors of further outcomes with bounds. Violations are penalized, so that
            the optimum is feasible if a draw has a feasible point.

    Returns:
        The optimal points, ``S x d`` in raw units, and the optimal values, ``S``.

    Raises:
        InputError: If ``num_samples`` is no integer > 0.
    """
    num_samples = integer_at_least(num_samples, 1, "num_samples")
    with torch.no_grad():
        points = space.points
        if points is not None and len(points) <= MOST_FINITE:
            return _best_of(points, joint_draws(posterior, feasibility, points, num_samples, seed))
        try:
            paths = BoundedPaths(posterior, feasibility, space.sobol(64, seed), num_samples, seed)
        except UnsupportedInputError:
            spread = space.sobol(_JOINT_POINTS, seed)
            return _best_of(spread, joint_draws(posterior, feasibility, spread, num_samples, seed))
        raw = _raw_points(space, seed) if points is None else points
        parts = raw.split(max(_MOST_VALUES // num_samples, 1))
        values = torch.cat([paths(part) for part in parts], dim=-1)
        if points is not None or len(space.held) == space.num_columns:
            heights, rows = values.max(dim=-1)
            return raw[rows], heights
    found = maximize(
        paths.each_at,
        [space.region] * num_samples,
        [raw] * num_samples,
        scores=list(values),
        num_restarts=_STARTS_OF_PATH,
        num_polished=1,
    )
    points = torch.stack([optimum.point[0] for optimum in found])
    return points, torch.stack([optimum.value[0] for optimum in found])


def best_latent_points(
    posterior: ExactPosterior,
    space: LatentSpace,
    num_restarts: int = 8,
    seed: int = 0,
    function: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Search for the points of largest posterior mean, or of another function.

    Args:
        posterior: The posterior.
        space: Space of the points.
        num_restarts: Number of local searches, and of returned points at most.
        seed: Seed of the raw points.
        function: From points ``... x d`` to values ``...``, differentiable; None: the mean.

    Returns:
        The local optima, ``k x d`` in raw units, the best first, or the best ``k`` points of a
        finite space; and the mean and variance there, ``k`` each.

    Raises:
        InputError: If ``num_restarts`` is no integer > 0.
    """
    num_restarts = integer_at_least(num_restarts, 1, "num_restarts")
    value = function or posterior.latent.mean
    points = space.points
    if points is None:
        (found,) = maximize(
            lambda X, _: value(X),
            [space.region],
            [_raw_points(space, seed)],
            num_restarts=num_restarts,
            num_polished=None,
        )
        points = found.point
    with torch.no_grad():
        mean, variance = moments_of(posterior, points)
        height = mean if function is None else function(points)
        order = height.argsort(descending=True, stable=True)[:num_restarts]
    return points[order], mean[order], variance[order]


def _raw_points(space: LatentSpace, seed: int) -> Tensor:
    """Return raw points of a space that is not finite, including faces, edges and corners.

    The posterior is most uncertain there, and few inner points are in the basin of a corner.
    """
    points = space.sobol(min(512 * space.num_columns, 4096), seed)
    free = [column for column in range(space.num_columns) if column not in space.held]
    lower, upper = space.bounds[:, free]
    outer = points[::2]
    stretched = (lower + upper) / 2 + _STRETCH * (outer[:, free] - (lower + upper) / 2)
    outer[:, free] = stretched.clamp(lower, upper)
    if 0 < len(free) <= _MOST_CORNERED:
        sides = torch.cartesian_prod(*torch.stack([lower, upper], dim=-1)).reshape(-1, len(free))
        outer[: len(sides), free] = sides
    return points


def _best_of(points: Tensor, draws: Tensor) -> tuple[Tensor, Tensor]:
    """Return the best point of each draw, ``m x S``, and its value."""
    heights, rows = draws.max(dim=0)
    return points[rows], heights
