"""What conditionals share whose columns of X are independent."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
from torch import Tensor
from torch.special import ndtr, ndtri
from typing_extensions import override

from ax_costaware.exceptions import InputError
from ax_costaware.laws.conditionals.conditional import (
    BoundedConditional,
    ColumnNodes,
    JointNodes,
    plain,
)
from ax_costaware.laws.quadrature import NORMAL_REACH, gauss_legendre, normal_rule, uniforms
from ax_costaware.laws.tables import Array

MOST_OUTSIDE = 1e-3
"""The greatest probability outside of X that ``outside="refuse"`` lets pass."""

MOST_GRID_COLUMNS = 3
"""With more columns, joint nodes are quasi-random ones in place of a grid."""

MOST_JOINT_NODES = 64
"""The most joint nodes of a query; a model takes the kernel between all nodes of all data."""

_MOST_REFINED = 16
"""How many times more nodes are taken at most where length-scales are short."""


@dataclass(frozen=True)
class StandardLaw:
    """A law of one column, symmetric about zero, which a query moves and scales."""

    rule: Callable[[int], tuple[Array, Array]]
    """Nodes and weights of a number of nodes."""

    density: Callable[[Tensor], Tensor]
    cdf: Callable[[Tensor], Tensor]
    icdf: Callable[[Tensor], Tensor]

    reach: float
    """Its mass is within this distance of zero."""

    clipped_nodes: int
    """Gauss-Legendre nodes of a clipped law, for each node of one that is not."""

    nodes_per_reach: float
    """Nodes that a rule needs for each length-scale that it reaches from its middle; averages of a
    squared-exponential kernel are then right to about 1e-7."""


UNIFORM = StandardLaw(
    rule=gauss_legendre,
    density=lambda t: torch.full_like(t, 0.5),
    cdf=lambda t: ((t + 1) / 2).clamp(0.0, 1.0),
    icdf=lambda u: 2 * u - 1,
    reach=1.0,
    clipped_nodes=1,
    nodes_per_reach=3.2,
)

NORMAL = StandardLaw(
    rule=normal_rule,
    density=lambda t: torch.exp(-0.5 * t**2) / math.sqrt(2 * math.pi),
    cdf=ndtr,
    icdf=ndtri,
    reach=NORMAL_REACH,
    clipped_nodes=2,
    nodes_per_reach=1.95,
)


class IndependentConditional(BoundedConditional):
    """A law under which the columns of X are independent: a standard one, moved and scaled.

    Subclasses are dataclasses with the field ``num_nodes``.
    """

    num_nodes: int

    _STANDARD: ClassVar[StandardLaw]

    @abstractmethod
    def _place(self, A: Tensor) -> tuple[Tensor, Tensor]:
        """Centres and scales of the columns, ``... x d`` each; a scale is zero for a point."""

    @override
    def _check_rows(self, rows: Tensor) -> None:
        if self.lower is None or self.outside != "refuse" or len(rows) == 0:
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

    @override
    def refinement(self, reach: float) -> int:
        needed = self._STANDARD.nodes_per_reach * reach / self.num_nodes
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
        centre, scale = self._place(A)
        if self._clips:
            limits = self._limits(centre)
            return clipped_columns(self._STANDARD, self.num_nodes, centre, scale, *limits)
        return self._columns(centre, scale, self.num_nodes)

    @override
    def joint_rule(self, A: Tensor) -> JointNodes:
        self.check_shape(A)
        centre, scale = self._place(A)
        rule = self._standard_nodes(centre, bool((scale > 0).any()))
        nodes = centre.unsqueeze(-2) + rule.nodes * scale.unsqueeze(-2)
        return self._clipped(nodes, rule.weights)

    def _standard_nodes(self, like: Tensor, has_spread: bool = True) -> JointNodes:
        """Nodes ``J x d`` of the standard law of ``d`` columns, one without spread; weights."""
        d = like.shape[-1]
        if d > MOST_GRID_COLUMNS:
            nodes = self._STANDARD.icdf(uniforms(d, MOST_JOINT_NODES, 0).to(like))
            return JointNodes(nodes, torch.full_like(nodes[:, 0], 1 / MOST_JOINT_NODES))
        num_nodes = min(self.num_nodes, int(MOST_JOINT_NODES ** (1 / d) + 1e-9))
        scale = like.new_full((d,), float(has_spread))
        return self._columns(torch.zeros_like(scale), scale, num_nodes).product()

    def _limits(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """The bounds as tensors, where there are some."""
        return like.new_tensor(self.lower), like.new_tensor(self.upper)

    def _clipped(self, nodes: Tensor, weights: Tensor) -> JointNodes:
        """Joint nodes, moved to the bounds where they are outside and that is what is asked."""
        if self._clips:
            nodes = nodes.clamp(*self._limits(nodes))
        return JointNodes(nodes, weights.expand(nodes.shape[:-1]))

    def _columns(self, centre: Tensor, scale: Tensor, num_nodes: int) -> ColumnNodes:
        rule = self._STANDARD.rule(num_nodes if bool((scale > 0).any()) else 1)
        standard, weights = (torch.tensor(v).to(centre) for v in rule)
        nodes = centre.unsqueeze(-2) + standard[:, None] * scale.unsqueeze(-2)
        return ColumnNodes(nodes, weights[:, None].expand_as(nodes))

    def _probability_outside(self, rows: Tensor) -> Tensor:
        """The probability ``n`` that a point of the queries ``n x p`` is outside of the bounds."""
        return 1 - (1 - self._columns_outside(rows)).prod(dim=-1)

    def _columns_outside(self, rows: Tensor) -> Tensor:
        """The probabilities ``n x d`` that a column is outside of its bounds."""
        centre, scale = self._place(rows)
        lower, upper = self._limits(rows)
        safe = torch.where(scale > 0, scale, torch.ones_like(scale))
        cdf = self._STANDARD.cdf
        spread = (cdf((lower - centre) / safe) + cdf((centre - upper) / safe)).clamp_max(1.0)
        return torch.where(scale > 0, spread, ((centre < lower) | (centre > upper)).to(rows))


def clipped_columns(
    law: StandardLaw, num_nodes: int, centre: Tensor, scale: Tensor, lower: Tensor, upper: Tensor
) -> ColumnNodes:
    """Rules of laws whose mass outside of the bounds is moved to them.

    Atoms at the bounds, and Gauss-Legendre nodes on what is inside, which follow the centre, so
    that nodes and weights are smooth in it. A column of no scale has its node at the bound
    where the centre is outside.

    Args:
        law: The law that is moved and scaled.
        num_nodes: Nodes of one that is not clipped.
        centre: Where the columns are moved to, ``... x d``.
        scale: What they are scaled by, ``... x d``.
        lower: Lower bounds, ``d``.
        upper: Upper bounds, ``d``.
    """
    moves = scale > 0
    num_nodes = law.clipped_nodes * num_nodes if bool(moves.any()) else 1
    standard, weights = (torch.tensor(v).to(centre) for v in gauss_legendre(num_nodes))
    safe = torch.where(moves, scale, torch.ones_like(scale))
    start = (centre - law.reach * safe).clamp(lower, upper)
    end = (centre + law.reach * safe).clamp(lower, upper)
    middle, half = ((start + end) / 2).unsqueeze(-2), ((end - start) / 2).unsqueeze(-2)
    nodes = middle + standard[:, None] * half
    density = law.density((nodes - centre.unsqueeze(-2)) / safe.unsqueeze(-2))
    inside = density * weights[:, None] * 2 * half / safe.unsqueeze(-2)
    below = law.cdf((lower - centre) / safe).unsqueeze(-2)
    above = law.cdf((centre - upper) / safe).unsqueeze(-2)
    masses = torch.cat([below, inside, above], dim=-2)
    masses = masses / masses.sum(dim=-2, keepdim=True)
    nodes = torch.cat([lower.expand_as(below), nodes, upper.expand_as(above)], dim=-2)
    point = centre.clamp(lower, upper).unsqueeze(-2).expand_as(nodes)
    return ColumnNodes(
        torch.where(moves.unsqueeze(-2), nodes, point),
        torch.where(moves.unsqueeze(-2), masses, 1 / masses.shape[-2]),
    )
