"""Normal scores of inputs: maps to model coordinates, and conditional draws.

The score of an input ``X`` with distribution function ``F`` is ``Phi^-1(F(X))``. A discrete input
has an interval of scores for each of its values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import torch
from torch import Tensor
from torch.special import log_ndtr, ndtr, ndtri

from ax_costaware.laws.marginals import Discrete, Empirical, Learned, Marginal, RawValue

Place: TypeAlias = Callable[[Sequence[RawValue]], Tensor]
"""Function from ``n`` raw values of one input to model coordinates ``n x c``."""

_TABLE_SIZE = 1025
_TABLE_REACH = 6.0
"""Largest tabulated score of a continuous distribution; the probability beyond is 2e-9."""

_GIVEN_REACH = 4.0
"""Largest score of a given value, at the outer 3e-5 of its distribution. The bounds of an input
would have infinite scores, and move all other inputs to their bounds."""

_EDGE = 9.0
"""Score instead of infinity; the probability beyond is 1e-19."""

_LEAST_PROBABILITY = 1e-290
"""Smallest probability of which a quantile is computed, before it is clamped to its bounds."""

_LEAST_LOG_GAP = 1e-14
"""Smallest distance of bounds, relative to the probability beyond them."""

_LEAST_GAP = 1e-12
"""Distance of coordinates, relative to their range, below which they are equal."""


@dataclass(frozen=True, eq=False)
class SmoothScores:
    """Monotone, piecewise linear map between scores and the one model coordinate of an input."""

    scores: Tensor
    """``K`` increasing scores."""

    coordinates: Tensor
    """``K`` model coordinates, monotone."""

    block: int = 1
    """Number of neighbors averaged to a knot of ``score``: slopes between samples are noisy."""

    def place(self, z: Tensor) -> Tensor:
        """Return coordinates of scores of any shape, with one more dimension of size one."""
        return interpolate(z, self.scores, self.coordinates).unsqueeze(-1)

    def draw(self, mean: Tensor, scale: Tensor, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """See ``ScoreMap``."""
        error = ndtri(u).expand_as(mean)
        return self.place(mean + scale * error), error, torch.zeros_like(mean)

    def error(self, x: Tensor, mean: Tensor, scale: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        """See ``ScoreMap``."""
        return (self.score(x).unsqueeze(-1) - mean) / scale, torch.zeros_like(mean)

    def score(self, x: Tensor) -> Tensor:
        """Return scores ``p`` of coordinates ``p x 1``, clamped at ``_GIVEN_REACH``."""
        return interpolate(x[:, 0], *self._known)

    @cached_property
    def _known(self) -> tuple[Tensor, Tensor]:
        """Increasing coordinates, and their scores."""
        keep = self.scores.abs() <= max(_GIVEN_REACH, float(self.scores.abs().min()))
        scores, places = self.scores[keep], self.coordinates[keep]
        if len(places) > 1 and places[-1] < places[0]:
            scores, places = scores.flip(0), places.flip(0)
        if self.block > 1:
            # The first and the last knot are not averaged, so that the range stays.
            blocks = 1 + torch.arange(-1, len(places) - 1) // self.block
            blocks[-1] = blocks[-2] + 1
            scores, places = _means(scores, blocks), _means(places, blocks)
        # Equal coordinates, of an atom or of a rounded bound, have their mean score.
        gap = _LEAST_GAP * float(places[-1] - places[0])
        group = torch.cat([places.new_zeros(1), (places.diff() > gap).double()]).cumsum(0).long()
        return _means(places, group), _means(scores, group)


@dataclass(frozen=True, eq=False)
class StepScores:
    """Intervals of scores of a discrete input."""

    places: Tensor
    """Model coordinates ``k x c`` of the values, in increasing order of the values."""

    shares: Tensor
    """Probabilities of the values, ``k``."""

    @property
    def cumulative(self) -> Tensor:
        """Distribution function at each value."""
        total = self.shares.cumsum(dim=0)
        return total / total[-1]

    @property
    def edges(self) -> Tensor:
        """Edges of the intervals, ``k + 1`` scores."""
        inner = ndtri(self.cumulative[:-1]).clamp(-_EDGE, _EDGE)
        return torch.cat([inner.new_tensor([-_EDGE]), inner, inner.new_tensor([_EDGE])])

    def draw(self, mean: Tensor, scale: Tensor, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """See ``ScoreMap``: each uniform number selects a value, and a score in its interval."""
        cumulative, edges = self.cumulative, self.edges
        index = torch.searchsorted(cumulative, u.contiguous()).clamp_max(len(cumulative) - 1)
        share = (u - (cumulative[index] - self.shares[index])) / self.shares[index]
        error, log_probability = cut_normal(
            (edges[index] - mean) / scale,
            (edges[index + 1] - mean) / scale,
            share.clamp(1e-9, 1.0 - 1e-9),
        )
        places = self.places[index].expand(*mean.shape, -1)
        return places, error, log_probability - self.shares[index].log()

    def error(self, x: Tensor, mean: Tensor, scale: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        """See ``ScoreMap``: drawn within the bounds."""
        lower, upper = ((bound.unsqueeze(-1) - mean) / scale for bound in self.bounds(x))
        return cut_normal(lower, upper, u)

    def bounds(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the interval of scores at coordinates ``p x c``, interpolated between values."""
        edges = self.edges
        if self.places.shape[-1] > 1 or len(self.places) == 1:
            nearest = (x.detach().unsqueeze(-2) - self.places).square().sum(-1).argmin(dim=-1)
            return edges[nearest], edges[nearest + 1]
        places = self.places[:, 0]
        lower, upper = edges[:-1], edges[1:]
        if places[-1] < places[0]:
            places, lower, upper = places.flip(0), lower.flip(0), upper.flip(0)
        return interpolate(x[:, 0], places, lower), interpolate(x[:, 0], places, upper)


