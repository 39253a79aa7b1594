r"""Equality constraints by elimination of columns.

Linear equations :math:`A x = b` determine as many columns as there are equations, as affine
functions of the other columns, their sources. A search moves the sources. Inequality constraints on
them keep the determined columns within their bounds. Points are completed before a model or a cost
sees them. Equality constraints therefore hold to rounding wherever inequality constraints are
supported.
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
"""``(indices, coefficients, rhs)``: ``sum_i coefficients_i x[indices_i] >= rhs``, or ``== rhs``."""

# Relative size below which coefficients, right-hand sides and interior width count as zero.
_ZERO = 1e-9

# Hit-and-run steps per source, and at least. On the simplex of ten sources the standard deviation
# of a coordinate is then within 5 % of that of the uniform distribution.
_STEPS_PER_SOURCE, _LEAST_STEPS = 10, 50

_NO_ROOM = "they contradict each other, or leave no room within the bounds."


@dataclass(frozen=True, eq=False)
class Elimination:
    """Columns that linear equations determine: ``x[columns] = weights @ x + offsets``.

    Attributes:
        columns: The ``k`` determined columns.
        weights: ``k x d`` coefficients, zero for determined columns.
        offsets: ``k`` constants.
        bounds: ``2 x d`` bounds of all columns.
        constraints: Inequality constraints ``(indices, coefficients, rhs)`` on the other columns,
            including the bounds of the determined ones.
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
        """Solve the equations for as many columns, by Gauss-Jordan elimination.

        Args:
            equalities: ``(indices, coefficients, rhs)`` with
                ``sum_i coefficients_i x[indices_i] == rhs``.
            bounds: ``2 x d`` bounds of the columns.
            inequalities: The same with ``>= rhs``, on any columns.

        Raises:
            InputError: If the equations contradict each other, or leave no room within the bounds.
        """
        rows = torch.stack([_dense(c, bounds) for c in equalities]).double().cpu().numpy()
        widths = (bounds[1] - bounds[0]).double().cpu().numpy()
        moves = np.abs(rows[:, :-1] * widths).max(axis=1, keepdims=True)
        # Rows are scaled by powers of two, so that integer coefficients stay exact.
        rows *= 0.5 ** np.floor(np.log2(np.where(moves > 0, moves, 1.0)))
        columns: list[int] = []
        solved: list[int] = []
        for i, row in enumerate(rows):
            # Pivot: the column that varies the sum most has the smallest rounding errors.
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
        remaining = [*_each(weights, lower - offsets), *_each(-weights, offsets - upper)]
        for inequality in inequalities:
            terms = _dense(inequality, bounds)
            determined = terms[columns].clone()
            terms[columns] = 0.0
            remaining += _each(
                (terms[:-1] + determined @ weights).unsqueeze(0),
                (terms[-1] - determined @ offsets).unsqueeze(0),
            )
        binding = [constraint for constraint in remaining if _binds(constraint, bounds)]
        elimination = Elimination(tuple(columns), weights, offsets, bounds, binding)
        if elimination._centre is None:
            raise InputError(_NO_ROOM)
        return elimination

    @cached_property
    def sources(self) -> list[int]:
        """Columns on which the determined ones depend."""
        return self.weights.any(dim=0).nonzero().flatten().tolist()

    def complete(self, X: Tensor) -> Tensor:
        """Return points ``... x d`` with the determined columns set, differentiable."""
        values = X @ self.weights.to(X).T + self.offsets.to(X)
        index = torch.tensor(self.columns, dtype=torch.long, device=X.device)
        return X.index_copy(-1, index, values)

    def spread(self, X: Tensor, seed: int, part: Tensor | None = None) -> Tensor:
        """Return points with sources sampled uniformly from the feasible polytope.

        Hit-and-run (Smith 1984) with a chain per point. A thousand vectorized chains take a tenth
        of the time of BoTorch's sampler, which thins one chain, and are less correlated.

        Args:
            X: ``n x d`` points, whose other columns stay.
            seed: Seed of the chains.
            part: ``n`` weights in [0, 1] of the new sources, against the old ones; None for one.
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
        """``A`` and ``b`` of the polytope ``A u <= b`` of sources scaled to [0, 1]; on the CPU."""
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
        """Interior point of the polytope; None if it has no interior."""
        A, b = self._polytope
        if not self.sources:
            return b[:0] if bool((b >= -_ZERO).all()) else None
        try:
            centre = torch.from_numpy(find_interior_point(A.numpy(), b.numpy()))
        except InfeasibilityError:
            return None
        return centre if bool((A @ centre <= b - _ZERO).all()) else None


def _dense(constraint: tuple[Tensor, Tensor, float], bounds: Tensor) -> Tensor:
    """Return the coefficients of all columns and the right-hand side, ``d + 1``."""
    indices, coefficients, rhs = constraint
    row = bounds.new_zeros(bounds.shape[-1] + 1)
    row[indices.to(row.device)] = coefficients.to(row)
    row[-1] = rhs
    return row


def _each(rows: Tensor, rhs: Tensor) -> LinearConstraints:
    """Return rows of coefficients as constraints, without columns that cancel to rounding."""
    found = []
    for row, least in zip(rows, rhs.tolist(), strict=True):
        (indices,) = (row.abs() > 1e-12 * row.abs().max()).nonzero(as_tuple=True)
        found.append((indices, row[indices], least))
    return found


def _binds(constraint: tuple[Tensor, Tensor, float], bounds: Tensor) -> bool:
    """True if some point within the bounds violates a constraint."""
    indices, coefficients, rhs = constraint
    least = float(torch.minimum(*(coefficients * bounds[:, indices])).sum())
    return least < rhs - 1e-12 * (1.0 + abs(rhs))
