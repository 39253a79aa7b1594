"""Base class of conditionals under which the columns of X are independent."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, TypeAlias

import torch
from torch import Tensor
from torch.special import ndtr, ndtri
from typing_extensions import override

from ax_costaware.argument_checks import (
    checked_items,
    nonempty_string,
    nonnegative_number,
    numbers,
    plain_value,
)
from ax_costaware.exceptions import InputError
from ax_costaware.laws.conditionals.conditional import (
    BoundedConditional,
    ColumnNodes,
    JointNodes,
    is_sequence,
    plain,
)
from ax_costaware.laws.quadrature import NORMAL_REACH, gauss_legendre, normal_rule, uniforms
from ax_costaware.laws.tables import Array

MOST_OUTSIDE = 1e-3
"""Largest probability outside of X that ``outside="refuse"`` accepts."""

MOST_GRID_COLUMNS = 3
"""Number of columns above which joint nodes are quasi-random instead of a grid."""

MOST_JOINT_NODES = 64
"""Largest number of joint nodes of a query: a model computes the kernel between all of them."""

_MOST_REFINED = 16
"""Largest factor of the number of nodes for short length-scales."""


@dataclass(frozen=True)
class StandardLaw:
    """Distribution of one column, symmetric about zero, which a query shifts and scales."""

    rule: Callable[[int], tuple[Array, Array]]
    """Function from a number of nodes to nodes and weights."""

    density: Callable[[Tensor], Tensor]
    cdf: Callable[[Tensor], Tensor]
    icdf: Callable[[Tensor], Tensor]

    reach: float
    """Distance from zero that contains all mass."""

    clipped_nodes: int
    """Factor of the number of nodes for a clipped distribution."""

    nodes_per_reach: float
    """Number of nodes per length-scale from the middle, for averages of a squared-exponential
    kernel that are right to about 1e-7."""


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
    """Conditional with independent columns: a standard distribution, shifted and scaled.

    Subclasses are dataclasses with the field ``num_nodes``.
    """

    num_nodes: int

    sums_to_one = True

    _STANDARD: ClassVar[StandardLaw]

    @abstractmethod
    def _place(self, A: Tensor) -> tuple[Tensor, Tensor]:
        """Return centers and scales of the columns, ``... x d`` each; a point has scale zero."""

    @override
    def _check_rows(self, rows: Tensor) -> None:
        if self.resolution_parameters:
            _, scale = self._place(rows)
            if bool((negative := (scale < 0).any(dim=-1)).any()):
                raise InputError(
                    f"query {plain(rows[negative][0])}: expected {self.resolution_parameters} >= 0."
                )
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
    def center(self, A: Tensor) -> Tensor:
        center, _ = self._place(A)
        return center if self.lower is None else center.clamp(*self._limits(center))

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
        """Return nodes ``J x d`` and weights of the standard distribution; one without spread."""
        d = like.shape[-1]
        if d > MOST_GRID_COLUMNS:
            nodes = self._STANDARD.icdf(uniforms(d, MOST_JOINT_NODES, 0).to(like))
            return JointNodes(nodes, torch.full_like(nodes[:, 0], 1 / MOST_JOINT_NODES))
        num_nodes = min(self.num_nodes, int(MOST_JOINT_NODES ** (1 / d) + 1e-9))
        scale = like.new_full((d,), float(has_spread))
        return self._columns(torch.zeros_like(scale), scale, num_nodes).product()

    def _limits(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """Return the bounds as tensors; there have to be some."""
        return like.new_tensor(self.lower), like.new_tensor(self.upper)

    def _clipped(self, nodes: Tensor, weights: Tensor) -> JointNodes:
        """Return joint nodes, moved to the bounds for ``outside="clip"``."""
        if self._clips:
            nodes = nodes.clamp(*self._limits(nodes))
        return JointNodes(nodes, weights.expand(nodes.shape[:-1]))

    def _columns(self, centre: Tensor, scale: Tensor, num_nodes: int) -> ColumnNodes:
        rule = self._STANDARD.rule(num_nodes if bool((scale > 0).any()) else 1)
        standard, weights = (torch.tensor(v).to(centre) for v in rule)
        nodes = centre.unsqueeze(-2) + standard[:, None] * scale.unsqueeze(-2)
        return ColumnNodes(nodes, weights[:, None].expand_as(nodes))

    def _probability_outside(self, rows: Tensor) -> Tensor:
        """Return the probabilities ``n`` of points of queries ``n x p`` outside of the bounds."""
        return 1 - (1 - self._columns_outside(rows)).prod(dim=-1)

    def _columns_outside(self, rows: Tensor) -> Tensor:
        """Return the probabilities ``n x d`` of columns outside of their bounds."""
        centre, scale = self._place(rows)
        lower, upper = self._limits(rows)
        safe = torch.where(scale > 0, scale, torch.ones_like(scale))
        cdf = self._STANDARD.cdf
        spread = (cdf((lower - centre) / safe) + cdf((centre - upper) / safe)).clamp_max(1.0)
        return torch.where(scale > 0, spread, ((centre < lower) | (centre > upper)).to(rows))


Scale: TypeAlias = float | str
"""Scale of a column: a number, or the name of the parameter of the query that has it."""


def checked_scale(value: Any, name: str, length: int | None) -> Scale | tuple[Scale, ...]:
    """Return a scale of all columns, or one for each.

    Raises:
        InputError: If a scale is neither a finite number >= 0 nor the name of a parameter.
    """
    if isinstance(value, str):
        return nonempty_string(value, name, "a number >= 0, or the name of a parameter")
    if not is_sequence(value):
        return nonnegative_number(plain_value(value), name)
    if not any(isinstance(each, str) for each in value):
        return numbers(value, name, length, nonnegative_number)
    return checked_items(
        value,
        name,
        f"{length or 'a number or name for each column: one or more'} numbers or names",
        lambda each, label: checked_scale(each, label, None),
        length,
    )


def names_of(scale: Scale | tuple[Scale, ...] | None) -> tuple[str, ...]:
    """Return the parameters that hold scales, each once."""
    each = scale if isinstance(scale, tuple) else (scale,)
    return tuple(dict.fromkeys(one for one in each if isinstance(one, str)))


def scale_of(scale: Scale | tuple[Scale, ...], A: Tensor, num_columns: int) -> Tensor:
    """Return the scales of the columns, ``... x d``, of queries whose last columns hold them."""
    each = scale if isinstance(scale, tuple) else (scale,) * num_columns
    last = dict(zip(reversed(names_of(scale)), reversed(A.unbind(dim=-1)), strict=False))
    columns = (
        last[one] if isinstance(one, str) else A.new_tensor(one).expand(A.shape[:-1])
        for one in each
    )
    return torch.stack([*columns], dim=-1)


def clipped_columns(
    law: StandardLaw, num_nodes: int, centre: Tensor, scale: Tensor, lower: Tensor, upper: Tensor
) -> ColumnNodes:
    """Return rules of distributions whose mass outside of the bounds is moved to them.

    They have atoms at the bounds, and Gauss-Legendre nodes inside that move with the center, so
    that nodes and weights are smooth in it. A column of scale zero has its node at the center, or
    at the nearest bound.

    Args:
        law: The standard distribution.
        num_nodes: Number of nodes of a distribution that is not clipped.
        centre: Shifts of the columns, ``... x d``.
        scale: Scales of the columns, ``... x d``.
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
