"""Rows of a table of candidates in the columns of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from ax_costaware.exceptions import InputError
from ax_costaware.space.candidates import Candidates
from ax_costaware.space.parameters import Choice, Column, Parameter, Range, Row, Value, takes

_AT_ONCE = 2**22
"""Distances in memory."""


@dataclass(frozen=True, eq=False)
class Listed:
    """Rows of a table that a trial may have."""

    candidates: Candidates
    """The table."""

    indices: tuple[int, ...]
    """Columns of the model that a row sets together."""

    points: Tensor
    """The rows in these columns, ``m x len(indices)``."""

    positions: Tensor
    """Positions of the rows in the table, ``m``."""

    values: Mapping[str, Sequence[Value]]
    """Columns of the whole table, with values as the parameters have them."""

    @staticmethod
    def of(
        candidates: Candidates, parameters: Mapping[str, Parameter], columns: Mapping[str, Column]
    ) -> Listed:
        """Return the rows of a table.

        Args:
            candidates: The table.
            parameters: All parameters of the space, by name.
            columns: Columns of the free ones.

        Raises:
            InputError: If a column is no parameter, or a parameter does not take a value.
        """
        indices: list[int] = []
        points: list[Tensor] = []
        plain: dict[str, Sequence[Value]] = {}
        for name in candidates.names:
            if name not in parameters:
                raise InputError(
                    f"candidates has the column {name!r}, which is no parameter: expected names "
                    f"out of {list(parameters)}, or cost or descriptors to name it."
                )
            parameter, column = parameters[name], candidates.table[name]
            known = {value: i for i, value in enumerate(dict.fromkeys(column))}
            for value in known:
                if not takes(parameter, value):
                    raise InputError(
                        f"candidates has {value!r} in row {column.index(value)} of {name!r}: "
                        f"expected a value of {parameter}."
                    )
            taken = [_as_taken(parameter, value) for value in known]
            at = [known[value] for value in column]
            plain[name] = [taken[i] for i in at]
            if name in columns:
                codes = [columns[name].encode(value) for value in taken]
                points.append(torch.tensor(codes, dtype=torch.double)[at])
                indices += columns[name].indices
        if not indices:
            raise InputError(
                f"candidates has the columns {list(candidates.names)}, whose parameters have one "
                "value each: expected a parameter with several values."
            )
        every = torch.arange(len(candidates))
        return Listed(candidates, tuple(indices), torch.cat(points, dim=-1), every, plain)

    def __len__(self) -> int:
        return len(self.positions)

    def row(self, i: int) -> dict[str, Value]:
        """Return the parameterization of one of the rows."""
        position = int(self.positions[i])
        return {name: column[position] for name, column in self.values.items()}

    def has(self, row: Row) -> bool:
        """True if a parameterization has the values of one of the rows."""
        found = self.candidates.find(row)
        return found is not None and (self._is_whole or found in self._kept)

    @property
    def _is_whole(self) -> bool:
        return len(self) == len(self.candidates)

    @cached_property
    def _kept(self) -> set[int]:
        return {*self.positions.tolist()}

    def at(self, fixed: Mapping[int, float], tolerance: Tensor) -> Listed:
        """Return the rows with given values of some columns.

        Args:
            fixed: Values of columns by index; of other columns than ``indices`` they are ignored.
            tolerance: Tolerance of each column of the model, ``d``.
        """
        held = {i: value for i, value in fixed.items() if i in self.indices}
        if not held:
            return self
        places = [self.indices.index(i) for i in held]
        given = self.points.new_tensor([*held.values()])
        near = (self.points[:, places] - given).abs() <= tolerance.to(given)[[*held]]
        keep = near.all(dim=-1)
        return replace(self, points=self.points[keep], positions=self.positions[keep])

    def without(self, i: int) -> Listed:
        """Return all rows but one."""
        keep = torch.arange(len(self)) != i
        return replace(self, points=self.points[keep], positions=self.positions[keep])

    def spread(self, n: int, seed: int) -> Tensor:
        """Return rows in random order, as few of them twice as possible, ``n x len(indices)``."""
        generator = torch.Generator().manual_seed(seed)
        rounds = [torch.randperm(len(self), generator=generator) for _ in range(-(-n // len(self)))]
        return self.points[torch.cat(rounds)[:n]]

    def index(self, X: Tensor, widths: Tensor) -> Tensor:
        """Return the row of each point ``n x d``, or the nearest one, ``n``.

        Args:
            X: The points.
            widths: Widths of the columns of the model, ``d``, in which distances are measured.
        """
        points = X.detach()[:, list(self.indices)].to(self.points)
        found = [self._by_bytes.get(point.tobytes(), -1) for point in points.numpy()]
        index = torch.tensor(found, dtype=torch.long)
        unknown = (index < 0).nonzero().flatten()
        if len(unknown):
            index[unknown] = self.nearest(X[unknown], widths, 1)[:, 0]
        return index

    def nearest(self, X: Tensor, widths: Tensor, count: int) -> Tensor:
        """Return the nearest rows of points ``n x d``, nearest first, ``n x count``."""
        scale = widths.to(self.points)[list(self.indices)]
        scale = torch.where(scale > 0, scale, 1.0)
        rows = self.points / scale
        points = X.detach()[:, list(self.indices)].to(self.points) / scale
        count = min(count, len(rows))
        found = [
            torch.cdist(part, rows).topk(count, largest=False).indices
            for part in points.split(max(_AT_ONCE // len(rows), 1))
        ]
        return torch.cat(found)

    @cached_property
    def _by_bytes(self) -> dict[bytes, int]:
        return {point.tobytes(): i for i, point in enumerate(self.points.numpy())}


def _as_taken(parameter: Parameter, value: Value) -> Value:
    """Return a value in the type of its parameter, such as the integer 2 for 2.0."""
    if isinstance(parameter, Range):
        return int(float(str(value))) if parameter.is_integer else float(str(value))
    if isinstance(parameter, Choice):
        return parameter.values[parameter.index(value)]
    return parameter.value


@dataclass(frozen=True)
class ListedCosts:
    """Cost of a trial by the table of candidates, as a function of its parameterization."""

    candidates: Candidates
    """The table, with a column of costs."""

    def __call__(self, row: Row) -> float:
        """Return the cost of a trial.

        Raises:
            InputError: If it is no row of the table.
        """
        found = self.candidates.find(row)
        if found is None:
            raise InputError(f"{dict(row)} is no row of candidates, which has the costs.")
        return self.candidates.costs[found]
