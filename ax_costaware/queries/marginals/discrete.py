"""The law of an input with finitely many values: integers, choices, booleans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from typing_extensions import override

from ax_costaware.exceptions import InputError
from ax_costaware.queries.argument_checks import (
    column,
    distinct,
    integer_at_least,
    probabilities,
    set_fields,
    values_of_one_kind,
)
from ax_costaware.queries.marginals.marginal import AtomicMarginal, RawValue

_NODE_TOLERANCE = 1e-6
"""How far a node may be from a value, relative to the values' size: it went through transforms."""

_EXPECTED_VALUES = "one or more distinct values, all numbers or all strings or all booleans"


@dataclass(frozen=True, init=False)
class Discrete(AtomicMarginal):
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
        shares = _checked_probabilities(probabilities, len(checked))
        set_fields(self, values=checked, probabilities=shares)

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
    def nominal(self) -> RawValue:
        return self.mode

    @override
    def nodes_and_weights(self, n: int) -> tuple[Tensor, Tensor]:
        integer_at_least(n, 1, "n")
        nodes, masses = self._atoms()
        return nodes, masses / masses.sum()

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

    @override
    def _atoms(self) -> tuple[Tensor, Tensor]:
        nodes = self._all_nodes()
        masses = torch.tensor(self.probabilities, dtype=torch.double)
        order = nodes.argsort()
        order = order[masses[order] > 0]
        return nodes[order], masses[order]

    @override
    def _numbers(self, what: str) -> tuple[Tensor, Tensor]:
        if not self.is_numeric:
            raise InputError(
                f"values={list(self.values)!r} are not numbers and have no {what}: "
                "expected numbers; the most probable value is the mode."
            )
        return super()._numbers(what)


def _checked_values(values: Any) -> tuple[RawValue, ...]:
    items = values_of_one_kind(values, "values", _EXPECTED_VALUES)
    if not items:
        raise InputError(f"values={values!r}: expected {_EXPECTED_VALUES}.")
    distinct(items, "values", _EXPECTED_VALUES)
    return items


def _checked_probabilities(given: Any, count: int) -> tuple[float, ...]:
    if given is None:
        return (1.0 / count,) * count
    expected = f"{count} numbers >= 0 that sum to one, one for each value"
    return probabilities(given, "probabilities", expected, count)
