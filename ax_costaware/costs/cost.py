"""What a trial costs, as a known function of its parameters.

A cost is a value object: it is compared, printed and stored, and gives the cost of one
parameterization (``at``) or of tensors of them (``__call__``, ``evaluate``). Costs are in the
user's own unit, and the parameters they read are in raw units. A cost names parameters, or, to be
used in BoTorch without names, column indices of ``X``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, TypeAlias

import torch
from torch import Tensor
from typing_extensions import override

from ax_costaware.argument_checks import (
    check_fields,
    distinct,
    finite_number,
    instance_of,
    nonnegative_number,
    pairs_of,
    plain_value,
    positive_number,
    sequence_of,
    set_fields,
    values_of_one_kind,
)
from ax_costaware.exceptions import InputError
from ax_costaware.laws.marginals.marginal import RawValue, floating

Key: TypeAlias = str | int
"""A parameter's name, or the index of its column, which may count from the end (-1)."""

_SAME_VALUE = 1e-6
"""How far a number may be from one of a table, relatively: it may have gone through transforms."""

_EXPECTED_KEY = "a parameter's name, or the index of its column"
_EXPECTED_NUMBERS = (
    "a mapping from one or more parameters to finite numbers, all parameters by name or all by "
    "the index of their column"
)
_EXPECTED_COSTS = (
    "a mapping from one or more values, all numbers or all strings or all booleans, to finite "
    "costs >= 0"
)
_EXPECTED_TERM = (
    "a cost such as AffineCost({'epochs': 2.5}), or a finite number >= 0 (a SwitchingCost takes "
    "the sum as its base)"
)
_EXPECTED_TERMS = "a sequence of two or more costs, all by parameter names or all by columns"


class Cost(ABC):
    """What a trial costs, as a known function of its parameters.

    Costs add up: the sum of two costs, or of a cost and a number, is a ``SumCost``.
    """

    __array_ufunc__ = None
    """Lets a NumPy number on the left of ``+`` leave the sum to the cost."""

    @property
    @abstractmethod
    def parameters(self) -> tuple[Key, ...]:
        """Names, or indices of columns, of the parameters that the cost depends on."""

    @abstractmethod
    def evaluate(self, columns: Mapping[Any, Tensor]) -> Tensor:
        """The costs of many trials, differentiable in the columns.

        The costs are not checked: an affine cost may be zero or negative somewhere.

        Args:
            columns: The values of at least ``parameters``, in raw units: tensors of one shape.

        Returns:
            Costs of the shape of the columns, a scalar where no columns are given and none needed.

        Raises:
            InputError: If a parameter is missing, or its values are not numbers in the cost.
        """

    def __add__(self, other: Any) -> Cost:
        """The sum of two costs, or of a cost and a number.

        Raises:
            InputError: If ``other`` is neither a cost nor a finite number >= 0.
        """
        term = _term(other)
        return self if term is None else SumCost((self, term))

    def __radd__(self, other: Any) -> Cost:
        """As ``__add__``, also for ``sum(costs)``, which begins with 0."""
        term = _term(other)
        return self if term is None else SumCost((term, self))

    def _of(self, values: Mapping[Any, Any]) -> float:
        """The cost for values of at least ``parameters``."""
        # A power may be infinite or no number, which tensors say, and plain numbers raise.
        columns = {
            key: torch.tensor(finite_number(values[key], f"values[{key!r}]"), dtype=torch.double)
            for key in self.parameters
        }
        return float(self.evaluate(columns))

    def at(self, values: Mapping[Any, Any]) -> float:
        """The cost of one trial.

        Args:
            values: The value of each parameter, in raw units. Parameters that the cost does not
                depend on may be there too.

        Raises:
            InputError: If a parameter is missing or has a value that the cost is not defined for,
                or the cost is not a finite number > 0.
        """
        cost = self.part_at(values)
        if not (cost > 0 and math.isfinite(cost)):
            raise InputError(
                f"values={values!r} cost {cost!r} by {self!r}: expected a finite cost > 0."
            )
        return cost

    def part_at(self, values: Mapping[Any, Any]) -> float:
        """The cost of one trial as a term of a sum, which may be zero and is not checked.

        Args:
            values: As in ``at``.

        Raises:
            InputError: If a parameter is missing or has a value that the cost is not defined for.
        """
        instance_of(values, "values", Mapping, "a mapping from parameters to values")
        for key in self.parameters:
            if key not in values:
                raise InputError(f"values={values!r}: expected also a value of {key!r}.")
        return self._of(values)

    def __call__(self, X: Tensor) -> Tensor:
        """The costs of many trials, differentiable in ``X``; see ``evaluate``.

        Args:
            X: ``batch_shape x d`` parameterizations in raw units.

        Returns:
            ``batch_shape`` costs.

        Raises:
            InputError: If ``X`` is no tensor of at least one dimension, or the cost names
                parameters, or columns that ``X`` does not have.
        """
        if not isinstance(X, Tensor) or X.ndim == 0:
            raise InputError(f"X={X!r}: expected a tensor of shape batch_shape x d.")
        d, columns = X.shape[-1], {}
        each = X.unbind(-1)  # one step of the gradient, where indices are one for each column
        for key in self.parameters:
            if isinstance(key, str):
                raise InputError(
                    f"{self!r} is evaluated on a tensor and has the parameter {key!r}: expected "
                    "the index of its column."
                )
            if not -d <= key < d:
                raise InputError(
                    f"X of shape {tuple(X.shape)}: expected a column {key}, which {self!r} needs."
                )
            columns[key] = each[key]
        return self.evaluate(columns).to(floating(X)).expand(X.shape[:-1])


