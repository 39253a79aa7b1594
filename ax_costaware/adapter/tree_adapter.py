"""Adapter of the resolution-tree method: which cells are leaves, and which may be measured next.

The tree is rebuilt from the trials before every decision. Those that are under way count as
measured, so that a batch goes on below them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from ax.core.parameter import RangeParameter
from ax.core.types import TParamValue
from ax.exceptions.core import UserInputError
from torch import Tensor

from ax_costaware.acquisition.log_cost import CostFunction
from ax_costaware.adapter.decoded_space import DecodedSpace
from ax_costaware.adapter.indirect_adapter import IndirectAdapter
from ax_costaware.adapter.tree_checks import check_tree_experiment, measured_cells
from ax_costaware.generators.indirect_generator import QueryRegion
from ax_costaware.generators.query_standing import QueryStanding
from ax_costaware.generators.tree_settings import ResolutionTreeSettings


class TreeAdapter(IndirectAdapter):
    """The adapter of the resolution-tree method; see the module for what differs."""

    @property
    def settings(self) -> ResolutionTreeSettings:
        """The settings of the strategy."""
        settings = self.indirect_generator.settings
        assert isinstance(settings, ResolutionTreeSettings)
        return settings

    def check_experiment(self) -> None:
        """Check that the experiment fits the settings; see ``check_tree_experiment``."""
        check_tree_experiment(self.experiment, self.settings)

    def cost_function(self, space: DecodedSpace) -> CostFunction:
        """Not used: the tree knows what its cells cost."""
        return 1.0

    def _region(
        self,
        space: DecodedSpace,
        seed: int,
        fixed: Mapping[str, TParamValue],
        cost: CostFunction,
        where: QueryStanding,
        undelivered: list[dict[str, Any]],
    ) -> QueryRegion:
        """The leaves and their children, as far as they can be paid."""
        settings, tree = self.settings, self.settings.tree
        measured = measured_cells(self.experiment, settings)
        measured += [settings.cell_of(row) for row in undelivered]
        leaves = tree.leaves(measured)
        every = tree.with_children(leaves)
        active = {cell: settings.parameters_of(cell) for cell in every}
        active = {cell: row for cell, row in active.items() if _agree(row, fixed)}
        if not active:
            raise UserInputError(
                f"the caller fixed {dict(fixed)}, which is none of the cells that may be measured "
                "next: attach the trial instead."
            )
        cells = [cell for cell in active if where.pays(tree.cost(cell.level))]
        points = space.bounds[:0]
        if cells:
            points = self._cell_points(space, [active[cell] for cell in cells])
        return QueryRegion(
            bounds=space.bounds,
            starts=points,
            held=tuple(range(space.bounds.shape[-1])),
            constraints=[],
            cells=tuple(cells),
            known={"leaves": len(leaves), "active": len(every)},
        )

    def _cell_points(self, space: DecodedSpace, rows: list[dict[str, Any]]) -> Tensor:
        """Cells in the model's space: every parameter of a tree has a linear scale there.

        Ax would copy and transform the rows, of which there may be thousands, one by one.
        """
        parameters = {
            parameter.name: parameter
            for parameter in self.experiment.search_space.parameters.values()
            if isinstance(parameter, RangeParameter) and parameter.name in rows[0]
        }
        lower, upper = self.model_points(
            [
                {name: parameter.lower for name, parameter in parameters.items()},
                {name: parameter.upper for name, parameter in parameters.items()},
            ]
        )
        shares = torch.zeros(len(rows), len(lower), dtype=torch.double)
        for name, parameter in parameters.items():
            (column,) = space.columns[name].indices
            values = np.array([row[name] for row in rows], dtype=float)
            low, high = float(parameter.lower), float(parameter.upper)
            shares[:, column] = torch.from_numpy((values - low) / (high - low))
        shares = shares.to(lower)
        points: Tensor = lower + (upper - lower) * shares
        return points


def _agree(row: Mapping[str, Any], fixed: Mapping[str, TParamValue]) -> bool:
    return all(row[name] == value for name, value in fixed.items() if name in row)
