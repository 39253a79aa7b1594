"""Distributions on finitely many values: given ones, or those of a sample."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from ax_costaware.argument_checks import (
    checked_items,
    distinct,
    integer_at_least,
    probabilities,
    set_fields,
    values_of_one_kind,
)
from ax_costaware.exceptions import InputError
from ax_costaware.laws.marginals.marginal import (
    Marginal,
    RawValue,
    column,
    floating,
    unit_interval,
)
from ax_costaware.laws.quadrature import gauss_rule

_NODE_TOLERANCE = 1e-6
"""Relative tolerance of nodes, which may have gone through transforms."""

_EXPECTED_VALUES = "one or more distinct values, all numbers or all strings or all booleans"

_MAX_PRINTED = 8
"""Sample size above which a sample is printed by its size and range."""

_SAMPLES = "one or more finite numbers in a list, array or one-dimensional tensor"


class AtomicMarginal(Marginal):
    """Distribution with finitely many nodes."""

    @abstractmethod
    def _atoms(self) -> tuple[Tensor, Tensor]:
        """Return increasing nodes and their masses > 0, of any sum, both double."""

    def _numbers(self, what: str) -> tuple[Tensor, Tensor]:
        """Return nodes and weights of a distribution on numbers.

        Args:
            what: Name of the quantity that needs numbers, for the message.
        """
        nodes, masses = self._atoms()
        return nodes, masses / masses.sum()

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

    @override
    def cdf(self, nodes: Tensor) -> Tensor:
        atoms, reached = self._steps()
        # Atoms are rounded to the nodes' dtype, so that a rounded node counts as its atom.
        x = floating(nodes.detach().cpu())
        below = torch.searchsorted(atoms.to(x), x, right=True)
        return torch.cat([reached.new_zeros(1), reached])[below].to(floating(nodes))

    @override
    def icdf(self, u: Tensor) -> Tensor:
        atoms, reached = self._steps()
        p = unit_interval(u).detach().cpu().double().contiguous()
        return atoms[torch.searchsorted(reached, p)].to(u)

    def _steps(self) -> tuple[Tensor, Tensor]:
        """Return the nodes, and the distribution function at them."""
        nodes, masses = self._atoms()
        reached = masses.cumsum(dim=0)
        return nodes, reached / reached[-1]


@dataclass(frozen=True, init=False)
class Discrete(AtomicMarginal):
    """Distribution on finitely many values.

    Nodes are the values if these are numbers. For strings or booleans they are positions in
    ``values``, and moments and support do not exist.
    """

    values: tuple[RawValue, ...]
    """Values in the given order. Integers stay ``int`` if all values are integers."""

    probabilities: tuple[float, ...]
    """Probability of each value."""

    def __init__(
        self, values: Sequence[RawValue], probabilities: Sequence[float] | None = None
    ) -> None:
        """Make a distribution on ``values``.

        Args:
            values: Distinct values: all numbers, all strings or all booleans.
            probabilities: Probability of each value; None for equal ones.

        Raises:
            InputError: If values are empty, not distinct, of mixed kinds or not finite; or if
                probabilities are negative, not one per value, or do not sum to one (within 1e-6).
        """
        checked = values_of_one_kind(values, "values", _EXPECTED_VALUES)
        if not checked:
            raise InputError(f"values={values!r}: expected {_EXPECTED_VALUES}.")
        distinct(checked, "values", _EXPECTED_VALUES)
        shares = _checked_probabilities(probabilities, len(checked))
        set_fields(self, values=checked, probabilities=shares)

    @property
    @override
    def is_numeric(self) -> bool:
        return not isinstance(self.values[0], str | bool)

    @property
    def mode(self) -> RawValue:
        """Most probable value, the first of several."""
        return self.values[self.probabilities.index(max(self.probabilities))]

    @property
    @override
    def nominal(self) -> RawValue:
        return self.mode

    @override
    def nodes_and_weights(self, n: int) -> tuple[Tensor, Tensor]:
        integer_at_least(n, 1, "n")
        return super()._numbers("nodes")

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


@dataclass(frozen=True, init=False, repr=False)
class Empirical(AtomicMarginal):
    """Empirical distribution: equal probabilities of all samples."""

    samples: tuple[float, ...]
    """Samples in increasing order, so that their order does not matter in comparisons."""

    def __init__(self, samples: Sequence[float]) -> None:
        """Make the distribution of a sample.

        Args:
            samples: Finite numbers, of which several may be equal.

        Raises:
            InputError: If there are no samples, or one is not a finite number.
        """
        set_fields(self, samples=tuple(sorted(checked_items(samples, "samples", _SAMPLES))))

    def __repr__(self) -> str:
        if len(self.samples) <= _MAX_PRINTED:
            return f"Empirical(samples={self.samples!r})"
        return (
            f"Empirical(<{len(self.samples)} samples from {self.lower:g} to {self.upper:g}, "
            f"mean {self.expectation:g}>)"
        )

    @override
    def nodes_and_weights(self, n: int) -> tuple[Tensor, Tensor]:
        size = integer_at_least(n, 1, "n")
        points, counts = np.unique(np.array(self.samples), return_counts=True)
        if len(points) <= size:
            return torch.tensor(points), torch.tensor(counts / len(self.samples))
        nodes, weights = gauss_rule(points, counts / len(self.samples), size)
        return torch.tensor(nodes), torch.tensor(weights)

    @override
    def _atoms(self) -> tuple[Tensor, Tensor]:
        samples = torch.tensor(self.samples, dtype=torch.double)
        return samples, torch.ones_like(samples)


def _checked_probabilities(given: Any, count: int) -> tuple[float, ...]:
    if given is None:
        return (1.0 / count,) * count
    expected = f"{count} numbers >= 0 that sum to one, one for each value"
    return probabilities(given, "probabilities", expected, count)
