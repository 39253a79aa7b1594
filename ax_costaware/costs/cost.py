"""Declared costs of trials, as functions of their parameters.

A cost is a value object, which can be compared, printed and stored. ``at`` returns the cost of one
parameterization, ``__call__`` and ``evaluate`` return those of tensors. Costs are in the user's
unit, and parameters in raw units. A cost refers to parameters by name, or, for use in plain
BoTorch, to columns of ``X`` by index.
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
"""Relative tolerance of the values of a table, which may have gone through transforms."""

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
    """Declared cost of a trial, as a function of its parameters.

    The sum of two costs, or of a cost and a number, is a ``SumCost``.
    """

    __array_ufunc__ = None
    """Opts out of NumPy's operators, so that ``np.float64(1) + cost`` calls ``__radd__``."""

    @property
    @abstractmethod
    def parameters(self) -> tuple[Key, ...]:
        """Names, or indices of columns, of the parameters that the cost depends on."""

    @abstractmethod
    def evaluate(self, columns: Mapping[Any, Tensor]) -> Tensor:
        """Return the costs of many trials, differentiable in the columns.

        The costs are not checked: an affine cost may be zero or negative somewhere.

        Args:
            columns: Values of at least ``parameters``, in raw units: tensors of one shape.

        Returns:
            Costs of that shape; a scalar without any columns.

        Raises:
            InputError: If a parameter is missing, or the cost takes values that are no numbers.
        """

    def __add__(self, other: Any) -> Cost:
        """Return the sum of two costs, or of a cost and a number.

        Raises:
            InputError: If ``other`` is neither a cost nor a finite number >= 0.
        """
        term = _term(other)
        return self if term is None else SumCost((self, term))

    def __radd__(self, other: Any) -> Cost:
        """Return the sum as ``__add__`` does; ``sum(costs)`` starts with 0."""
        term = _term(other)
        return self if term is None else SumCost((term, self))

    def _of(self, values: Mapping[Any, Any]) -> float:
        """Return the cost for values of at least ``parameters``."""
        # As tensors, since a power of plain numbers may raise where it is infinite or NaN.
        columns = {
            key: torch.tensor(finite_number(values[key], f"values[{key!r}]"), dtype=torch.double)
            for key in self.parameters
        }
        return float(self.evaluate(columns))

    def at(self, values: Mapping[Any, Any]) -> float:
        """Return the cost of one trial.

        Args:
            values: Values of the parameters, in raw units. Other parameters are ignored.

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
        """Return the cost of one trial as a term of a sum, which may be zero and is not checked.

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
        """Return the costs of many trials, differentiable in ``X``; see ``evaluate``.

        Args:
            X: ``batch_shape x d`` parameterizations in raw units.

        Returns:
            ``batch_shape`` costs.

        Raises:
            InputError: If ``X`` is not a tensor of at least one dimension, or the cost is by names
                or by columns that ``X`` does not have.
        """
        if not isinstance(X, Tensor) or X.ndim == 0:
            raise InputError(f"X={X!r}: expected a tensor of shape batch_shape x d.")
        d, columns = X.shape[-1], {}
        each = X.unbind(-1)  # one node of the autograd graph, and not one per column
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
    """Constant cost of every trial.

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
    """Affine cost ``fixed + sum_i weight_i * x_i``, such as a price per epoch, gram or minute."""

    weights: tuple[tuple[Key, float], ...]
    """Parameters and the cost of one unit of each, sorted by parameter."""

    fixed: float
    """Cost of a trial whose parameters are zero."""

    def __init__(
        self, weights: Mapping[Any, float] | Iterable[Sequence[Any]], fixed: float = 0.0
    ) -> None:
        """Make an affine cost.

        Args:
            weights: Cost of one unit of each parameter: a mapping from names, or from column
                indices, to finite numbers, or pairs of both.
            fixed: Cost of a trial whose parameters are zero, a finite number.

        Raises:
            InputError: If weights are empty, not finite, repeat a parameter, or mix names and
                indices; or if ``fixed`` is not finite.
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
    """Cost ``scale * prod_i x_i ** power_i``, such as that of training by epochs and width."""

    powers: tuple[tuple[Key, float], ...]
    """Parameters and the power of each, sorted by parameter."""

    scale: float
    """Cost of a trial whose parameters are one."""

    def __init__(
        self, powers: Mapping[Any, float] | Iterable[Sequence[Any]], scale: float = 1.0
    ) -> None:
        """Make a cost that is a product of powers.

        Args:
            powers: Power of each parameter: a mapping from names, or from column indices, to finite
                numbers, or pairs of both.
            scale: Cost of a trial whose parameters are one, a finite number > 0.

        Raises:
            InputError: If powers are empty, not finite, repeat a parameter, or mix names and
                indices; or if ``scale`` is not a finite number > 0.
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
    """Table of costs by the value of one parameter, such as a choice or a fidelity."""

    parameter: Key
    """The parameter."""

    costs: tuple[tuple[RawValue, float], ...]
    """Values of the parameter and the cost of a trial with each, sorted by value."""

    def __init__(
        self, parameter: Key, costs: Mapping[Any, float] | Iterable[Sequence[Any]]
    ) -> None:
        """Make a table of costs.

        Args:
            parameter: Name of the parameter, or index of its column.
            costs: Cost of a trial with each value: a mapping from values, all numbers or all
                strings or all booleans, to finite numbers >= 0, or pairs of both. A cost of zero
                needs other terms of a sum that make the total > 0.

        Raises:
            InputError: If ``parameter`` is not a name or an index; or if costs are empty, not
                finite numbers >= 0, repeat a value, or mix kinds of values.
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
        """Return the cost of the nearest value, with gradient zero; see ``Cost.evaluate``.

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
        # Adding zero times the column gives a gradient of zero, and not no gradient.
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
    """Sum of costs, as made by ``+``, such as the price lists of several choices.

    Terms may be zero for some trials if the total is > 0.
    """

    terms: tuple[Cost, ...]
    """The terms, none of which is itself a sum."""

    def __init__(self, terms: Iterable[Cost]) -> None:
        """Make a sum of costs.

        Args:
            terms: Two or more costs, all by parameter names or all by columns. Sums among them are
                replaced by their terms.

        Raises:
            InputError: If there are fewer terms, one is not a cost, or they mix names and columns.
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
    """Return the other operand of ``+`` as a cost; None for zero."""
    if isinstance(given, Cost):
        return given
    number = nonnegative_number(plain_value(given), "the other term", _EXPECTED_TERM)
    return ConstantCost(number) if number else None


def _numbers_by_key(given: Any, what: str) -> tuple[tuple[Key, float], ...]:
    """Return the checked pairs of a parameter and a finite number, sorted by parameter."""
    pairs = pairs_of(given, what, _EXPECTED_NUMBERS)
    message = f"{what}={given!r}: expected {_EXPECTED_NUMBERS}."
    checked = [(_key(key, message), finite_number(n, f"{what}[{key!r}]")) for key, n in pairs]
    keys = [key for key, _ in checked]
    _of_one_kind(keys, what, _EXPECTED_NUMBERS)
    distinct(keys, what, _EXPECTED_NUMBERS)
    return tuple(sorted(checked))


def _of_one_kind(keys: Sequence[Key], what: str, expected: str) -> None:
    """Refuse a mix of names and column indices."""
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
