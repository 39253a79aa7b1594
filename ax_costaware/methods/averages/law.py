"""Distribution of a latent point given a query, in the model's input space.

A conditional takes queries in raw units, one column for each parameter of the query. In the model's
space a parameter may be a logarithm or a block of one-hot columns, and a fixed one has no column.
``DecodedConditional`` decodes such points, differentiably, and evaluates the conditional. Pairs of
a point and its query that an experiment gathers while it runs are added to the conditional.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple, Self

import torch
from botorch.models.transforms.input import (
    ChainedInputTransform,
    InputTransform,
    Log10,
    Normalize,
)
from botorch.models.transforms.utils import subset_transform
from torch import Tensor
from typing_extensions import override

from ax_costaware.acquisition.latent_optima import LatentSpace
from ax_costaware.argument_checks import SUM_TOLERANCE, finite_tensor, sequence_of
from ax_costaware.core.problem import Pairs as StoredPairs
from ax_costaware.exceptions import InputError
from ax_costaware.laws import (
    ColumnNodes,
    Conditional,
    FiniteConditional,
    JointNodes,
    NormalLaw,
    PairNodes,
    PairsConditional,
    SharedNodes,
)
from ax_costaware.space.parameters import Choice, FreeParameter, Range, Row
from ax_costaware.space.space import Space


@dataclass(frozen=True, eq=False)
class DecodedConditional(Conditional):
    """Conditional that takes queries in the model's space."""

    conditional: Conditional
    """The conditional, in raw units."""

    space: Space
    """Search space, which encodes the parameters of the query."""

    names: tuple[str, ...]
    """The parameters in the order of the conditional's query columns."""

    @property
    @override
    def num_query_columns(self) -> int:
        return int(self.space.bounds.shape[-1])

    @property
    @override
    def num_latent_columns(self) -> int | None:
        return self.conditional.num_latent_columns

    @property
    @override
    def sums_to_one(self) -> bool:
        return self.conditional.sums_to_one

    @override
    def center(self, A: Tensor) -> Tensor | None:
        return self.conditional.center(self.raw(A))

    @override
    def column_rule(self, A: Tensor) -> ColumnNodes | None:
        return self.conditional.column_rule(self.raw(A))

    @override
    def pair_rule(self, A: Tensor, refinement: Sequence[int] = (1, 1)) -> PairNodes | None:
        return self.conditional.pair_rule(self.raw(A), refinement)

    @override
    def normal_law(self, A: Tensor) -> NormalLaw | None:
        return self.conditional.normal_law(self.raw(A))

    @override
    def refinement(self, reach: float) -> int:
        return self.conditional.refinement(reach)

    @override
    def refined(self, factor: int) -> Self:
        return replace(self, conditional=self.conditional.refined(factor))

    @override
    def joint_rule(self, A: Tensor) -> SharedNodes | JointNodes:
        rule = self.conditional.joint_rule(self.raw(A))
        if A.requires_grad and not (rule.nodes.requires_grad or rule.weights.requires_grad):
            # Adding zero keeps the query in the graph where the rule is piecewise constant.
            return replace(rule, weights=rule.weights + 0.0 * A.sum(dim=-1, keepdim=True))
        return rule

    @override
    def check_queries(self, A: Tensor) -> None:
        self.check_shape(A)
        self.conditional.check_queries(self.raw(A))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # Ax copies the options of a model for every fit, and learned conditionals are large.
        return self

    @override
    def within(self, lower: Any, upper: Any) -> Self:
        return replace(self, conditional=self.conditional.within(lower, upper))

    def raw(self, A: Tensor) -> Tensor:
        """Return the queries ``... x p`` of points ``... x (columns of the model's space)``."""
        if isinstance(self.conditional, FiniteConditional):
            rows = self.space.decode(A.reshape(-1, A.shape[-1]))
            return self.queries(rows).to(A).reshape(*A.shape[:-1], len(self.names))
        return torch.stack([self.space.raw(name, A) for name in self.names], dim=-1)

    def queries(self, rows: Sequence[Mapping[str, Any]]) -> Tensor:
        """Return the queries ``n x p`` of parameterizations in raw units.

        Raises:
            InputError: If a value stands for no query of a ``FiniteConditional``.
        """
        values = [row[name] for row in rows for name in self.names]
        if isinstance(self.conditional, FiniteConditional):
            values = policies_of(self.conditional, values)
        return torch.tensor(values, dtype=torch.double).reshape(len(rows), len(self.names))

    def check_rows(self, rows: Sequence[Row]) -> None:
        """Refuse parameterizations for which the conditional has no distribution.

        Raises:
            InputError: As ``check_queries`` and ``queries``.
        """
        self.conditional.check_queries(self.queries(rows))

    def check_answers(self, rows: Sequence[Row], num_columns: int) -> None:
        """Refuse a conditional of a user's own class whose nodes or weights are invalid.

        Args:
            rows: Some queries, as parameterizations in raw units.
            num_columns: The number of columns of a point, ``d``.

        Raises:
            InputError: If nodes or weights have another shape or dtype, are not finite, or weights
                do not sum to one, as those of shared nodes may.
        """
        A, what, d = self.queries(rows), f"conditional={self.conditional!r}", num_columns
        rule: object = self.conditional.column_rule(A)
        name = "joint_rule" if rule is None else "column_rule"
        rule = self.conditional.joint_rule(A) if rule is None else rule
        if not isinstance(rule, SharedNodes | JointNodes | ColumnNodes):
            kinds = "JointNodes or SharedNodes" if name == "joint_rule" else "ColumnNodes, or None"
            raise InputError(f"{what}: {name} gave {rule!r}; expected {kinds}.")
        leading = () if isinstance(rule, SharedNodes) else A.shape[:-1]
        whose = f"of {name} at queries of shape {tuple(A.shape)}"
        each = (*leading, None, d)
        shown = f"({', '.join(map(str, (*leading, 'J', d)))})"
        expected = f"finite numbers of shape {shown}, in the queries' dtype"
        nodes = finite_tensor(rule.nodes, f"{what}: nodes {whose}", each, expected)
        by_column = (d,) if isinstance(rule, ColumnNodes) else ()
        shape = (*A.shape[:-1], nodes.shape[-2], *by_column)
        expected = f"finite numbers of shape {tuple(shape)}, in the queries' dtype"
        weights = finite_tensor(rule.weights, f"{what}: weights {whose}", shape, expected)
        if {nodes.dtype, weights.dtype} != {A.dtype}:
            raise InputError(
                f"{what}: nodes and weights {whose} are {nodes.dtype} and {weights.dtype}; "
                f"expected {A.dtype}, as the queries are."
            )
        totals = weights.sum(dim=-2 if by_column else -1)
        if not isinstance(rule, SharedNodes) and bool(((totals - 1).abs() > SUM_TOLERANCE).any()):
            raise InputError(
                f"{what}: weights {whose} sum to {totals.flatten().tolist()}; expected a sum of "
                "one for each query."
            )

    def supported(self, A: Tensor) -> Tensor:
        """Return a mask of the points ``n x (columns)`` for which there is a distribution."""
        try:
            if len(A):
                self.check_queries(A)
        except InputError:
            if len(A) == 1:
                return torch.zeros(1, dtype=torch.bool, device=A.device)
            return torch.cat([self.supported(part) for part in A.chunk(2)])
        return torch.ones(len(A), dtype=torch.bool, device=A.device)


