"""Hierarchical search spaces: parameters that are active under conditions.

Inactive parameters have their middle value in the model and in searches, so that points which
differ in nothing else are one point.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from ax_costaware.space.parameters import Choice, Column, Fixed, Parameter, Row, Value, takes


class Condition(NamedTuple):
    """Condition under which a parameter is active: another one has one of some values."""

    parent: str
    """Name of the choice on which the parameter depends."""

    values: tuple[Value, ...]
    """Values of the choice with which it is active."""

    def __str__(self) -> str:
        return " or ".join(f"{self.parent}={value!r}" for value in self.values)


def takes_any(value: Value, values: Sequence[Value]) -> bool:
    """True if a value is one of others, to rounding."""
    return any(takes(Fixed("", known), value) for known in values)


@dataclass(frozen=True)
class Hierarchy:
    """Conditions of a space, on its parameters and on the model's columns."""

    conditions: Mapping[str, Condition]
    """Condition of each parameter that is not always active, by its name."""

    parameters: Mapping[str, Parameter]
    """All parameters by name."""

    columns: Mapping[str, Column]
    """Columns of the free parameters, by name; those of a parent are one-hot."""

    def ancestors(self, name: str) -> list[str]:
        """Return the choices on which a parameter depends, the nearest one first."""
        found: list[str] = []
        while name in self.conditions:
            name = self.conditions[name].parent
            found.append(name)
        return found

    def is_active(self, name: str, row: Row) -> bool:
        """True if a parameter is active in a parameterization."""
        while name in self.conditions:
            name, values = self.conditions[name]
            if name not in row or not takes_any(row[name], values):
                return False
        return True

    def active(self, row: Row) -> dict[str, Value]:
        """Return the active parameters of a parameterization."""
        return {name: value for name, value in row.items() if self.is_active(name, row)}

    def inactive(self, row: Row) -> set[str]:
        """Return the names of the inactive parameters of a parameterization."""
        return {name for name in self.conditions if not self.is_active(name, row)}

    def middle(self, names: Iterable[str]) -> dict[str, Value]:
        """Return the middle value of some parameters."""
        known = {name: self.parameters[name] for name in names if name in self.parameters}
        return {n: p.value if isinstance(p, Fixed) else p.at(0.5) for n, p in known.items()}

    def are_active(self, names: Iterable[str], X: Tensor) -> Tensor:
        """Return a mask of the points ``... x d`` at which all named parameters are active."""
        found = torch.ones(X.shape[:-1], dtype=torch.bool, device=X.device)
        for name in names:
            while name in self.conditions:
                name, values = self.conditions[name]
                parent = self.parameters[name]
                if isinstance(parent, Fixed):
                    found &= takes_any(parent.value, values)
                else:
                    found &= X[..., self._columns_with(name, values)].sum(dim=-1) > 0.5
        return found

    def pin(self, X: Tensor) -> Tensor:
        """Return points ``... x d`` with the middle value of inactive parameters."""
        active = torch.ones_like(X, dtype=torch.bool)
        middle = torch.zeros_like(X)
        for name, columns, values in self._middles:
            active[..., columns] = self.are_active([name], X).unsqueeze(-1)
            middle[..., columns] = X.new_tensor(values)
        return torch.where(active, X, middle)

    @cached_property
    def _middles(self) -> list[tuple[str, list[int], list[float]]]:
        """Columns of each parameter with a condition, and their values at its middle."""
        found = {name: self.columns[name] for name in self.conditions if name in self.columns}
        return [
            (name, list(column.indices), column.encode(column.parameter.at(0.5)))
            for name, column in found.items()
        ]

    def _columns_with(self, name: str, values: Sequence[Value]) -> list[int]:
        """Return the one-hot columns of some values of a choice."""
        column = self.columns[name]
        assert isinstance(column.parameter, Choice)
        return [column.indices[column.parameter.index(value)] for value in values]

    def where_active(
        self, names: Iterable[str], row: Tensor, rhs: float, bounds: Tensor
    ) -> tuple[Tensor, float]:
        """Let a constraint ``row @ x >= rhs`` hold wherever a parameter of it is inactive.

        One-hot columns of the values with which one is inactive get a large weight ("big M").

        Args:
            names: Names of the parameters in it.
            row: ``d`` weights.
            rhs: The right-hand side.
            bounds: ``2 x d`` bounds of the columns.
        """
        least = float(torch.minimum(row * bounds[0], row * bounds[1]).sum())
        enough, row = max(rhs - least, 0.0) + 1.0, row.clone()
        chain = {name for each in names for name in (each, *self.ancestors(each))}
        for name, values in (self.conditions[each] for each in chain & self.conditions.keys()):
            parent = self.parameters[name]
            if isinstance(parent, Fixed):
                rhs -= 0.0 if takes_any(parent.value, values) else enough
                continue
            with_it = self._columns_with(name, values)
            row[[i for i in self.columns[name].indices if i not in with_it]] += enough
        return row, rhs
