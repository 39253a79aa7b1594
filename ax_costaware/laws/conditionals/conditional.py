"""Conditional distribution of a point given a query, as nodes and weights.

The outcome of a query ``a`` (a row of ``p`` columns) is the average of the objective over a
distribution of points, ``g(a) = E[f(x) | a]``. A conditional returns nodes ``x_j(a)`` and weights
``w_j(a)`` with ``g(a) = sum_j w_j(a) f(x_j(a))``, differentiable in ``a`` if the distribution is
(Zhang et al. 2024, "Indirect Query Bayesian Optimization with Integrated Feedback"; here for known
distributions as well as for learned ones).

Nodes are in the raw units of X. Queries ``A`` of shape ``... x p`` give rules of batch shape
``...``, which includes their rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
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
    """One-dimensional rules of independent columns of X."""

    nodes: Tensor
    """Nodes ``... x J x d``: those of column ``l`` are ``nodes[..., l]``."""

    weights: Tensor
    """Weights ``... x J x d``; those of a column sum to one, and some may be zero."""

    def product(self) -> JointNodes:
        """Return the tensor product, ``J ** d`` joint nodes."""
        num_nodes, num_columns = self.nodes.shape[-2:]
        each = torch.arange(num_nodes, device=self.nodes.device)
        index = torch.cartesian_prod(*[each] * num_columns).reshape(-1, num_columns)

        def picked(values: Tensor) -> Tensor:
            return torch.stack([values[..., index[:, i], i] for i in range(num_columns)], dim=-1)

        return JointNodes(picked(self.nodes), picked(self.weights).prod(dim=-1))


@dataclass(frozen=True, eq=False)
class JointNodes:
    """Joint nodes that differ from query to query."""

    nodes: Tensor
    """Nodes ``... x J x d``."""

    weights: Tensor
    """Weights ``... x J``."""


@dataclass(frozen=True, eq=False)
class PairNodes:
    """Rules of two dependent columns: of the first, and of the second given each of its nodes."""

    first: Tensor
    """Nodes of the first column, ``... x J``."""

    first_weights: Tensor
    """Their weights, ``... x J``."""

    second: Tensor
    """Nodes of the second column, ``... x J x K``."""

    second_weights: Tensor
    """Their weights, ``... x J x K``; those of each node of the first column sum to one."""

    bounds: Tensor
    """Lower and upper bounds of the nodes of all queries, ``2 x 2``."""


@dataclass(frozen=True, eq=False)
class NormalLaw:
    """Normal distributions with one covariance."""

    means: Tensor
    """Means ``... x d``."""

    covariance: Tensor
    """Covariance ``d x d``."""


@dataclass(frozen=True, eq=False)
class SharedNodes:
    """Joint nodes that all queries share; only weights differ."""

    nodes: Tensor
    """Nodes ``M x d``."""

    weights: Tensor
    """Weights ``... x M``. Learned ones may be negative and need not sum to one."""

    errors: Tensor | None = None
    """Factors ``... x r`` of the sampling error of learned weights: products of these rows are the
    covariances of the error of averages, in units of the variance of the function about its
    average. None for exact weights."""


class Conditional(ABC):
    """Distribution of a point in X, ``d`` columns, given a query in A, ``p`` columns.

    Queries are tensors ``... x p`` in raw units. Results have their dtype and device.
    """

    query_names: tuple[str, ...] | None = None
    """Names of a query's columns; None to match columns by their order."""

    def center(self, A: Tensor) -> Tensor | None:
        """Return the points ``... x d`` that queries ``... x p`` are about; None without points."""
        return None

    @property
    def resolution_parameters(self) -> tuple[str, ...]:
        """Names of the parameters that are the resolution of a query: its last columns."""
        return ()

    def query_order(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return names of parameters in the order of a query's columns, the resolution last."""
        last = self.resolution_parameters
        return (*(name for name in names if name not in last), *last)

    @property
    def sums_to_one(self) -> bool:
        """True if the weights of each query are known to sum to one."""
        return False

    @property
    @abstractmethod
    def num_query_columns(self) -> int:
        """Number of columns of a query, ``p``."""

    @property
    @abstractmethod
    def num_latent_columns(self) -> int | None:
        """Number of columns of X, ``d``; None if only a query shows it."""

    @abstractmethod
    def joint_rule(self, A: Tensor) -> SharedNodes | JointNodes:
        """Return joint nodes and weights of each query.

        Args:
            A: Queries ``... x p``. Only the shape is checked, see ``check_queries``.
        """

    def column_rule(self, A: Tensor) -> ColumnNodes | None:
        """Return one rule per column of X if the columns are independent, else None.

        Args:
            A: Queries ``... x p``.
        """
        return None

    def pair_rule(self, A: Tensor, refinement: Sequence[int] = (1, 1)) -> PairNodes | None:
        """Return rules of two dependent columns within bounds, else None.

        Args:
            A: Queries ``... x p``.
            refinement: Factor of the number of nodes of each column.
        """
        return None

    def normal_law(self, A: Tensor) -> NormalLaw | None:
        """Return the distributions if they are normal with dependent columns, else None.

        Args:
            A: Queries ``... x p``.
        """
        return None

    def refinement(self, reach: float) -> int:
        """Return the factor of the number of nodes that a kernel of short length-scales needs.

        Args:
            reach: Largest distance of the nodes of a column from their middle, in length-scales.

        Returns:
            The factor for ``column_rule``; 1 if its rules cannot be refined.
        """
        return 1

    def refined(self, factor: int) -> Self:
        """Return the conditional with ``factor`` times as many nodes in the rules of columns."""
        return self

    def check_queries(self, A: Tensor) -> None:
        """Refuse queries without a distribution, or with one that is not within X.

        Args:
            A: Queries ``... x p``.

        Raises:
            InputError: If the number of columns is wrong, a value is not finite, or the class
                refuses a query.
        """
        self.check_shape(A)
        rows = A.detach().reshape(-1, A.shape[-1])
        finite = torch.isfinite(rows).all(dim=-1)
        if not bool(finite.all()):
            raise InputError(f"query {plain(rows[~finite][0])}: expected finite numbers.")
        self._check_rows(rows)

    def nodes_and_weights(self, A: Tensor) -> tuple[Tensor, Tensor]:
        """Return the joint rule with the nodes repeated for each query.

        Args:
            A: Queries ``... x p``.

        Returns:
            Nodes ``... x J x d`` in raw units and weights ``... x J``.

        Raises:
            InputError: As in ``check_queries``.
        """
        self.check_queries(A)
        rule = self.joint_rule(A)
        nodes = rule.nodes
        if isinstance(rule, SharedNodes):
            nodes = nodes.expand(*rule.weights.shape, nodes.shape[-1])
        return nodes, rule.weights

    @abstractmethod
    def within(self, lower: Any, upper: Any) -> Self:
        """Return the conditional with bounds of X, unless it has its own.

        Args:
            lower: Lower bounds, ``d`` numbers.
            upper: Upper bounds, ``d`` numbers.

        Raises:
            InputError: If bounds have the wrong length or order, or if pairs of the conditional are
                outside with ``outside="refuse"``.
        """

    def check_shape(self, A: Tensor) -> None:
        """Refuse anything but a floating-point tensor ``... x p``.

        Raises:
            InputError: If it is not one.
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
        """Refuse rows ``n x p`` of the right shape that the class cannot take."""
        del rows


class BoundedConditional(Conditional):
    """Conditional with bounds of X, if known, and a policy for points outside of them.

    Subclasses are dataclasses with these fields.
    """

    lower: Numbers | None
    upper: Numbers | None
    outside: Any

    def _check_bounds(self, num_columns: int | None) -> None:
        """Check the fields of this class.

        Raises:
            InputError: As in ``bounds``, or if ``outside`` is not one of ``Outside``.
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
    """Return checked bounds of X: both or neither.

    Raises:
        InputError: If one is missing, the length is wrong, or ``lower >= upper`` in a column.
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
    """True if a field that takes a number or several of them has several."""
    return isinstance(value, list | tuple) or getattr(value, "ndim", 0) > 0


def indices(queries: Tensor, count: int) -> Tensor:
    """Return the first column of queries ``... x p`` as indices from 0 to ``count - 1``."""
    return queries[..., 0].detach().round().long().clamp(0, count - 1)


def check_indices(rows: Tensor, count: int, expected: str) -> None:
    """Refuse queries ``n x p`` whose first column is not an index below ``count``.

    Raises:
        InputError: With the first such query, and what is expected.
    """
    bad = rows[:, 0] != indices(rows, count)
    if bool(bad.any()):
        raise InputError(f"query {plain(rows[bad][0])}: expected {expected}.")


def plain(row: Tensor) -> tuple[float, ...]:
    """Return a query of ``p`` numbers as it is shown in messages."""
    return tuple(float(value) for value in row)