@dataclass(frozen=True)
class ConstantCost(Cost):
    """Every trial costs the same.

    Raises:
        InputError: If ``value`` is not a finite number > 0.
    """

    value: float
    """Cost of one trial, in the user's own unit."""

    parameters = ()

    def __post_init__(self) -> None:
        check_fields(self, value=positive_number)

    @override
    def evaluate(self, columns: Mapping[Any, Tensor]) -> Tensor:
        like = next(iter(columns.values()), torch.zeros((), dtype=torch.double))
        return torch.full_like(floating(like), self.value)


@dataclass(frozen=True, init=False, repr=False)
class AffineCost(Cost):
    """A fixed cost, and so much for each unit of some parameters: epochs, grams, minutes.

    With ``fixed=0`` the cost is linear.
    """

    weights: tuple[tuple[Key, float], ...]
    """Parameters and the cost of one unit of each, sorted by parameter."""

    fixed: float
    """Cost of a trial whose parameters are zero."""

    def __init__(
        self, weights: Mapping[Any, float] | Iterable[Sequence[Any]], fixed: float = 0.0
    ) -> None:
        """An affine cost.

        Args:
            weights: The cost of one unit of each parameter: a mapping from names, or from indices
                of columns, to finite numbers, or pairs of them.
            fixed: Cost of a trial whose parameters are zero, a finite number.

        Raises:
            InputError: For weights that are none, not finite, of one parameter twice, or of names
                and indices mixed; for a ``fixed`` that is not finite.
        """
        checked = _numbers_by_key(weights, "weights")
        set_fields(self, weights=checked, fixed=finite_number(fixed, "fixed"))

    def __repr__(self) -> str:
        return f"AffineCost({dict(self.weights)!r}, fixed={self.fixed!r})"

    @property
    @override
    def parameters(self) -> tuple[Key, ...]:
        return tuple(key for key, _ in self.weights)

    @override
    def evaluate(self, columns: Mapping[Any, Tensor]) -> Tensor:
        first, *others = (weight * _column(columns, key) for key, weight in self.weights)
        return sum(others, first) + self.fixed


