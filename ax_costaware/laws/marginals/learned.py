r"""Distribution that is learned from realized values of an input.

The posterior predictive distribution of a Dirichlet process (Ferguson 1973, *A Bayesian Analysis of
Some Nonparametric Problems*).
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
"""Sample size above which a sample is printed by its size."""


@dataclass(frozen=True, init=False, repr=False)
class Learned(Marginal):
    r"""Prior distribution of an input, updated by its realized values.

    The distribution is a Dirichlet process with base measure ``prior`` and concentration
    ``strength`` (Ferguson 1973). After ``n`` values, the next one has the posterior predictive
    distribution

    .. math:: \frac{s}{s + n} P_0 + \frac{1}{s + n} \sum_{i=1}^n \delta_{x_i}, \qquad s =
        \mathrm{strength},

    which is this marginal. ``strength`` is the number of values that the prior is worth. With a
    ``Discrete`` prior it is the mean of the Dirichlet-multinomial posterior.

    **Uncertainty of the distribution.** Expectations take the predictive distribution as the true
    one, :math:`P`, which is still random. For a function :math:`f` of the input,
    :math:`\int f \, dP` has the mean under the predictive distribution, and the variance

    .. math:: \mathrm{Var}[f] \, / \, (s + n + 1),

    which the model's posterior does not include. It is the variance of single outcomes times
    ``1 / (s + n + 1)``, so that it matters only if ``strength`` and the number of values are both
    small.
    """

    prior: Marginal
    """Distribution before any value is known."""

    strength: float
    """Number of values that the prior is worth."""

    samples: tuple[RawValue, ...]
    """Values so far in increasing order, so that their order does not matter in comparisons."""

    def __init__(
        self, prior: Marginal, strength: float = 10.0, samples: Sequence[RawValue] = ()
    ) -> None:
        """Make a distribution that starts as ``prior``.

        Args:
            prior: Distribution before any value is known, in the raw units of the parameter.
            strength: Number of values that the prior is worth, a finite number > 0.
            samples: Values so far. They may be outside of the support of a continuous prior, but
                have to be values of a ``Discrete`` one.

        Raises:
            InputError: If the prior is not a marginal or is itself ``Learned``, the strength is not
                positive, or values are not finite or not values of a ``Discrete`` prior.
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
        """Return the distribution after more values of the input.

        Args:
            values: Realized values from trials that did not control the input, besides
                ``samples``.

        Raises:
            InputError: As in the constructor.
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
        # The Gauss rule of the mixture depends on moments, which the prior's rule has exactly.
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
        # First atom whose distribution function reaches p; beyond the last one the prior's tail.
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
        """Components of the mixture with their weights.

        The prior and the values; a single component without values or with a ``Discrete`` prior.
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
        """Jumps of the distribution function.

        The distinct values; the function just below them; the function at them; and the part of the
        last that is due to the values.
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
