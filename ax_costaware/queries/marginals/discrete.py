"""The law of an input with finitely many values: integers, choices, booleans."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from ax_costaware.exceptions import InputError
from ax_costaware.queries.argument_checks import (
    column,
    finite_number,
    integer_at_least,
    nonnegative_number,
    sequence_of,
    unit_interval,
)
from ax_costaware.queries.marginals.marginal import Marginal, RawValue

_SUM_TOLERANCE = 1e-6
"""How far probabilities may be from a sum of one, so that those from single precision pass."""

_NODE_TOLERANCE = 1e-6
"""How far a node may be from a value, relative to the values' size: it went through transforms."""

_EXPECTED_VALUES = "one or more distinct values, all numbers or all strings or all booleans"


@dataclass(frozen=True, init=False)
class Discrete(Marginal):
    """A law on finitely many values.

    The nodes of a law on numbers are the values. Those of a law on strings or booleans are
    positions in ``values``, and its moments and support do not exist.
    """

    values: tuple[RawValue, ...]
    """The values, in the order given. Integers stay ``int`` where all values are integers."""

    probabilities: tuple[float, ...]
    """The probability of each value."""

    def __init__(
        self, values: Sequence[RawValue], probabilities: Sequence[float] | None = None
    ) -> None:
        """A law on ``values``.

        Args:
            values: Distinct values: all numbers, all strings or all booleans.
            probabilities: The probability of each; equal where not given.

        Raises:
            InputError: For no values, equal or mixed or non-finite ones; for probabilities that
                are negative, not one for each value, or do not sum to one (within 1e-6).
        """
        checked = _checked_values(values)
        object.__setattr__(self, "values", checked)
        object.__setattr__(self, "probabilities", _checked_probabilities(probabilities, checked))

    @property
    @override
    def is_numeric(self) -> bool:
        return not isinstance(self.values[0], str | bool)

    @property
    def mode(self) -> RawValue:
        """The most probable value, the first of several."""
        return self.values[self.probabilities.index(max(self.probabilities))]

    @property
    @override
    def expectation(self) -> float:
        nodes, weights = self._numbers("expectation")
        return float(nodes @ weights)

    @property
    @override
    def variance(self) -> float:
        nodes, weights = self._numbers("variance")
        return float((nodes - nodes @ weights).square() @ weights)

    @property
    @override
    def lower(self) -> float:
        return float(self._numbers("lower")[0][0])

    @property
    @override
    def upper(self) -> float:
        return float(self._numbers("upper")[0][-1])

    @property
    @override
    def nominal(self) -> RawValue:
        return self.mode

    @override
    def nodes_and_weights(self, n: int) -> tuple[Tensor, Tensor]:
        integer_at_least(n, 1, "n")
        return self._atoms()

    @override
    def cdf(self, nodes: Tensor) -> Tensor:
        atoms, weights = self._atoms()
        below = torch.searchsorted(atoms, nodes.detach().cpu().double(), right=True)
        return torch.cat([atoms.new_zeros(1), _cumulative(weights)])[below].to(nodes)

    @override
    def icdf(self, u: Tensor) -> Tensor:
        atoms, weights = self._atoms()
        p = unit_interval(u).detach().cpu().double().contiguous()
        return atoms[torch.searchsorted(_cumulative(weights), p)].to(u)

    @override
    def decode(self, nodes: Tensor) -> list[RawValue]:
        places = column(nodes)
        atoms = self._all_nodes()
        distance, nearest = (places.unsqueeze(-1) - atoms).abs().min(dim=-1)
        tolerance = _NODE_TOLERANCE * (1.0 + atoms[nearest].abs())
        strangers = places[~(distance <= tolerance)]
        if len(strangers):
            what = "values" if self.is_numeric else "positions"
            raise InputError(
                f"nodes has the entry {float(strangers[0])!r}: expected {what} of {self!r}."
            )
        return [self.values[int(index)] for index in nearest]

    def _all_nodes(self) -> Tensor:
        if self.is_numeric:
            return torch.tensor([float(value) for value in self.values], dtype=torch.double)
        return torch.arange(len(self.values), dtype=torch.double)

    def _atoms(self) -> tuple[Tensor, Tensor]:
        """Nodes of positive probability in increasing order, and their probabilities."""
        nodes = self._all_nodes()
        weights = torch.tensor(self.probabilities, dtype=torch.double)
        order = nodes.argsort()
        order = order[weights[order] > 0]
        return nodes[order], weights[order] / weights.sum()

    def _numbers(self, what: str) -> tuple[Tensor, Tensor]:
        if not self.is_numeric:
            raise InputError(
                f"values={list(self.values)!r} are not numbers and have no {what}: "
                "expected numbers; the most probable value is the mode."
            )
        return self._atoms()


def _cumulative(weights: Tensor) -> Tensor:
    cumulative = weights.cumsum(dim=0).clamp_max(1.0)
    cumulative[-1] = 1.0
    return cumulative


def _checked_values(values: Any) -> tuple[RawValue, ...]:
    items = sequence_of(values, "values", _EXPECTED_VALUES)
    items = tuple(item.item() if isinstance(item, np.generic) else item for item in items)
    if not items:
        raise InputError(f"values={values!r}: expected {_EXPECTED_VALUES}.")
    checked: tuple[RawValue, ...]
    if all(isinstance(item, bool) for item in items) or all(
        isinstance(item, str) for item in items
    ):
        checked = items
    else:
        numbers = tuple(finite_number(item, "values", _EXPECTED_VALUES) for item in items)
        integers = all(isinstance(item, Integral) for item in items)
        checked = tuple(int(item) for item in items) if integers else numbers
        items = numbers
    if len(set(items)) < len(items):
        repeated = next(item for i, item in enumerate(items) if item in items[:i])
        raise InputError(f"values has {repeated!r} more than once: expected {_EXPECTED_VALUES}.")
    return checked


def _checked_probabilities(probabilities: Any, values: tuple[RawValue, ...]) -> tuple[float, ...]:
    if probabilities is None:
        return (1.0 / len(values),) * len(values)
    expected = f"{len(values)} numbers >= 0 that sum to one, one for each value"
    given = sequence_of(probabilities, "probabilities", expected)
    checked = tuple(nonnegative_number(p, f"probabilities[{i}]") for i, p in enumerate(given))
    total = math.fsum(checked)
    if len(checked) != len(values):
        raise InputError(
            f"probabilities={list(checked)!r} has {len(checked)} entries: expected {expected}."
        )
    if abs(total - 1.0) > _SUM_TOLERANCE:
        raise InputError(f"probabilities={list(checked)!r} sum to {total!r}: expected {expected}.")
    return checked