@dataclass(frozen=True, init=False, repr=False)
class ProductCost(Cost):
    """A product of powers of some parameters: what training costs, by epochs and width."""

    powers: tuple[tuple[Key, float], ...]
    """Parameters and the power of each, sorted by parameter."""

    scale: float
    """Cost of a trial whose parameters are one."""

    def __init__(
        self, powers: Mapping[Any, float] | Iterable[Sequence[Any]], scale: float = 1.0
    ) -> None:
        """A cost that is a product.

        Args:
            powers: The power of each parameter: a mapping from names, or from indices of columns,
                to finite numbers, or pairs of them. A negative one divides by its parameter.
            scale: Cost of a trial whose parameters are one, a finite number > 0.

        Raises:
            InputError: For powers that are none, not finite, of one parameter twice, or of names
                and indices mixed; for a ``scale`` that is not a finite number > 0.
        """
        checked = _numbers_by_key(powers, "powers")
        set_fields(self, powers=checked, scale=positive_number(scale, "scale"))

    def __repr__(self) -> str:
        return f"ProductCost({dict(self.powers)!r}, scale={self.scale!r})"

    @property
    @override
    def parameters(self) -> tuple[Key, ...]:
        return tuple(key for key, _ in self.powers)

    @override
    def evaluate(self, columns: Mapping[Any, Tensor]) -> Tensor:
        first, *others = (_column(columns, key) ** power for key, power in self.powers)
        return math.prod(others, start=self.scale * first)


@dataclass(frozen=True, init=False, repr=False)
class TableCost(Cost):
    """A cost for each value of one parameter: of a choice, a fidelity, an instrument."""

    parameter: Key
    """The parameter that decides."""

    costs: tuple[tuple[RawValue, float], ...]
    """Values of the parameter and the cost of a trial with each, sorted by value."""

    def __init__(
        self, parameter: Key, costs: Mapping[Any, float] | Iterable[Sequence[Any]]
    ) -> None:
        """A table of costs.

        Args:
            parameter: Name of the parameter that decides, or index of its column.
            costs: The cost of a trial with each value: a mapping from values, all numbers or all
                strings or all booleans, to finite numbers >= 0, or pairs of them. A value may cost
                nothing where other terms of a sum make the whole > 0.

        Raises:
            InputError: For any other ``parameter``; for costs that are none, not finite and >= 0,
                of one value twice, or of values of different kinds.
        """
        given = pairs_of(costs, "costs", _EXPECTED_COSTS)
        values = values_of_one_kind([v for v, _ in given], "the values of costs", _EXPECTED_COSTS)
        distinct(values, "costs", _EXPECTED_COSTS)
        checked = [
            (value, nonnegative_number(cost, f"costs[{value!r}]"))
            for value, (_, cost) in zip(values, given, strict=True)
        ]
        name = _key(parameter, f"parameter={parameter!r}: expected {_EXPECTED_KEY}.")
        set_fields(self, parameter=name, costs=tuple(sorted(checked)))

    def __repr__(self) -> str:
        return f"TableCost({self.parameter!r}, {dict(self.costs)!r})"

    @property
    @override
    def parameters(self) -> tuple[Key, ...]:
        return (self.parameter,)

    @override
    def evaluate(self, columns: Mapping[Any, Tensor]) -> Tensor:
        """The cost of the nearest value, whose gradient is zero; see ``Cost.evaluate``.

        Booleans are the numbers 0 and 1. An entry that is infinite or NaN has the cost NaN.
        """
        values = [value for value, _ in self.costs]
        if isinstance(values[0], str):
            raise InputError(
                f"{self!r} is evaluated on a tensor and has the value {values[0]!r}: expected a "
                "cost whose values are numbers or booleans."
            )
        column = _column(columns, self.parameter)
        places = torch.tensor([float(value) for value in values], dtype=torch.double)
        halfway = (places[:-1] / 2 + places[1:] / 2).to(column.device)
        nearest = torch.bucketize(column.detach().double().contiguous(), halfway)
        costs = torch.tensor([cost for _, cost in self.costs], dtype=torch.double).to(column)
        # The zero keeps the column in the graph, with the gradient that a step has.
        return costs[nearest] + 0.0 * column

    @override
    def _of(self, values: Mapping[Any, Any]) -> float:
        given = values[self.parameter]
        value = plain_value(given)
        costs: dict[Any, float] = dict(self.costs)
        known = self.costs[0][0]
        if isinstance(known, str | bool):
            if type(value) is type(known) and value in costs:
                return costs[value]
        elif isinstance(value, Real) and not isinstance(value, bool):
            number = finite_number(value, f"values[{self.parameter!r}]")
            nearest = min(costs, key=lambda known: abs(float(known) - number))
            if math.isclose(number, nearest, rel_tol=_SAME_VALUE):
                return costs[nearest]
        raise InputError(f"values[{self.parameter!r}]={given!r}: expected one of {list(costs)}.")


