"""A search space as columns of a model, and back.

A range is one column to the model: its raw value, or the logarithm or logit of it; a choice its
codes, one number or a one-hot block; a fixed parameter none. A ``Space`` encodes parameterizations
in raw units, decodes points into them, differentiably where a parameter is numeric, and spreads
valid points.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from botorch.utils.sampling import draw_sobol_samples
from torch import Tensor

from ax_costaware.methods.parameters import (
    Choice,
    Fixed,
    FreeParameter,
    Parameter,
    Range,
    Row,
    Value,
)

_MOST_DRAWS = 32
"""Times the wanted number of points that are drawn to meet parameter constraints."""

_EMPTY = 1e-12
"""Weight of a value whose one-hot column is zero, so that a block of zeros has a mean, too."""


@dataclass(frozen=True)
class Column:
    """One free parameter in the model's space."""

    parameter: FreeParameter
    """The parameter."""

    indices: tuple[int, ...]
    """Its columns; several for a one-hot encoded one."""

    codes: Tensor | None
    """The columns for each value of a choice, ``m x len(indices)``; None for a range."""

    @property
    def is_smooth(self) -> bool:
        """Whether it is a range of real numbers."""
        return self.codes is None and not self.parameter.is_integer

    def weights(self, X: Tensor) -> Tensor:
        """How much of each value of a choice is in points ``... x d``: ``... x m``, sum one.

        Between the corners of a one-hot block they follow its columns, which keeps what depends on
        them smooth; an ordered choice takes the nearest value.
        """
        assert self.codes is not None
        codes, block = self.codes.to(X), X[..., list(self.indices)]
        if len(self.indices) > 1:
            parts = block.clamp_min(0.0) @ codes.T + _EMPTY
            shares: Tensor = parts / parts.sum(dim=-1, keepdim=True)
            return shares
        nearest = (block - codes.flatten()).abs().argmin(dim=-1)
        return torch.nn.functional.one_hot(nearest, len(codes)).to(X)

    def raw(self, X: Tensor) -> Tensor:
        """Raw values of a numeric parameter at points ``... x d``, differentiable: ``...``."""
        parameter = self.parameter
        if isinstance(parameter, Choice) and len(self.indices) > 1:
            return self.weights(X) @ X.new_tensor([float(str(v)) for v in parameter.values])
        values: Tensor = X[..., self.indices[0]]
        if parameter.log_scale:
            return torch.pow(10.0, values)
        if isinstance(parameter, Range) and parameter.logit_scale:
            return values.sigmoid()
        return values

    def decode(self, X: Tensor) -> list[Value]:
        """Valid raw values at points ``n x d``."""
        parameter = self.parameter
        if isinstance(parameter, Choice):
            return [parameter.values[i] for i in self.weights(X).argmax(dim=-1).tolist()]
        return [parameter.decode(value) for value in self.raw(X).tolist()]

    def encode(self, value: Any) -> list[float]:
        """The columns of a raw value."""
        if isinstance(self.parameter, Range):
            return [self.parameter.to_column(value)]
        assert self.codes is not None
        found: list[float] = self.codes[self.parameter.index(value)].tolist()
        return found

    def spread(self, u: Tensor, bounds: Tensor) -> Tensor:
        """The columns of valid values spread like ``u``, ``n``, in [0, 1): ``n x len(indices)``."""
        if self.codes is not None:
            return self.codes[(u * len(self.codes)).long().clamp_max(len(self.codes) - 1)]
        lower, upper = bounds[:, self.indices[0]]
        values: Tensor = (lower + u * (upper - lower)).unsqueeze(-1)
        if not self.parameter.is_integer:
            return values
        if self.parameter.log_scale:
            return torch.pow(10.0, values).round().log10()
        return values.round()


