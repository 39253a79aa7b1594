r"""A law that is learned from the values that an input took.

The posterior predictive law of a Dirichlet process (Ferguson 1973, *A Bayesian Analysis of Some
Nonparametric Problems*).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from typing_extensions import override

from ax_costaware.exceptions import InputError
from ax_costaware.queries.argument_checks import (
    column,
    finite_number,
    integer_at_least,
    positive_number,
    sequence_of,
    unit_interval,
)
from ax_costaware.queries.gauss_rule import gauss_rule
from ax_costaware.queries.marginals.discrete import Discrete
from ax_costaware.queries.marginals.marginal import Marginal, RawValue

Array = npt.NDArray[np.float64]

_MAX_PRINTED = 8
"""More samples are printed by their number."""


@dataclass(frozen=True, init=False, repr=False)
class Learned(Marginal):
    r"""A guess of an input's law, corrected by the values that it took.

    The law is a Dirichlet process with base measure ``prior`` and concentration ``strength``
    (Ferguson 1973). After ``n`` values, the next one follows the posterior predictive law

    .. math:: \frac{s}{s + n} P_0 + \frac{1}{s + n} \sum_{i=1}^n \delta_{x_i}, \qquad s =
        \mathrm{strength},

    which is this marginal: ``strength`` counts as that many values that look like the prior. With
    a ``Discrete`` prior it is the mean of the Dirichlet-multinomial posterior.

    **What the law's own uncertainty does.** The nodes stand for the predictive law as if it were
    the law. The true law :math:`P` is still random: for a function :math:`f` of the input,
    :math:`\int f \, dP` has the mean that the nodes give, and beside the model's uncertainty of
    :math:`f` the variance

    .. math:: \mathrm{Var}[f] \, / \, (s + n + 1),

    with :math:`\mathrm{Var}[f]` under the predictive law. The model's posterior does not hold it:
    expectations are as sure as if the predictive law were true. The missing part is small beside
    the scatter of single outcomes, from which it differs by the factor ``1 / (s + n + 1)``; it
    matters where ``strength`` and the number of values are both small.
    """

    prior: Marginal
    """The law before any value is known."""

    strength: float
    """How many values the prior is worth."""

    samples: tuple[RawValue, ...]
    """The values so far, in increasing order: the law does not depend on the order they came in."""

    def __init__(
        self, prior: Marginal, strength: float = 10.0, samples: Sequence[RawValue] = ()
    ) -> None:
        """A law that starts as ``prior``.

        Args:
            prior: The law before any value is known, in the raw units of the parameter.
            strength: How many values it is worth, a finite number > 0.
            samples: The values so far. They may lie outside of the support of a prior that is on
                numbers, but have to be values of a ``Discrete`` prior.

        Raises:
            InputError: For a prior that is no marginal or is ``Learned`` itself, a strength that is
                not positive, or values that are not finite or not among those of the prior.
        """
        if not isinstance(prior, Marginal) or isinstance(prior, Learned):
            raise InputError(f"prior={prior!r}: expected a marginal such as Uniform(0, 1).")
        object.__setattr__(self, "prior", prior)
        object.__setattr__(self, "strength", positive_number(strength, "strength"))
        object.__setattr__(self, "samples", _checked_samples(samples, prior))

    def __repr__(self) -> str:
        start = f"Learned(prior={self.prior!r}, strength={self.strength!r}"
        if len(self.samples) <= _MAX_PRINTED:
            return f"{start}, samples={self.samples!r})" if self.samples else f"{start})"
        return f"{start}, <{len(self.samples)} samples>)"

    def updated(self, values: Sequence[RawValue]) -> Learned:
        """The law after more values of the input.

        Args:
            values: Values that the input took in trials that did not control it, beyond those that
                are in ``samples`` already.

        Raises:
            InputError: As the constructor.
        """
        more = sequence_of(values, "values", "a list of values")
        return replace(self, samples=(*self.samples, *_checked_samples(more, self.prior)))

    @property
    @override
    def is_numeric(self) -> bool:
        return self.prior.is_numeric

    @property
    @override
    def expectation(self) -> float:
        if self._discrete is not None:
            return self._discrete.expectation
        samples, _ = self._atoms
        share = self._prior_share
        if not len(samples):
            return self.prior.expectation
        return share * self.prior.expectation + (1 - share) * self._sample_mean

    @property
    @override
    def variance(self) -> float:
        if self._discrete is not None:
            return self._discrete.variance
        points, counts = self._atoms
        share = self._prior_share
        if not len(points):
            return self.prior.variance
        mean, between = self._sample_mean, self.prior.expectation - self._sample_mean
        within = float(((points - mean) ** 2) @ counts / counts.sum())
        return share * self.prior.variance + (1 - share) * (within + share * between**2)

    @property
    @override
    def lower(self) -> float:
        if self._discrete is not None:
            return self._discrete.lower
        return min(self.prior.lower, *map(float, self._atoms[0][:1]), self.prior.upper)

    @property
    @override
    def upper(self) -> float:
        if self._discrete is not None:
            return self._discrete.upper
        return max(self.prior.upper, *map(float, self._atoms[0][-1:]), self.prior.lower)

    @property
    @override
    def nominal(self) -> RawValue:
        return self.expectation if self._discrete is None else self._discrete.nominal

    @override
    def nodes_and_weights(self, n: int) -> tuple[Tensor, Tensor]:
        size = integer_at_least(n, 1, "n")
        if self._discrete is not None:
            return self._discrete.nodes_and_weights(size)
        nodes, weights = self.prior.nodes_and_weights(size)
        atoms, counts = self._atoms
        share = self._prior_share
        # The prior's rule has the moments that the Gauss rule of the mixture depends on.
        places = np.concatenate([nodes.numpy(), atoms])
        masses = np.concatenate([share * weights.numpy(), (1 - share) * counts / self._divisor])
        points, where = np.unique(places, return_inverse=True)
        masses = np.bincount(where.ravel(), weights=masses).astype(np.float64)
        if len(points) > size:
            points, masses = gauss_rule(points, masses, size)
        return torch.tensor(points), torch.tensor(masses / masses.sum())

    @override
    def cdf(self, nodes: Tensor) -> Tensor:
        if self._discrete is not None:
            return self._discrete.cdf(nodes)
        points = nodes.detach().cpu().double()
        _, _, reached = self._steps
        below = torch.searchsorted(self._knots, points, right=True)
        known = torch.cat([reached.new_zeros(1), reached])[below]
        return (self._prior_share * self.prior.cdf(points) + known).clamp(0.0, 1.0).to(nodes)

    @override
    def icdf(self, u: Tensor) -> Tensor:
        if self._discrete is not None:
            return self._discrete.icdf(u)
        p = unit_interval(u).detach().cpu().double().contiguous()
        before, after, reached = self._steps
        # The first atom whose distribution function reaches p; beyond the last, the prior's tail.
        index = torch.searchsorted(after, p)
        ends = p.new_tensor([self.lower]), p.new_tensor([self.upper])
        known = torch.cat([reached.new_zeros(1), reached])[index]
        rest = ((p - known) / self._prior_share).clamp(0.0, 1.0)
        low = torch.cat([ends[0], self._knots])[index]
        high = torch.cat([self._knots, ends[1]])[index]
        between = torch.minimum(torch.maximum(self.prior.icdf(rest), low), high)
        on_atom = p > torch.cat([before, p.new_tensor([2.0])])[index]
        return torch.where(on_atom, high, between).to(u)

    @override
    def decode(self, nodes: Tensor) -> list[RawValue]:
        if self._discrete is not None:
            return self._discrete.decode(nodes)
        return list(column(nodes).tolist())

    @property
    def _divisor(self) -> float:
        return float(max(len(self.samples), 1))

    @property
    def _prior_share(self) -> float:
        return self.strength / (self.strength + len(self.samples))

    @property
    def _sample_mean(self) -> float:
        points, counts = self._atoms
        return float(points @ counts / counts.sum())

    @cached_property
    def _discrete(self) -> Discrete | None:
        """The same law as a ``Discrete``, where the prior is one."""
        if not isinstance(self.prior, Discrete):
            return None
        counts = [self.samples.count(value) for value in self.prior.values]
        total = self.strength + len(self.samples)
        shares = [
            (self.strength * p + count) / total
            for p, count in zip(self.prior.probabilities, counts, strict=True)
        ]
        return Discrete(self.prior.values, shares)

    @cached_property
    def _atoms(self) -> tuple[Array, Array]:
        """Distinct samples in increasing order, and how often each of them occurs."""
        points, counts = np.unique(np.array(self.samples, dtype=np.float64), return_counts=True)
        return points, counts.astype(np.float64)

    @property
    def _knots(self) -> Tensor:
        return torch.tensor(self._atoms[0])

    @cached_property
    def _steps(self) -> tuple[Tensor, Tensor, Tensor]:
        """The distribution function below and at each atom, and the samples' share in the latter.

        All in the order of the atoms.
        """
        points, counts = self._atoms
        share = self._prior_share
        reached = torch.tensor(counts).cumsum(dim=0) * ((1 - share) / self._divisor)
        atoms = torch.tensor(points)
        left = torch.nextafter(atoms, torch.full_like(atoms, -torch.inf))
        before = share * self.prior.cdf(left)
        before[1:] += reached[:-1]
        return before, share * self.prior.cdf(atoms) + reached, reached


def _checked_samples(samples: Any, prior: Marginal) -> tuple[RawValue, ...]:
    if not isinstance(prior, Discrete):
        given = sequence_of(samples, "samples", "a list of finite numbers")
        return tuple(sorted(finite_number(x, f"samples[{i}]") for i, x in enumerate(given)))
    expected = f"values of {prior!r}"
    given = sequence_of(samples, "samples", expected)
    items = [item.item() if isinstance(item, np.generic) else item for item in given]
    for i, item in enumerate(items):
        alike = [value for value in prior.values if _same(value, item)]
        if not alike:
            raise InputError(f"samples[{i}]={item!r}: expected {expected}.")
        items[i] = alike[0]
    return tuple(sorted(items))


def _same(value: RawValue, other: Any) -> bool:
    if isinstance(value, str | bool) or isinstance(other, str | bool):
        return type(value) is type(other) and value == other
    return bool(value == other)