def policy_indices(conditional: FiniteConditional) -> dict[float | str, float]:
    """Return the index of each query, by the value that stands for it."""
    values = conditional.queries or range(len(conditional.policies))
    return {policy_key(value): float(i) for i, value in enumerate(values)}


def policies_of(conditional: FiniteConditional, values: Iterable[Any]) -> list[float]:
    """Return the indices of queries, by the values that stand for them.

    Raises:
        InputError: If a value stands for none.
    """
    index, keys = policy_indices(conditional), [policy_key(value) for value in values]
    if unknown := [key for key in keys if key not in index]:
        raise InputError(f"{unknown[0]!r}: expected one of the queries {[*index]}.")
    return [index[key] for key in keys]


def policy_key(value: Any) -> float | str:
    """Return the key of a value, the same for numbers of all types."""
    return str(value) if isinstance(value, str) else float(value)


class Pairs(NamedTuple):
    """Points and their queries, row by row."""

    X: tuple[tuple[float, ...], ...]
    """``n`` points of ``d`` numbers."""

    A: tuple[tuple[float, ...], ...]
    """``n`` queries of ``p`` numbers."""


def pairs_of(stored: StoredPairs, points: Sequence[str], queries: Sequence[str]) -> Pairs:
    """Return the stored pairs that have all columns.

    Args:
        stored: Stored pairs by side and name.
        points: Names of the parameters of a point, in the order of the columns.
        queries: The same for a query.
    """
    count, sides = _count(stored), (("X", points), ("A", queries))
    columns = [_column(stored.get(side, {}), n, count) for side, names in sides for n in names]
    rows = [row for row in zip(*columns, strict=True) if None not in row]
    split = len(points)
    return Pairs(tuple(row[:split] for row in rows), tuple(row[split:] for row in rows))


