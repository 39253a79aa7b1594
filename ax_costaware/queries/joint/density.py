"""The law of some columns of a sample given others: a kernel density, and how much it smooths.

Every smoothing is judged by what it says of each row when that row is left out. The score is the
continuous ranked probability score of the whole law (Gneiting and Raftery 2007), since the mean of
a law that is far too wide may be right. Of a column of zeros and ones it is the Brier score.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import torch
from torch import Tensor

FACTORS = tuple(2.0 ** (-k / 2) for k in range(8))
"""Shares of Scott's bandwidth to choose from, the largest first."""

LEAST_EFFECTIVE = 5.0
"""Half of the rows have as many others near them, by the effective number of their weights."""

_CONSTANT = 1e-12
"""A column whose standard deviation is below this share of its size has one value only."""

_Table: TypeAlias = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Smoothing:
    """How rows stand for the law given some of their columns."""

    factor: float = 1.0
    """The bandwidth as a share of Scott's."""

    moves: bool = False
    """Whether rows move to the point along a local linear regression."""


class ConditionalDensity:
    """Rows of a sample, weighted by normal kernels around them.

    The bandwidth is the factor times Scott's; infinite, for a column of one value, which does not
    count.

    Args:
        rows: The columns given, ``n x c``.
        num_inputs: How many inputs these are; a choice may have several columns.
        smoothing: The factor, and whether rows move to the point.
    """

    def __init__(self, rows: Tensor, num_inputs: int, smoothing: Smoothing) -> None:
        std = rows.std(dim=0)
        scott = std * len(rows) ** (-1.0 / (num_inputs + 4))
        counts = std > _CONSTANT * rows.abs().amax(dim=0)
        self.bandwidth = torch.where(counts, smoothing.factor * scott, math.inf)
        self.rows, self.moves = rows, smoothing.moves

    def weights(self, points: Tensor) -> Tensor:
        """Nadaraya-Watson weights ``p x n`` at points ``p x c``."""
        return torch.softmax(self._logits(points), dim=-1)

    def weights_of_others(self) -> Tensor:
        """Weights ``n x n`` at each row, of which it has none itself."""
        return torch.softmax(self._logits(self.rows).fill_diagonal_(-math.inf), dim=-1)

    def moved(self, values: Tensor, points: Tensor, weights: Tensor) -> Tensor:
        """Values of the rows, as if these were at the points.

        They move along the weighted linear regression on the columns given, as in Beaumont, Zhang
        and Balding (2002). The fewer rows count, the smaller its slope; points beyond the rows
        count as at their bounds, and values stay within their range.

        Args:
            values: ``n x t``.
            points: ``p x c``.
            weights: ``p x n``, those of the rows at the points.

        Returns:
            ``p x n x t``, differentiable in ``points``; just the values where rows do not move.
        """
        values = values.to(points)
        if not self.moves:
            return values.expand(len(points), -1, -1)
        mean = self.rows.mean(dim=0)
        target = _within(points, self.rows.to(points)) - mean.to(points)
        target = target / self.bandwidth.to(points)
        x = ((self.rows - mean) / self.bandwidth).to(points)
        centered = x - (weights @ x).unsqueeze(-2)
        weighted = (weights.unsqueeze(-1) * centered).transpose(-1, -2)
        ridge = weights.square().sum(dim=-1)[:, None, None] * torch.eye(x.shape[-1]).to(points)
        slopes = torch.linalg.solve(weighted @ centered + ridge, weighted @ values)
        found = values + (target.unsqueeze(-2) - x) @ slopes
        return _within(found, values)

    def _logits(self, points: Tensor) -> Tensor:
        gaps = (points.unsqueeze(-2) - self.rows.to(points)) / self.bandwidth.to(points)
        return -0.5 * gaps.square().sum(dim=-1)


def smoothing_of(rows: Tensor, num_inputs: int, numbers: Tensor, codes: Tensor) -> Smoothing:
    """The smoothing whose law of the other columns fits best, given the rows' own.

    Of all that are within one standard error of the best, the one that smooths most. The answer is
    kept, so that the same rows are not looked at again.

    Args:
        rows: The columns given, ``n x c``.
        num_inputs: How many inputs these are.
        numbers: Other columns, ``n x t``, that may move.
        codes: Other columns, ``n x u``, that may not: ordered, or zeros and ones of a choice.
    """
    tables = [tuple(map(tuple, table.tolist())) for table in (rows, numbers, codes)]
    return _chosen(tables[0], num_inputs, tables[1], tables[2])


@lru_cache(maxsize=64)
def _chosen(rows: _Table, num_inputs: int, numbers: _Table, codes: _Table) -> Smoothing:
    given, free, fixed = (
        torch.tensor(table, dtype=torch.double).reshape(len(rows), -1)
        for table in (rows, numbers, codes)
    )
    tries: list[tuple[Smoothing, Tensor]] = []
    for factor in FACTORS:
        weights = ConditionalDensity(given, num_inputs, Smoothing(factor)).weights_of_others()
        effective = 1.0 / weights.square().sum(dim=-1)
        if tries and float(effective.median()) < LEAST_EFFECTIVE:
            break
        for moves in (False, True) if free.shape[-1] else (False,):
            smoothing = Smoothing(factor, moves)
            density = ConditionalDensity(given, num_inputs, smoothing)
            tries.append((smoothing, left_out_scores(density, free, fixed, weights)))
    best = min((scores for _, scores in tries), key=lambda scores: float(scores.mean()))

    def is_as_good(scores: Tensor) -> bool:
        loss = scores - best
        return float(loss.mean()) <= float(loss.std()) / math.sqrt(len(rows))

    return next(smoothing for smoothing, scores in tries if is_as_good(scores))


def left_out_scores(
    density: ConditionalDensity, numbers: Tensor, codes: Tensor, weights: Tensor
) -> Tensor:
    """What the law at each row, which is left out, says of it: ``n`` scores, smaller is better.

    Columns count relative to their scores when nothing is given.

    Args:
        density: That around the rows.
        numbers: Columns ``n x t`` that move, if the rows do.
        codes: Columns ``n x u`` that do not.
        weights: ``density.weights_of_others()``.
    """
    moved = density.moved(numbers, density.rows, weights)
    total = numbers.new_zeros(len(weights))
    pairs = [*zip(moved.unbind(-1), numbers.T, strict=True), *zip(codes.T, codes.T, strict=True)]
    for values, own in pairs:
        spread = (own.unsqueeze(-1) - own).abs().mean()
        if float(spread) > 0:
            total = total + ranked_score(values, own, weights) / spread
    return total


def _within(x: Tensor, rows: Tensor) -> Tensor:
    return torch.maximum(torch.minimum(x, rows.amax(dim=0)), rows.amin(dim=0))


def ranked_score(values: Tensor, observed: Tensor, weights: Tensor) -> Tensor:
    """Continuous ranked probability scores of weighted values.

    Args:
        values: ``n``, or ``p x n`` where they differ from point to point.
        observed: ``p``.
        weights: ``p x n`` of sum one.

    Returns:
        ``p``: the integral of the squared gap between the distribution functions of the values and
        of what was observed.
    """
    gap = (weights * (values - observed.unsqueeze(-1)).abs()).sum(dim=-1)
    values, order = values.sort(dim=-1)
    weights = weights.gather(-1, order.expand_as(weights))
    below = weights.cumsum(dim=-1)[..., :-1]
    return gap - (below * (1.0 - below) * values.diff(dim=-1)).sum(dim=-1)
