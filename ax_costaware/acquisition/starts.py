"""Where the search over the values of a control set starts.

Raw points are a scrambled Sobol design over the controlled columns, joined by points near the
training inputs, where the maxima of an optimistic function of a GP with short length-scales lie
(between the plateau far from all data and the data with the best outcomes). The best raw points
that are not near one another become the starting points of the local search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ax_costaware.exceptions import InputError
from ax_costaware.laws.quadrature import uniforms
from ax_costaware.space.discrete import Discrete, combinations, read, satisfied
from ax_costaware.space.elimination import Elimination, LinearConstraints

# Attempts at drawing feasible raw points, each of which doubles the number drawn.
MAX_REJECTION_ROUNDS = 6

# Discrete values that stand for all that constraints leave room for, where a first attempt finds
# too few.
_MOST_COMBINATIONS = 2**14

# Part of the way, at most, from a training input to a point that is spread over what equality
# constraints leave.
_PART = 0.2


@dataclass(frozen=True, eq=False)
class SearchDomain:
    """What the columns of a point may be.

    Attributes:
        bounds: ``2 x d`` lower and upper bounds.
        default: ``d`` values of the columns that a control set leaves alone.
        discrete: ``(columns, values)`` pairs: these columns jointly take a row of ``values``
            (``m x len(columns)``): one column for an integer, several for a one-hot encoding.
        constraints: Linear inequalities ``sum_i coefficient_i x[index_i] >= rhs``.
        fixed: Values of columns that are fixed wherever they are controlled.
        elimination: Columns that others determine, if all these are in every control set.
    """

    bounds: Tensor
    default: Tensor
    discrete: Discrete
    constraints: LinearConstraints
    fixed: Mapping[int, float]
    elimination: Elimination | None = None

    def __post_init__(self) -> None:
        found = [(torch.as_tensor(i), c.to(self.bounds), float(b)) for i, c, b in self.constraints]
        object.__setattr__(self, "constraints", found)

    def discrete_of(self, controlled: Sequence[int]) -> Discrete:
        """The discrete blocks that lie within a control set and are not fixed."""
        free = set(controlled) - set(self.fixed)
        return [block for block in self.discrete if set(block[0]) <= free]

    def continuous_of(self, controlled: Sequence[int]) -> list[int]:
        """The columns of a control set that a local search may move."""
        taken = {column for columns, _ in self.discrete for column in columns}
        taken |= set(() if self.elimination is None else self.elimination.columns)
        return [c for c in controlled if c not in taken and c not in self.fixed]

    def constraints_of(self, controlled: Sequence[int]) -> LinearConstraints:
        """The constraints on a control set: those that read at least one of its columns."""
        return [c for c in self.constraints if set(c[0].tolist()) & set(controlled)]

    def combinations_of(self, controlled: Sequence[int], generator: torch.Generator) -> Discrete:
        """The discrete values of a control set that constraints leave room for, as one block.

        None of the columns that no constraint reads; no block where there are no others.
        """
        constraints = self.constraints_of(controlled)
        blocks = read(self.discrete_of(controlled), constraints)
        if not blocks:
            return []
        bounds, moving = self.bounds.clone(), self.continuous_of(controlled)
        still = [c for c in range(bounds.shape[-1]) if c not in moving]
        bounds[:, still] = self.held(self.default, controlled)[still]
        found = combinations(blocks, bounds, constraints, _MOST_COMBINATIONS, generator)
        assert found is not None
        columns = [column for block, _ in blocks for column in block]
        return [(tuple(columns), found[:, columns])] if len(found) else []

    def held(self, X: Tensor, controlled: Sequence[int]) -> Tensor:
        """Points ``... x d`` with the values of columns that are fixed and controlled."""
        X = X.clone()
        for column, value in self.fixed.items():
            if column in controlled:
                X[..., column] = value
        return X

    def complete(self, X: Tensor) -> Tensor:
        """Points ``p x d`` with the columns that others determine."""
        return X if self.elimination is None else self.elimination.complete(X)

    def feasible(self, X: Tensor, controlled: Sequence[int]) -> Tensor:
        """Which rows of a ``p x d``-tensor satisfy the constraints on a control set."""
        return satisfied(X, self.constraints_of(controlled))


def raw_points(
    domain: SearchDomain,
    controlled: Sequence[int],
    num_points: int,
    near: Tensor,
    spread: Tensor,
    seed: int,
) -> Tensor:
    """Raw points of one control set.

    Args:
        domain: The domain.
        controlled: The controlled columns.
        num_points: How many points to return.
        near: ``n x d`` training inputs; half the points lie around these.
        spread: ``d`` standard deviations of the points around them.
        seed: Seed of the design.

    Returns:
        ``num_points x d`` feasible points.

    Raises:
        InputError: If hardly any point satisfies the constraints.
    """
    num_near = num_points // 2 if len(near) else 0
    found: list[Tensor] = []
    together: Discrete = []
    for attempt in range(MAX_REJECTION_ROUNDS):
        factor = 2**attempt
        generator = torch.Generator().manual_seed(seed + attempt)
        if attempt == 1:
            together = domain.combinations_of(controlled, generator)
        lower, upper = domain.bounds
        unit = uniforms(len(spread), factor * (num_points - num_near), seed + attempt)
        spaced = lower + (upper - lower) * unit.to(lower)
        pick = torch.arange(factor * num_near) % max(len(near), 1)
        steps = torch.randn(len(pick), len(spread), generator=generator).to(near)
        around = (near[pick] + spread * steps).clamp(lower, upper)
        points = torch.cat([spaced, around])
        points = _complete(domain, controlled, points, generator, together)
        if domain.elimination is not None:
            # For each point that cannot be completed another one: anywhere for the first ones, and
            # for the others a part of the way there from their origin. Where equality constraints
            # hold at both ends, they hold in between.
            points = domain.complete(points)
            out = ~domain.feasible(points, controlled)
            chance = torch.Generator().manual_seed(seed + attempt)
            part = _PART * torch.rand(len(points), generator=chance).to(points)
            part[: len(spaced)] = 1.0
            lost, sources = points[out], domain.elimination.sources
            lost[:, sources] = torch.cat([spaced, near[pick]])[out][:, sources]
            points[out] = domain.elimination.spread(lost, seed + attempt, part[out])
        found.append(points[domain.feasible(points, controlled)])
        if sum(map(len, found)) >= num_points:
            break
    feasible = torch.cat(found)
    if len(feasible) == 0:
        raise InputError(
            "inequality_constraints: got constraints that no raw point satisfies for the controlled"
            f" columns {list(controlled)} with the other columns at {domain.default.tolist()}; they"
            " must leave room for the values of every control set."
        )
    return feasible[:num_points]


def _complete(
    domain: SearchDomain,
    controlled: Sequence[int],
    points: Tensor,
    generator: torch.Generator,
    together: Discrete,
) -> Tensor:
    """Put default, fixed and discrete values into raw points."""
    rows = domain.default.expand_as(points).clone()
    columns = domain.continuous_of(controlled)
    rows[:, columns] = points[:, columns]
    for block, values in [*domain.discrete_of(controlled), *together]:
        pick = torch.randint(len(values), (len(rows),), generator=generator)
        rows[:, list(block)] = values.to(rows)[pick]
    return domain.held(rows, controlled)


def spaced_best(values: Tensor, scaled: Tensor, num: int, distance: float) -> Tensor:
    """Indices of the best points, no two of them closer than ``distance``.

    Args:
        values: ``p`` values, larger is better.
        scaled: ``p x d`` points in length-scales.
        num: How many to pick at most; fewer where the points are all close together.
        distance: The smallest distance, in length-scales.
    """
    values, columns = values.clone(), scaled.mT.contiguous()
    picked: list[int] = []
    for _ in range(min(num, len(values))):
        best = int(values.argmax())
        if values[best] == -torch.inf:
            break
        picked.append(best)
        squares = (columns - scaled[best].unsqueeze(-1)).square().sum(dim=0)
        values.masked_fill_(squares <= distance**2, -torch.inf)
    return torch.tensor(picked, dtype=torch.long, device=values.device)
