r"""A law that is learned from the values that an input took.

The posterior predictive law of a Dirichlet process (Ferguson 1973, *A Bayesian Analysis of Some
Nonparametric Problems*).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from ax_costaware.argument_checks import (
    finite_number,
    integer_at_least,
    positive_number,
    sequence_of,
    set_fields,
)
from ax_costaware.exceptions import InputError
from ax_costaware.laws.marginals.atomic import Discrete, Empirical
from ax_costaware.laws.marginals.marginal import Marginal, RawValue, floating, unit_interval
from ax_costaware.laws.quadrature import gauss_rule

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
        set_fields(
            self,
            prior=prior,
            strength=positive_number(strength, "strength"),
            samples=_checked_samples(samples, prior),
        )

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
        return sum(share * law.expectation for share, law in self._parts)

    @property
    @override
    def variance(self) -> float:
        mean = self.expectation
        return sum(
            share * (law.variance + (law.expectation - mean) ** 2) for share, law in self._parts
        )

    @property
    @override
    def lower(self) -> float:
        return min(law.lower for _, law in self._parts)

    @property
    @override
    def upper(self) -> float:
        return max(law.upper for _, law in self._parts)

    @property
    @override
    def nominal(self) -> RawValue:
        return self._parts[0][1].nominal if len(self._parts) == 1 else self.expectation

    @override
    def nodes_and_weights(self, n: int) -> tuple[Tensor, Tensor]:
        size = integer_at_least(n, 1, "n")
        if len(self._parts) == 1:
            return self._parts[0][1].nodes_and_weights(size)
        (share, prior), (rest, sample) = self._parts
        nodes, weights = prior.nodes_and_weights(size)
        atoms, frequencies = sample.nodes_and_weights(len(self.samples))
        # The prior's rule has the moments that the Gauss rule of the mixture depends on.
        places = np.concatenate([nodes.numpy(), atoms.numpy()])
        masses = np.concatenate([share * weights.numpy(), rest * frequencies.numpy()])
        points, where = np.unique(places, return_inverse=True)
        masses = np.bincount(where.ravel(), weights=masses).astype(np.float64)
        if len(points) > size:
            points, masses = gauss_rule(points, masses, size)
        return torch.tensor(points), torch.tensor(masses / masses.sum())

    @override
    def cdf(self, nodes: Tensor) -> Tensor:
        points = floating(nodes.detach().cpu())
        total = torch.zeros_like(points)
        for share, law in self._parts:
            total = total + share * law.cdf(points)
        return total.clamp(0.0, 1.0).to(floating(nodes))

    @override
    def icdf(self, u: Tensor) -> Tensor:
        if len(self._parts) == 1:
            return self._parts[0][1].icdf(u)
        p = unit_interval(u).detach().cpu().double().contiguous()
        atoms, before, after, known = self._jumps
        # The first atom whose distribution function reaches p; beyond the last, the prior's tail.
        index = torch.searchsorted(after, p)
        low = torch.cat([p.new_tensor([self.lower]), atoms])[index]
        high = torch.cat([atoms, p.new_tensor([self.upper])])[index]
        share, prior = self._parts[0]
        rest = (p - torch.cat([p.new_zeros(1), known])[index]) / share
        between = prior.icdf(rest.clamp(0.0, 1.0)).clamp(low, high)
        on_atom = p > torch.cat([before, p.new_tensor([2.0])])[index]
        return torch.where(on_atom, high, between).to(u)

    @override
    def decode(self, nodes: Tensor) -> list[RawValue]:
        return self._parts[0][1].decode(nodes)

    @cached_property
    def _parts(self) -> tuple[tuple[float, Marginal], ...]:
        """The laws that this one is a mixture of, each with its share.

        The prior and the values; one law where there are no values, or the prior is ``Discrete``.
        """
        total = self.strength + len(self.samples)
        if isinstance(self.prior, Discrete):
            counts = Counter(self.samples)
            shares = [
                (self.strength * p + counts[value]) / total
                for value, p in zip(self.prior.values, self.prior.probabilities, strict=True)
            ]
            return ((1.0, Discrete(self.prior.values, shares)),)
        if not self.samples:
            return ((1.0, self.prior),)
        values = Empirical([float(value) for value in self.samples])
        share = self.strength / total
        return ((share, self.prior), (1.0 - share, values))

    @cached_property
    def _jumps(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Where the values let the distribution function jump.

        The distinct values, the function just below them and there, and the part of the values in
        the latter.
        """
        share, sample = self._parts[1]
        atoms, _ = sample.nodes_and_weights(len(self.samples))
        below = torch.nextafter(atoms, torch.full_like(atoms, -torch.inf))
        return atoms, self.cdf(below), self.cdf(atoms), share * sample.cdf(atoms)


def _checked_samples(samples: Any, prior: Marginal) -> tuple[RawValue, ...]:
    if not isinstance(prior, Discrete):
        given = sequence_of(samples, "samples", "a list of finite numbers")
        return tuple(sorted(finite_number(x, f"samples[{i}]") for i, x in enumerate(given)))
    expected = f"values of {prior!r}"
    items = list(sequence_of(samples, "samples", expected))
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
