"""Points that are uniform on a box: around the query, or on a cell of a resolution tree."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import torch
from torch import Tensor
from typing_extensions import override

from ax_costaware.exceptions import InputError
from ax_costaware.queries.argument_checks import (
    integer_at_least,
    nonnegative_number,
)
from ax_costaware.queries.conditionals import fields
from ax_costaware.queries.conditionals.conditional import plain
from ax_costaware.queries.conditionals.fields import Matrix, Numbers
from ax_costaware.queries.conditionals.independent import (
    IndependentConditional,
    uniform_columns,
)
from ax_costaware.queries.conditionals.rules import ColumnNodes


class _BoxConditional(IndependentConditional):
    """The uniform law on a box whose centre and half-widths the query decides."""

    _NODES_PER_REACH = 3.2

    def _box(self, A: Tensor) -> tuple[Tensor, Tensor]:
        """Centres and half-widths, ``... x d`` each."""
        raise NotImplementedError

    @override
    def _columns(self, A: Tensor, num_nodes: int, clip: bool) -> ColumnNodes:
        centre, half_width = self._box(A)
        if not bool((half_width > 0).any()):
            num_nodes = 1
        limits = self._limits(A) if clip else None
        return uniform_columns(centre, half_width, limits, num_nodes)

    @override
    def _quantiles(self, A: Tensor, u: Tensor) -> Tensor:
        centre, half_width = self._box(A)
        return centre.unsqueeze(-2) + (2 * u - 1) * half_width.unsqueeze(-2)

    @override
    def _columns_outside(self, rows: Tensor) -> Tensor:
        centre, half_width = self._box(rows)
        lower, upper = self._limits(rows)
        outside = (lower - centre + half_width).clamp_min(0) + (
            centre + half_width - upper
        ).clamp_min(0)
        width = 2 * half_width
        moving = torch.where(width > 0, width, torch.ones_like(width))
        point = ((centre < lower) | (centre > upper)).to(rows)
        return torch.where(width > 0, (outside / moving).clamp_max(1.0), point)


@dataclass(frozen=True)
class UniformBoxConditional(_BoxConditional):
    """Points that are uniform on the box around the query, which is its centre (``p = d``).

    Raises:
        InputError: For a half-width below zero, or fields of the wrong length.
    """

    half_width: float | Numbers
    """In raw units: a number for all columns, or ``d`` numbers; zero for no spread."""

    lower: Numbers | None = None
    """Lower bounds of X, ``d``; ``None`` where there are none."""

    upper: Numbers | None = None
    """Upper bounds of X."""

    outside: Literal["refuse", "clip", "keep"] = "refuse"
    """What is done with points outside of the bounds; see ``GaussianConditional``."""

    num_nodes: int = 16
    """Gauss-Legendre nodes of each column; clipped laws have the bounds beside them."""

    num_columns: int | None = None
    """``d``, which is needed where neither the half-widths nor the bounds tell it."""

    def __post_init__(self) -> None:
        known = self.num_columns
        if known is not None:
            known = integer_at_least(known, 1, "num_columns")
        half_width: float | Numbers
        is_array = getattr(self.half_width, "ndim", 0) > 0
        if isinstance(self.half_width, list | tuple) or is_array:
            half_width = fields.numbers(self.half_width, "half_width", known)
            for i, number in enumerate(half_width):
                nonnegative_number(number, f"half_width[{i}]")
            known = len(half_width)
        else:
            half_width = nonnegative_number(self.half_width, "half_width")
        fields.set_field(self, "half_width", half_width)
        lower, upper = fields.bounds(self.lower, self.upper, known)
        fields.set_field(self, "lower", lower)
        fields.set_field(self, "upper", upper)
        fields.set_field(self, "num_columns", len(lower) if lower is not None else known)
        fields.outside(self.outside)
        fields.set_field(self, "num_nodes", integer_at_least(self.num_nodes, 1, "num_nodes"))

    @property
    @override
    def num_query_columns(self) -> int:
        if self.num_columns is None:
            raise InputError(
                f"{self!r} does not tell the number of columns: give the bounds of X, one "
                "half-width for each column, or num_columns."
            )
        return self.num_columns

    @property
    @override
    def num_target_columns(self) -> int | None:
        return self.num_columns

    @override
    def within(self, lower: Any, upper: Any) -> Self:
        low, high = fields.bounds(lower, upper, self.num_columns)
        return self if self.lower is not None else replace(self, lower=low, upper=high)

    @override
    def _box(self, A: Tensor) -> tuple[Tensor, Tensor]:
        return A, A.new_tensor(self.half_width).expand_as(A)


@dataclass(frozen=True)
class CellConditional(_BoxConditional):
    """Points that are uniform on a cell of a resolution tree.

    A query has ``d + 1`` columns: the level of the cell, then its centre.

    Raises:
        InputError: For half-widths that are not positive, or fields of the wrong length.
    """

    half_widths: Matrix
    """For each level, from 0 on: the ``d`` half-widths of its cells in raw units."""

    lower: Numbers
    """Lower bounds of X, ``d``."""

    upper: Numbers
    """Upper bounds of X."""

    num_nodes: int = 16
    """Gauss-Legendre nodes of each column."""

    def __post_init__(self) -> None:
        half_widths = fields.matrix(self.half_widths, "half_widths")
        for level, row in enumerate(half_widths):
            if min(row) <= 0:
                raise InputError(f"half_widths[{level}]={row!r}: expected numbers > 0.")
        lower, upper = fields.bounds(self.lower, self.upper, len(half_widths[0]))
        if lower is None:
            raise InputError("lower=None: expected the bounds of X.")
        object.__setattr__(self, "half_widths", half_widths)
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)
        object.__setattr__(self, "num_nodes", integer_at_least(self.num_nodes, 1, "num_nodes"))

    @property
    def outside(self) -> str:
        """A cell that leaves X is none of the tree."""
        return "refuse"

    @property
    @override
    def num_query_columns(self) -> int:
        return len(self.lower) + 1

    @property
    @override
    def num_target_columns(self) -> int:
        return len(self.lower)

    @override
    def within(self, lower: Any, upper: Any) -> Self:
        fields.bounds(lower, upper, self.num_target_columns)
        return self

    @override
    def _check_rows(self, rows: Tensor) -> None:
        level = rows[:, 0]
        bad = (level != level.round()) | (level < 0) | (level >= len(self.half_widths))
        if bool(bad.any()):
            raise InputError(
                f"query {plain(rows[bad][0])}: expected a level from 0 to "
                f"{len(self.half_widths) - 1} first."
            )

    @override
    def _box(self, A: Tensor) -> tuple[Tensor, Tensor]:
        levels = A[..., 0].detach().round().long().clamp(0, len(self.half_widths) - 1)
        return A[..., 1:], A.new_tensor(self.half_widths)[levels]
