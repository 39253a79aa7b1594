"""The law of a point given a query, as far as it is known, on points of the model's input space.

A conditional takes queries in raw units, one column for each parameter of the query. To the model
a parameter may be a logarithm or a block of one-hot columns, and a fixed one is no column at all;
``DecodedConditional`` decodes such points, differentiably, and asks the conditional. Pairs of a
point and its query that an experiment gathers while it runs are added to what a method was given.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Self

import numpy as np
import torch
from botorch.models.transforms.input import (
    ChainedInputTransform,
    InputTransform,
    Normalize,
    ReversibleInputTransform,
)
from torch import Tensor
from torch.nn import Module
from typing_extensions import override

from ax_costaware.acquisition.target_space import TargetSpace
from ax_costaware.exceptions import InputError
from ax_costaware.methods.parameters import Choice, FreeParameter, Range
from ax_costaware.methods.problem import Array
from ax_costaware.methods.problem import Pairs as StoredPairs
from ax_costaware.methods.space import Space
from ax_costaware.queries.conditionals import (
    ColumnNodes,
    Conditional,
    FiniteConditional,
    JointNodes,
    LearnedConditional,
    NormalLaw,
    SharedNodes,
)


@dataclass(frozen=True, eq=False)
class DecodedConditional(Conditional):
    """``conditional`` at points of the model's space."""

    conditional: Conditional
    """The conditional, in raw units."""

    space: Space
    """How the parameters of the query are encoded."""

    names: tuple[str, ...]
    """The parameters in the order of the conditional's query columns."""

    @property
    @override
    def num_query_columns(self) -> int:
        return int(self.space.bounds.shape[-1])

    @property
    @override
    def num_target_columns(self) -> int | None:
        return self.conditional.num_target_columns

    @override
    def column_rule(self, A: Tensor) -> ColumnNodes | None:
        return self.conditional.column_rule(self.raw(A))

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
        return self.conditional.joint_rule(self.raw(A))

    @override
    def check_queries(self, A: Tensor) -> None:
        self.check_shape(A)
        self.conditional.check_queries(self.raw(A))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # Ax copies the options of a model for every fit; what the conditional has learned, and
        # keeps, is large.
        return self

    @override
    def within(self, lower: Any, upper: Any) -> Self:
        return replace(self, conditional=self.conditional.within(lower, upper))

    def raw(self, A: Tensor) -> Tensor:
        """The queries ``... x p`` of points ``... x (columns of the model's space)``."""
        return torch.stack([self._column(name, A) for name in self.names], dim=-1)

    def supported(self, A: Tensor) -> Tensor:
        """Which of points ``n x (columns of the model's space)`` the conditional answers for."""
        refused = len(A) > 0 and _refusal(self, A) is not None
        if not refused or len(A) == 1:
            return torch.full((len(A),), not refused, dtype=torch.bool, device=A.device)
        middle = len(A) // 2
        return torch.cat([self.supported(A[:middle]), self.supported(A[middle:])])

    def _column(self, name: str, A: Tensor) -> Tensor:
        if not isinstance(self.conditional, FiniteConditional):
            return self.space.raw(name, A)
        return _policy_index(self.conditional, self.space, name, A)


def query_rows(
    conditional: Conditional, names: tuple[str, ...], parameters: list[dict[str, Any]]
) -> Tensor:
    """The queries ``n x p`` of parameterizations in raw units.

    Raises:
        KeyError: If a value stands for no query of a ``FiniteConditional``.
    """
    if isinstance(conditional, FiniteConditional):
        index = policy_indices(conditional)
        rows = [[index[policy_key(row[name])] for name in names] for row in parameters]
    else:
        rows = [[float(row[name]) for name in names] for row in parameters]
    return torch.tensor(rows, dtype=torch.double).reshape(len(parameters), len(names))


def policy_indices(conditional: FiniteConditional) -> dict[float | str, float]:
    """The index of each query, by the value that stands for it."""
    values = conditional.queries or range(len(conditional.policies))
    return {policy_key(value): float(i) for i, value in enumerate(values)}


def policy_key(value: Any) -> float | str:
    """How a value is looked up: numbers of all types alike."""
    return str(value) if isinstance(value, str) else float(value)


def _policy_index(conditional: FiniteConditional, space: Space, name: str, A: Tensor) -> Tensor:
    index = policy_indices(conditional)
    column = space.columns.get(name)
    if column is None:
        return A.new_full(A.shape[:-1], index[policy_key(space.fixed[name])])
    parameter = column.parameter
    if isinstance(parameter, Choice):
        indices = A.new_tensor([index[policy_key(value)] for value in parameter.values])
        return indices[column.weights(A).argmax(dim=-1)]
    values = A.new_tensor([key for key in index if not isinstance(key, str)])
    nearest = (column.raw(A).detach().unsqueeze(-1) - values).abs().argmin(dim=-1)
    return nearest.to(A)


def _refusal(conditional: Conditional, A: Tensor) -> ValueError | None:
    try:
        conditional.check_queries(A)
    except ValueError as error:
        return error
    return None