@dataclass(frozen=True, init=False, repr=False)
class SumCost(Cost):
    """A sum of costs, such as the price list of several choices; ``+`` makes it.

    A term may be zero for some trials where the whole is > 0.
    """

    terms: tuple[Cost, ...]
    """What is added up; no term is itself a sum."""

    def __init__(self, terms: Iterable[Cost]) -> None:
        """A sum of costs.

        Args:
            terms: Two or more costs, all by parameter names or all by columns. The terms of a sum
                among them become terms of this one.

        Raises:
            InputError: For fewer terms, for one that is no cost, or for terms by names and by
                columns.
        """
        given = sequence_of(terms, "terms", _EXPECTED_TERMS)
        if len(given) < 2:
            raise InputError(f"terms={terms!r}: expected {_EXPECTED_TERMS}.")
        flat: list[Cost] = []
        for i, term in enumerate(given):
            instance_of(term, f"terms[{i}]", Cost, "a cost such as AffineCost({'epochs': 2.5})")
            flat += term.terms if isinstance(term, SumCost) else [term]
        set_fields(self, terms=tuple(flat))
        _of_one_kind(self.parameters, f"terms={flat!r}", _EXPECTED_TERMS)

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.terms))

    @property
    @override
    def parameters(self) -> tuple[Key, ...]:
        return tuple(dict.fromkeys(key for term in self.terms for key in term.parameters))

    @override
    def evaluate(self, columns: Mapping[Any, Tensor]) -> Tensor:
        first, *others = (term.evaluate(columns) for term in self.terms)
        return sum(others, first)

    @override
    def _of(self, values: Mapping[Any, Any]) -> float:
        return sum(term.part_at(values) for term in self.terms)


def _term(given: Any) -> Cost | None:
    """What is added to a cost, as a cost; None for zero."""
    if isinstance(given, Cost):
        return given
    number = nonnegative_number(plain_value(given), "the other term", _EXPECTED_TERM)
    return ConstantCost(number) if number else None


def _numbers_by_key(given: Any, what: str) -> tuple[tuple[Key, float], ...]:
    """Parameters and a finite number for each, sorted by parameter."""
    pairs = pairs_of(given, what, _EXPECTED_NUMBERS)
    message = f"{what}={given!r}: expected {_EXPECTED_NUMBERS}."
    checked = [(_key(key, message), finite_number(n, f"{what}[{key!r}]")) for key, n in pairs]
    keys = [key for key, _ in checked]
    _of_one_kind(keys, what, _EXPECTED_NUMBERS)
    distinct(keys, what, _EXPECTED_NUMBERS)
    return tuple(sorted(checked))


def _of_one_kind(keys: Sequence[Key], what: str, expected: str) -> None:
    """Refuse names beside indices of columns."""
    for key in keys:
        if type(key) is not type(keys[0]):
            raise InputError(f"{what} has the keys {keys[0]!r} and {key!r}: expected {expected}.")


def _key(key: Any, message: str) -> Key:
    if isinstance(key, str) and key:
        return str(key)
    if isinstance(key, Integral) and not isinstance(key, bool):
        return int(key)
    raise InputError(message)


def _column(columns: Mapping[Any, Tensor], key: Key) -> Tensor:
    if key not in columns:
        raise InputError(f"columns={list(columns)!r}: expected also the column {key!r}.")
    return floating(columns[key])
