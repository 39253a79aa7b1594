"""Settings of the resolution-tree method: everything that a decision depends on besides the trials.

The method is CMETS of Zhang et al. 2024, "Indirect Query Bayesian
Optimization with Integrated Feedback", section 5.2. A ``ResolutionTreeSettings`` is checked when it
is made, is compared by value, and survives Ax's JSON and SQL stores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from ax.exceptions.core import UserInputError
from torch import Tensor

from ax_costaware.exceptions import InputError
from ax_costaware.generators.target_parameters import TargetRange
from ax_costaware.generators.target_settings import TargetSettings
from ax_costaware.policies.resolution_tree import Cell, ResolutionTree
from ax_costaware.queries.conditionals import CellConditional
from ax_costaware.records import LEVEL


@dataclass(frozen=True, kw_only=True)
class ResolutionTreeSettings(TargetSettings):
    """What the resolution-tree strategy was asked to do.

    Raises:
        UserInputError: On construction, when a field has a value that the method cannot use.
    """

    method: ClassVar[str] = "resolution_tree_strategy"

    max_level: int
    """The finest level; the root, the whole space, is level 0."""

    splits: int | tuple[int, ...] = 2
    """Into how many parts a cell is split along every column, or along each."""

    costs: tuple[float, ...] | None = None
    """Cost of measuring a cell of each level; None: ``0.5 (level + 1)``."""

    noise_sd: tuple[float, ...] | float | None = None
    """Standard deviation of the noise of a measurement at each level, or at all; None: fitted."""

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        super().__post_init__()
        for parameter in self.target_parameters:
            if (
                not isinstance(parameter, TargetRange)
                or parameter.is_integer
                or parameter.log_scale
            ):
                raise UserInputError(
                    f"target_parameters has {parameter!r}: cells are boxes, so it has to be a "
                    "range of real numbers without a log scale."
                )
            if parameter.name == LEVEL:
                raise UserInputError(
                    f"target_parameters has the name {LEVEL!r}, which is that of the level."
                )
        for name in ("splits", "costs", "noise_sd"):
            value = getattr(self, name)
            if hasattr(value, "tolist"):
                value = value.tolist()
            if isinstance(value, list):
                set_field(self, name, tuple(value))
        tree = self.tree
        if tree.noise is not None and min(self._noise_of_levels) <= 0:
            raise UserInputError(f"noise={self.noise_sd!r}: expected numbers > 0.")

    @cached_property
    def tree(self) -> ResolutionTree:
        """The cells, their costs and noise."""
        lower, upper = self.target_bounds
        try:
            return ResolutionTree(
                lower,
                upper,
                self.max_level,
                splits=self.splits,
                costs=self.costs,
                noise=self.noise_sd,
            )
        except InputError as error:
            raise UserInputError(str(error)) from error

    @cached_property
    def law(self) -> CellConditional:
        """Uniform on the cell of a query: its level, then its centre."""
        tree = self.tree
        return CellConditional(
            tuple(tree.half_widths(level) for level in range(tree.max_level + 1)),
            tree.lower,
            tree.upper,
        )

    @property
    def noise(self) -> Callable[[Tensor], Tensor] | None:
        """Variance of the observation noise at queries ``n x p`` in raw units; None: fitted."""
        if self.tree.noise is None:
            return None
        variances = [sd**2 for sd in self._noise_of_levels]
        return lambda A: A.new_tensor(variances)[A[..., 0].detach().round().to(torch.long)]

    def query_names(self, parameters: Iterable[str]) -> tuple[str, ...]:
        """The level, then the centre."""
        return LEVEL, *self.target_names

    def cell_of(self, parameters: Mapping[str, Any]) -> Cell:
        """The cell of a parameterization.

        Raises:
            UserInputError: If it is no cell of the tree.
        """
        try:
            centre = [parameters[name] for name in self.target_names]
            return self.tree.cell_at(parameters[LEVEL], centre)
        except (InputError, KeyError) as error:
            raise UserInputError(f"{dict(parameters)} is no cell of the tree: {error}") from error

    def parameters_of(self, cell: Cell) -> dict[str, Any]:
        """The parameterization of a cell."""
        return {
            LEVEL: cell.level,
            **dict(zip(self.target_names, self.tree.centre(cell), strict=True)),
        }

    def cost_at(self, parameters: Mapping[str, Any]) -> float:
        """What measuring a cell costs, by its parameters.

        Raises:
            UserInputError: If it is no cell of the tree.
        """
        return self.tree.cost(self.cell_of(parameters).level)

    @property
    def _noise_of_levels(self) -> list[float]:
        levels = range(self.tree.max_level + 1)
        return [float(self.tree.noise_of(level) or 0.0) for level in levels]
