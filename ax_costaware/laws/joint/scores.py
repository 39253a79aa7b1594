"""Normal scores of inputs: from model coordinates to scores, back, and given each other.

The score of an input ``X`` with distribution function ``F`` is ``Phi^-1(F(X))``. An input with
finitely many values has an interval of scores for each of them.
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
"""Model coordinates ``n x c`` of ``n`` raw values of one input."""

_TABLE_SIZE = 1025
_TABLE_REACH = 6.0
"""Scores of the table of a continuous law: beyond lies a probability of 2e-9."""

_GIVEN_REACH = 4.0
"""A value given among the furthest 3e-5 of its law counts as the last before: the bounds of an
input would have infinite scores, and drag all the others to their bounds."""

_EDGE = 9.0
"""Stands for an infinite score; the probability beyond is 1e-19."""

_LEAST_PROBABILITY = 1e-290
"""Quantiles below are those of this one, before they are moved into their bounds."""

_LEAST_LOG_GAP = 1e-14
"""Bounds are at least this far apart, relative to the probability beyond them."""

_LEAST_GAP = 1e-12
"""Coordinates that are closer, relative to their range, are the same."""


@dataclass(frozen=True, eq=False)
class SmoothScores:
    """A monotone, piecewise linear map between scores and the one model coordinate of an input."""

    scores: Tensor
    """``K`` increasing scores."""

    coordinates: Tensor
    """``K`` model coordinates, monotone."""

    block: int = 1
    """Number of neighbours averaged to one knot of ``score``: slopes between samples are noisy."""

    def place(self, z: Tensor) -> Tensor:
        """Coordinates of scores of any shape, with one more dimension of size one."""
        return interpolate(z, self.scores, self.coordinates).unsqueeze(-1)

    def draw(self, mean: Tensor, scale: Tensor, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """See ``ScoreMap``."""
        error = ndtri(u).expand_as(mean)
        return self.place(mean + scale * error), error, torch.zeros_like(mean)

    def error(self, x: Tensor, mean: Tensor, scale: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        """See ``ScoreMap``."""
        return (self.score(x).unsqueeze(-1) - mean) / scale, torch.zeros_like(mean)

    def score(self, x: Tensor) -> Tensor:
        """Scores ``p`` of coordinates ``p x 1``, cut off at the furthest that counts."""
        return interpolate(x[:, 0], *self._known)

    @cached_property
    def _known(self) -> tuple[Tensor, Tensor]:
        """Increasing coordinates whose scores are known, and these."""
        keep = self.scores.abs() <= max(_GIVEN_REACH, float(self.scores.abs().min()))
        scores, places = self.scores[keep], self.coordinates[keep]
        if len(places) > 1 and places[-1] < places[0]:
            scores, places = scores.flip(0), places.flip(0)
        if self.block > 1:
            # The first and the last stay by themselves, so that the range is kept.
            blocks = 1 + torch.arange(-1, len(places) - 1) // self.block
            blocks[-1] = blocks[-2] + 1
            scores, places = _means(scores, blocks), _means(places, blocks)
        # Equal coordinates, those of an atom or of a rounded bound, have their mean score.
        gap = _LEAST_GAP * float(places[-1] - places[0])
        group = torch.cat([places.new_zeros(1), (places.diff() > gap).double()]).cumsum(0).long()
        return _means(places, group), _means(scores, group)


@dataclass(frozen=True, eq=False)
class StepScores:
    """The intervals of scores of an input with finitely many values."""

    places: Tensor
    """Model coordinates ``k x c`` of the values, in increasing order of the values."""

    shares: Tensor
    """Their ``k`` probabilities."""

    @property
    def cumulative(self) -> Tensor:
        """The distribution function at each value."""
        total = self.shares.cumsum(dim=0)
        return total / total[-1]

    @property
    def edges(self) -> Tensor:
        """``k + 1`` scores; the i-th value has those between the i-th and the next."""
        inner = ndtri(self.cumulative[:-1]).clamp(-_EDGE, _EDGE)
        return torch.cat([inner.new_tensor([-_EDGE]), inner, inner.new_tensor([_EDGE])])

    def draw(self, mean: Tensor, scale: Tensor, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """See ``ScoreMap``: each uniform number picks a value, and its place within it."""
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
        """The interval of scores at coordinates ``p x c``: between values, one between theirs."""
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
"""The score of an input is normal with a ``mean`` and a ``scale``, and its error standard normal.

``draw`` gives model coordinates ``p x m x c`` by uniform numbers ``m``, their errors, and the
log-ratios of the law to the draws; ``error`` gives the errors behind coordinates ``p x c``, drawn
by uniform numbers where these only bound them, and the log-weights of the draws.
"""


def score_map(law: Marginal, place: Place) -> ScoreMap:
    """Between scores and model coordinates of one input.

    A ``Discrete`` law, and a sample in which most values occur several times, have steps. The
    quantiles of another sample are joined by lines at their middle ranks, so that they have a
    gradient; to score a given value, blocks of ``sqrt(n)`` of them are averaged.
    A continuous law is tabulated at 1025 scores from -6 to 6.

    Args:
        law: A law on numbers.
        place: Model coordinates of raw values; of several columns where a choice is one-hot.
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
    """Linear interpolation between increasing knots, constant beyond; differentiable in ``x``."""
    if len(knots) == 1:
        return values[0] + 0.0 * x
    right = torch.searchsorted(knots, x.detach().contiguous(), right=True)
    right = right.clamp(1, len(knots) - 1)
    left = right - 1
    share = ((x - knots[left]) / (knots[right] - knots[left])).clamp(0.0, 1.0)
    return values[left] + share * (values[right] - values[left])


def _means(values: Tensor, groups: Tensor) -> Tensor:
    """The mean of each group, for groups numbered in increasing order."""
    return torch.bincount(groups, weights=values) / torch.bincount(groups)


def cut_normal(lower: Tensor, upper: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Quantile ``v`` of a standard normal within bounds, and the log-probability of these.

    Differentiable in the bounds, and accurate however far out they are.
    """
    # In the right half, the mirror image, whose probabilities have all digits.
    flip = lower + upper > 0
    low, high = torch.where(flip, -upper, lower), torch.where(flip, -lower, upper)
    share = torch.where(flip, 1.0 - v, v)
    # Not ndtr, which has lost its digits by a score of -8.
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
    r"""The standard normal errors behind given inputs, one by one.

    Scores are ``L e`` with the Cholesky factor ``L`` of their correlation. A value of a continuous
    law fixes its error. One of a law with steps bounds it, and is drawn within, which weights the
    draw by the probability of the bounds: the simulator of Geweke, Hajivassiliou and Keane
    (Hajivassiliou, McFadden and Ruud 1996).

    Args:
        maps: The maps of the ``g`` inputs.
        x: Their coordinates, each ``p x c``.
        factor: Cholesky factor, of at least ``g`` rows and columns.
        u: Uniform numbers ``m x g``, used for laws with steps.

    Returns:
        Errors ``p x m x g``, and log-weights ``p x m``.
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
    """Mean of the k-th score given the errors before it, in the shape of ``like``."""
    mean = torch.zeros_like(like)
    for j, error in enumerate(errors[:k]):
        mean = mean + factor[k, j] * error
    return mean
