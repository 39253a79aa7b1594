r"""Equality constraints by elimination: columns that are determined by others.

Of linear equations :math:`A x = b` as many columns as there are equations are affine functions of
the others, their sources. A search moves the sources, within inequality constraints that keep the
determined columns within their bounds, and a point is completed before anything looks at it: models
see all columns. So whatever takes inequality constraints takes equality constraints, too, and they
hold to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import torch
from botorch.exceptions.errors import InfeasibilityError
from botorch.utils.sampling import find_interior_point
from torch import Tensor

from ax_costaware.exceptions import InputError

LinearConstraints: TypeAlias = Sequence[tuple[Tensor, Tensor, float]]
"""``(indices, coefficients, rhs)`` of sums that are at least a number, or equal to it."""

# Coefficients, right-hand sides and room below this part of their scale are zero but for rounding.
_ZERO = 1e-9

# Steps of hit-and-run: so many for each source, and at least so many. On the simplex of ten sources
# the standard deviation of a coordinate is then within five per cent of that of the uniform law.
_STEPS_PER_SOURCE, _LEAST_STEPS = 10, 50

_NO_ROOM = "they contradict each other, or leave no room within the bounds."


@dataclass(frozen=True, eq=False)
class Elimination:
    """Columns that linear equations determine, and where the others may be.

    Attributes:
        columns: The ``k`` columns that are determined.
        weights: ``k x d``: by how much each of them grows with every column.
        offsets: ``k`` values of them where all other columns are zero.
        bounds: ``2 x d`` bounds of all columns.
        constraints: ``(indices, coefficients, rhs)`` with
            ``sum_i coefficients_i x[indices_i] >= rhs``: of other columns only, and such that the
            determined ones are within their bounds.
    """

    columns: tuple[int, ...]
    weights: Tensor
    offsets: Tensor
    bounds: Tensor
    constraints: LinearConstraints

    @staticmethod
    def of(
        equalities: LinearConstraints, bounds: Tensor, inequalities: LinearConstraints = ()
    ) -> Elimination:
        """Solve equations for as many columns.

        Args:
            equalities: ``(indices, coefficients, rhs)`` with
                ``sum_i coefficients_i x[indices_i] == rhs``.
            bounds: ``2 x d`` bounds of the columns.
            inequalities: The same with ``>= rhs``, of any columns.

        Raises:
            InputError: If the equations contradict each other, or leave no room within the bounds.
        """
        rows = torch.stack([_dense(c, bounds) for c in equalities]).double().cpu().numpy()
        widths = (bounds[1] - bounds[0]).double().cpu().numpy()
        moves = np.abs(rows[:, :-1] * widths).max(axis=1, keepdims=True)
        # Powers of two, which leave simple numbers as they are.
        rows *= 0.5 ** np.floor(np.log2(np.where(moves > 0, moves, 1.0)))
        columns: list[int] = []
        solved: list[int] = []
        for i, row in enumerate(rows):
            # The column that moves the equation most: its own errors are then the smallest.
            column = int(np.abs(row[:-1] * widths).argmax())
            if abs(row[column] * widths[column]) <= _ZERO:
                if abs(row[-1]) > _ZERO:
                    raise InputError(_NO_ROOM)
                continue
            row /= row[column]
            others = np.arange(len(rows)) != i
            rows[others] -= np.outer(rows[others, column], row)
            columns.append(column)
            solved.append(i)
        found = torch.from_numpy(rows[solved]).to(bounds)
        weights, offsets = -found[:, :-1], found[:, -1]
        weights[:, columns] = 0.0
        lower, upper = bounds[:, columns]
        kept = [*_each(weights, lower - offsets), *_each(-weights, offsets - upper)]
        for inequality in inequalities:
            terms = _dense(inequality, bounds)
            determined = terms[columns].clone()
            terms[columns] = 0.0
            kept += _each(
                (terms[:-1] + determined @ weights).unsqueeze(0),
                (terms[-1] - determined @ offsets).unsqueeze(0),
            )
        binding = [constraint for constraint in kept if _binds(constraint, bounds)]
        elimination = Elimination(tuple(columns), weights, offsets, bounds, binding)
        if elimination._centre is None:
            raise InputError(_NO_ROOM)
        return elimination

    @cached_property
    def sources(self) -> list[int]:
        """The columns that determine the others."""
        return self.weights.any(dim=0).nonzero().flatten().tolist()

    def complete(self, X: Tensor) -> Tensor:
        """Points ``... x d`` with the columns that the others determine, differentiable."""
        values = X @ self.weights.to(X).T + self.offsets.to(X)
        index = torch.tensor(self.columns, dtype=torch.long, device=X.device)
        return X.index_copy(-1, index, values)

    def spread(self, X: Tensor, seed: int, part: Tensor | None = None) -> Tensor:
        """Points with other sources, which are spread over all that the constraints allow.

        By hit-and-run (Smith 1984), each point from a chain of its own: a thousand chains in step
        take a tenth of the time of BoTorch's sampler, which thins one, and depend on each other
        less.

        Args:
            X: ``n x d`` points, whose other columns stay.
            seed: Seed of the chains.
            part: ``n`` parts of the way to the new points that are gone; None: all of it.
        """
        sources, generator = self.sources, torch.Generator().manual_seed(seed)
        A, b = self._polytope
        assert self._centre is not None
        unit = self._centre.expand(len(X), -1)
        for _ in range(max(_LEAST_STEPS, _STEPS_PER_SOURCE * len(sources)) if sources else 0):
            way = torch.randn(unit.shape, generator=generator, dtype=unit.dtype)
            slope, steps = way @ A.T, (b - unit @ A.T).clamp_min(0.0)
            furthest = torch.where(slope > 0, steps / slope, torch.inf).amin(dim=-1)
            back = torch.where(slope < 0, steps / slope, -torch.inf).amax(dim=-1)
            u = torch.rand(len(X), generator=generator, dtype=unit.dtype)
            unit = unit + (back + u * (furthest - back)).unsqueeze(-1) * way
        lower, upper = self.bounds[:, sources]
        target = lower + unit.to(X) * (upper - lower)
        found = X.clone()
        if part is not None:
            target = torch.lerp(X[:, sources], target, part.unsqueeze(-1))
        found[:, sources] = target
        return self.complete(found)

    @cached_property
    def _polytope(self) -> tuple[Tensor, Tensor]:
        """``A`` and ``b``: the sources, in units of their bounds, have ``A u <= b``; on the CPU."""
        sources, bounds = self.sources, self.bounds.double().cpu()
        eye, ends = torch.eye(len(sources)).double(), torch.tensor([[1.0], [0.0]]).double()
        rows = [
            torch.cat([a, b.expand(len(a), 1)], -1) for a, b in zip((eye, -eye), ends, strict=True)
        ]
        for constraint in self.constraints:
            if set(constraint[0].tolist()) <= set(sources):
                row = _dense(constraint, bounds)
                moves = (row[:-1] * (bounds[1] - bounds[0]))[sources]
                found = torch.cat([-moves, (row[:-1] @ bounds[0] - row[-1]).unsqueeze(0)])
                rows.append(found.unsqueeze(0) / (float(moves.norm()) or 1.0))
        together = torch.cat(rows)
        return together[:, :-1], together[:, -1]

    @cached_property
    def _centre(self) -> Tensor | None:
        """Sources well within the constraints, in units of their bounds; None without room."""
        A, b = self._polytope
        if not self.sources:
            return b[:0] if bool((b >= -_ZERO).all()) else None
        try:
            centre = torch.from_numpy(find_interior_point(A.numpy(), b.numpy()))
        except InfeasibilityError:
            return None
        return centre if bool((A @ centre <= b - _ZERO).all()) else None


def _dense(constraint: tuple[Tensor, Tensor, float], bounds: Tensor) -> Tensor:
    """Coefficients of all columns, and the right-hand side: ``d + 1``."""
    indices, coefficients, rhs = constraint
    row = bounds.new_zeros(bounds.shape[-1] + 1)
    row[indices.to(row.device)] = coefficients.to(row)
    row[-1] = rhs
    return row


def _each(rows: Tensor, rhs: Tensor) -> LinearConstraints:
    """Rows of coefficients as constraints, without columns that cancel but for rounding."""
    found = []
    for row, least in zip(rows, rhs.tolist(), strict=True):
        (indices,) = (row.abs() > 1e-12 * row.abs().max()).nonzero(as_tuple=True)
        found.append((indices, row[indices], least))
    return found


def _binds(constraint: tuple[Tensor, Tensor, float], bounds: Tensor) -> bool:
    """Whether some point within the bounds does not satisfy a constraint."""
    indices, coefficients, rhs = constraint
    least = float(torch.minimum(*(coefficients * bounds[:, indices])).sum())
    return least < rhs - 1e-12 * (1.0 + abs(rhs))
