"""Adapter of the resolution-tree method: which cells are leaves, and which may be measured next.

The tree is rebuilt from the trials before every decision. Those that are under way count as
measured, so that a batch goes on below them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
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
from ax_costaware.policies.resolution_tree import Cell
from ax_costaware.records import LEVEL


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
        active = every
        if fixed:
            active = tuple(c for c in every if _agree(settings.parameters_of(c), fixed))
        if not active:
            raise UserInputError(
                f"the caller fixed {dict(fixed)}, which is none of the cells that may be measured "
                "next: attach the trial instead."
            )
        paid = [where.pays(tree.cost(level)) for level in range(tree.max_level + 1)]
        cells = tuple(cell for cell in active if paid[cell.level])
        points = self._cell_points(space, cells) if cells else space.bounds[:0]
        return QueryRegion(
            bounds=space.bounds,
            starts=points,
            held=tuple(range(space.bounds.shape[-1])),
            constraints=[],
            cells=cells,
            known={"leaves": len(leaves), "active": len(every)},
        )

    def _cell_points(self, space: DecodedSpace, cells: Sequence[Cell]) -> Tensor:
        """Cells in the model's space: every parameter of a tree has a linear scale there.

        Ax would copy and transform them, of which there may be thousands, one by one.
        """
        tree, names = self.settings.tree, self.settings.target_names
        ends = [
            {LEVEL: level, **dict(zip(names, values, strict=True))}
            for level, values in ((0, tree.lower), (tree.max_level, tree.upper))
        ]
        lower, upper = self.model_points(ends)
        widths = np.array(tree.upper) - np.array(tree.lower)
        shares = (tree.centres(cells) - np.array(tree.lower)) / widths
        levels = np.array([cell.level for cell in cells]) / tree.max_level
        by_name = {LEVEL: levels, **dict(zip(names, shares.T, strict=True))}
        points: Tensor = lower.repeat(len(cells), 1)
        for name, share in by_name.items():
            (column,) = space.columns[name].indices
            width = upper[column] - lower[column]
            points[:, column] += width * torch.from_numpy(share).to(lower)
        return points


def _agree(row: Mapping[str, Any], fixed: Mapping[str, TParamValue]) -> bool:
    return all(row[name] == value for name, value in fixed.items() if name in row)