def joined(stored: StoredPairs, added: StoredPairs) -> StoredPairs:
    """Return stored pairs with added ones, by side and name.

    Missing entries are None, for example if another strategy has other names for its points.
    """
    before, more = _count(stored), _count(added)
    return {
        side: {
            name: _column(stored.get(side, {}), name, before) + _column(columns, name, more)
            for name in {**stored.get(side, {}), **columns}
        }
        for side, columns in added.items()
    }


def _count(pairs: StoredPairs) -> int:
    return max((len(column) for side in pairs.values() for column in side.values()), default=0)


def _column(columns: Mapping[str, Sequence[Any]], name: str, count: int) -> list[Any]:
    values = columns.get(name, ())
    return [*[None] * (count - len(values)), *values]


def with_pairs(conditional: Conditional, pairs: Pairs) -> Conditional:
    """Return a conditional with more pairs; any other conditional stays as it is.

    The same object is returned for the same pairs, so that it is fitted once.
    """
    if not isinstance(conditional, PairsConditional) or not pairs.X:
        return conditional
    return _with_pairs(conditional, pairs)


@lru_cache(maxsize=4)
def _with_pairs(conditional: PairsConditional, pairs: Pairs) -> PairsConditional:
    return conditional.with_pairs(pairs.X, pairs.A)


_LEAST = 1e-3
"""Least value of a column on a log scale, relative to its lower bound, which points may exceed."""


def checked_latent_parameters(parameters: object, name: str) -> tuple[FreeParameter, ...]:
    """Return parameters of latent points as a tuple, or refuse them."""
    found = sequence_of(parameters, name, "a list of parameters")
    if not found:
        raise InputError(f"{name}=[]: expected at least one parameter.")
    for one in found:
        if not isinstance(one, Range | Choice):
            raise InputError(f"{name} has {one!r}: expected ranges and choices.")
        if isinstance(one, Choice) and len(one.values) < 2:
            raise InputError(
                f"{name}: {one.name!r} has the values {list(one.values)}: expected two or more."
            )
    names = [parameter.name for parameter in found]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"{name} has {repeated} more than once.")
    return found


def latent_space(
    parameters: Sequence[FreeParameter],
    law: Conditional | None = None,
    device: torch.device | None = None,
) -> LatentSpace:
    """Return the space of latent points; that of a ``FiniteConditional`` is its set of points."""
    candidates = None
    if isinstance(law, FiniteConditional) and law.points is not None:
        candidates = torch.tensor(law.points, dtype=torch.double)
    return LatentSpace(
        _bounds_of(parameters).to(device),
        choices={i: p.grid for i, p in enumerate(parameters) if p.grid is not None},
        candidates=candidates,
    )


def _bounds_of(parameters: Sequence[FreeParameter]) -> Tensor:
    """Return the bounds of points, ``2 x d``."""
    return torch.tensor([[p.lower, p.upper] for p in parameters], dtype=torch.double).T.clone()


def latent_transform(parameters: Sequence[FreeParameter]) -> InputTransform | None:
    """Return the transform of points to the unit cube, logarithms first; codes are unchanged."""
    numeric = [i for i, p in enumerate(parameters) if p.is_numeric]
    if not numeric:
        return None
    logs = [i for i in numeric if parameters[i].log_scale]
    bounds = _bounds_of(parameters)
    bounds[:, logs] = bounds[:, logs].log10()
    normalize = Normalize(
        d=len(parameters),
        indices=numeric if len(numeric) < len(parameters) else None,
        bounds=bounds,
    )
    if not logs:
        return normalize
    least = [_LEAST * parameters[i].lower for i in logs]
    return ChainedInputTransform(log=_LogColumns(logs, least), unit=normalize)


class _LogColumns(Log10):
    """Decimal logarithms of some columns, clamped from below."""

    def __init__(self, indices: list[int], least: list[float]) -> None:
        super().__init__(indices)
        self.least = least

    @subset_transform  # type: ignore[untyped-decorator]
    def _transform(self, X: Tensor) -> Tensor:
        return torch.maximum(X, X.new_tensor(self.least)).log10()
