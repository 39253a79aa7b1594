"""Laws of several inputs that depend on each other, and on what a trial controls.

Controlling an input counts as observing it: where a trial controls ``a``, the inputs of the same
law follow their law given ``a``. Where setting ``a`` does not move ``b``, although the two went
together in the past, keep them in separate laws.
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
"""Fewer rows say nothing about how inputs depend on each other."""

_EXPECTED_FRAME = "a data frame, or a mapping from names to lists of values of equal length"
_EXPECTED_VALUES = "a list of finite numbers, strings or booleans, all of one kind"


class NodesGiven(Protocol):
    """Nodes and weights of all model columns, given points whose controlled columns count."""

    def __call__(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """The law at each point.

        Args:
            points: ``p x d`` in the model's space; only the controlled columns are read.

        Returns:
            Nodes ``p x m x d``, whose controlled columns are those of the point, and weights
            ``p x m``, non-negative with sum one. Both are differentiable in ``points`` and of its
            dtype; ``m`` is the same for every call.
        """


@dataclass(frozen=True, eq=False)
class Placement:
    """Map from raw values to points of the model's space."""

    transform: Callable[[Sequence[Mapping[str, RawValue]]], Tensor]
    """Points ``r x d`` of ``r`` rows of raw values; a name that a row lacks is nominal."""

    columns: Mapping[str, tuple[int, ...]]
    """The model's columns of each parameter: several for a one-hot choice, none where the model
    does not see the parameter."""

    independent: Mapping[str, Marginal]
    """Laws of the uncontrolled inputs that are not part of the joint law."""

    num_nodes: int
    """Number of nodes."""

    seed: int
    """Seed of the nodes. Equal seeds give equal nodes."""

    def columns_of(self, names: Sequence[str]) -> tuple[int, ...]:
        """The model's columns of some parameters, in increasing order.

        Raises:
            InputError: For a name that is no parameter.
        """
        for name in names:
            if name not in self.columns:
                raise InputError(f"{name!r} is no parameter: expected {list(self.columns)}.")
        return tuple(sorted(column for name in names for column in self.columns[name]))


