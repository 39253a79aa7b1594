"""What conditionals with bounds and with independent columns share."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor
from torch.quasirandom import SobolEngine
from typing_extensions import override

from ax_costaware.exceptions import InputError
from ax_costaware.queries.conditionals.conditional import Conditional, plain
from ax_costaware.queries.conditionals.fields import Array, Numbers
from ax_costaware.queries.conditionals.rules import ColumnNodes, JointNodes
from ax_costaware.queries.gauss_rule import gauss_legendre

MOST_OUTSIDE = 1e-3
"""The greatest probability outside of X that ``outside="refuse"`` lets pass."""

MOST_GRID_COLUMNS = 3
"""With more columns, joint nodes are quasi-random ones in place of a grid."""

MOST_JOINT_NODES = 64
"""The most joint nodes of a query; a model takes the kernel between all nodes of all data."""

_MOST_REFINED = 16
"""How many times more nodes are taken at most where length-scales are short."""


class BoundedConditional(Conditional):
    """A known law, and the bounds of X that it may leave.

    Subclasses are dataclasses with the fields ``lower``, ``upper`` and ``outside``.
    """

    lower: Numbers | None
    upper: Numbers | None
    outside: Any

    @override
    def check_queries(self, A: Tensor) -> None:
        super().check_queries(A)
        if self.lower is None or self.upper is None or self.outside != "refuse":
            return
        rows = A.detach().reshape(-1, A.shape[-1])
        if len(rows) == 0:
            return
        probability = self._probability_outside(rows)
        worst = int(probability.argmax())
        if float(probability[worst]) > MOST_OUTSIDE:
            raise InputError(
                f"query {plain(rows[worst])}: its points are outside of X, from {self.lower} to "
                f"{self.upper}, with a probability of up to {float(probability[worst]):.3g}. "
                f'Expected at most {MOST_OUTSIDE:g}; outside="clip" moves them to the bounds, '
                'outside="keep" says that the objective exists there too.'
            )

    def _limits(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """The bounds as tensors; infinite where there are none."""
        if self.lower is None or self.upper is None:
            infinite = torch.full((self.num_target_columns or 1,), torch.inf).to(like)
            return -infinite, infinite
        return like.new_tensor(self.lower), like.new_tensor(self.upper)

    @property
    def _clips(self) -> bool:
        return self.lower is not None and self.outside == "clip"

    def _clipped(self, rule: JointNodes) -> JointNodes:
        """Joint nodes, moved to the bounds where they are outside and that is what is asked."""
        if not self._clips:
            return rule
        lower, upper = self._limits(rule.nodes)
        return JointNodes(torch.minimum(torch.maximum(rule.nodes, lower), upper), rule.weights)

    @abstractmethod
    def _probability_outside(self, rows: Tensor) -> Tensor:
        """The probability ``n`` that a point of the queries ``n x p`` is outside of the bounds."""


class IndependentConditional(BoundedConditional):
    """A law under which the columns of X are independent.

    Subclasses are dataclasses with the field ``num_nodes``.
    """

    num_nodes: int

    _NODES_PER_REACH: ClassVar[float]
    """Nodes that a rule needs for each length-scale that it reaches from its middle; averages of a
    squared-exponential kernel are then right to about 1e-7."""

    @override
    def refinement(self, reach: float) -> int:
        needed = self._NODES_PER_REACH * reach / self.num_nodes
        factor = 1
        while factor < needed and factor < _MOST_REFINED:
            factor *= 2
        return factor

    @override
    def refined(self, factor: int) -> Self:
        return replace(self, num_nodes=factor * self.num_nodes)  # type: ignore[type-var]

    @override
    def column_rule(self, A: Tensor) -> ColumnNodes | None:
        self.check_shape(A)
        return self._columns(A, self.num_nodes, self._clips)

    @override
    def joint_rule(self, A: Tensor) -> JointNodes:
        self.check_shape(A)
        rule = self._columns(A, 1, False)
        d = rule.nodes.shape[-1]
        if d <= MOST_GRID_COLUMNS:
            rule = self._columns(A, min(self.num_nodes, grid_side(d)), False)
            return self._clipped(rule.product())
        nodes = self._quantiles(A, sobol_points(d, A))
        weights = torch.full_like(nodes[..., 0], 1 / MOST_JOINT_NODES)
        return self._clipped(JointNodes(nodes, weights))

    @override
    def _probability_outside(self, rows: Tensor) -> Tensor:
        return 1 - (1 - self._columns_outside(rows)).prod(dim=-1)

    @abstractmethod
    def _columns(self, A: Tensor, num_nodes: int, clip: bool) -> ColumnNodes:
        """The rules of the columns, of about this many nodes."""

    @abstractmethod
    def _quantiles(self, A: Tensor, u: Tensor) -> Tensor:
        """Points ``... x n x d`` at the probabilities ``n x d`` of each column, not clipped."""

    @abstractmethod
    def _columns_outside(self, rows: Tensor) -> Tensor:
        """The probabilities ``n x d`` that a column is outside of its bounds."""


def grid_side(num_columns: int) -> int:
    """How many nodes a grid may have in each column."""
    return int(MOST_JOINT_NODES ** (1 / num_columns) + 1e-9)


def sobol_points(num_columns: int, like: Tensor) -> Tensor:
    """Scrambled Sobol points ``MOST_JOINT_NODES x d`` in the open unit cube, always the same."""
    return torch.as_tensor(_sobol_points(num_columns)).to(like)


@lru_cache(maxsize=16)
def _sobol_points(num_columns: int) -> Array:
    engine = SobolEngine(num_columns, scramble=True, seed=0)
    u: Array = engine.draw(MOST_JOINT_NODES, dtype=torch.double).numpy()
    return np.clip(u, 1e-9, 1 - 1e-9)


def uniform_columns(
    centre: Tensor, half_width: Tensor, limits: tuple[Tensor, Tensor] | None, num_nodes: int
) -> ColumnNodes:
    """Rules of the uniform laws on ``centre`` plus or minus ``half_width``, both ``... x d``.

    Args:
        centre: Centres of the intervals.
        half_width: Their half-widths; zero for a point.
        limits: The bounds ``d`` that points outside are moved to, or ``None``.
        num_nodes: Number of Gauss-Legendre nodes on the part inside.
    """
    standard, weights = (torch.tensor(v).to(centre) for v in gauss_legendre(num_nodes))
    if limits is None:
        nodes = centre.unsqueeze(-2) + standard[:, None] * half_width.unsqueeze(-2)
        return ColumnNodes(nodes, weights[:, None].expand_as(nodes))
    lower, upper = limits
    start = torch.minimum(torch.maximum(centre - half_width, lower), upper)
    end = torch.minimum(torch.maximum(centre + half_width, lower), upper)
    width = 2 * half_width
    safe = torch.where(width > 0, width, torch.ones_like(width))
    below = ((lower - centre + half_width) / safe).clamp(0.0, 1.0)
    above = ((centre + half_width - upper) / safe).clamp(0.0, 1.0)
    # A point is a node of its own, at the bound where it is outside.
    below = torch.where(width > 0, below, torch.zeros_like(below))
    above = torch.where(width > 0, above, torch.zeros_like(above))
    inside = 1 - below - above
    middle, half = (start + end) / 2, (end - start) / 2
    nodes = torch.cat(
        [
            lower.expand_as(middle).unsqueeze(-2),
            middle.unsqueeze(-2) + standard[:, None] * half.unsqueeze(-2),
            upper.expand_as(middle).unsqueeze(-2),
        ],
        dim=-2,
    )
    masses = torch.cat(
        [
            below.unsqueeze(-2),
            weights[:, None] * inside.unsqueeze(-2),
            above.unsqueeze(-2),
        ],
        dim=-2,
    )
    return ColumnNodes(nodes, masses)
