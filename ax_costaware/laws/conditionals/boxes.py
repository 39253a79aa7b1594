"""Uniform distributions on a box: around the query, or a cell of a resolution tree."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from torch import Tensor
from typing_extensions import override

from ax_costaware.argument_checks import (
    Matrix,
    Numbers,
    at_least,
    check_fields,
    matrix,
    optional,
    positive_number,
    set_fields,
)
from ax_costaware.exceptions import InputError
from ax_costaware.laws.conditionals.conditional import (
    Outside,
    bounds,
    check_indices,
    indices,
)
from ax_costaware.laws.conditionals.independent import (
    UNIFORM,
    IndependentConditional,
    Scale,
    checked_scale,
    names_of,
    scale_of,
)


@dataclass(frozen=True)
class UniformBoxConditional(IndependentConditional):
    """Uniform distribution on a box, whose center is the query (``p = d``).

    The half-width may be part of the query, ``a = (center, half-width)`` (Zhang et al. 2024,
    section 3.2). Name the parameter that holds it; it is the last column of the query.

    Raises:
        InputError: If a half-width is below zero, or fields have the wrong length.
    """

    half_width: Scale | tuple[Scale, ...]
    """Half-width in raw units: a number for all columns, or ``d`` numbers; zero for a point. A
    name in place of a number is that of the parameter of the query with the half-width."""

    lower: Numbers | None = None
    """Lower bounds of X, ``d``; None without bounds."""

    upper: Numbers | None = None
    """Upper bounds of X."""

    outside: Outside = "refuse"
    """Policy for points outside of the bounds; see ``GaussianConditional``."""

    num_nodes: int = 16
    """Gauss-Legendre nodes of each column; clipped distributions have the bounds as well."""

    num_columns: int | None = None
    """``d``; needed if neither the half-widths nor the bounds have ``d`` entries."""

    _STANDARD = UNIFORM

    def __post_init__(self) -> None:
        check_fields(self, num_columns=optional(at_least(1)), num_nodes=at_least(1))
        check_fields(self, half_width=partial(checked_scale, length=self.num_columns))
        known = len(self.half_width) if isinstance(self.half_width, tuple) else self.num_columns
        self._check_bounds(known)
        set_fields(self, num_columns=known if self.lower is None else len(self.lower))

    @property
    @override
    def num_query_columns(self) -> int:
        if self.num_columns is None:
            raise InputError(
                f"{self!r} does not tell the number of columns: give the bounds of X, one "
                "half-width for each column, or num_columns."
            )
        return self.num_columns + len(self.resolution_parameters)

    @property
    @override
    def num_latent_columns(self) -> int | None:
        return self.num_columns

    @property
    @override
    def resolution_parameters(self) -> tuple[str, ...]:
        return names_of(self.half_width)

    @override
    def _place(self, A: Tensor) -> tuple[Tensor, Tensor]:
        d = self.num_query_columns - len(self.resolution_parameters)
        return A[..., :d], scale_of(self.half_width, A, d)


@dataclass(frozen=True)
class CellConditional(IndependentConditional):
    """Uniform distribution on a cell of a resolution tree.

    A query has ``d + 1`` columns: the level of the cell, then its center.

    Raises:
        InputError: If half-widths are not positive, or fields have the wrong length.
    """

    half_widths: Matrix
    """Half-widths of cells in raw units, ``d`` for each level from 0 on."""

    lower: Numbers
    """Lower bounds of X, ``d``."""

    upper: Numbers
    """Upper bounds of X."""

    num_nodes: int = 16
    """Gauss-Legendre nodes of each column."""

    outside = "refuse"  # No cell of the tree is outside of X.

    _STANDARD = UNIFORM

    def __post_init__(self) -> None:
        half_widths = matrix(self.half_widths, "half_widths", check=positive_number)
        lower, upper = bounds(self.lower, self.upper, len(half_widths[0]))
        if lower is None:
            raise InputError("lower=None: expected the bounds of X.")
        set_fields(self, half_widths=half_widths, lower=lower, upper=upper)
        check_fields(self, num_nodes=at_least(1))

    @property
    @override
    def num_query_columns(self) -> int:
        return len(self.lower) + 1

    @property
    @override
    def num_latent_columns(self) -> int:
        return len(self.lower)

    @override
    def _check_rows(self, rows: Tensor) -> None:
        count = len(self.half_widths)
        check_indices(rows, count, f"a level from 0 to {count - 1} first")
        super()._check_rows(rows)

    @override
    def _place(self, A: Tensor) -> tuple[Tensor, Tensor]:
        levels = indices(A, len(self.half_widths))
        return A[..., 1:], A.new_tensor(self.half_widths)[levels]