class JointLaw(ABC):
    """The law of several inputs together.

    Joint laws are frozen, compare by value, and hold plain values and marginals only.
    """

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The names of the inputs."""

    @abstractmethod
    def marginal(self, name: str) -> Marginal:
        """The law of one input on its own, nothing given.

        Raises:
            InputError: For a name that is not part of the law.
        """

    @abstractmethod
    def cdf_given(
        self, name: str, value: RawValue, given: Mapping[str, RawValue]
    ) -> tuple[float, float]:
        """``P(X < value)`` and ``P(X <= value)`` of one input, given the values of others.

        A uniform draw between the two is uniform on the unit interval where the law is right: the
        randomised probability integral transform. Strings are in alphabetical order.

        Args:
            name: The input.
            value: Its value.
            given: Values of other inputs. Names that are not part of the law are ignored.

        Raises:
            InputError: For a name that is not part of the law or among those given, or a value of
                another kind than the law's.
        """

    def cdfs_given(
        self, name: str, values: Sequence[RawValue], given: Mapping[str, RawValue]
    ) -> list[tuple[float, float]]:
        """``cdf_given`` of each of some values, with the same given."""
        return [self.cdf_given(name, value, given) for value in values]

    @abstractmethod
    def _num_uniforms(self, names: Sequence[str]) -> int:
        """Return the number of uniform numbers that make a row of ``names``."""

    @abstractmethod
    def _rows_at(self, names: Sequence[str], u: Tensor) -> list[dict[str, RawValue]]:
        """A row for each row of ``u``, ``n x _num_uniforms(names)``."""

    @abstractmethod
    def _conditional_nodes(
        self, given: Sequence[str], rest: Sequence[str], controlled: Sequence[str], place: Placement
    ) -> NodesGiven:
        """Nodes of ``rest`` given ``given``, neither empty, beside the independent inputs."""

    def joint_rows(
        self, names: Sequence[str], n: int, seed: int
    ) -> tuple[list[dict[str, RawValue]], Tensor]:
        """Nodes of some of the inputs together, nothing given.

        Args:
            names: The inputs; the others are integrated out.
            n: The most nodes to use.
            seed: Equal seeds give equal nodes.

        Returns:
            ``m <= n`` rows of raw values by name, and ``m`` weights that sum to one.

        Raises:
            InputError: For a name that is not part of the law, ``n < 1`` or ``seed < 0``.
        """
        size = integer_at_least(n, 1, "n")
        u = uniforms(self._num_uniforms(self._checked(names)), size, seed)
        return self._rows_at(names, u), torch.full((size,), 1.0 / size, dtype=torch.double)

    def nodes_given(self, controlled: Sequence[str], placement: Placement) -> NodesGiven:
        """Nodes of the uncontrolled inputs, given points whose controlled columns count.

        Inputs of ``placement.independent`` have their own laws and are independent of the rest.

        Args:
            controlled: The parameters that a trial controls, of this law or not. One without
                columns in the model cannot be given, and is integrated out.
            placement: How raw values become points of the model's space.

        Raises:
            InputError: For an input, controlled or of this law, that is none of the placement's
                parameters; for fewer than one node or a negative seed.
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
    """Nodes that are the same at every point but for the controlled columns."""

    base: Tensor
    """``m x d``; the controlled columns are ignored."""

    weights: Tensor
    """``m``, of sum one."""

    columns: Sequence[int]
    """The controlled columns."""

    def __call__(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """See ``NodesGiven``."""
        weights = self.weights.to(points).expand(len(points), -1)
        return at_points(self.base, points, self.columns), weights


def at_points(base: Tensor, points: Tensor, columns: Sequence[int]) -> Tensor:
    """Nodes ``p x m x d`` from ``m x d`` or ``p x m x d``, with the points' own ``columns``."""
    nodes = base.to(points).expand(len(points), *base.shape[-2:])
    controlled = torch.zeros(points.shape[-1], dtype=torch.bool, device=points.device)
    controlled[list(columns)] = True
    return torch.where(controlled, points.unsqueeze(-2), nodes)


def independent_rows(laws: Mapping[str, Marginal], u: Tensor) -> list[dict[str, RawValue]]:
    """Rows of raw values of independent inputs, one for each row of uniform numbers."""
    values = [law.decode(law.icdf(u[:, i])) for i, law in enumerate(laws.values())]
    return [dict(zip(laws, row, strict=True)) for row in zip(*values, strict=True)] or [
        {} for _ in u
    ]


def named_pairs(values: Any, name: str, expected: str) -> tuple[tuple[str, Any], ...]:
    """The items of a mapping, a data frame or a sequence of pairs.

    Raises:
        InputError: For anything else, no items, or names that are no distinct, non-empty strings.
    """
    pairs = pairs_of(values, name, expected)
    for key, _ in pairs:
        nonempty_string(key, f"a name in {name}")
    distinct([key for key, _ in pairs], name, "distinct names")
    return tuple((str(key), value) for key, value in pairs)


def columns_of(frame: Any) -> tuple[tuple[str, Column], ...]:
    """A sample of several inputs, one column for each.

    Args:
        frame: A data frame, a mapping from names to values, or pairs of both.

    Returns:
        Pairs of a name and its values: all strings, all booleans, all integers or all floats.

    Raises:
        InputError: For anything else, values that are missing, mixed or not finite, columns of
            different lengths, or fewer than 10 rows.
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
    """The law of one column on its own: ``Empirical`` for floats, ``Discrete`` for the rest."""
    if isinstance(column[0], float):
        return Empirical([float(value) for value in column])
    values = sorted(set(column))
    return Discrete(values, [column.count(value) / len(column) for value in values])