@dataclass(frozen=True, eq=False)
class Pairs:
    """Points and their queries, row by row."""

    X: Array
    """``n x d`` points."""

    A: Array
    """``n x p`` queries."""

    def __len__(self) -> int:
        return len(self.X)

    @property
    def digest(self) -> str:
        """Different for different pairs."""
        return hashlib.sha256(self.X.tobytes() + b"|" + self.A.tobytes()).hexdigest()


def pairs_of(stored: StoredPairs, points: Sequence[str], queries: Sequence[str]) -> Pairs:
    """Pairs that were gathered; none at first.

    Args:
        stored: Them by side and name.
        points: Names of the parameters of a point, in the order that is wanted.
        queries: The same of a query.
    """
    found = []
    for side, names in (("X", points), ("A", queries)):
        part = stored.get(side) or {}
        columns = [np.array(part.get(name) or [], dtype=np.float64) for name in names]
        found.append(np.stack(columns, axis=-1) if columns else np.empty((0, 0)))
    return Pairs(*found)


def grown(conditional: Conditional, pairs: Pairs) -> Conditional:
    """A conditional that has learned from more pairs, too; any other stays as it is.

    The same object is returned for the same pairs, so that it is fitted once.
    """
    if not isinstance(conditional, LearnedConditional) or not len(pairs):
        return conditional
    found = _grown(_Same(conditional), _Keyed(pairs, pairs.digest))
    assert isinstance(found, Conditional)
    return found


@dataclass(frozen=True, eq=False)
class _Same:
    """An object that is equal to itself only; comparing the pairs of a conditional takes long."""

    value: LearnedConditional

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


@dataclass(frozen=True, eq=False)
class _Keyed:
    pairs: Pairs
    digest: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Keyed) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


@lru_cache(maxsize=4)
def _grown(conditional: _Same, pairs: _Keyed) -> Any:
    return conditional.value.with_pairs(pairs.pairs.X, pairs.pairs.A)


_LEAST = 1e-3
"""A column on a log scale is kept above this part of its lower bound: a law may reach beyond it."""


def checked_targets(parameters: object) -> tuple[FreeParameter, ...]:
    """Parameters of points as a tuple; refuses what is none, naming ``target_parameters``."""
    if not isinstance(parameters, Iterable) or isinstance(parameters, str | Mapping):
        raise InputError(f"target_parameters={parameters!r}: expected a list of parameters.")
    found = tuple(parameters)
    if not found:
        raise InputError("target_parameters=[]: expected at least one parameter.")
    for one in found:
        if not isinstance(one, Range | Choice):
            raise InputError(f"target_parameters has {one!r}: expected ranges and choices.")
        if isinstance(one, Choice) and len(one.values) < 2:
            raise InputError(
                f"target_parameters: {one.name!r} has the values {list(one.values)}: expected two "
                "or more."
            )
    names = [parameter.name for parameter in found]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"target_parameters has {repeated} more than once.")
    return found


def target_space(
    parameters: Sequence[FreeParameter], law: Conditional | None = None
) -> TargetSpace:
    """Where points may be; the points of a ``FiniteConditional`` are all that there are."""
    candidates = None
    if isinstance(law, FiniteConditional) and law.points is not None:
        candidates = torch.tensor(law.points, dtype=torch.double)
    ends = [[p.lower for p in parameters], [p.upper for p in parameters]]
    return TargetSpace(
        torch.tensor(ends, dtype=torch.double),
        choices={i: p.grid for i, p in enumerate(parameters) if p.grid is not None},
        candidates=candidates,
    )


def target_transform(parameters: Sequence[FreeParameter]) -> InputTransform | None:
    """From points in raw units to the unit cube, logarithms first; codes stay as they are."""
    numeric = [i for i, p in enumerate(parameters) if p.is_numeric]
    if not numeric:
        return None
    logs = [i for i in numeric if parameters[i].log_scale]

    def bound(side: str) -> list[float]:
        values = [float(getattr(p, side)) for p in parameters]
        return [math.log10(v) if i in logs else v for i, v in enumerate(values)]

    normalize = Normalize(
        d=len(parameters),
        indices=numeric if len(numeric) < len(parameters) else None,
        bounds=torch.tensor([bound("lower"), bound("upper")], dtype=torch.double),
    )
    if not logs:
        return normalize
    least = [_LEAST * parameters[i].lower for i in logs]
    return ChainedInputTransform(log=_LogColumns(logs, least), unit=normalize)


class _LogColumns(ReversibleInputTransform, Module):
    """Decimal logarithms of some columns, which are kept above least values."""

    def __init__(self, indices: Sequence[int], least: Sequence[float]) -> None:
        super().__init__()
        self.transform_on_train = self.transform_on_eval = True
        self.transform_on_fantasize = True
        self.reverse = False
        self.is_one_to_many = False
        self.columns = list(indices)
        self.least = list(least)

    def _transform(self, X: Tensor) -> Tensor:
        found = X.clone()
        least = X.new_tensor(self.least)
        found[..., self.columns] = torch.maximum(X[..., self.columns], least).log10()
        return found

    def _untransform(self, X: Tensor) -> Tensor:
        found = X.clone()
        found[..., self.columns] = 10.0 ** X[..., self.columns]
        return found
