"""The law of a point given a query, as a value object that gives nodes and weights.

A query ``a`` (a row of ``p`` columns) is answered by the average of the objective over a law of
points, ``g(a) = E[f(x) | a]``. A conditional stands for that law: it turns queries into nodes
``x_j(a)`` and weights ``w_j(a)`` with ``g(a) = sum_j w_j(a) f(x_j(a))``, differentiable in ``a``
where the law is (Zhang et al. 2024, "Indirect Query Bayesian Optimization with
Integrated Feedback"; here for known laws as well as for learned ones).

Nodes are in the raw units of X. ``...`` stands for the leading dimensions of the queries, rows
included: queries ``A`` of shape ``... x p`` give rules of batch shape ``...``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, TypeAlias, get_args

import torch
from torch import Tensor
from typing_extensions import override

from ax_costaware.argument_checks import Numbers, numbers, one_of, set_fields
from ax_costaware.exceptions import InputError

Outside: TypeAlias = Literal["refuse", "clip", "keep"]


@dataclass(frozen=True, eq=False)
class ColumnNodes:
    """Independent columns: one rule in one dimension for each column of X."""

    nodes: Tensor
    """Nodes ``... x J x d``: those of column ``l`` are ``nodes[..., l]``."""

    weights: Tensor
    """Weights ``... x J x d``; those of a column sum to one, and some may be zero."""

    def product(self) -> JointNodes:
        """The tensor product, ``J ** d`` joint nodes."""
        num_nodes, num_columns = self.nodes.shape[-2:]
        each = torch.arange(num_nodes, device=self.nodes.device)
        index = torch.cartesian_prod(*[each] * num_columns).reshape(-1, num_columns)

        def picked(values: Tensor) -> Tensor:
            return torch.stack([values[..., index[:, i], i] for i in range(num_columns)], dim=-1)

        return JointNodes(picked(self.nodes), picked(self.weights).prod(dim=-1))


@dataclass(frozen=True, eq=False)
class JointNodes:
    """Joint nodes, other ones for each query."""

    nodes: Tensor
    """Nodes ``... x J x d``."""

    weights: Tensor
    """Weights ``... x J``."""


@dataclass(frozen=True, eq=False)
class PairNodes:
    """Two dependent columns: a rule of the first, and of the second given each of its nodes."""

    first: Tensor
    """Nodes of the first column, ``... x J``."""

    first_weights: Tensor
    """Their weights, ``... x J``."""

    second: Tensor
    """Nodes of the second column, ``... x J x K``."""

    second_weights: Tensor
    """Their weights, ``... x J x K``; those of each node of the first column sum to one."""

    bounds: Tensor
    """What all nodes of all queries are within, ``2 x 2``: lower bounds, upper bounds."""


@dataclass(frozen=True, eq=False)
class NormalLaw:
    """Normal laws that differ in their means only."""

    means: Tensor
    """Means ``... x d``."""

    covariance: Tensor
    """``d x d``."""


@dataclass(frozen=True, eq=False)
class SharedNodes:
    """The same joint nodes for every query; only the weights differ."""

    nodes: Tensor
    """Nodes ``M x d``."""

    weights: Tensor
    """Weights ``... x M``. Learned ones may be negative and need not sum to one."""

    errors: Tensor | None = None
    """``... x r``: what learned weights do not know. The average over the true law differs from
    that over the nodes by a random number; products of these rows are its covariances, in units of
    the variance of the function about its average. None: the weights are exact."""


class Conditional(ABC):
    """The law of a point in X, ``d`` columns, given a query in A, ``p`` columns.

    Queries are tensors ``... x p`` in raw units; what is returned has their dtype and device.
    """

    query_names: tuple[str, ...] | None = None
    """Names of a query's columns; ``None`` where it goes by their order."""

    @property
    @abstractmethod
    def num_query_columns(self) -> int:
        """The number of columns of a query, ``p``."""

    @property
    @abstractmethod
    def num_latent_columns(self) -> int | None:
        """The number of columns of X, ``d``; ``None`` where it shows only at a query."""

    @abstractmethod
    def joint_rule(self, A: Tensor) -> SharedNodes | JointNodes:
        """Joint nodes and weights of each query.

        Args:
            A: Queries ``... x p``. Only the shape is checked here; see ``check_queries``.
        """

    def column_rule(self, A: Tensor) -> ColumnNodes | None:
        """One rule for each column of X where these are independent, else ``None``.

        Args:
            A: Queries ``... x p``.
        """
        return None

    def pair_rule(self, A: Tensor, refinement: Sequence[int] = (1, 1)) -> PairNodes | None:
        """Rules of two dependent columns within bounds, one after the other, else ``None``.

        Args:
            A: Queries ``... x p``.
            refinement: How many times more nodes than usual each column has.
        """
        return None

    def normal_law(self, A: Tensor) -> NormalLaw | None:
        """The law of each query where it is a normal one with dependent columns, else ``None``.

        Args:
            A: Queries ``... x p``.
        """
        return None

    def refinement(self, reach: float) -> int:
        """How many times more nodes the rules of columns need for a kernel of short length-scales.

        Args:
            reach: How far the nodes of a column are from their middle at most, in length-scales.

        Returns:
            1 where ``column_rule`` has enough nodes, or has no rule that can be refined.
        """
        return 1

    def refined(self, factor: int) -> Self:
        """This conditional with so many times more nodes in the rules of columns."""
        return self

    def check_queries(self, A: Tensor) -> None:
        """Refuse queries that this conditional has no law for, or whose law leaves X.

        Args:
            A: Queries ``... x p``.

        Raises:
            InputError: For another number of columns, a value that is not finite, or what the
                class says.
        """
        self.check_shape(A)
        rows = A.detach().reshape(-1, A.shape[-1])
        finite = torch.isfinite(rows).all(dim=-1)
        if not bool(finite.all()):
            raise InputError(f"query {plain(rows[~finite][0])}: expected finite numbers.")
        self._check_rows(rows)

    def nodes_and_weights(self, A: Tensor) -> tuple[Tensor, Tensor]:
        """The joint rule with the nodes repeated for each query.

        Args:
            A: Queries ``... x p``.

        Returns:
            Nodes ``... x J x d`` in raw units and weights ``... x J``.

        Raises:
            InputError: As ``check_queries`` does.
        """
        self.check_queries(A)
        rule = self.joint_rule(A)
        nodes = rule.nodes
        if isinstance(rule, SharedNodes):
            nodes = nodes.expand(*rule.weights.shape, nodes.shape[-1])
        return nodes, rule.weights

    @abstractmethod
    def within(self, lower: Any, upper: Any) -> Self:
        """This conditional on the X with these bounds; its own bounds, where it has them, stay.

        Args:
            lower: ``d`` numbers.
            upper: ``d`` numbers.

        Raises:
            InputError: For bounds of another length or order, or where points that the conditional
                itself holds are outside and it does not say what is to be done with them.
        """

    def check_shape(self, A: Tensor) -> None:
        """Refuse what is no floating-point tensor ``... x p``.

        Raises:
            InputError: Unless it is.
        """
        columns = self.num_query_columns
        if not isinstance(A, Tensor) or not A.is_floating_point():
            raise InputError(f"queries={A!r}: expected a floating-point tensor.")
        if A.ndim == 0 or A.shape[-1] != columns:
            raise InputError(
                f"queries of shape {tuple(A.shape)}: expected (..., {columns}), one column for "
                "each query column of the conditional."
            )

    def _check_rows(self, rows: Tensor) -> None:
        """What ``check_queries`` checks beyond shape and finiteness, of rows ``n x p``."""
        del rows


