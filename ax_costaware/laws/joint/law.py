"""Joint distributions of dependent inputs, given those that a trial controls.

Controlling an input counts as observing it: if a trial controls ``a``, the other inputs have their
conditional distribution given ``a``. If setting ``a`` does not change ``b``, although both were
correlated in the past, put them into separate distributions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import torch
from torch import Tensor

from ax_costaware.argument_checks import (
    distinct,
    integer_at_least,
    nonempty_string,
    pairs_of,
    values_of_one_kind,
)
from ax_costaware.exceptions import InputError
from ax_costaware.laws.marginals import Discrete, Empirical, Marginal, RawValue
from ax_costaware.laws.quadrature import uniforms

Column: TypeAlias = tuple[RawValue, ...]

LEAST_ROWS = 10
"""Smallest number of rows from which dependence is estimated."""

_EXPECTED_FRAME = "a data frame, or a mapping from names to lists of values of equal length"
_EXPECTED_VALUES = "a list of finite numbers, strings or booleans, all of one kind"


class NodesGiven(Protocol):
    """Function from the controlled columns of points to nodes and weights."""

    def __call__(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Return the conditional distribution at each point.

        Args:
            points: ``p x d`` points of the model's space, of which controlled columns are used.

        Returns:
            Nodes ``p x m x d``, whose controlled columns are those of the point, and weights
            ``p x m``, non-negative with sum one. Both are differentiable in ``points`` and of its
            dtype. ``m`` is the same for every call.
        """


@dataclass(frozen=True, eq=False)
class Placement:
    """Map from raw values to points of the model's space."""

    transform: Callable[[Sequence[Mapping[str, RawValue]]], Tensor]
    """Function from ``r`` rows of raw values to points ``r x d``; missing names are nominal."""

    columns: Mapping[str, tuple[int, ...]]
    """The model's columns of each parameter: several for a one-hot choice, none for a parameter
    that the model does not see."""

    independent: Mapping[str, Marginal]
    """Marginals of the uncontrolled inputs that are not part of the joint distribution."""

    num_nodes: int
    """Number of nodes."""

    seed: int
    """Seed of the nodes. Equal seeds give equal nodes."""

    def columns_of(self, names: Sequence[str]) -> tuple[int, ...]:
        """Return the model's columns of some parameters, in increasing order.

        Raises:
            InputError: If a name is not a parameter.
        """
        for name in names:
            if name not in self.columns:
                raise InputError(f"{name!r} is no parameter: expected {list(self.columns)}.")
        return tuple(sorted(column for name in names for column in self.columns[name]))


class JointLaw(ABC):
    """Joint distribution of several inputs.

    Subclasses are frozen, compare by value, and have plain values and marginals only.
    """

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """Names of the inputs."""

    @abstractmethod
    def marginal(self, name: str) -> Marginal:
        """Return the marginal distribution of one input.

        Raises:
            InputError: If the distribution does not have the input.
        """

    @abstractmethod
    def cdf_given(
        self, name: str, value: RawValue, given: Mapping[str, RawValue]
    ) -> tuple[float, float]:
        """Return ``P(X < value)`` and ``P(X <= value)`` of one input, given values of others.

        If the distribution is right, a uniform draw between the two is uniform on the unit interval
        (randomized probability integral transform). Strings are in alphabetical order.

        Args:
            name: The input.
            value: Its value.
            given: Values of other inputs. Names that the distribution does not have are ignored.

        Raises:
            InputError: If the distribution does not have the input, the input is among those given,
                or the value is of another kind.
        """

    def cdfs_given(
        self, name: str, values: Sequence[RawValue], given: Mapping[str, RawValue]
    ) -> list[tuple[float, float]]:
        """Return ``cdf_given`` of several values, given the same values of others."""
        return [self.cdf_given(name, value, given) for value in values]

    @abstractmethod
    def _num_uniforms(self, names: Sequence[str]) -> int:
        """Return the number of uniform numbers that a row of ``names`` needs."""

    @abstractmethod
    def _rows_at(self, names: Sequence[str], u: Tensor) -> list[dict[str, RawValue]]:
        """Return a row for each row of uniform numbers ``u``, ``n x _num_uniforms(names)``."""

    @abstractmethod
    def _conditional_nodes(
        self, given: Sequence[str], rest: Sequence[str], controlled: Sequence[str], place: Placement
    ) -> NodesGiven:
        """Return nodes of ``rest`` given ``given``, neither empty, and of independent inputs."""

    def joint_rows(
        self, names: Sequence[str], n: int, seed: int
    ) -> tuple[list[dict[str, RawValue]], Tensor]:
        """Return joint nodes of some of the inputs.

        Args:
            names: The inputs; the others are integrated out.
            n: Largest number of nodes.
            seed: Seed of the nodes. Equal seeds give equal nodes.

        Returns:
            ``m <= n`` rows of raw values by name, and ``m`` weights that sum to one.

        Raises:
            InputError: If the distribution does not have an input, ``n < 1`` or ``seed < 0``.
        """
        size = integer_at_least(n, 1, "n")
        u = uniforms(self._num_uniforms(self._checked(names)), size, seed)
        return self._rows_at(names, u), torch.full((size,), 1.0 / size, dtype=torch.double)

    def nodes_given(self, controlled: Sequence[str], placement: Placement) -> NodesGiven:
        """Return nodes of the uncontrolled inputs as a function of the controlled columns.

        Inputs of ``placement.independent`` are independent of all others.

        Args:
            controlled: Parameters that a trial controls, of this distribution or not. A parameter
                without columns in the model cannot be given, and is integrated out.
            placement: Map from raw values to points of the model's space.

        Raises:
            InputError: If an input, controlled or of this distribution, is not a parameter of the
                placement; if there is less than one node, or the seed is negative.
        """
        placement.columns_of((*controlled, *self.names))
        integer_at_least(placement.num_nodes, 1, "placement.num_nodes")
        seen = tuple(name for name in self.names if placement.columns[name])
        given = tuple(name for name in seen if name in controlled)
        rest = tuple(name for name in seen if name not in controlled)
        if given and rest:
            return self._conditional_nodes(given, rest, controlled, placement)
        return self._fixed_nodes(rest, controlled, placement)

    def _fixed_nodes(
        self, rest: Sequence[str], controlled: Sequence[str], placement: Placement
    ) -> NodesGiven:
        size = placement.num_nodes
        weights = torch.full((size,), 1.0 / size, dtype=torch.double)
        rows: list[dict[str, RawValue]]
        if placement.independent:
            k = self._num_uniforms(rest)
            u = uniforms(k + len(placement.independent), size, placement.seed)
            rows = self._rows_at(rest, u[:, :k])
            independent = independent_rows(placement.independent, u[:, k:])
            rows = [{**a, **b} for a, b in zip(rows, independent, strict=True)]
        elif rest:
            rows, weights = self.joint_rows(rest, size, placement.seed)
        else:
            rows, weights = [{}], torch.ones(1, dtype=torch.double)
        columns = placement.columns_of(controlled)
        return FixedNodes(placement.transform(rows), weights, columns)

    def _checked(self, names: Sequence[str]) -> Sequence[str]:
        for name in names:
            if name not in self.names:
                raise InputError(f"{name!r} is not part of {self!r}: expected one of {self.names}.")
        return names