@dataclass(frozen=True)
class Space:
    """A search space as the input space of a model, with ``d`` columns."""

    columns: dict[str, Column]
    """The free parameters by name."""

    fixed: dict[str, Value]
    """Values of the fixed ones."""

    bounds: Tensor
    """Bounds of the columns, ``2 x d``."""

    constraints: tuple[Tensor, Tensor] | None = None
    """Parameter constraints ``A x <= b``: ``k x d`` and ``k``."""

    sums: tuple[tuple[dict[str, float], float], ...] = ()
    """The same by parameters: the weights of a sum of raw values, and its greatest value."""

    hidden: dict[str, Parameter] = field(default_factory=dict)
    """Parameters that the model does not see, such as the name of a control set."""

    order: tuple[str, ...] = ()
    """Names of all parameters, hidden ones included, as they were declared."""

    @staticmethod
    def of(
        parameters: Iterable[Parameter],
        sums: Sequence[tuple[Mapping[str, float], float]] = (),
        hidden: Sequence[str] = (),
    ) -> Space:
        """The space of some parameters, choices as their numbers if ordered, else one-hot.

        Args:
            parameters: The parameters.
            sums: Parameter constraints: weights of raw values by name, whose sum is to be at most
                a number.
            hidden: Names of those that the model does not see.
        """
        columns: dict[str, Column] = {}
        by_name = {p.name: p for p in parameters}
        ends: list[tuple[float, float]] = []
        for name, p in by_name.items():
            if isinstance(p, Fixed) or name in hidden:
                continue
            first = len(ends)
            codes = None
            if isinstance(p, Range):
                ends.append((p.to_column(p.lower), p.to_column(p.upper)))
            else:
                codes = torch.tensor(p.codes, dtype=torch.double)
                ends += list(
                    zip(codes.amin(dim=0).tolist(), codes.amax(dim=0).tolist(), strict=True)
                )
            columns[name] = Column(p, tuple(range(first, len(ends))), codes)
        fixed = {name: p.value for name, p in by_name.items() if isinstance(p, Fixed)}
        matrix = torch.zeros(len(sums), len(ends), dtype=torch.double)
        limits = torch.zeros(len(sums), dtype=torch.double)
        for k, (weights, limit) in enumerate(sums):
            held = math.fsum(w * float(str(fixed[n])) for n, w in weights.items() if n in fixed)
            limits[k] = limit - held
            for name, weight in weights.items():
                if name in columns:
                    matrix[k, columns[name].indices[0]] = weight
        return Space(
            columns,
            fixed,
            torch.tensor(ends, dtype=torch.double).reshape(-1, 2).T.contiguous(),
            (matrix, limits) if sums else None,
            tuple((dict(weights), limit) for weights, limit in sums),
            {name: by_name[name] for name in hidden if name in by_name},
            tuple(by_name),
        )

    def to(self, device: torch.device) -> Space:
        """The same with its columns on a device."""
        return replace(self, bounds=self.bounds.to(device))

    @property
    def parameters(self) -> dict[str, Parameter]:
        """All parameters but hidden ones, by name, as they were declared."""
        found: dict[str, Parameter] = {n: c.parameter for n, c in self.columns.items()}
        found |= {name: Fixed(name, value) for name, value in self.fixed.items()}
        return {name: found[name] for name in self.order if name in found}

    @property
    def names(self) -> list[str]:
        """Names of all parameters but hidden ones."""
        return list(self.parameters)

    @property
    def smooth(self) -> set[int]:
        """Columns of ranges of real numbers."""
        return {c.indices[0] for c in self.columns.values() if c.is_smooth}

    @cached_property
    def inequality_constraints(self) -> list[tuple[Tensor, Tensor, float]]:
        """``constraints`` as BoTorch has them, ``(indices, coefficients, rhs)``."""
        found = []
        for row, limit in zip(*(self.constraints or ((), ())), strict=True):
            (indices,) = row.nonzero(as_tuple=True)
            # Ours say ``A x <= b``, BoTorch's ``sum_i c_i x_i >= rhs``.
            found.append((indices, -row[indices], -float(limit)))
        return found

    def is_numeric(self, name: str) -> bool:
        """Whether a parameter has raw values that a formula can read."""
        return self.parameters[name].is_numeric

    def raw(self, name: str, X: Tensor) -> Tensor:
        """Raw values of a numeric parameter at points ``... x d``, differentiable: ``...``."""
        if name in self.columns:
            return self.columns[name].raw(X)
        return X.new_full(X.shape[:-1], float(str(self.fixed[name])))

    def decode(self, X: Tensor) -> list[dict[str, Value]]:
        """Valid parameterizations in raw units at points ``n x d``."""
        values = [column.decode(X) for column in self.columns.values()]
        rows = zip(*values, strict=True) if values else [()] * len(X)
        return [
            self.ordered({**dict(zip(self.columns, row, strict=True)), **self.fixed})
            for row in rows
        ]

    def ordered(self, row: Row) -> dict[str, Value]:
        """A parameterization in the order in which the parameters were declared."""
        return {name: row[name] for name in self.order if name in row}

    def encode(self, rows: Sequence[Row]) -> Tensor:
        """Parameterizations in raw units as points ``n x d``; what is no parameter is left out."""
        X = self.bounds.new_empty(len(rows), self.bounds.shape[-1])
        if not rows:
            return X
        for name, column in self.columns.items():
            values = [column.encode(row[name]) for row in rows]
            X[:, list(column.indices)] = X.new_tensor(values).reshape(len(rows), -1)
        return X

    def held_columns(self, fixed: Row) -> dict[int, float]:
        """Columns that some parameters fix, with their values."""
        return {
            i: value
            for name in fixed
            if name in self.columns
            for i, value in zip(
                self.columns[name].indices, self.columns[name].encode(fixed[name]), strict=True
            )
        }

    def meets(self, row: Row, among: Iterable[str] | None = None) -> bool:
        """Whether a parameterization meets the parameter constraints.

        Args:
            row: The parameterization, in raw units.
            among: Only constraints that read one of these parameters; None: all.
        """
        of_interest = None if among is None else set(among)
        for weights, limit in self.sums:
            if of_interest is None or of_interest & weights.keys():
                total = math.fsum(w * float(str(row[name])) for name, w in weights.items())
                if total > limit + 1e-8:
                    return False
        return True

    def sobol_rows(self, n: int, seed: int = 0) -> list[dict[str, Value]]:
        """Quasi-random parameterizations in raw units, whatever the constraints say."""
        free = [column.parameter for column in self.columns.values()]
        engine = torch.quasirandom.SobolEngine(max(len(free), 1), scramble=True, seed=seed)
        return [
            {**self.fixed, **{p.name: p.at(u) for p, u in zip(free, point, strict=False)}}
            for point in engine.draw(n, dtype=torch.double).tolist()
        ]

    def sobol_points(self, n: int, seed: int, fixed: Mapping[int, float] | None = None) -> Tensor:
        """Quasi-random points of the space that are valid and different.

        Args:
            n: How many to look for.
            seed: Seed of the sequence.
            fixed: Values of columns that are held.

        Returns:
            At most ``n x d`` points; fewer where the space has fewer, or where constraints leave
            little of it, and possibly none.
        """
        cube = self.bounds.new_tensor([[0.0] * len(self.columns), [1.0] * len(self.columns)])
        draws = n * (1 if self.constraints is None else _MOST_DRAWS)
        u = draw_sobol_samples(cube, n=draws, q=1, seed=seed).squeeze(-2)
        X = self.bounds.new_zeros(draws, self.bounds.shape[-1])
        for i, column in enumerate(self.columns.values()):
            X[:, list(column.indices)] = column.spread(u[:, i], self.bounds).to(X)
        for index, value in (fixed or {}).items():
            X[:, index] = value
        if self.constraints is not None:
            A, b = (part.to(X) for part in self.constraints)
            X = X[(b + 1e-9 >= X @ A.T).all(dim=-1)][:n]
        different: Tensor = X.unique(dim=0)
        return different