class BoundedConditional(Conditional):
    """A conditional that may know the bounds of X, and what is to be done with what leaves them.

    Subclasses are dataclasses with these fields.
    """

    lower: Numbers | None
    upper: Numbers | None
    outside: Any

    def _check_bounds(self, num_columns: int | None) -> None:
        """Check these fields.

        Raises:
            InputError: As ``bounds``, or for another word than those of ``Outside``.
        """
        lower, upper = bounds(self.lower, self.upper, num_columns)
        set_fields(self, lower=lower, upper=upper)
        one_of(self.outside, "outside", get_args(Outside))

    @override
    def within(self, lower: Any, upper: Any) -> Self:
        low, high = bounds(lower, upper, self.num_latent_columns)
        if self.lower is not None:
            return self
        return replace(self, lower=low, upper=high)  # type: ignore[type-var]

    @property
    def _clips(self) -> bool:
        return self.lower is not None and self.outside == "clip"


def bounds(
    lower: Any, upper: Any, num_columns: int | None
) -> tuple[Numbers | None, Numbers | None]:
    """Bounds of X: both, or neither.

    Raises:
        InputError: For one without the other, another length, or ``lower >= upper`` in a column.
    """
    if lower is None and upper is None:
        return None, None
    if lower is None or upper is None:
        raise InputError(f"lower={lower!r}, upper={upper!r}: expected both bounds or neither.")
    low = numbers(lower, "lower", num_columns)
    high = numbers(upper, "upper", len(low))
    if any(a >= b for a, b in zip(low, high, strict=True)):
        raise InputError(f"lower={low!r}, upper={high!r}: expected lower < upper in each column.")
    return low, high


def is_sequence(value: Any) -> bool:
    """Whether a field that takes a number or several was given several."""
    return isinstance(value, list | tuple) or getattr(value, "ndim", 0) > 0


def indices(queries: Tensor, count: int) -> Tensor:
    """The first column of queries ``... x p``, which counts from 0 to ``count - 1``."""
    return queries[..., 0].detach().round().long().clamp(0, count - 1)


def check_indices(rows: Tensor, count: int, expected: str) -> None:
    """Refuse queries ``n x p`` whose first column is no such index.

    Raises:
        InputError: For one, with what is expected.
    """
    bad = rows[:, 0] != indices(rows, count)
    if bool(bad.any()):
        raise InputError(f"query {plain(rows[bad][0])}: expected {expected}.")


def plain(row: Tensor) -> tuple[float, ...]:
    """A query, a vector of ``p`` numbers, as it is shown in messages."""
    return tuple(float(value) for value in row)
