"""The law of a sample: what an input was in the past is what it will be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from ax_costaware.queries.argument_checks import (
    checked_items,
    integer_at_least,
    set_fields,
)
from ax_costaware.queries.marginals.marginal import AtomicMarginal
from ax_costaware.queries.quadrature import gauss_rule

_MAX_PRINTED = 8
"""Longer samples are printed by their size and range."""

_EXPECTED = "one or more finite numbers in a list, array or one-dimensional tensor"


@dataclass(frozen=True, init=False, repr=False)
class Empirical(AtomicMarginal):
    """The law that gives each of the samples the same probability."""

    samples: tuple[float, ...]
    """The samples in increasing order: the law does not depend on the order they came in."""

    def __init__(self, samples: Sequence[float]) -> None:
        """The law of a sample.

        Args:
            samples: Finite numbers, of which several may be equal.

        Raises:
            InputError: For no samples, or one that is not a finite number.
        """
        set_fields(self, samples=tuple(sorted(checked_items(samples, "samples", _EXPECTED))))

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