@dataclass(frozen=True, eq=False)
class FixedNodes:
    """Nodes that are the same at every point, except for the controlled columns."""

    base: Tensor
    """Nodes ``m x d``, of which the controlled columns are ignored."""

    weights: Tensor
    """Weights ``m``, which sum to one."""

    columns: Sequence[int]
    """Controlled columns."""

    def __call__(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """See ``NodesGiven``."""
        weights = self.weights.to(points).expand(len(points), -1)
        return at_points(self.base, points, self.columns), weights


def at_points(base: Tensor, points: Tensor, columns: Sequence[int]) -> Tensor:
    """Return nodes ``p x m x d`` with ``columns`` replaced by those of the points."""
    nodes = base.to(points).expand(len(points), *base.shape[-2:])
    controlled = torch.zeros(points.shape[-1], dtype=torch.bool, device=points.device)
    controlled[list(columns)] = True
    return torch.where(controlled, points.unsqueeze(-2), nodes)


def independent_rows(laws: Mapping[str, Marginal], u: Tensor) -> list[dict[str, RawValue]]:
    """Return a row of raw values of independent inputs for each row of uniform numbers."""
    values = [law.decode(law.icdf(u[:, i])) for i, law in enumerate(laws.values())]
    return [dict(zip(laws, row, strict=True)) for row in zip(*values, strict=True)] or [
        {} for _ in u
    ]


def named_pairs(values: Any, name: str, expected: str) -> tuple[tuple[str, Any], ...]:
    """Return the items of a mapping, a data frame or a sequence of pairs.

    Raises:
        InputError: If it is none of these or empty, or names are not distinct, non-empty strings.
    """
    pairs = pairs_of(values, name, expected)
    for key, _ in pairs:
        nonempty_string(key, f"a name in {name}")
    distinct([key for key, _ in pairs], name, "distinct names")
    return tuple((str(key), value) for key, value in pairs)


def columns_of(frame: Any) -> tuple[tuple[str, Column], ...]:
    """Return a sample of several inputs, one column for each.

    Args:
        frame: A data frame, a mapping from names to values, or pairs of both.

    Returns:
        Pairs of a name and its values: all strings, all booleans, all integers or all floats.

    Raises:
        InputError: If ``frame`` is none of these, values are missing, mixed or not finite, columns
            differ in length, or there are fewer than 10 rows.
    """
    pairs = named_pairs(frame, "frame", _EXPECTED_FRAME)
    columns = tuple(
        (key, values_of_one_kind(values, f"frame[{key!r}]", _EXPECTED_VALUES))
        for key, values in pairs
    )
    first, reference = columns[0]
    for key, column in columns:
        if len(column) != len(reference):
            raise InputError(
                f"frame[{key!r}] has {len(column)} values and frame[{first!r}] {len(reference)}: "
                f"expected {_EXPECTED_FRAME}."
            )
    if len(reference) < LEAST_ROWS:
        raise InputError(
            f"frame has {len(reference)} rows: expected {LEAST_ROWS} or more, to tell how inputs "
            "depend on each other."
        )
    return columns


def marginal_of(column: Column) -> Marginal:
    """Return the marginal of one column: ``Empirical`` for floats, ``Discrete`` for the rest."""
    if isinstance(column[0], float):
        return Empirical([float(value) for value in column])
    values = sorted(set(column))
    return Discrete(values, [column.count(value) / len(column) for value in values])
