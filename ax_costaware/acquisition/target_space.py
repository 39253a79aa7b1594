"""Where the optimum of the function behind averages is sought: the space X of its points.

Queries live in another space; see ``queries.conditionals``. A point is a row in raw units; a choice
is a column that takes some values only, such as an integer or the code of a category.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from botorch.utils.sampling import draw_sobol_samples
from torch import Tensor

from ax_costaware.exceptions import InputError
from ax_costaware.queries.argument_checks import finite_tensor

MOST_FINITE = 2000
"""A space of so many points is enumerated, and its points sampled jointly."""


@dataclass(frozen=True, eq=False)
class TargetSpace:
    """A box, some columns of which may be choices; or a finite set of points.

    Raises:
        InputError: For bounds that are no box, choices without values or outside of the bounds, or
            candidates that are no finite points of as many columns.
    """

    bounds: Tensor
    """``2 x d`` bounds in raw units."""

    choices: Mapping[int, Sequence[float]] = field(default_factory=dict)
    """The values that the columns of choices take."""

    candidates: Tensor | None = None
    """``m x d`` points, where there are no others."""

    def __post_init__(self) -> None:
        expected = "a 2 x d floating-point tensor of finite numbers, lower bounds first"
        bounds = finite_tensor(self.bounds, "bounds", (2, None), expected)
        if not bounds.is_floating_point() or not bool((bounds[0] <= bounds[1]).all()):
            raise InputError(f"bounds: got {bounds.tolist()}; expected {expected}.")
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

    @property
    def points(self) -> Tensor | None:
        """All points, ``m x d``, where they are finitely many and not too many; else None.

        That is the candidates, however many, or the combinations of choices up to
        ``MOST_FINITE``.
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
        """Points that are spread over the space.

        Args:
            n: How many; fewer where the space has fewer.
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
        unit = torch.stack([torch.zeros(self.num_columns), torch.ones(self.num_columns)]).double()
        design = draw_sobol_samples(unit, n=n, q=1, seed=seed).squeeze(-2).to(self.bounds)
        rows = self.bounds[0] + (self.bounds[1] - self.bounds[0]) * design
        for column in self.held:
            values = self.values(column)
            place = (design[:, column] * len(values)).long().clamp_max(len(values) - 1)
            rows[:, column] = values[place]
        return rows

    def values(self, column: int) -> Tensor:
        """The values of a column that is held."""
        values = self.choices.get(column, self.bounds[:1, column].tolist())
        return torch.tensor(
            [float(value) for value in values], dtype=self.bounds.dtype, device=self.bounds.device
        )