ScoreMap: TypeAlias = SmoothScores | StepScores
"""Map between the score of an input, ``mean + scale * error`` with a standard normal error, and its
model coordinates.

- ``draw`` returns model coordinates ``p x m x c`` by uniform numbers ``m``, their errors, and log
  importance ratios.
- ``error`` returns the errors of coordinates ``p x c``, and log weights. If coordinates determine
  an interval only, errors are drawn by uniform numbers.
"""


def score_map(law: Marginal, place: Place) -> ScoreMap:
    """Return the map between scores and model coordinates of one input.

    - ``Discrete`` distributions, and samples in which most values are repeated, have steps.
    - Quantiles of other samples are interpolated linearly at their middle ranks, so that they have
      a gradient. For the score of a given value, blocks of ``sqrt(n)`` of them are averaged.
    - Continuous distributions are tabulated at 1025 scores from -6 to 6.

    Args:
        law: A marginal on numbers.
        place: Function from raw values to model coordinates; several columns for a one-hot choice.
    """
    atoms = _atoms(law)
    if atoms is None:
        scores = torch.linspace(-_TABLE_REACH, _TABLE_REACH, _TABLE_SIZE, dtype=torch.double)
        return SmoothScores(scores, place(law.decode(law.icdf(ndtr(scores)))).double()[:, 0])
    nodes, shares = atoms
    places = place(law.decode(nodes)).double()
    if isinstance(law, Empirical) and places.shape[-1] == 1 and 2 * len(nodes) > len(law.samples):
        middle = shares.cumsum(dim=0) - shares / 2
        return SmoothScores(ndtri(middle), places[:, 0], block=math.isqrt(len(nodes)))
    return StepScores(places, shares)


def _atoms(law: Marginal) -> tuple[Tensor, Tensor] | None:
    if isinstance(law, Empirical):
        return law.nodes_and_weights(len(law.samples))
    if isinstance(law, Discrete) or (isinstance(law, Learned) and isinstance(law.prior, Discrete)):
        return law.nodes_and_weights(1)
    return None


def interpolate(x: Tensor, knots: Tensor, values: Tensor) -> Tensor:
    """Interpolate linearly between increasing knots, constant beyond; differentiable in ``x``."""
    if len(knots) == 1:
        return values[0] + 0.0 * x
    right = torch.searchsorted(knots, x.detach().contiguous(), right=True)
    right = right.clamp(1, len(knots) - 1)
    left = right - 1
    share = ((x - knots[left]) / (knots[right] - knots[left])).clamp(0.0, 1.0)
    return values[left] + share * (values[right] - values[left])


def _means(values: Tensor, groups: Tensor) -> Tensor:
    """Return the mean of each group, for groups numbered in increasing order."""
    return torch.bincount(groups, weights=values) / torch.bincount(groups)


def cut_normal(lower: Tensor, upper: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Return quantile ``v`` of a truncated standard normal, and the log probability of the bounds.

    Both are differentiable in the bounds, and accurate far in the tails.
    """
    # The right half is mirrored, since probabilities near one lose digits.
    flip = lower + upper > 0
    low, high = torch.where(flip, -upper, lower), torch.where(flip, -lower, upper)
    share = torch.where(flip, 1.0 - v, v)
    # By log_ndtr, since the difference of ndtr has no digits in the tails.
    log_low, log_high = log_ndtr(low), log_ndtr(high)
    gap = (log_low - log_high).clamp_max(-_LEAST_LOG_GAP)
    log_probability = log_high + torch.log(-torch.expm1(gap))
    probability = (1.0 - share) * log_low.exp() + share * log_high.exp()
    z = ndtri(probability.clamp_min(_LEAST_PROBABILITY))
    z = torch.minimum(torch.maximum(z, low), high)
    return torch.where(flip, -z, z), log_probability


def errors_given(
    maps: Sequence[ScoreMap], x: Sequence[Tensor], factor: Tensor, u: Tensor
) -> tuple[Tensor, Tensor]:
    r"""Return the standard normal errors of given inputs, one by one.

    Scores are ``L e`` with the Cholesky factor ``L`` of their correlation. A value of a continuous
    input determines its error. A value of a discrete input determines an interval, from which the
    error is drawn, with the probability of the interval as its weight: the simulator of Geweke,
    Hajivassiliou and Keane (Hajivassiliou, McFadden and Ruud 1996).

    Args:
        maps: Maps of the ``g`` inputs.
        x: Their coordinates, each ``p x c``.
        factor: Cholesky factor, of at least ``g`` rows and columns.
        u: Uniform numbers ``m x g``, for discrete inputs.

    Returns:
        Errors ``p x m x g``, and log weights ``p x m``.
    """
    log_weights = x[0].new_zeros(len(x[0]), len(u))
    errors: list[Tensor] = []
    for k, (score, places) in enumerate(zip(maps, x, strict=True)):
        mean = conditional_mean(errors, factor, k, log_weights)
        error, log_weight = score.error(places, mean, factor[k, k], u[:, k])
        log_weights = log_weights + log_weight
        errors.append(error)
    return torch.stack(errors, dim=-1), log_weights


def conditional_mean(errors: Sequence[Tensor], factor: Tensor, k: int, like: Tensor) -> Tensor:
    """Return the mean of the k-th score given the errors before it, in the shape of ``like``."""
    mean = torch.zeros_like(like)
    for j, error in enumerate(errors[:k]):
        mean = mean + factor[k, j] * error
    return mean
